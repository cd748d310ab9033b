# SPDX-License-Identifier: Apache-2.0
"""What is looked for in a motion: values of the robot's file, and what comes beside them in each recording."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.identification.fit import Parameter, Parameters
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.identification.robot_keys import DAMPING, KINDS, segment_key, usual_damping_nms, value_of
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce
from continuum_robot.mechanisms.rolling_joint.building import statics_of
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import UnloadedCurve
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.traits import ROD
from continuum_robot.rod.friction.capstans import drives

Vector = NDArray[np.float64]

ROLLING = "rolling_joint"
_NEAR_M = 1e-4


def is_mechanism(robot: Robot) -> bool:
    """Whether the robot is a mechanism instead of a rod."""
    return robot.traits.kind != ROD


def check_driven_rod(robot: Robot) -> None:
    """Refuse a robot that is not a rod with a motor on each tendon."""
    if is_mechanism(robot):
        raise ParameterError("robot", robot.name, "a rod")
    if drives(robot):
        expected = "a motor on every tendon; with capstans: continuum-robot identify"
        raise ParameterError("robot", robot.name, expected)
    for index, segment in enumerate(robot.segments):
        if segment.hysteresis is not None and not bends_alone(robot):
            expected = "none where a rod does more than bend or tendons are not parallel: there it is not identified"
            raise ParameterError(f"segments[{index}].hysteresis", segment.hysteresis, expected)


def bends_alone(robot: Robot) -> bool:
    """Whether the rod bends under parallel tendons and does nothing else, so that coordinates say how it is bent."""
    return not robot.traits.without_clarke and all(segment.basis.bending_alone for segment in robot.segments)


def stiffness_at_rest(robot: Robot, tension_n: float) -> Vector:
    """Force on the coordinates for a unit of each about the straight pose, shape (M, M), N/m.

    Of rolling joints without loads the tensions alone make it, ha (10); of equilibrium modulation m_1 of wang (1).
    """
    if robot.traits.kind == ROLLING:
        curve = UnloadedCurve(statics_of(robot))
        return np.array([[float(curve.force(_NEAR_M, tension_n / 2)) / _NEAR_M]])
    stiffness = ModulationForce(robot).stiffness_n_per_m
    return np.diag([stiffness, stiffness, 0.0])


LAG_S = 1e-3
"""Unit of the lag."""
LEAST_PAST = 0.05
"""Such a fraction of the file's travel is the least that is tried."""

# Sizes that friction may have where the file has none, relative to the largest tension, N and N.s/m.
_USUAL_DRY, _USUAL_VISCOUS_S_PER_M = 0.02, 0.5
_LEAST = 0.01  # of what a rod cannot do without
_HYSTERESIS = ("moment_nm", "curvature_per_m")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MotionFitSettings:
    """How the samples are used."""

    bandwidth_hz: float = quantity(
        "of the forces on the coordinates; noise in them stretches tendons and passes for motion of the rod", "Hz",
        default=8.0, gt=0.5, le=200,
    )  # fmt: skip
    stretching_hz: float = quantity(
        "of the forces across the coordinates, and of all tensions of routed tendons", "Hz", default=16.0, gt=0.5,
        le=200,
    )  # fmt: skip
    step_s: float = quantity("of the motion of a rod under routed tendons", "s", default=2e-3, gt=0, le=0.02)
    samples_hz: float = quantity("how many samples of it count", "Hz", default=50.0, gt=5, le=1000)
    block_s: float = quantity("of the blocks that are left out one at a time", "s", default=2.0, gt=0.1, le=100)
    prior: float = quantity("deviation of the file's values before the data, relative to them", "", default=1.0, gt=0)
    iterations: int = quantity("largest number of steps", "", default=20, ge=1, le=1000)


def kinds_in_file(robot: Robot, prior: float = 1.0) -> dict[str, Parameter]:
    """Values of the robot's file, each over its usual size, that of the file where it has any."""
    actuators, limits = driven_parts(robot)
    fitted = "rotor_inertia_kg_m2", "viscous_friction_nms", "coulomb_friction_nm", "cogging_amplitude_nm"
    for index, entry in enumerate(actuators.tendons):
        for key in sorted(entry.stated.keys() & set(fitted)):
            expected = "none: the fit takes inertia and friction of all motors as the same"
            raise ParameterError(f"actuators.tendons[{index}].{key}", entry.stated[key], expected)
    turns = float(actuators.each("motor_rad_per_m", robot.tendon_count).mean())

    def of(*keys: str, usual: float = 0.0, low: float = -np.inf) -> Parameter:
        now = [float(value_of(robot, key)) for key in keys]
        return Parameter(keys, now, prior, scale=[value or usual for value in now], low=low)

    inertia = of("actuators.rotor_inertia_kg_m2")
    dry = of("actuators.coulomb_friction_nm", usual=_USUAL_DRY * limits.maximum_n / turns)
    if is_mechanism(robot):
        if robot.traits.kind == ROLLING:
            return {"inertia": inertia, "dry": dry, "damping": of("mechanism.joint_damping_nms", low=0.0)}
        guides = of("mechanism.guide_damping_ns_per_m", low=0.0)
        return {
            "inertia": inertia,
            "dry": dry,
            "damping": guides,
            "modulus": of("mechanism.youngs_modulus_pa", low=0.0),
        }
    stiffness = "tendon_stiffness_n_per_m"
    found = {
        "inertia": inertia,
        "viscous": of("actuators.viscous_friction_nms", usual=_USUAL_VISCOUS_S_PER_M * limits.maximum_n / turns**2),
        "dry": dry,
        "stiffness": of(stiffness, low=_LEAST),
        "damping": of("simulation.tendon_damping_ns_per_m", usual=1e-3 * value_of(robot, stiffness)),
        "rod": Parameter(
            tuple(segment_key(kind, k) for kind in KINDS for k in range(len(robot.segments))),
            [value_of(robot, segment_key(kind, k)) for kind in KINDS for k in range(len(robot.segments))],
            prior,
            scale=[
                usual_damping_nms(segment) if kind == DAMPING else value_of(robot, segment_key(kind, k))
                for kind in KINDS
                for k, segment in enumerate(robot.segments)
            ],
            low=_LEAST,
        ),
    }
    if actuators.friction_travel_m:
        found["travel"] = of("actuators.friction_travel_m", low=LEAST_PAST)
    for k, segment in enumerate(robot.segments):
        if segment.hysteresis is not None:
            found[f"hysteresis_{k}"] = of(*(f"segments[{k}].hysteresis.{key}" for key in _HYSTERESIS), low=LEAST_PAST)
    return found


def of_the_past(parameters: Parameters) -> list[int]:
    """Which of them say over what way dry friction and the backbones' resistance build up."""
    kinds = [at for name, at in parameters.at.items() if name == "travel" or name.startswith("hysteresis")]
    return [k for at in kinds for k in range(at.start, at.stop)]


def in_file(robot: Robot) -> Parameters:
    """Those of :func:`kinds_in_file` alone."""
    return Parameters(kinds_in_file(robot))


def beside(name: str, count: int, deviation: ArrayLike) -> Parameter:
    """Parameters that no file has."""
    return Parameter(tuple(f"{name} {k + 1}" for k in range(count)), 0.0, deviation)


def looked_for(robot: Robot, usual_n: float, prior: float, **further: Parameter) -> Parameters:
    """Values of the robot's file, then of each motor sine and cosine of its cogging and a constant (N), and the lag."""
    actuators, _ = driven_parts(robot)
    motors, cogging_n = robot.tendon_count, max(2 * actuators.largest("cogging_n", robot.tendon_count), 0.05 * usual_n)
    kinds = {**kinds_in_file(robot, prior), "sine": beside("sine", motors, cogging_n)}
    kinds |= {"cosine": beside("cosine", motors, cogging_n), "constant": beside("constant", motors, 2 * usual_n)}
    return Parameters({**kinds, "lag": beside("lag", 1, 1.0), **further})


def chord_per_m(robot: Robot, index: int) -> float:
    """Beta of tendons that run straight between the disks of a bent segment, 1/m.

    In all they are L theta^2 / (24 n^2) shorter, and theta = q / r, muhmann (7).
    """
    segment = robot.segments[index]
    gaps = max(1, segment.disks.disk_count)
    return segment.length_m / (24 * gaps**2 * segment.tendons.pitch_radius_m**2)
