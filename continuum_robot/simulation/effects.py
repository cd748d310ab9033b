# SPDX-License-Identifier: Apache-2.0
"""Which settings of the simulation act on which robot at which level: one that would do nothing is refused."""

from __future__ import annotations

from collections.abc import Iterator

from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import Coupling
from continuum_robot.robot.description import Robot
from continuum_robot.robot.simulation_settings import SimulationSettings

WIRE, DYNAMICS, MUJOCO = LEVELS = "wire", "dynamics", "mujoco"

_LATE = ("reading_delay_s", "reading_jitter_s", "command_delay_s", "command_jitter_s")
_TENDONS_AND_MOTORS = (
    "tendon_stiffening_per_n",
    "tendon_damping_ns_per_m",
    "method",
    "substep_s",
    "no_load_speed_rad_per_s",
    "backlash_m",
    "wiring_errors",
)
_OF_ENCODERS = ("string_largest_error_m", "string_stroke_m", "string_counts_per_turn")
_OF_STRINGS = ("string_noise_m", "string_resolution_m", "string_mean_error_m", *_OF_ENCODERS)


def check_plant_settings(robot: Robot, level: str, coupling: Coupling | None = None) -> None:
    """Refuse settings of the robot that moves, its tendons and motors, which would do nothing."""
    _refuse(robot, _idle_in_plant(robot, level, coupling))


def check_device_settings(robot: Robot, level: str) -> None:
    """Refuse settings of buses and sensors that would do nothing; arguments and error as above."""
    _refuse(robot, _idle_in_devices(robot, level))


def _idle_in_plant(robot: Robot, level: str, coupling: Coupling | None) -> Iterator[tuple[tuple[str, ...], str]]:
    if reason := robot.traits.without_boards:
        yield _TENDONS_AND_MOTORS, f"its default: {reason}"
        return
    if level == MUJOCO:
        yield ("tendon_stiffening_per_n",), "0 with MuJoCo's chain, whose tendons are linear springs"
        yield ("method",), "its default with MuJoCo's chain, which has an integrator of its own"
    if robot.displaced_tendons is not None:
        yield ("tendon_stiffening_per_n",), "0 with displaced_tendons, whose stiffness was found under load"
    if robot.takes_displacements:
        expected = "0 for servos, which have actuators.servo.maximum_speed_rad_per_s"
        yield ("no_load_speed_rad_per_s",), expected
    elif coupling is not None:
        yield ("no_load_speed_rad_per_s",), "0 with a transmission"
    against = coupling is not None and ((coupling.matrix > 0).any(axis=0) & (coupling.matrix < 0).any(axis=0)).any()
    if not against:
        expected = "0 without motors that pull tendons against each other: one tendon keeps its gear on one flank"
        yield ("backlash_m",), expected


def _idle_in_devices(robot: Robot, level: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if level != DYNAMICS:
        yield _LATE, f"0 at level {level}, whose wires take time"
    if not robot.strings:
        yield _OF_STRINGS, "its default: the robot has no strings"
    elif not robot.simulation.string_mean_error_m:
        yield (
            _OF_ENCODERS,
            "its default: simulation.string_mean_error_m is 0, without which encoders err by noise alone",
        )


def _refuse(robot: Robot, idle: Iterator[tuple[tuple[str, ...], str]]) -> None:
    usual = SimulationSettings()
    for keys, expected in idle:
        for key in keys:
            if (value := getattr(robot.simulation, key)) != getattr(usual, key):
                raise ParameterError(f"simulation.{key}", value, expected)
