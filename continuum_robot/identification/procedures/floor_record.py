# SPDX-License-Identifier: Apache-2.0
"""What a contact monitor learnt from a robot's free motion, as it is stored: one file a robot and method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.estimation.contact.floor_learning import Learnt
from continuum_robot.estimation.contact.free_motion import Floor, FreeMotion
from continuum_robot.estimation.contact.monitor import OF_THE_OBSERVERS
from continuum_robot.estimation.contact.settings import METHODS, MonitorSettings
from continuum_robot.identification.procedures.record import (
    RecordTexts,
    RobotRecord,
    file_sha256,
    named_path,
    origin,
    record_path,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS
from continuum_robot.robot.schema import quantity, refuse

Vector = NDArray[np.float64]

LEARN_FIRST = "Let its contact monitor learn while it moves freely: continuum-robot learn-floor."


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """Those of the contact monitor that make another residual of the same motion."""

    gain_per_s: tuple[float, ...] = quantity("as the parameter", "1/s", gt=0)
    reset_cycles: int = quantity("as the parameter", ge=0)
    smoothing_points: int = quantity("as the parameter", ge=1)
    force_walk_n_per_sqrt_s: float = quantity("as the parameter", "N/s^0.5", gt=0)
    contact_type: str = quantity("as the parameter", filled=True)
    known_arc_length_m: float = quantity("as the parameter", "m")


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionRecord:
    """The residual of free motion, of all channels together."""

    fractions: tuple[float, ...] = quantity("by which forces of the model are off")
    covariance: tuple[float, ...] = quantity("of what is left, row by row", "(N.m^2)^2")
    evidence: float = quantity("r^T S^-1 r of what is left stays below it", gt=0)
    bound: tuple[float, ...] = quantity("every channel of what is left stays below it", "N.m^2", ge=0)

    def __post_init__(self) -> None:
        size = len(self.bound)
        if len(self.covariance) != size**2:
            raise refuse("covariance", len(self.covariance), f"{size**2} values for {size} channels")
        covariance = np.reshape(self.covariance, (size, size))
        if not (np.allclose(covariance, covariance.T, rtol=1e-6) and np.linalg.eigvalsh(covariance).min() > 0):
            raise refuse("covariance", "not symmetric and positive", "a covariance")


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRecord(RobotRecord):
    """A floor as it is stored."""

    texts: ClassVar[RecordTexts] = RecordTexts(
        "Learnt from free motion by the contact monitor.",
        "record of free motion",
        "has not learnt its free motion",
        "has a record of its free motion that cannot be used",
        "learnt its free motion on {date} with another",
        LEARN_FIRST,
    )
    robot_file_sha256: str = quantity("SHA-256 of the robot file with which it was learnt", filled=True)
    devices: str = quantity("hardware, or the level of the simulation", filled=True)
    method: str = quantity("of the contact monitor", choices=METHODS, door=CONTACT_OBSERVERS)
    observer: ObserverSettings = quantity("its settings")
    duration_s: float = quantity("of the motion", "s", gt=0)
    moved_m: tuple[float, ...] = quantity("range of each tendon's displacement", "m", ge=0)
    least_tip_force_n: float | None = quantity("at the tip, detected in every direction", "N", gt=0, default=None)
    bound: tuple[float, ...] = quantity("every channel of the residual stays below it", "N.m^2", ge=0)
    motion: MotionRecord | None = quantity("of all channels together", default=None)

    @property
    def floor(self) -> Floor:
        """For :meth:`ContactMonitor.use_floor`."""
        motion = self.motion
        if motion is None:
            return Floor(np.array(self.bound), None)
        size = len(motion.bound)
        covariance = np.reshape(motion.covariance, (size, size))
        return Floor(
            np.array(self.bound),
            FreeMotion(np.array(motion.fractions), covariance, motion.evidence, np.array(motion.bound)),
        )


def _numbers(values: Vector) -> tuple[float, ...]:
    return tuple(float(value) for value in np.ravel(values))


def _observer(settings: MonitorSettings) -> ObserverSettings:
    return ObserverSettings(**{name: getattr(settings, name) for name in OF_THE_OBSERVERS if name != "method"})


def make_floor_record(
    robot: Robot, settings: MonitorSettings, devices: str, learnt: Learnt, now: datetime | None = None
) -> FloorRecord:
    """What is stored of a learning."""
    motion = learnt.floor.motion
    return FloorRecord(
        **origin(robot, now),
        robot_file_sha256=file_sha256(robot),
        devices=devices,
        method=settings.method,
        observer=_observer(settings),
        duration_s=learnt.duration_s,
        moved_m=_numbers(learnt.moved_m),
        least_tip_force_n=learnt.least_tip_force_n if math.isfinite(learnt.least_tip_force_n) else None,
        bound=_numbers(learnt.floor.bound),
        motion=None
        if motion is None
        else MotionRecord(
            fractions=_numbers(motion.fractions),
            covariance=_numbers(motion.covariance),
            evidence=motion.evidence,
            bound=_numbers(motion.bound),
        ),
    )


def floor_path(robot: Robot, method: str, folder: Path | None = None) -> Path:
    """The file of a robot's floor."""
    kind = f"floor.{method}"
    return named_path(robot.name, folder, kind) if robot.hardware is None else record_path(robot, folder, kind)


def load_floor(robot: Robot, settings: MonitorSettings, devices: str, path: Path) -> FloorRecord:
    """Read a floor and make sure that it is this robot's, of this monitor."""
    return FloorRecord.load(
        robot,
        path,
        lambda record: ("robot", record.robot, robot.name),
        lambda record: ("robot file", record.robot_file_sha256[:12], file_sha256(robot)[:12]),
        lambda record: ("devices", record.devices, devices),
        lambda record: ("method", record.method, settings.method),
        lambda record: ("settings", record.observer, _observer(settings)),
    )
