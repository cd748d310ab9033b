# SPDX-License-Identifier: Apache-2.0
"""Tendon check of servos that hold displacements: what pulling at one tendon does to the loads of all.

They are homed by their loads first, so that all are tight about the straight pose. There a tendon that takes in a
little more bends the rod against the others, whose loads change by T = (k - k J (H + J^T k J)^-1 J^T k) q, with the
tendons' stiffness k, the slopes J of their paths and the stiffness H of the rod under the pretension. Derived here. The
pull is held twice, on the way in and on the way back from further in: the mean is without the motors' friction.
"""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.identification.procedures.load_onset import LoadOnset, OnsetSettings
from continuum_robot.identification.procedures.procedure import HeldProcedure, Procedure, Step, pretension_n
from continuum_robot.identification.procedures.tendon_check import (
    TendonCheck,
    TendonCheckSettings,
    TendonVerdicts,
    from_the_middle,
    judge,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import checked
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance

Vector = NDArray[np.float64]

_OVER_FRICTION = 15.0
_BEYOND = 1.5
_WAY = (1.0, _BEYOND, 1.0, 0.0)
_KEPT = 0.2  # of the pretension on every tendon
_LEAST = 0.25  # of the expected change of its own load, below which a tendon counts as not pulling


class LoadCheck(HeldProcedure[TendonVerdicts]):
    """The procedure; see the module. Pure.

    Parameters
    ----------
    robot : a rod whose actuators take displacements, with limits
    settings : see :class:`TendonCheckSettings`; of these ``pull_n`` bounds the change of a load, ``move_m`` and
        ``rise_s`` do not count

    Attributes
    ----------
    result : set when done

    Raises
    ------
    ParameterError : as of the homing
    """

    def __init__(self, robot: Robot, settings: TendonCheckSettings | None = None) -> None:
        super().__init__(robot)
        self.settings = settings = checked(TendonCheckSettings, asdict(settings or TendonCheckSettings()))
        self._robot, count = robot, robot.tendon_count
        assert robot.actuators is not None
        assert robot.limits is not None
        # What the motors' friction hides of a change has to be small beside it.
        wanted_n = max(pretension_n(robot), _OVER_FRICTION * robot.actuators.coulomb_n)
        tension_n = min(wanted_n, robot.limits.maximum_n / 2)
        onset = OnsetSettings(tension_n=tension_n)
        self._homing, self._speed = LoadOnset(robot, onset), onset.speed_m_per_s
        k = 1 / (1 / robot.tendon_stiffnesses_n_per_m + 1 / self.k_n_per_m)  # a servo gives way to a load, too
        loads, strings = expected_loads(robot, tension_n, k)
        # As far as no tendon goes slack on the way to _BEYOND of it, and none bears more than asked for.
        most_n = min(settings.pull_n or tension_n, 0.8 * robot.limits.maximum_n - tension_n)
        self._pull_m = (
            1
            / _BEYOND
            * min((1 - _KEPT) * tension_n / max(float((-loads).max()), 1e-9), most_n / float(np.diag(loads).max()))
        )
        self._expected = (
            from_the_middle(robot, self._pull_m * loads.T / k),
            from_the_middle(robot, self._pull_m * strings.T),
        )
        self._settings = replace(settings, least_m=_LEAST * float(np.diag(self._expected[0]).min()))
        self._k, self._pulled, self._place, self._held_s = k, 0, 0, 0.0
        self._rest_m = np.zeros(0)
        self._loads: list[Vector] = []
        self._string_samples: list[Vector] = []
        self._response, self._strings = np.full((count, count), np.nan), np.full(self._expected[1].shape, np.nan)

    def take_strings(self, extension_m: Vector) -> None:
        """As of :class:`~.procedure.Procedure`."""
        if self._loads and extension_m.shape == self._strings.shape[1:]:
            self._string_samples.append(np.array(extension_m, dtype=float))

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`."""
        if self._homing.result is None:
            step = self._homing.update(reading, dt)
            self.goal_m = step.command
            if self._homing.result is None:
                return replace(step, progress=0.7 * step.progress)
            self._rest_m = step.command.copy()
        count, target = len(self.goal_m), self._rest_m.copy()
        target[self._pulled] += _WAY[self._place] * self._pull_m
        if self.towards(target, self._speed, dt):
            self._held_s += dt
            if self._held_s > self.settings.hold_s / 2 and _WAY[self._place] == 1:
                self._loads.append(self.load_n(reading).copy())
        if self._held_s > self.settings.hold_s:
            self._place, self._held_s = self._place + 1, 0.0
        if self._place == len(_WAY):
            self._response[self._pulled] = np.mean(self._loads, axis=0) / self._k
            if self._string_samples:
                self._strings[self._pulled] = np.mean(self._string_samples, axis=0)
            self._pulled, self._place, self._loads, self._string_samples = self._pulled + 1, 0, [], []
            if self._pulled == count:
                measured = from_the_middle(self._robot, self._response), from_the_middle(self._robot, self._strings)
                self.result = judge(self._robot, measured, self._expected, self._settings, loads=True)
        name = self._robot.tendon_names[min(self._pulled, count - 1)]
        return Step(self.goal_m.copy(), f"pulling {name}", 0.7 + 0.3 * self._pulled / count)


def expected_loads(robot: Robot, tension_n: float, k: Vector) -> tuple[Vector, Vector]:
    """Load of tendon k, and extension of string k, for a metre of tendon j at the straight pose.

    Parameters
    ----------
    robot : a rod
    tension_n : of every tendon
    k : stiffness of tendons and drives, shape (N,), N/m

    Returns
    -------
    shapes (N, N), N/m, and (strings, N)
    """
    rod = Rod(robot, paths=[*robot.tendon_paths, *(string.path for string in robot.strings)])
    straight = np.zeros(rod.n)
    tension = np.append(np.full(robot.tendon_count, tension_n), np.zeros(len(robot.strings)))
    J, strings = np.split(rod.displacement_gradient(straight), [robot.tendon_count])
    pulled = J.T * k
    moved = np.linalg.solve(Balance(rod).hessian(straight, tension) + pulled @ J, pulled)
    return np.diag(k) - pulled.T @ moved, strings @ moved


def tendon_check_of(robot: Robot, settings: TendonCheckSettings | None = None) -> Procedure[TendonVerdicts]:
    """The tendon check of a robot, by what its actuators take.

    Parameters
    ----------
    robot : with actuators and limits
    settings : see :class:`TendonCheckSettings`
    """
    return (LoadCheck if robot.takes_displacements else TendonCheck)(robot, settings)
