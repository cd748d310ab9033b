# SPDX-License-Identifier: Apache-2.0
"""Which parameters are found from a motion: their names, the robot file's values, and where found ones go in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.motion.mechanisms import is_mechanism, mechanism_values, with_mechanism
from continuum_robot.identification.motion.rod_parts import (
    DAMPING,
    MASS,
    STIFFNESS,
    mass_kg,
    segment_parameters,
    usual_damping_nms,
    with_factor,
    with_factors,
)
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.hysteresis import Hysteresis
from continuum_robot.robot.segments.segment import Segment

Vector = NDArray[np.float64]

TENDON_STIFFNESS, TENDON_DAMPING = 3, 4
"""Where these stand among the parameters; before them inertia, viscous and dry friction of the motors."""
# Sizes that friction may have where the file has none, relative to the largest tension, N and N.s/m.
_USUAL_DRY, _USUAL_VISCOUS_S_PER_M = 0.02, 0.5


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a robot.

    Attributes
    ----------
    names : keys of the robot file, or what is said of a segment
    before : by the robot file, in the units of their names, shape (P,)
    scales : usual sizes, the file's values where it has any, shape (P,)
    motor_units : force on the tendon for a unit of inertia, viscous and dry friction: of m/s^2, m/s and 1, shape (3,)
    rod : where those of the rod's parts stand
    travel : where the travel of the motors' dry friction stands; None: the file says that it builds up at once
    hysteresis : of each segment with hysteresis its index, and where moment and curvature stand
    """

    names: tuple[str, ...]
    before: Vector
    scales: Vector
    motor_units: Vector
    rod: slice
    travel: int | None
    hysteresis: tuple[tuple[int, int, int], ...]

    @property
    def count(self) -> int:
        """P."""
        return len(self.names)

    @classmethod
    def of(cls, robot: Robot) -> Parameters:
        """Those of a robot.

        Parameters
        ----------
        robot : a rod or a mechanism, with a motor on each tendon

        Raises
        ------
        ParameterError : no actuators or no limits
        """
        actuators, limits = driven_parts(robot)
        turns = actuators.motor_rad_per_m
        units = np.array([turns**2, turns**2, turns])
        inertia = (_INERTIA, actuators.rotor_inertia_kg_m2, actuators.rotor_inertia_kg_m2)
        viscous = (
            _VISCOUS,
            actuators.viscous_friction_nms,
            actuators.viscous_friction_nms or _USUAL_VISCOUS_S_PER_M * limits.maximum_n / turns**2,
        )
        dry = (
            _DRY,
            actuators.coulomb_friction_nm,
            actuators.coulomb_friction_nm or _USUAL_DRY * limits.maximum_n / turns,
        )
        if is_mechanism(robot):
            own = mechanism_values(robot).items()
            rows = [inertia, dry, *((f"{_MECHANISM}{key}", value, value) for key, value in own)]
            names, before, scales = zip(*rows, strict=True)
            return cls(names, np.array(before), np.array(scales), units, slice(0, 0), None, ())
        simulation = robot.simulation
        rows = [
            inertia,
            viscous,
            dry,
            (
                "simulation.tendon_stiffness_n_per_m",
                simulation.tendon_stiffness_n_per_m,
                simulation.tendon_stiffness_n_per_m,
            ),
            (
                "simulation.tendon_damping_ns_per_m",
                simulation.tendon_damping_ns_per_m,
                simulation.tendon_damping_ns_per_m or 1e-3 * simulation.tendon_stiffness_n_per_m,
            ),
        ]
        for kind, index in segment_parameters(robot):
            segment = robot.segments[index]
            value = _value(segment, kind)
            rows.append(
                (f"segments[{index}].{_NAMES[kind]}", value, usual_damping_nms(segment) if kind == DAMPING else value)
            )
        rod, travel = slice(TENDON_DAMPING + 1, len(rows)), None
        if actuators.friction_travel_m:
            travel = len(rows)
            rows.append((_TRAVEL, actuators.friction_travel_m, actuators.friction_travel_m))
        hysteretic = []
        for index, segment in enumerate(robot.segments):
            if segment.hysteresis is not None:
                hysteretic.append((index, len(rows), len(rows) + 1))
                own = dataclasses.asdict(segment.hysteresis)
                rows += [(f"segments[{index}].hysteresis.{key}", own[key], own[key]) for key in _HYSTERESIS]
        names, before, scales = zip(*rows, strict=True)
        return cls(names, np.array(before), np.array(scales), units, rod, travel, tuple(hysteretic))


_INERTIA, _VISCOUS, _DRY = (
    f"actuators.{key}" for key in ("rotor_inertia_kg_m2", "viscous_friction_nms", "coulomb_friction_nm")
)
_MECHANISM = "mechanism."
_TRAVEL = "actuators.friction_travel_m"
_HYSTERESIS = ("moment_nm", "curvature_per_m")
_NAMES = {MASS: "mass_kg", STIFFNESS: "bending_stiffness_nm2", DAMPING: "bending_damping_nms"}


def _value(segment: Segment, kind: str) -> float:
    if kind == MASS:
        return mass_kg(segment)
    if kind == DAMPING:
        return segment.bending_damping_nms
    return float(np.mean(segment.backbone.bending_stiffnesses_nm2))


def with_values(robot: Robot, parameters: Parameters, values: Vector) -> Robot:
    """The robot with other values of all parameters.

    Parameters
    ----------
    robot : whose parameters these are
    parameters : of it
    values : positive, in the units of their names, shape (P,)
    """
    actuators, _ = driven_parts(robot)
    if is_mechanism(robot):
        by_name = dict(zip(parameters.names, map(float, values), strict=True))
        motors = dataclasses.replace(
            actuators, rotor_inertia_kg_m2=by_name[_INERTIA], coulomb_friction_nm=by_name[_DRY]
        )
        own = {key: by_name[f"{_MECHANISM}{key}"] for key in mechanism_values(robot)}
        return with_mechanism(robot.changed(actuators=motors), own)
    inertia, viscous, dry, stiffness, damping = (float(value) for value in values[: TENDON_DAMPING + 1])
    changed = robot.changed(
        actuators=dataclasses.replace(
            actuators, rotor_inertia_kg_m2=inertia, viscous_friction_nms=viscous, coulomb_friction_nm=dry
        ),
        simulation=dataclasses.replace(
            robot.simulation, tendon_stiffness_n_per_m=stiffness, tendon_damping_ns_per_m=damping
        ),
    )
    if parameters.travel is not None:
        travel_m = float(values[parameters.travel])
        changed = changed.changed(actuators=dataclasses.replace(driven_parts(changed)[0], friction_travel_m=travel_m))
    factors = (values / parameters.scales)[parameters.rod]
    changed = with_factors(changed, factors)
    segments = list(changed.segments)
    for index, moment, curvature in parameters.hysteresis:
        lagging = Hysteresis(moment_nm=float(values[moment]), curvature_per_m=float(values[curvature]))
        segments[index] = dataclasses.replace(segments[index], hysteresis=lagging)
    return changed.changed(segments=tuple(segments))


def file_values(robot: Robot, parameters: Parameters, values: Vector, shown: NDArray[np.bool_]) -> dict[str, Any]:
    """What goes into the robot's file, by dotted keys; masses and stiffnesses of a segment in proportion.

    Parameters
    ----------
    robot : whose file it is
    parameters : of it
    values : found, shape (P,)
    shown : which of them the data tell, shape (P,); the others stay
    """
    found: dict[str, Any] = {}
    for place, name in enumerate(parameters.names):
        value = float(values[place])
        if not shown[place] or value <= 0:
            continue
        if not parameters.rod.start <= place < parameters.rod.stop:
            found[name] = value
            continue
        kind, index = segment_parameters(robot)[place - TENDON_DAMPING - 1]
        found |= segment_values(robot, kind, index, value / float(parameters.scales[place]))
    return found


def segment_values(robot: Robot, kind: str, index: int, factor: float) -> dict[str, Any]:
    """What goes into the robot's file for a factor on a parameter of a segment, by dotted keys; all in proportion.

    Parameters
    ----------
    robot, kind, index, factor : as of :func:`~.rod_parts.with_factor`
    """
    segment = with_factor(robot, kind, index, factor).segments[index]
    values = {key: of_segment(segment) for key, of_segment in _KEYS[kind].items()}
    return {f"segments[{index}].{key}": value for key, value in values.items() if value}


# Keys of a segment that a factor changes; what is none or empty stays away.
_KEYS: dict[str, dict[str, Callable[[Segment], Any]]] = {
    MASS: {
        "backbone.density_kg_per_m3": lambda segment: segment.backbone.density_kg_per_m3,
        "backbone.mass_per_length_kg_per_m": lambda segment: segment.backbone.mass_per_length_kg_per_m,
        "disks.mass_kg": lambda segment: segment.disks.mass_kg,
        "disks.individual": lambda segment: [dataclasses.asdict(disk) for disk in segment.disks.individual],
    },
    STIFFNESS: {
        "backbone.youngs_modulus_pa": lambda segment: segment.backbone.youngs_modulus_pa,
        "backbone.bending_stiffness_x_nm2": lambda segment: segment.backbone.bending_stiffness_x_nm2,
        "backbone.bending_stiffness_y_nm2": lambda segment: segment.backbone.bending_stiffness_y_nm2,
        "backbone.torsional_stiffness_nm2": lambda segment: segment.backbone.torsional_stiffness_nm2,
    },
    DAMPING: {"bending_damping_nms": lambda segment: segment.bending_damping_nms},
}
