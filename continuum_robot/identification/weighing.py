# SPDX-License-Identifier: Apache-2.0
"""The mass that the tip carries, from the tensions of slow turns without and with it.

The robot turns its bend each way. Dry friction pulls along the turn, against it on the way back, and cogging averages
over a turn: what is left is what the weight and the rod's elasticity ask for. The model is the rod with the tendons
held at what was measured. Where the payload bends the rod it has to be of an order of bending that lets it sag between
tendons that are held: a rod of constant curvature cannot.

The turn without payload gives the rod's stiffness, which in a robot with disks depends on its tension; the turn with
it then gives the mass.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.identification.fit import Parameter, Parameters, by_differences, fit
from continuum_robot.identification.weighing_motion import ARCS
from continuum_robot.robot.basis import BENDING_KINDS, Basis
from continuum_robot.robot.description import Robot
from continuum_robot.rod.design import tendon_stiffness
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, equilibrium
from continuum_robot.rod.tendons import held_manifold

Array = NDArray[np.float64]

BENDING_ORDER = 2
"""Of the model, where the robot file has a lower one; a third order changes the force by a few thousandths."""
_STIFFNESS_RANGE = 0.2, 5.0
_LEAST_LEVER_N_PER_KG = 1.0
_SMALL_KG = 1e-3


@dataclass(frozen=True)
class Turn:
    """Means over the arcs of slow turns, both ways: T of them."""

    displacement_m: Array
    tension_n: Array

    @classmethod
    def of_samples(cls, arc: ArrayLike, displacement_m: ArrayLike, tension_n: ArrayLike) -> Turn:
        """Means of samples; what is not finite is left out."""
        arcs = np.asarray(arc, dtype=int)
        rows = np.concatenate([np.asarray(displacement_m, dtype=float), np.asarray(tension_n, dtype=float)], axis=1)
        used = (arcs >= 0) & np.isfinite(rows).all(axis=1)
        count = 2 * ARCS
        numbers = np.bincount(arcs[used], minlength=count)
        if len(numbers) > count or (numbers == 0).any():
            raise ParameterError("samples of each arc", numbers.tolist(), f"at least one for each of {count} arcs")
        means = np.stack([rows[used & (arcs == number)].mean(axis=0) for number in range(count)])
        half = means.shape[1] // 2
        return cls(means[:, :half], means[:, half:])


@dataclass(frozen=True)
class Weighing:
    """What came of it.

    Attributes
    ----------
    payload_kg : mass at the tip
    deviation_kg : its standard deviation, as the arcs differ from each other
    stiffness_ratio : of the rod's stiffness over the robot file's, from the turn without payload
    residual_n : root mean square of what no mass explains, on the Clarke coordinates, N
    """

    payload_kg: float
    deviation_kg: float
    stiffness_ratio: float
    residual_n: float


class WeighingModel:
    """The force on the Clarke coordinates that holds a robot with a payload at measured displacements."""

    def __init__(self, robot: Robot, bending_order: int = BENDING_ORDER) -> None:
        self.robot = robot
        self._gravity = np.array(robot.gravity_m_per_s2)
        if not self._gravity.any():
            raise ParameterError(
                "gravity_m_per_s2", robot.gravity_m_per_s2, "gravity, where a payload is to be weighed"
            )
        self._manifold = held_manifold(robot)
        self._rod = Rod(sagging(robot, bending_order).changed(payload_kg=0.0))

    def force(self, turn: Turn, payload_kg: float, stiffness_ratio: float) -> Array:
        """Force that the model asks for, shape (T, 2m), N."""
        # K c scaled and loads as they are is K c as it is and loads over the scale.
        rod = self._rod.with_gravity(self._gravity / stiffness_ratio)
        rod.arrays.body[-1, 13:16] = payload_kg * self._gravity / stiffness_ratio  # a dead load at the tip
        balance = Balance(rod)
        found, start = [], None
        for displacement, tension in zip(turn.displacement_m, turn.tension_n, strict=True):
            stretch = tension / tendon_stiffness(self.robot, tension)
            held = self._manifold.displacement(self._manifold.clarke(displacement - stretch))
            rest = equilibrium(rod, start=start, stiffness=np.inf, spooled=held, balance=balance)
            start = rest.c
            found.append(stiffness_ratio * self._manifold.generalized_force(rest.tension))
        return np.array(found)

    def measured(self, turn: Turn) -> Array:
        """Force that the tendons were measured to pull with, shape (T, 2m), N."""
        return self._manifold.generalized_force(turn.tension_n)


def weigh(robot: Robot, empty: Turn, loaded: Turn, bending_order: int = BENDING_ORDER) -> Weighing:
    """Find the payload.

    Parameters
    ----------
    robot : as its file describes it
    empty : turn without payload
    loaded : turn with it
    bending_order : as of :class:`WeighingModel`

    Raises
    ------
    ParameterError : of :class:`WeighingModel`; a motion whose tensions show nothing of the rod's elasticity or of a
        weight at the tip
    """
    model = WeighingModel(robot, bending_order)
    lever = (model.force(loaded, _SMALL_KG, 1.0) - model.force(loaded, 0.0, 1.0)) / _SMALL_KG
    size = math.sqrt(float(np.mean(lever**2)))
    if size < _LEAST_LEVER_N_PER_KG:
        raise ParameterError(
            "force of a payload on the Clarke coordinates, N/kg",
            round(size, 3),
            f"at least {_LEAST_LEVER_N_PER_KG:g}: turn with a larger bend, or hold the robot in another direction",
        )
    stiffness_ratio = _stiffness_ratio(model, empty)
    # What the model misses without payload, friction too, it misses with it.
    desired = model.measured(loaded) - (model.measured(empty) - model.force(empty, 0.0, stiffness_ratio))

    def left(mass: Array) -> Array:
        return (model.force(loaded, float(mass[0]), stiffness_ratio) - desired).ravel()

    residuals = by_differences(left, _SMALL_KG)
    found = fit(Parameters({"mass": Parameter(("payload_kg",), 0.0)}), residuals, x_tolerance=1e-6)
    # Without each arc, both ways of it at once.
    arcs = np.repeat(np.arange(len(desired)) % ARCS, desired.shape[1])
    deviation_kg = math.sqrt(found.covariance(blocks=arcs)[0, 0])
    return Weighing(float(found.x[0]), deviation_kg, stiffness_ratio, math.sqrt(np.mean(found.rows**2)))


def _stiffness_ratio(model: WeighingModel, empty: Turn) -> float:
    measured, (low, high) = model.measured(empty), _STIFFNESS_RANGE
    residuals = by_differences(lambda ratio: (model.force(empty, 0.0, float(ratio[0])) - measured).ravel(), 1e-4)
    stiffness = Parameter(("stiffness of the rod over the robot file's",), 1.0, low=low, high=high)
    ratio = float(fit(Parameters({"stiffness": stiffness}), residuals, x_tolerance=1e-5).x[0])
    if not 1.01 * low < ratio < high / 1.01:
        raise ParameterError(stiffness.keys[0], round(ratio, 3), f"between {low:g} and {high:g}: check the file")
    return ratio


def sagging(robot: Robot, bending_order: int) -> Robot:
    """The robot whose segments bend with at least this order."""

    def raised(basis: Basis) -> Basis:
        if basis.kind in BENDING_KINDS:
            order = max(bending_order, basis.order)
            return Basis(kind="chebyshev_bending", order=order) if order else basis
        if basis.bending_order is None:
            return basis
        return dataclasses.replace(basis, bending_order=max(bending_order, basis.bending_order))

    return robot.changed(segments=tuple(dataclasses.replace(one, basis=raised(one.basis)) for one in robot.segments))
