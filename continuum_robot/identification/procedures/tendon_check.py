# SPDX-License-Identifier: Apache-2.0
"""Check of polarity and mapping: pull at one tendon after the other and compare what moves with the rod's model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.procedure import (
    Procedure,
    Step,
    driven_parts,
    pretension_n,
)
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import checked, quantity
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance

Vector = NDArray[np.float64]

OK = "ok"
# Up to this number of tendons in a segment all orders are tried, above it only swaps, turns and mirror images.
ALL_ORDERS = 6
SAME_MISFIT = 0.02
MOST_TURNS = 5000
UNTOLD = "whether all tendons of a segment are turned by some places, or mirrored, is not known"
NOT_TRIED = "the strings were not asked: something else is wrong"


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
        "largest fraction of the movement that the model may not explain", "", default=0.5, gt=0, le=1
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
        the same segment, shape (N, N), m; of servos that hold displacements by how much it was stretched
    misfit : fraction of the movement that the model does not explain, 0 to 1
    string_response_m : where each string was when a tendon was pulled, as ``response_m``, shape (N, strings), m; NaN
        where it was not read
    orientation_known : the strings distinguish the order from turned and mirrored ones
    orientation : what they say, or why they say nothing
    """

    verdicts: tuple[str, ...]
    response_m: Vector
    misfit: float
    string_response_m: Vector
    orientation_known: bool
    orientation: str

    @property
    def passed(self) -> bool:
        """Whether every tendon is as the robot file states."""
        return all(verdict == OK for verdict in self.verdicts)


class TendonCheck(Procedure[TendonVerdicts]):
    """The procedure; see the module. Pure.

    A turn or a mirror image of all tendons of a segment looks the same to the tendons themselves: only strings, fed to
    :meth:`take_strings`, or the eye, distinguish them.

    Parameters
    ----------
    robot : with actuators and limits
    settings : see :class:`TendonCheckSettings`

    Attributes
    ----------
    result : set when done

    Raises
    ------
    ParameterError : a pull that the limits do not allow
    """

    def __init__(self, robot: Robot, settings: TendonCheckSettings | None = None) -> None:
        self.settings = settings = checked(TendonCheckSettings, asdict(settings or TendonCheckSettings()))
        self._robot = robot
        _, limits = driven_parts(robot)
        count = robot.tendon_count
        fraction_n = min(limits.maximum_n, limits.total_n / count)
        base_n = min(pretension_n(robot), fraction_n / 2)
        self._pull_n = settings.pull_n or fraction_n / 3
        if base_n + self._pull_n > min(limits.maximum_n, limits.total_n - (count - 1) * base_n):
            raise ParameterError("pull_n", self._pull_n, f"at most {limits.maximum_n - base_n:g} N, by the limits")
        super().__init__(robot, np.full(count, base_n))
        tendons, strings = expected_response(robot)
        self._expected = from_the_middle(robot, tendons), from_the_middle(robot, strings)
        self._strings = np.full(strings.shape, np.nan)
        self._string_samples: list[Vector] = []
        self._pulled = 0
        self._response = np.full((count, count), np.nan)
        self._fraction = self._held_s = self._rested_s = 0.0
        self._before: Vector | None = None
        self._held: list[Vector] = []

    def move(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`~.procedure.Procedure`."""
        count, settings, base = len(self.rest_n), self.settings, self.rest_n.copy()
        name = self._robot.tendon_names[self._pulled]
        progress = 0.1 + 0.9 * self._pulled / count
        if self._before is None:
            self._before = reading.displacement_m.copy()
        # Rise until the tendon has moved, hold, fall, rest: the movement is the mean of the hold's later half.
        moved_m = abs(float(reading.displacement_m[self._pulled] - self._before[self._pulled]))
        if self._held_s == 0 and moved_m < settings.move_m and self._fraction < 1:
            self._fraction = min(1.0, self._fraction + dt / settings.rise_s)
        elif self._held_s < settings.hold_s:
            self._held_s += dt
            if self._held_s > settings.hold_s / 2:
                self._held.append(reading.displacement_m.copy())
        elif self._fraction > 0:
            self._fraction = max(0.0, self._fraction - dt / settings.rise_s)
        else:
            self._rested_s += dt
        base[self._pulled] += self._pull_n * self._fraction
        if self._rested_s > settings.hold_s:
            self._response[self._pulled] = np.mean(self._held, axis=0)
            if self._string_samples:
                self._strings[self._pulled] = np.mean(self._string_samples, axis=0)
            self._pulled += 1
            self._begin_pull()
            if self._pulled == count:
                measured = from_the_middle(self._robot, self._response), from_the_middle(self._robot, self._strings)
                self.result = judge(self._robot, measured, self._expected, settings)
        return Step(base, f"pulling {name}", progress)

    def _begin_pull(self) -> None:
        self._fraction = self._held_s = self._rested_s = 0.0
        self._before, self._held, self._string_samples = None, [], []

    @property
    def measuring(self) -> bool:
        """Whether a tendon is held now."""
        return bool(self._held) and self._held_s <= self.settings.hold_s

    def take_strings(self, extension_m: Vector) -> None:
        """As of :class:`~.procedure.Procedure`."""
        if self.measuring and extension_m.shape == self._strings.shape[1:]:
            self._string_samples.append(np.array(extension_m, dtype=float))


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


def expected_response(robot: Robot) -> tuple[Vector, Vector]:
    """Displacement of tendon k, and extension of string k, for a newton on tendon j at the straight configuration.

    G K^-1 G^T and G K^-1 S^T with the gradients G of the displacements and S of the extensions, and the stiffness K of
    rod and gravity.

    Parameters
    ----------
    robot : with tendons

    Returns
    -------
    shapes (N, N) and (N, strings), m/N
    """
    rod = Rod(robot, paths=[*robot.tendon_paths, *(string.path for string in robot.strings)])
    straight = np.zeros(rod.n)
    stiffness = Balance(rod).hessian(straight)
    gradient, strings = np.split(rod.displacement_gradient(straight), [robot.tendon_count])
    return gradient @ np.linalg.solve(stiffness, gradient.T), gradient @ np.linalg.solve(stiffness, strings.T)


def judge(
    robot: Robot,
    measured: tuple[Vector, Vector],
    model: tuple[Vector, Vector],
    settings: TendonCheckSettings | None = None,
    *,
    loads: bool = False,
) -> TendonVerdicts:
    """Compare measured with expected movements, and look for the order of tendons that explains them best.

    Parameters
    ----------
    robot : the one that was checked
    measured : responses of tendons and strings as in :class:`TendonVerdicts`, shapes (N, N) and (N, strings), m; NaN:
        a string that was not read
    model : the same of :func:`expected_response`, from the middle; its scale does not matter
    settings : what counts as a match
    loads : the movements of tendons are stretches by their loads, since servos hold their displacements
    """
    settings = settings or TendonCheckSettings()
    (response, strings), (expected, expected_strings) = measured, model
    names = robot.tendon_names
    verdicts = [OK] * len(names)
    moved = np.diag(response)
    for index in np.flatnonzero(moved < -settings.least_m).tolist():
        verdicts[index] = (
            "is relieved when it is pulled: its load and its encoder have opposite signs"
            if loads
            else "goes out when it is pulled: its current and its encoder have opposite signs"
        )
    for index in np.flatnonzero(np.abs(moved) <= settings.least_m).tolist():
        verdicts[index] = (
            f"bears no more when it is pulled: {1e3 * moved[index]:.2g} mm of stretch"
            if loads
            else f"is stuck: it moved {1e3 * moved[index]:.2g} mm"
        )
    if any(verdict != OK for verdict in verdicts):
        return TendonVerdicts(tuple(verdicts), response, float("nan"), strings, False, NOT_TRIED)
    given = misfit(response, expected)
    order = tuple(range(len(names)))
    if given > settings.misfit * settings.better:
        found = [(misfit(response, _ordered(expected, other)), other) for other in _orders(robot)]
        best = min(found)[0]
        if best < settings.better * given:
            # Turned and mirrored orders fit as well: the one that leaves most tendons where they are comes first.
            order = min((other for value, other in found if value <= best + SAME_MISFIT), key=_moved_places)
        elif given > settings.misfit:
            # A slack tendon explains its neighbours' movement least.
            rest = response - _scale(response, expected) * expected
            worst = int(np.argmax(np.linalg.norm(rest, axis=0) + np.linalg.norm(rest, axis=1)))
            verdicts[worst] = "does not move with the others: slack, slipping, snapped, or its gear ratio is wrong"
            return TendonVerdicts(tuple(verdicts), response, given, strings, False, NOT_TRIED)
    least = misfit(response, _ordered(expected, order)) + SAME_MISFIT
    turned = _turned(robot, order)
    alike = [other for other in turned if misfit(response, _ordered(expected, other)) <= least]
    order, known, sentence = _by_the_strings(alike, order, strings, expected_strings, settings)
    for index, place in enumerate(order):
        if place != index:
            remark = ", by the strings" if known else " (or the order is turned or mirrored)"
            verdicts[index] = f"moves like {names[place]}{remark}: swap their motors"
    return TendonVerdicts(tuple(verdicts), response, given, strings, known, sentence)


def _by_the_strings(
    alike: list[tuple[int, ...]],
    given: tuple[int, ...],
    strings: Vector,
    expected: Vector,
    settings: TendonCheckSettings,
) -> tuple[tuple[int, ...], bool, str]:
    """Of orders that the tendons cannot distinguish the one that the strings show; whether they do, and a sentence."""
    read = np.isfinite(strings).all(axis=0)
    if not read.any():
        return given, False, "no string was read: " + UNTOLD
    if not alike:
        return given, False, f"there are too many orders to try: {UNTOLD}"
    if np.ptp(strings[:, read], axis=0).max() < settings.least_m:
        return given, False, "the strings did not move: " + UNTOLD
    found = [(misfit(strings[:, read], expected[list(order)][:, read]), order) for order in alike]
    best = min(found)[0]
    if best > settings.misfit:
        return given, False, f"the strings fit no order (misfit {best:.2f}): check them; " + UNTOLD
    fitting = [order for value, order in found if value <= max(best + SAME_MISFIT, best / settings.better)]
    order = given if given in fitting else min(fitting, key=_moved_places)
    if len(fitting) > 1:
        return order, False, f"the strings leave {len(fitting)} orders possible: " + UNTOLD
    if order == given:
        return order, True, f"the strings say that the order is neither turned nor mirrored (misfit {best:.2f})"
    return order, True, f"the strings say that the order is turned or mirrored (misfit {best:.2f}), or theirs is"


def misfit(response: Vector, expected: Vector) -> float:
    """Fraction of a movement, 0 to 1, that a multiple of the expected one does not explain.

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


def _turned(robot: Robot, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """An order and what becomes of it when the tendons of segments are turned or mirrored; none where too many."""
    turned = []
    for rows in robot.tendon_slices:
        count = rows.stop - rows.start
        turned.append(
            [
                tuple(rows.start + (sign * index + places) % count for index in range(count))
                for sign in (1, -1)
                for places in range(count)
            ]
        )
    if math.prod(len(choices) for choices in turned) > MOST_TURNS:
        return
    for parts in itertools.product(*turned):
        places = tuple(itertools.chain(*parts))
        yield tuple(order[place] for place in places)


def _ordered(expected: Vector, order: tuple[int, ...]) -> Vector:
    return expected[np.ix_(order, order)]


def _moved_places(order: tuple[int, ...]) -> int:
    return sum(place != index for index, place in enumerate(order))
