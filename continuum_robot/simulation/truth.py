# SPDX-License-Identifier: Apache-2.0
"""The robot that is really simulated, and what happens to it, for a judge in another process.

The judge reads the newest seconds in a mapped file. Layout, little-endian float64: a first row with the number of rows
written so far, the number of tendons and the number of rows that fit; then rows of :data:`COLUMNS_OF_TIME` and one
value a tendon for each of :data:`QUANTITIES`. Row i of the run is at place i modulo the number of rows that fit.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_folders
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import refuse
from continuum_robot.robot.simulation_settings import SimulationSettings

Vector = NDArray[np.float64]


NO_TRUTH = "none"
FOLDER = "robots/truths"
"""Of the shipped truths, below ``config``."""


def shipped_truths() -> tuple[str, ...]:
    """Names of the shipped truths."""
    return tuple(sorted({path.stem for folder in shipped_folders(FOLDER) for path in folder.glob("*.yaml")}))


def truth_file(robot: Robot, given: str = "") -> str:
    """Path of the file of the true robot; empty: the robot is its own truth."""
    name = given or robot.simulation.truth
    if not name or name == NO_TRUTH:
        return ""
    beside = [] if given or not robot.file_name else [Path(robot.file_name).parent / name]
    shipped = [folder / f"{name}.yaml" for folder in shipped_folders(FOLDER)]
    for path in (*beside, Path(name), *shipped):
        if path.is_file():
            return str(path)
    raise ParameterError("truth" if given else "simulation.truth", name, "a robot file, or the name of a shipped truth")


def true_robot(robot: Robot, given: str = "") -> Robot:
    """The robot that is simulated: of the same name and seed, with the devices that the believed one has."""
    file = truth_file(robot, given)
    return as_truth(load_robot(file), robot) if file else robot


def as_truth(truth: Robot, robot: Robot) -> Robot:
    """A robot as what is simulated in place of another one. Raises :class:`RobotFileError` if it cannot be."""
    file = truth.file_name
    found = {
        "segments": (truth.tendon_count, robot.tendon_count, "tendons"),
        "transmission.matrix": (truth.motor_count, robot.motor_count, "motors"),
        "strings": (len(truth.strings), len(robot.strings), "strings"),
        "fiber.gratings_m": (len(truth.gratings_m), len(robot.gratings_m), "gratings of a fibre"),
    }
    for key, (has, needs, what) in found.items():
        if has != needs:
            raise _of(file, key, has, f"{needs} {what}, as the robot {robot.name} has")
    if truth.actuators is None:
        raise _of(file, "actuators", None, f"actuators, as the robot {robot.name} has")
    if truth.takes_displacements != robot.takes_displacements:
        expected = f"what the actuators of the robot {robot.name} take"
        raise _of(file, "actuators.command", truth.actuators.command, expected)
    if truth.simulation.truth:
        raise _of(file, "simulation.truth", truth.simulation.truth, "none: this file is the truth of another")
    if truth.simulation.seed not in (SimulationSettings().seed, robot.simulation.seed):
        raise _of(file, "simulation.seed", truth.simulation.seed, "none: that of the believed robot counts")
    if truth.base_stage not in (None, robot.base_stage):
        raise _of(
            file, "base_stage", "another stage", f"none, or that of the robot {robot.name}: it is simulated as it is"
        )
    if truth.hardware is not None and robot.hardware is not None:
        kinds = [one.hardware.tendon_actuators.kind for one in (truth, robot) if one.hardware is not None]
        if kinds[0] != kinds[1]:
            raise _of(file, "hardware.tendon_actuators.kind", kinds[0], f"{kinds[1]}, as the robot {robot.name} has")
    return truth.changed(
        name=robot.name,
        hardware=truth.hardware or robot.hardware,
        simulation=replace(truth.simulation, seed=robot.simulation.seed),
    )


def _of(file: str, key: str, value: object, expected: str) -> Exception:
    error = refuse(key, value, expected)
    return type(error)(Path(file), error.key, error.value, error.expected)


ROWS = 20_000
"""Of a millisecond each: a reader may be late by 20 s."""
COLUMNS_OF_TIME = ("time_s", "lived_s")
QUANTITIES = ("tension_n", "motor_n", "displacement_m")
_MARGIN = 1000


class TruthRingWriter:
    """The writing end; goes on behind the rows of a writer that ended."""

    def __init__(self, path: Path, tendon_count: int, rows: int = ROWS) -> None:
        columns = len(COLUMNS_OF_TIME) + len(QUANTITIES) * tendon_count
        size = 8 * columns * (rows + 1)
        try:
            if not path.exists() or path.stat().st_size != size:
                path.write_bytes(b"")
                os.truncate(path, size)
            self._rows: Vector = np.memmap(path, dtype="<f8", mode="r+", shape=(rows + 1, columns))
        except OSError as error:
            raise DeviceError(
                str(path), f"cannot be made ({error.strerror or error})", "Choose another file"
            ) from error
        self._kept = rows
        self._rows[0, 1:3] = tendon_count, rows
        self._written = int(self._rows[0, 0])

    def write(self, time_s: float, lived_s: float, tension_n: Vector, motor_n: Vector, displacement_m: Vector) -> None:
        """Note one instant."""
        row = self._rows[1 + self._written % self._kept]
        count = tension_n.size
        row[0], row[1] = time_s, lived_s
        row[2 : 2 + count], row[2 + count : 2 + 2 * count], row[2 + 2 * count :] = tension_n, motor_n, displacement_m
        self._written += 1
        self._rows[0, 0] = self._written


class TruthRingReader:
    """The reading end: each row once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: Vector | None = None
        self._read = 0
        self.lost = 0

    def read(self) -> dict[str, Vector]:
        """The rows since the last call."""
        rows = self._mapped()
        if rows is None:
            return {}
        kept, count = int(rows[0, 2]), int(rows[0, 1])
        written = int(rows[0, 0])
        first = max(self._read, written - kept + _MARGIN)
        self.lost += first - self._read
        self._read = written
        values = np.array(rows[1 + np.arange(first, written) % kept])
        truth = {name: values[:, place] for place, name in enumerate(COLUMNS_OF_TIME)}
        for place, name in enumerate(QUANTITIES):
            begin = len(COLUMNS_OF_TIME) + place * count
            truth[name] = values[:, begin : begin + count]
        return truth

    def _mapped(self) -> Vector | None:
        if self._rows is not None:
            return self._rows
        try:
            head = np.fromfile(self._path, dtype="<f8", count=3)
        except OSError:
            return None
        if head.size < 3 or head[2] == 0:
            return None
        columns = len(COLUMNS_OF_TIME) + len(QUANTITIES) * int(head[1])
        self._rows = np.memmap(self._path, dtype="<f8", mode="r", shape=(int(head[2]) + 1, columns))
        return self._rows
