# SPDX-License-Identifier: Apache-2.0
"""Check of polarity and mapping: pull at one tendon after the other and compare what moves with the rod's model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.procedure import (
    Step,
    TakeUp,
    TakeUpSettings,
    driven_parts,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.model import RodModel

Vector = NDArray[np.float64]

OK = "ok"
# Up to this number of tendons in a segment all orders are tried, above it only swaps, turns and mirror images.
ALL_ORDERS = 6
SAME_MISFIT = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TendonCheckSettings:
    """How the tendons are pulled, and what counts as a match."""

    pull_n: float = quantity(
        "most that is added to a tendon's tension; 0: a third of what every tendon may carry",
        "N",
        default=0.0,
        ge=0,
        le=1e4,
    )
    move_m: float = quantity("displacement at which it is pulled enough", "m", default=3e-3, gt=0, le=0.5)
    rise_s: float = quantity("time in which the most is reached, and the pull falls", "s", default=1.0, gt=0, le=60)
    hold_s: float = quantity("time that it is held", "s", default=0.4, gt=0, le=60)
    least_m: float = quantity("displacement below which a tendon counts as stuck", "m", default=3e-4, gt=0, le=0.1)
    misfit: float = quantity(
        "largest share of the movement that the model may not explain", "", default=0.5, gt=0, le=1
    )
    better: float = quantity(
        "misfit of another order of tendons, relative to the robot file's, that convinces", "", default=0.6, gt=0, le=1
    )


@dataclass(frozen=True, slots=True)
class TendonVerdicts:
    """What the pulls showed.

    Attributes
    ----------
    verdicts : for each tendon "ok" or what is wrong
    response_m : response_m[j, k] is where tendon k was when j was pulled, from its mean over the pulls at tendons of
        the same segment, shape (N, N), m
    misfit : share of the movement that the model does not explain, 0 to 1
    """

    verdicts: tuple[str, ...]
    response_m: Vector
    misfit: float

    @property
    def passed(self) -> bool:
        """Whether every tendon is as the robot file says."""
        return all(verdict == OK for verdict in self.verdicts)


class TendonCheck:
    """The procedure; see the module. Pure.

    A turn or a mirror image of all tendons of a segment looks the same to the tendons themselves: only a string, or the
    eye, tells them apart.

    Parameters
    ----------
    robot : with actuators and limits
    settings : see :class:`TendonCheckSettings`
    take_up : see :class:`TakeUpSettings`

    Attributes
    ----------
    result : set when done

    Raises
    ------
    ParameterError : a pull that the limits do not allow
    """

    def __init__(
        self, robot: Robot, settings: TendonCheckSettings | None = None, take_up: TakeUpSettings | None = None
    ) -> None:
        self.settings = settings = settings or TendonCheckSettings()
        self._robot = robot
        _, limits = driven_parts(robot)
        count = robot.tendon_count
        share_n = min(limits.maximum_n, limits.total_n / count)
        pretension_n = 4 * limits.safe_n if robot.control is None else robot.control.pretension_n
        self._base_n = min(max(pretension_n, limits.minimum_n), share_n / 2)
        self._pull_n = settings.pull_n or share_n / 3
        if self._base_n + self._pull_n > min(limits.maximum_n, limits.total_n - (count - 1) * self._base_n):
            raise ParameterError(
                "pull_n", self._pull_n, f"at most {limits.maximum_n - self._base_n:g} N, by the limits"
            )
        self._take_up = TakeUp(np.full(count, self._base_n), robot.tendon_names, take_up)
        self._expected = from_the_middle(robot, expected_response(robot))
        self._tight = self._stopped = False
        self._pulled = 0
        self._response = np.full((count, count), np.nan)
        self._share = self._held_s = self._rested_s = 0.0
        self._before: Vector | None = None
        self._held: list[Vector] = []
        self.result: TendonVerdicts | None = None

    def update(self, reading: TendonReading, dt: float) -> Step:
        """The next step; raises :class:`ProcedureError` where a tendon runs without resistance."""
        count, settings = self._response.shape[0], self.settings
        base = np.full(count, self._base_n)
        if self._stopped:
            return Step(base, "stopped", 1.0, done=True)
        if not self._tight:
            tension, self._tight = self._take_up.update(reading, dt)
            return Step(tension, "taking up slack", 0.1)
        if self.result is not None:
            return Step(base, "done", 1.0, done=True)
        name = self._robot.tendon_names[self._pulled]
        progress = 0.1 + 0.9 * self._pulled / count
        if self._before is None:
            self._before = reading.displacement_m.copy()
        # Rise until the tendon has moved, hold, fall, rest: the movement is the mean of the hold's later half.
        moved_m = abs(float(reading.displacement_m[self._pulled] - self._before[self._pulled]))
        if self._held_s == 0 and moved_m < settings.move_m and self._share < 1:
            self._share = min(1.0, self._share + dt / settings.rise_s)
        elif self._held_s < settings.hold_s:
            self._held_s += dt
            if self._held_s > settings.hold_s / 2:
                self._held.append(reading.displacement_m.copy())
        elif self._share > 0:
            self._share = max(0.0, self._share - dt / settings.rise_s)
        else:
            self._rested_s += dt
        base[self._pulled] += self._pull_n * self._share
        if self._rested_s > settings.hold_s:
            self._response[self._pulled] = np.mean(self._held, axis=0)
            self._pulled += 1
            self._begin_pull()
            if self._pulled == count:
                response = from_the_middle(self._robot, self._response)
                self.result = judge(self._robot, response, self._expected, settings)
        return Step(base, f"pulling {name}", progress)

    def _begin_pull(self) -> None:
        self._share = self._held_s = self._rested_s = 0.0
        self._before, self._held = None, []

    def stop(self) -> None:
        """End with the next step."""
        self._stopped = True


def from_the_middle(robot: Robot, positions: Vector) -> Vector:
    """Positions when each tendon is pulled, from the mean over the tendons of its segment, shape (N, N), m.

    Not from where the tendons were before: there friction holds the robot in a pose of no meaning, while it holds back
    all pulls alike.

    Parameters
    ----------
    positions : of every tendon (columns) when each tendon (rows) is pulled, shape (N, N), m
    """
    moved = positions.copy()
    for rows in robot.tendon_slices:
        moved[rows] -= positions[rows].mean(axis=0)
    return moved


def expected_response(robot: Robot) -> Vector:
    """Displacement of tendon k for a newton on tendon j at the straight configuration, shape (N, N), m/N.

    G K^-1 G^T with the gradient G of the displacements and the stiffness K of rod and gravity.
    """
    model = RodModel(robot)
    gradient = np.array(model.tendon_matrix, dtype=float)
    stiffness = np.array(model.potential(np.zeros(model.size))[2], dtype=float)
    return gradient @ np.linalg.solve(stiffness, gradient.T)


def judge(
    robot: Robot, response: Vector, expected: Vector, settings: TendonCheckSettings | None = None
) -> TendonVerdicts:
    """Compare measured with expected movements, and look for the order of tendons that explains them best.

    Parameters
    ----------
    robot : the one that was checked
    response : as in :class:`TendonVerdicts`, shape (N, N), m
    expected : of :func:`expected_response`, shape (N, N); its scale does not matter
    settings : what counts as a match
    """
    settings = settings or TendonCheckSettings()
    names = robot.tendon_names
    verdicts = [OK] * len(names)
    moved = np.diag(response)
    for index in np.flatnonzero(moved < -settings.least_m).tolist():
        verdicts[index] = "goes out when it is pulled: its current and its encoder have opposite signs"
    for index in np.flatnonzero(np.abs(moved) <= settings.least_m).tolist():
        verdicts[index] = f"is stuck: it moved {1e3 * moved[index]:.2g} mm"
    if any(verdict != OK for verdict in verdicts):
        return TendonVerdicts(tuple(verdicts), response, float("nan"))
    given = misfit(response, expected)
    if given <= settings.misfit * settings.better:
        return TendonVerdicts(tuple(verdicts), response, given)
    found = [(misfit(response, expected[np.ix_(order, order)]), order) for order in _orders(robot)]
    best = min(found)[0]
    if best < settings.better * given:
        # Turned and mirrored orders fit as well: the one that leaves most tendons where they are is told.
        alike = [order for value, order in found if value <= best + SAME_MISFIT]
        order = min(alike, key=lambda order: sum(place != index for index, place in enumerate(order)))
        for index, place in enumerate(order):
            if place != index:
                verdicts[index] = f"moves like {names[place]} (or the order is turned or mirrored): swap their motors"
        return TendonVerdicts(tuple(verdicts), response, given)
    if given > settings.misfit:
        # A slack tendon explains its neighbours' movement least.
        rest = response - _scale(response, expected) * expected
        worst = int(np.argmax(np.linalg.norm(rest, axis=0) + np.linalg.norm(rest, axis=1)))
        verdicts[worst] = "does not move with the others: slack, slipping, snapped, or its gear ratio is wrong"
    return TendonVerdicts(tuple(verdicts), response, given)


def misfit(response: Vector, expected: Vector) -> float:
    """Share of a movement, 0 to 1, that a multiple of the expected one does not explain.

    Parameters
    ----------
    response : measured movement of the tendons, shape (k,), m
    expected : by the model, shape (k,), any unit
    """
    rest = response - _scale(response, expected) * expected
    return float(np.linalg.norm(rest) / np.linalg.norm(response))


def _scale(response: Vector, expected: Vector) -> float:
    return max(0.0, float(np.sum(response * expected) / np.sum(expected * expected)))


def _orders(robot: Robot) -> Iterator[tuple[int, ...]]:
    """Orders of the tendons that a wrong wiring might give: within a segment, or two swapped between segments."""
    count = robot.tendon_count
    for first, second in itertools.combinations(range(count), 2):
        order = list(range(count))
        order[first], order[second] = second, first
        yield tuple(order)
    for rows in robot.tendon_slices:
        if rows.stop - rows.start <= ALL_ORDERS:
            for inner in itertools.permutations(range(rows.start, rows.stop)):
                yield (*range(rows.start), *inner, *range(rows.stop, count))
