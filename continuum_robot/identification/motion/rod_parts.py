# SPDX-License-Identifier: Apache-2.0
"""The equation of motion of a rod taken apart: the force on the tendons' coordinates for each of its parameters.

muhmann (22) to (25) in the coordinates q that the tendons control, c = S q: the force S^T f is linear in the masses, in
the stiffnesses and in the damping of the segments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.identification.motion.mechanisms import is_mechanism
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.friction.capstans import drives
from continuum_robot.rod.inertia import damping_matrix, stiffness_matrix
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.tendon_modes import coefficients_from_clarke

Vector = NDArray[np.float64]

_USUAL_DAMPING_S = 0.02


def check_driven_rod(robot: Robot) -> None:
    """Refuse a robot that is not a rod with a motor on each tendon.

    Parameters
    ----------
    robot : the robot

    Raises
    ------
    ParameterError : a mechanism, hysteresis of a rod that does more than bend or whose tendons are not parallel, or a
        robot with capstans, and what fits that one
    """
    if is_mechanism(robot):
        raise ParameterError("robot", robot.name, "a rod")
    if drives(robot):
        raise ParameterError(
            "robot", robot.name, "a motor on every tendon; with capstans: continuum-robot calibrate dynamics"
        )
    lagging = [index for index, segment in enumerate(robot.segments) if segment.hysteresis is not None]
    if lagging and not bends_alone(robot):
        raise ParameterError(
            f"segments[{lagging[0]}].hysteresis",
            robot.segments[lagging[0]].hysteresis,
            "none where a rod does more than bend or tendons are not parallel: there it is not identified",
        )


def bends_alone(robot: Robot) -> bool:
    """Whether the rod bends under parallel tendons and does nothing else, so that coordinates say how it is bent.

    Parameters
    ----------
    robot : a rod
    """
    return not robot.traits.without_clarke and all(segment.basis.bending_alone for segment in robot.segments)


def with_mass(segment: Segment, factor: float) -> Segment:
    """A segment with all masses times a factor.

    Parameters
    ----------
    segment : with backbone and disks
    factor : positive
    """
    backbone, disks = segment.backbone, segment.disks
    per_length = backbone.mass_per_length_kg_per_m
    individual = tuple(
        dataclasses.replace(
            disk, mass_kg=factor * disk.mass_kg, inertia_kg_m2=tuple(factor * value for value in disk.inertia_kg_m2)
        )
        for disk in disks.individual
    )
    return dataclasses.replace(
        segment,
        backbone=dataclasses.replace(
            backbone,
            density_kg_per_m3=factor * backbone.density_kg_per_m3,
            mass_per_length_kg_per_m=None if per_length is None else factor * per_length,
        ),
        disks=dataclasses.replace(
            disks, mass_kg=None if disks.mass_kg is None else factor * disks.mass_kg, individual=individual
        ),
    )


def with_stiffness(segment: Segment, factor: float) -> Segment:
    """A segment whose backbone's stiffness is multiplied by a factor.

    Parameters
    ----------
    segment : with a backbone
    factor : positive
    """
    backbone = segment.backbone
    keys = ("bending_stiffness_x_nm2", "bending_stiffness_y_nm2", "torsional_stiffness_nm2")
    stated = {key: value for key in keys if (value := getattr(backbone, key)) is not None}
    return dataclasses.replace(
        segment,
        backbone=dataclasses.replace(
            backbone,
            youngs_modulus_pa=factor * backbone.youngs_modulus_pa,
            **{key: factor * value for key, value in stated.items()},
        ),
    )


MASS, STIFFNESS, DAMPING = "mass", "stiffness", "damping"
KINDS = (MASS, STIFFNESS, DAMPING)


def segment_parameters(robot: Robot) -> list[tuple[str, int]]:
    """Kind and index of the segment of every parameter, in their order."""
    return [(kind, index) for kind in KINDS for index in range(len(robot.segments))]


def mass_kg(segment: Segment) -> float:
    """All that a factor on the mass of a segment multiplies, kg.

    Parameters
    ----------
    segment : with backbone and disks
    """
    return segment.length_m * segment.backbone.linear_density_kg_per_m + float(segment.disks.masses_kg.sum())


def usual_damping_nms(segment: Segment) -> float:
    """The segment's damping by its file, or a size that it may have where there is none, N.m.s."""
    bending_nm = segment.backbone.bending_stiffness_nm2 / segment.length_m
    return segment.bending_damping_nms or _USUAL_DAMPING_S * bending_nm


def with_factor(robot: Robot, kind: str, index: int, factor: float) -> Robot:
    """The robot with a parameter of one segment times a factor.

    Parameters
    ----------
    robot : a rod
    kind : one of KINDS; damping that is none in the file is taken as :func:`usual_damping_nms`
    index : of the segment
    factor : not negative, positive for masses and stiffnesses
    """
    segments = list(robot.segments)
    segment = segments[index]
    if kind == DAMPING:
        changed = dataclasses.replace(segment, bending_damping_nms=factor * usual_damping_nms(segment))
    else:
        changed = with_mass(segment, factor) if kind == MASS else with_stiffness(segment, factor)
    segments[index] = changed
    return robot.changed(segments=tuple(segments))


def with_factors(robot: Robot, factors: Vector) -> Robot:
    """The robot with all parameters of its segments times factors.

    Parameters
    ----------
    robot : a rod
    factors : in the order of :func:`segment_parameters`, shape (R,)
    """
    for (kind, index), factor in zip(segment_parameters(robot), factors, strict=True):
        robot = with_factor(robot, kind, index, float(factor))
    return robot


def damping_part(robot: Robot, index: int) -> Vector:
    """Damping of the coefficients by a segment's usual damping alone, (n, n), N.m^2.s for curvatures.

    Parameters
    ----------
    robot : a rod
    index : of the segment
    """
    usual, twice = (damping_matrix(with_factor(robot, DAMPING, index, factor)) for factor in (1.0, 2.0))
    return twice - usual


class MassParts:
    """Inertia and weight of a rod without capstans', linear in its masses: what the masses of each segment add.

    Parameters
    ----------
    robot : a rod
    segments : indices of those to distinguish; the masses of the others are with what no factor changes
    quadrature_nodes : as of the model of the rod

    Attributes
    ----------
    model : of the rod as it is
    inertial_function : (c, c_rate, c_acceleration) -> force of inertia and weight of every such segment's mass, and of
        what no factor changes, (n, segments + 1)
    mass_function : of c: the mass matrices of the same beside each other, (n, n (segments + 1))
    """

    def __init__(self, robot: Robot, segments: Sequence[int], quadrature_nodes: int | None = None) -> None:
        def model(one: Robot) -> RodModel:
            return RodModel(one, quadrature_nodes=quadrature_nodes, actuator_inertia=False)

        self.model = model(robot)
        # Where nothing else has a mass, the last segment's is what the others leave of the whole.
        self._complete = len(segments) == len(robot.segments) and not robot.payload_kg
        doubled = segments[:-1] if self._complete else segments
        heavier = [model(with_factor(robot, MASS, index, 2.0)) for index in doubled]
        c, rate, second = (ca.MX.sym(name, self.model.size) for name in ("c", "c_rate", "c_acceleration"))
        force = [one.inertial_dynamics(c, rate, second) for one in (self.model, *heavier)]
        self.inertial_function = ca.Function("inertial_parts", [c, rate, second], [self._beside(force)])
        mass = [one.mass_matrix(c) for one in (self.model, *heavier)]
        self.mass_function = ca.Function("mass_parts", [c], [self._beside(mass)])

    def _beside(self, forms: list[Any]) -> Any:
        """What each segment's masses add, segment by segment, then what no factor changes."""
        whole, *heavier = forms
        parts = [one - whole for one in heavier]
        rest = whole - sum(parts)
        return ca.densify(ca.horzcat(*parts, rest, *([ca.MX(*whole.shape)] if self._complete else [])))


def whole_mass(beside: Vector, masses: Vector) -> Vector:
    """Mass matrix of a rod with factors on the masses of segments, (n, n).

    Parameters
    ----------
    beside : mass matrices, as of ``mass_function`` of :class:`MassParts`, shape (n, n (segments + 1))
    masses : the factors, shape (segments,)
    """
    parts = beside.reshape(len(beside), len(masses) + 1, len(beside))
    return np.asarray(np.tensordot(np.append(masses, 1.0), parts, (0, 1)))


class RodParts:
    """Generalised force on the coefficients, and on the coordinates, by parameter: for factors on the file's values.

    Parameters
    ----------
    robot : see :func:`check_driven_rod`

    Attributes
    ----------
    names : of the R parameters: kind and index of the segment
    size : number n of coefficients
    inertial_function : (c, c_rate, c_acceleration) -> force of inertia and weight of every segment's mass, and of what
        no factor changes, (n, segments + 1)
    mass_function : of c: the mass matrices of the same beside each other, (n, n (segments + 1))
    elastic, damped : stiffness and damping of every segment, (segments, n, n)
    elastic_rest : stiffness of what no factor changes, (n, n)
    shape : coefficients per coordinate, (n, 2m), 1/m per m
    straight : stiffness, damping and mass of the coordinates at the straight pose, by the robot file, (2m, 2m)
    """

    def __init__(self, robot: Robot) -> None:
        check_driven_rod(robot)
        self.shape = coefficients_from_clarke(robot)
        segments = range(len(robot.segments))
        parts = MassParts(robot, segments)
        base = parts.model
        self.size = base.size
        self.names = segment_parameters(robot)
        self.inertial_function, self.mass_function = parts.inertial_function, parts.mass_function
        self.elastic = np.array(
            [stiffness_matrix(with_factor(robot, STIFFNESS, index, 2.0)) - base.stiffness for index in segments]
        )
        self.damped = np.array([damping_part(robot, index) for index in segments])
        self.elastic_rest = base.stiffness - self.elastic.sum(axis=0)
        at_rest, c = np.zeros(base.size), ca.MX.sym("c", base.size)
        weight = np.array(ca.Function("weight", [c], [ca.jacobian(base.gravity_force(c), c)])(at_rest))
        self.straight = tuple(
            self.shape.T @ matrix @ self.shape
            for matrix in (base.stiffness + weight, base.damping, np.array(base.mass_matrix(at_rest)))
        )

    def forces(self, clarke: Vector, rate: Vector, acceleration: Vector) -> tuple[Vector, Vector]:
        """Forces on the coordinates of T states.

        Parameters
        ----------
        clarke, rate, acceleration : shape (T, 2m), m, m/s, m/s^2

        Returns
        -------
        by parameter, shape (P, T, 2m), N; and what no parameter changes, shape (T, 2m), N
        """
        shape, count = self.shape, len(clarke)
        c, c_rate, second = (values @ shape.T for values in (clarke, rate, acceleration))
        mapped = self.inertial_function.map(count)
        segments = len(self.elastic)
        every = np.array(mapped(c.T, c_rate.T, second.T)).reshape(c.shape[1], count, segments + 1)
        *inertial, unchanged = (every[:, :, k].T @ shape for k in range(segments + 1))
        elastic = [c @ matrix @ shape for matrix in self.elastic]
        damped = [c_rate @ matrix @ shape for matrix in self.damped]
        return np.array([*inertial, *elastic, *damped]), unchanged + c @ self.elastic_rest @ shape
