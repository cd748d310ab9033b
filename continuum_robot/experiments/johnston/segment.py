# SPDX-License-Identifier: Apache-2.0
"""Robots with capstans in johnston's experiments: the observers' model, and both observers of the paper."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.estimation.contact.driven_rod import DrivenRod
from continuum_robot.estimation.contact.observers import (
    BackwardGaussian,
    JointForceDeviation,
    MomentumObserver,
    StateTerms,
)
from continuum_robot.estimation.contact.settings import METHODS
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.backbone import Disk
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.bases import BENDING_ROWS, basis_matrix
from continuum_robot.rod.contact.functions import ContactFunctions
from continuum_robot.rod.places import RodPlaces

Array = NDArray[np.float64]

OBSERVERS = ("gmo", "jfd")
METHOD_NAMES = dict(zip(METHODS, ("GMO", "JFD", "Kalman disturbance observer"), strict=True))
_PLACES = 31


class CapstanModel:
    """The contact monitor's model of a robot of which the capstans' torques are known."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._driven = DrivenRod(robot, ContactFunctions(robot), None, motors=False)
        self._places = RodPlaces(robot)
        self.capstan_jacobian: Array = self._driven.capstan_jacobian
        self.capstans, self.size = self.capstan_jacobian.shape

    def at(self, c: Array, c_rate: Array, torque: Array) -> StateTerms:
        """Everything at a state (n,), (n,) under a torque of the capstans, (capstans,), N.m."""
        return self._driven.evaluate(c, c_rate, self._driven.driven(c, None, torque), np.zeros(self.size))

    def jacobian(self, c: Array, s_m: float) -> Array:
        """Body Jacobian at an arc length (m), (6, n)."""
        return self._places.body_jacobian(c, s_m)

    def acceleration(self, c: Array, c_rate: Array, torque: Array, wrench: Array) -> Array:
        """Second derivative of the coefficients, (n,), under a torque and a wrench (6,) at the tip, in its frame."""
        state = self.at(c, c_rate, torque)
        terms = state.terms
        force = terms.known_force + state.force + terms.jacobians[-1].T @ wrench
        return np.linalg.solve(terms.mass, force - terms.momentum_by_c @ c_rate)  # johnston (42), (45)


class Observers:
    """Momentum observer and joint-force deviation of one model."""

    def __init__(
        self,
        model: CapstanModel,
        gain_per_s: ArrayLike,
        *,
        reset_cycles: int = 1000,
        points: tuple[int, int] = (1, 1),
    ) -> None:
        self.model = model
        self._momentum = MomentumObserver(gain_per_s, reset_cycles, model.size)
        self._smooth, self._deviation = BackwardGaussian(points[0]), JointForceDeviation(points[1])

    def update(self, motion: tuple[Array, Array, Array], torque: Array, dt: float, other: Array | float = 0.0) -> Array:
        """Generalised forces of contacts by ``OBSERVERS``, (n, 2), N.m^2."""
        c, rate, second = motion
        state = self.model.at(c, rate, torque)
        terms, force = state.terms, state.force + other
        residual = self._smooth.update(self._momentum.update(terms.momentum, terms.known_force + force, dt))
        return np.column_stack([residual, self._deviation.update(terms, rate, second, force)])


def point_force(residual: Array, jacobian: Array) -> Array:
    """Force in x and y of the backbone's frame that fits a generalised force best: johnston (60), (61) with W = 1."""
    rows = jacobian[:2]
    return np.asarray(np.linalg.solve(rows @ rows.T, rows @ residual))


def curvature_range(segment: Segment, c: Array) -> tuple[Array, Array]:
    """Largest curvature along a segment, and its range, the measure of circularness: johnston (73)."""
    matrix = np.array([basis_matrix(segment.basis, ratio)[BENDING_ROWS, :] for ratio in np.linspace(0, 1, _PLACES)])
    u = np.einsum("pij,kj->kpi", matrix, np.atleast_2d(c))
    return np.abs(u).max(axis=1), u.max(axis=1) - u.min(axis=1)  # johnston (73)


def perturbed(robot: Robot, fraction: float, rng: np.random.Generator) -> Robot:
    """The robot with stiffnesses, masses and friction that are wrong by a fraction, each up or down by lot."""

    def off() -> float:
        return float(1 + fraction * rng.choice([-1.0, 1.0]))

    segments = []
    for segment in robot.segments:
        backbone, capstans = segment.backbone, segment.capstans
        stiffness_x, stiffness_y = backbone.bending_stiffness_x_nm2, backbone.bending_stiffness_y_nm2
        other = dataclasses.replace(
            backbone,
            bending_stiffness_x_nm2=None if stiffness_x is None else stiffness_x * off(),
            bending_stiffness_y_nm2=None if stiffness_y is None else stiffness_y * off(),
        )
        heavier = off()
        disks = dataclasses.replace(
            segment.disks, individual=tuple(_scaled(disk, heavier) for disk in segment.disks.individual)
        )
        if capstans is not None:
            friction = tuple(value * off() for value in capstans.friction_coefficients)
            capstans = dataclasses.replace(capstans, friction_coefficients=friction)
        segments.append(dataclasses.replace(segment, backbone=other, disks=disks, capstans=capstans))
    return dataclasses.replace(robot, name=f"{robot.name}_true", segments=tuple(segments))


def _scaled(disk: Disk, ratio: float) -> Disk:
    inertia = tuple(ratio * value for value in disk.inertia_kg_m2)
    return dataclasses.replace(disk, mass_kg=ratio * disk.mass_kg, inertia_kg_m2=inertia)
