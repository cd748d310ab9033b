# SPDX-License-Identifier: Apache-2.0
"""The robot that is simulated in place of the one that drivers, estimators and controllers believe to have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_folders
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import refuse
from continuum_robot.robot.simulation_settings import SimulationSettings

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
    if not file:
        return robot
    truth = load_robot(file)
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
