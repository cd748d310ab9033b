# SPDX-License-Identifier: Apache-2.0
"""Robots of the repository as tests change them: with servos, fewer modes, values of each tendon, shared motors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from robot_files import made

from continuum_robot.robot.actuation import (
    Actuators,
    DisplacementLimits,
    OwnActuators,
    OwnDisplacementLimits,
    OwnTensionLimits,
    PositionServo,
    TensionLimits,
)
from continuum_robot.robot.control_settings import ControlSettings, ReferenceSettings
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.tendons import DisplacedTendons
from continuum_robot.robot.transmission import Transmission

# --- servos that hold displacements

SERVO = Actuators(
    command="displacement",
    servo=PositionServo(bandwidth_hz=8.0, maximum_speed_rad_per_s=6.0),
    spool_radius_m=0.01,
    torque_constant_nm_per_a=1.08,
    maximum_current_a=1.3,
    rotor_inertia_kg_m2=1e-3,
    encoder_counts_per_turn=4096,
)
LIMITS = DisplacementLimits(
    maximum_n=30.0,
    maximum_displacement_m=0.06,
    speed_m_per_s=0.05,
    acceleration_m_per_s2=1.0,
    pay_out_m=0.005,
    pay_out_speed_m_per_s=0.02,
)


def with_servos(name: str = "two_segment", *, pretension_n: float = 4.0, reference: object = None, **control) -> Robot:
    """A robot of the repository under displacements."""
    settings = ControlSettings(pretension_n=pretension_n, **control)
    return load_robot(name).changed(
        actuators=SERVO, limits=LIMITS, control=settings, hardware=None, reference=reference, reaction=None
    )


def fitted(friction_fraction: float = 0.1, **control) -> Robot:
    """ftdcr_v4 as a fit of a recording leaves it: soft tendons on spirals with chords, zeros, gains, friction."""
    robot = with_servos("ftdcr_v4", **control)
    count = robot.tendon_count
    tendons = DisplacedTendons(
        stiffness_n_per_m=tuple(4e3 + 300.0 * j for j in range(count)),
        zero_m=tuple(1e-4 * (j - 4) for j in range(count)),
        gain=tuple(0.96 + 0.01 * j for j in range(count)),
        friction_fraction=(friction_fraction,) * count,
        spiral_rad_per_m=1.5,
        straight_over_m=0.0104,
    )
    return robot.changed(displaced_tendons=tendons)


def stiffer(robot: Robot, factor: float) -> Robot:
    """The same robot with that many times the bending stiffness."""
    segments = tuple(
        replace(one, backbone=replace(one.backbone, youngs_modulus_pa=factor * one.backbone.youngs_modulus_pa))
        for one in robot.segments
    )
    return robot.changed(segments=segments)


def with_tendons(robot: Robot, stiffness_n_per_m: float) -> Robot:
    """The same robot with other tendons."""
    return robot.changed(tendon_stiffness_n_per_m=stiffness_n_per_m)


# --- fewer modes under control than the tendons have coordinates


def with_modes(robot: Robot | str, modes: int, **control: object) -> Robot:
    """A robot under control of its softest modes, with the gains of its first segment and a slow chirp of each."""
    robot = load_robot(robot) if isinstance(robot, str) else robot
    settings = robot.control_settings
    gains = settings.gains[:1] * modes
    amplitude_m = tuple(0.004 / (1 + k // 2) for k in range(modes))
    chirp = ReferenceSettings(kind="chirp", amplitude_m=amplitude_m, frequency_hz=(0.2,) * modes)
    return robot.changed(control=replace(settings, modes=modes, gains=gains, **control), reference=chirp)


def coupled_segments() -> Robot:
    """Two segments with four tendons each on two servos: one bends both along x alike, one along y."""
    whole = with_servos("two_segment")
    first, second = whole.segments
    tendons = replace(first.tendons, count=4, angle_offset_rad=0.0)
    matrix = [[share * x, share * y] for share in (1.0, 2.0) for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    return whole.changed(
        segments=(replace(first, tendons=tendons), replace(second, tendons=tendons)),
        transmission=Transmission(matrix=tuple(map(tuple, matrix)), preload_n=10.0),
        control=ControlSettings(modes=2),
        reference=ReferenceSettings(kind="chirp", amplitude_m=(0.006, 0.004), frequency_hz=(0.2, 0.15)),
    )


# --- values that each tendon states as its own

SMALL_SPOOLS = Path(__file__).parents[1] / "examples" / "small_distal_spools.yaml"
_KINDS: dict[type[Any], type[Any]] = {
    Actuators: OwnActuators,
    TensionLimits: OwnTensionLimits,
    DisplacementLimits: OwnDisplacementLimits,
}


def with_own(stated: Any, tendons: Iterable[int], **values: Any) -> Any:
    """Actuators or limits with an entry more."""
    return replace(stated, tendons=(*stated.tendons, _KINDS[type(stated)](tendons=tuple(tendons), **values)))


def _other(value: Any, factor: float) -> Any:
    if dataclasses.is_dataclass(value):
        return replace(value, bandwidth_hz=factor * value.bandwidth_hz, maximum_speed_rad_per_s=77.0)
    return type(value)(factor * value + 1) if isinstance(value, int) else factor * value or 1e-3


def _restated(stated: Any, count: int) -> Any:
    """Every value that may be a tendon's own in entries, one a tendon, and other common ones."""
    kind = _KINDS[type(stated)]
    own = {key: getattr(stated, key) for key in (field.name for field in dataclasses.fields(kind)) if key != "tendons"}
    own = {key: value for key, value in own.items() if value is not None}
    other = {key: _other(value, 1.07 + 0.13 * index) for index, (key, value) in enumerate(own.items())}
    entries = tuple(kind(tendons=(number,), **own) for number in range(1, count + 1))
    return replace(stated, tendons=entries, **other)


def restated(robot: Robot) -> Robot:
    """The same robot: each tendon states as its own what all have, and what stands there for all is something else."""
    return robot.changed(
        actuators=_restated(robot.actuators, robot.tendon_count), limits=_restated(robot.limits, robot.tendon_count)
    )


# --- motors that share tendons

PAIR = Path(__file__).parent / "unit" / "robot" / "planar_pair.yaml"
CAPSTAN = [[1.0], [-1.0]]
PRELOAD_N = 8.0


def pair_values(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> dict[str, Any]:
    """The strip with two antagonist tendons, held by servos behind a transmission, as its file has it."""
    values = yaml.safe_load(PAIR.read_text())
    values["actuators"] = {
        "command": "displacement",
        "servo": {"bandwidth_hz": 12.0, "maximum_speed_rad_per_s": 6.0},
        "spool_radius_m": 0.01,
        "torque_constant_nm_per_a": 1.08,
        "maximum_current_a": 1.3,
        "rotor_inertia_kg_m2": 5.0e-4,
        "viscous_friction_nms": 0.02,
        "coulomb_friction_nm": 0.02,
        "encoder_counts_per_turn": 4096,
    }
    values["limits"] = {
        "maximum_n": 30.0,
        "maximum_displacement_m": 0.03,
        "speed_m_per_s": 0.05,
        "acceleration_m_per_s2": 1.0,
        "pay_out_m": 0.005,
        "pay_out_speed_m_per_s": 0.02,
    }
    values["control"] = {}
    values["reference"] = {"kind": "chirp", "amplitude_m": [0.004], "frequency_hz": [0.3]}
    values["transmission"] = {"preload_n": preload_n, **({"matrix": matrix} if matrix else {}), **transmission}
    return values


def tension_values(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> dict[str, Any]:
    """The same with motors that take tensions."""
    values = pair_values(matrix, preload_n, **transmission)
    del values["actuators"]["command"], values["actuators"]["servo"]
    values["limits"] = {"maximum_n": 30.0, "minimum_n": 1.0, "total_n": 45.0, "maximum_displacement_m": 0.03}
    values["limits"] |= {"rate_n_per_s": 300.0, "safe_rate_n_per_s": 100.0}
    values["control"] = {"gains": [{"p": 4000.0, "i": 8000.0, "d": 200.0, "derivative_filter_time": 0.01}]}
    values["control"] |= {"feedforward_stiffness": 1.0, "feedforward_gravity": 1.0}
    values["transmission"] = {key: value for key, value in values["transmission"].items() if value}
    return values


def pair(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> Robot:
    """The robot of :func:`pair_values`."""
    return made(pair_values(matrix, preload_n, **transmission))
