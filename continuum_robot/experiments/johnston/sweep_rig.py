# SPDX-License-Identifier: Apache-2.0
"""Johnston's contact sweep in simulation: the contacts of table 7, and the robot with its encoders on the bench."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.experiments.johnston.bench import RIM_M, Bench, CommandedCurrent, force_sensor
from continuum_robot.experiments.johnston.segment import perturbed
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.string_encoders import StringEncoderModel, StringEncoderSettings
from continuum_robot.simulation.plants import PLANTS, ROD
from continuum_robot.workers import MOST_WORKERS

Array = NDArray[np.float64]

PEAK_N, FARTHEST_DEG, RAMP_DEG_PER_S2, AWAY_DEG_PER_S = 20.0, 225.0, 1800.0, 180.0
CALIBRATION_DEG_PER_S = (60.0, 170.0)
PLACES_M = (0.0585, 0.1100, 0.1618, 0.2133, 0.2650)  # of the disks, from the base
# Direction, and for each disk from the base the speed of the capstan, deg/s: table 7.
CASES = {
    "+x": (36, 72, 108, 144, 180),
    "+y": (36, 72, 108, 144, 180),
    "-x": (180, 144, 108, 72, 36),
    "-y": (180, 144, 108, 72, 36),
}


class Case(NamedTuple):
    """A contact of table 7; disks count from 1, at the base."""

    direction: str
    disk: int
    speed_deg: float

    @property
    def name(self) -> str:
        return f"{self.direction}, disk {self.disk}, {self.speed_deg:g} deg/s"

    @property
    def arc_length_m(self) -> float:
        return PLACES_M[self.disk - 1]


def cases(count: int) -> list[Case]:
    """The contacts of table 7, or some of them, spread over it."""
    every = [Case(way, disk, float(speed)) for way, speeds in CASES.items() for disk, speed in enumerate(speeds, 1)]
    return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, count).round().astype(int))]


def towards(direction: str) -> Array:
    """A direction, +x, -x, +y or -y, as a vector (2,); also which way which capstan turns to bend the robot there."""
    sign = 1.0 if direction[0] == "+" else -1.0
    return np.array([sign, 0.0]) if direction[1] == "x" else np.array([0.0, sign])


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """Options of the experiment."""

    robot: str = quantity("robot file or name, one segment with capstans", default="vanderbilt_segment")
    rate_hz: int = quantity("of the monitor", "Hz", default=200, ge=200, le=1000)
    parameter_error: float = quantity("fraction by which the monitor's parameters are off", default=0.05, ge=0, le=0.5)
    withdrawal_deg: float = quantity(
        "how far the capstan turns away before it approaches; the paper: 180", "deg", default=60.0, ge=10, le=180
    )
    margin: float = quantity("thresholds over the largest value of the calibration", default=1.2, ge=1, le=10)
    force_walk_n_per_sqrt_s: float = quantity(
        "change of the force that the Kalman disturbance observer expects within a second",
        "N/s^0.5",
        default=30.0,
        gt=0,
        le=1e4,
    )
    torque_error: float = quantity(
        "fraction by which the torque that a current stands for is off, for each capstan", default=0.05, ge=0, le=0.5
    )
    gear_efficiency: float = quantity(
        "of motor and gearhead; the paper takes the rated one and does not name it", default=0.8, gt=0, le=1
    )
    seed: int = quantity("of errors and noise", default=1, ge=0, le=2**31)
    plant: str = quantity("what moves: our rod, or MuJoCo's chain of links", default=ROD, choices=tuple(PLANTS))
    cases: int = quantity("number of contacts, spread over the table", default=20, ge=1, le=20)
    workers: int = quantity("processes to which the contacts are shared out", default=0, ge=0, le=MOST_WORKERS)
    scheduler: str = quantity("address of a dask scheduler to whose workers they are shared out", default="")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the robot's sensors and motors give in one cycle, and the truth."""

    readings_m: Array
    torque: Array
    c: Array
    wrench: Array


class Rig:
    """The simulated robot, its encoders, and its motion on the bench."""

    def __init__(self, settings: SweepSettings) -> None:
        rng = self._rng = np.random.default_rng(settings.seed)
        robot = load_robot(settings.robot)
        self.dt = 1 / settings.rate_hz
        self.settings = settings
        self._robot = perturbed(robot, settings.parameter_error, rng)
        self.encoders = StringEncoderModel(len(robot.strings), StringEncoderSettings(), rng)
        self.current = CommandedCurrent(len(drives(robot)), settings.torque_error, settings.gear_efficiency, rng)

    def begin(self, number: int) -> None:
        """Noise from here on depends on nothing that was done before."""
        seed = (self.settings.seed, number)
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def _bench(self, sensor: Contact | None) -> Bench:
        return Bench(self._robot, sensor, math.radians(RAMP_DEG_PER_S2), plant=self.settings.plant)

    def _turn(
        self, bench: Bench, side: Array, speed_deg: float, end_deg: float, peak_n: float = math.inf
    ) -> Iterator[Sample]:
        for torque in bench.turn(side, math.radians(speed_deg), math.radians(end_deg), self.dt, peak_n):
            angle, speed = bench.turned
            readings = np.concatenate([angle, self.encoders.read(bench.plant.string_extension)])
            yield Sample(readings, self.current.read(torque, speed), bench.plant.c, bench.wrench)

    def approach(self, case: Case, *, present: bool) -> Iterator[Sample]:
        """Away from the sensor, towards it, and away again."""
        side = towards(case.direction)
        bench = self._bench(force_sensor(case.arc_length_m, (*side, 0.0), RIM_M) if present else None)
        yield from self._turn(bench, side, -AWAY_DEG_PER_S, -self.settings.withdrawal_deg)
        yield from self._turn(bench, side, case.speed_deg, FARTHEST_DEG, PEAK_N)
        yield from self._turn(bench, side, -case.speed_deg, 0.0)

    def free(self, directions: Sequence[str]) -> Iterator[Sample]:
        """Free motion for the thresholds, in one plane after the other."""
        bench = self._bench(None)
        for side in map(towards, directions):
            for speed in CALIBRATION_DEG_PER_S:
                yield from self._turn(bench, side, speed, FARTHEST_DEG + 15)
                yield from self._turn(bench, side, -speed, -FARTHEST_DEG - 15)
                yield from self._turn(bench, side, speed, 0.0)
