# SPDX-License-Identifier: Apache-2.0
"""Check of polarity and mapping: pull at one tendon after the other and compare what answers with the rod's model.

Motors that take tensions pull with more of it, and the displacements of all tendons answer. Servos that hold
displacements are homed by their loads first, so that all are tight about the straight pose; there one takes in a little
more, which bends the rod against the others, and the loads of all answer: T = (k - k J (H + J^T k J)^-1 J^T k) q, with
the stiffness k of tendons and servos, the slopes J of the paths and the stiffness H of the rod under the pretension.
Derived here. Their pull is held twice, on the way in and on the way back from further in: the mean is without the
motors' friction. Loads are counted as the stretch that they make.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import ParameterError
from continuum_robot.identification.procedures.homing import LoadOnset
from continuum_robot.identification.procedures.procedure import (
    HeldProcedure,
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
# Servos: what their friction hides of a load's change has to be small beside it, and no tendon may go slack.
_OVER_FRICTION = 15.0
_BEYOND = 1.5
_WAY = (0.0, 1.0, _BEYOND, 1.0)
_KEPT = 0.2  # of the pretension on every tendon
_STRETCHED = 0.25  # of the largest displacement, at most, to tighten them
# What counts as a match, in parts of the robot's own answers.
_STUCK = 0.25  # of what the tendons usually answer
_BETTER = 0.75  # of the file's misfit: another order
_UNEXPLAINED = 0.6  # of the answers: none of all this
_SPOOL = 2.5  # of the usual answer to the own pull, by the square of its ratio: not this spool, or slack
_STRING_MISFIT, _LEAST_STRING_M = 0.5, 3e-4
_FITS, _MOST_GAIN = 3, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TendonCheckSettings:
    """How the tendons are pulled."""

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


@dataclass(frozen=True, slots=True)
class TendonVerdicts:
    """What the pulls showed."""

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


class Pulls:
    """What answers to pulls at one tendon after the other."""

    def __init__(self, robot: Robot, tendons: Vector, strings: Vector) -> None:
        self._robot, self._tendons, self._strings = robot, tendons, strings
        self.pulled, self.pull = 0, np.zeros(robot.tendon_count)
        self._held: list[Vector] = []
        self._rested: list[Vector] = []
        self._rests: list[Vector] = []
        self._string_samples: list[Vector] = []
        self._response = np.full(tendons.shape, np.nan)
        self._string_response = np.full(strings.shape, np.nan)

    @property
    def measuring(self) -> bool:
        """Whether the tendon is held now."""
        return bool(self._held)

    @property
    def name(self) -> str:
        """What is done now, for a person."""
        return f"pulling {self._robot.tendon_names[min(self.pulled, len(self.pull) - 1)]}"

    @property
    def part(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.pulled / len(self.pull)

    def answer(self, tendons: Vector, *, held: bool) -> None:
        """How the tendons are in this cycle, (N,), m: with one ``held``, or at rest before it and behind the last."""
        (self._held if held else self._rested).append(tendons)

    def take_strings(self, extension_m: Vector) -> None:
        if self.measuring and extension_m.shape == self._strings.shape[1:]:
            self._string_samples.append(np.array(extension_m, dtype=float))

    @property
    def all_pulled(self) -> bool:
        """Whether only the rest behind the last is missing."""
        return self.pulled == len(self.pull)

    def next(self, pull: float) -> None:
        """Go on to the next tendon."""
        self.pull[self.pulled] = pull
        self._response[self.pulled] = np.mean(self._held, axis=0)
        self._rests.append(np.mean(self._rested, axis=0))
        if self._string_samples:
            self._string_response[self.pulled] = np.mean(self._string_samples, axis=0)
        self.pulled, self._held, self._rested, self._string_samples = self.pulled + 1, [], [], []

    def verdicts(self, *, loads: bool) -> TendonVerdicts:
        """What they show."""
        # Loads of servos drift by friction from pull to pull, tensions of motors do not.
        rests = np.array([*self._rests, np.mean(self._rested, axis=0)])
        response = self._response - (rests[:-1] + rests[1:]) / 2 if loads else self._response
        measured = response, self._string_response
        return judge(self._robot, measured, (self._tendons, self._strings), self.pull, loads=loads)


class TendonCheck(Procedure[TendonVerdicts]):
    """The procedure of motors that take tensions; see the module. Pure.

    A turn or a mirror image of all tendons of a segment looks the same to the tendons themselves: only strings, fed to
    :meth:`take_strings`, or the eye, distinguish them.
    """

    def __init__(self, robot: Robot, settings: TendonCheckSettings | None = None) -> None:
        self.settings = settings = checked(TendonCheckSettings, asdict(settings or TendonCheckSettings()))
        _, limits = driven_parts(robot)
        count = robot.tendon_count
        maximum_n = limits.each("maximum_n", count)
        fraction_n = np.minimum(maximum_n, limits.total_n / count)
        base_n = min(pretension_n(robot), float(fraction_n.min()) / 2)
        self._pull_n = np.full(count, settings.pull_n) if settings.pull_n else fraction_n / 3
        room_n = float((np.minimum(maximum_n, limits.total_n - (count - 1) * base_n) - self._pull_n).min()) - base_n
        if room_n < 0:
            most_n = float(maximum_n.min()) - base_n
            raise ParameterError("pull_n", float(self._pull_n.max()), f"at most {most_n:g} N, by the limits")
        super().__init__(robot, np.full(count, base_n))
        self.pulls = Pulls(robot, *expected_response(robot))
        self._begin_pull()

    def _begin_pull(self) -> None:
        self._fraction = self._most = self._held_s = self._rested_s = 0.0
        self._before: Vector | None = None

    def move(self, reading: TendonReading, dt: float) -> Step:
        settings, tension, pulls = self.settings, self.rest_n.copy(), self.pulls
        name, part = pulls.name, pulls.part
        # Rest, rise until the tendon has moved, hold, fall: its answer is the mean of the later half of each stand.
        if self._rested_s < settings.hold_s:
            self._rested_s += dt
            if self._rested_s > settings.hold_s / 2:
                self._before = reading.displacement_m.copy()
                pulls.answer(self._before, held=False)
            self.ended = pulls.all_pulled and self._rested_s >= settings.hold_s
            return Step(tension, name, 0.1 + 0.9 * part)
        j = pulls.pulled
        assert self._before is not None
        moved_m = abs(float(reading.displacement_m[j] - self._before[j]))
        if self._held_s == 0 and moved_m < settings.move_m and self._fraction < 1:
            self._fraction = self._most = min(1.0, self._fraction + dt / settings.rise_s)
        elif self._held_s < settings.hold_s:
            self._held_s += dt
            if self._held_s > settings.hold_s / 2:
                pulls.answer(reading.displacement_m.copy(), held=True)
        else:
            self._fraction = max(0.0, self._fraction - dt / settings.rise_s)
        tension[j] += self._pull_n[j] * self._fraction
        if self._fraction == 0:
            pulls.next(float(self._pull_n[j]) * self._most)
            self._begin_pull()
        return Step(tension, name, 0.1 + 0.9 * part)

    @property
    def measuring(self) -> bool:
        """Whether a tendon is held now."""
        return self.pulls.measuring and self._held_s <= self.settings.hold_s

    def take_strings(self, extension_m: Vector) -> None:
        if self.measuring:
            self.pulls.take_strings(extension_m)

    def found(self) -> TendonVerdicts:
        return self.pulls.verdicts(loads=False)


class LoadCheck(HeldProcedure[TendonVerdicts]):
    """The procedure of servos that hold displacements; see the module. Pure."""

    def __init__(self, robot: Robot, settings: TendonCheckSettings | None = None) -> None:
        super().__init__(robot)
        self.settings = settings = checked(TendonCheckSettings, asdict(settings or TendonCheckSettings()))
        limits, actuators = robot.displacement_limits, robot.actuators
        assert actuators is not None
        tension_n = min(
            max(pretension_n(robot), _OVER_FRICTION * actuators.largest("coulomb_n", robot.tendon_count)),
            limits.smallest("maximum_n", robot.tendon_count) / 2,
            _STRETCHED * float((self.reach_m * self.drive_n_per_m).min()),
        )
        self._homing = LoadOnset(robot, tension_n)
        loads, strings = expected_loads(robot, tension_n, self.drive_n_per_m)
        # As far as no tendon goes slack on the way to _BEYOND of it, and none bears more than asked for.
        most_n = min(settings.pull_n or tension_n, 0.8 * limits.smallest("maximum_n", robot.tendon_count) - tension_n)
        slack_n, own_n = max(float((-loads).max()), 1e-9), float(np.diag(loads).max())
        self._pull_m = min((1 - _KEPT) * tension_n / slack_n, most_n / own_n) / _BEYOND
        self.pulls = Pulls(robot, loads.T / self.drive_n_per_m, strings.T)
        self._place, self._held_s = 0, 0.0
        self._rest_m = np.zeros(0)

    def take_strings(self, extension_m: Vector) -> None:
        self.pulls.take_strings(extension_m)

    def move(self, reading: TendonReading, dt: float) -> Step:
        if not self._homing.ended:
            step = self._homing.update(reading, dt)
            self.goal_m = step.command
            self._rest_m, self.straight_m = step.command.copy(), self._homing.straight_m
            return replace(step, progress=0.7 * step.progress)
        pulls, target = self.pulls, self._rest_m.copy()
        name, part = pulls.name, pulls.part
        if not pulls.all_pulled:
            target[pulls.pulled] += _WAY[self._place] * self._pull_m
        if self.towards(target, self._homing.speed_m_per_s, dt):
            self._held_s += dt
            if self._held_s > self.settings.hold_s / 2 and _WAY[self._place] != _BEYOND:
                pulls.answer(self.load_n(reading) / self.drive_n_per_m, held=self._place > 0)
        if self._held_s > self.settings.hold_s:
            self._place, self._held_s = self._place + 1, 0.0
            self.ended = pulls.all_pulled
        if self._place == len(_WAY):
            pulls.next(self._pull_m)
            self._place = 0
        return Step(self.goal_m.copy(), name, 0.7 + 0.3 * part)

    def found(self) -> TendonVerdicts:
        return self.pulls.verdicts(loads=True)


def tendon_check_of(robot: Robot, settings: TendonCheckSettings | None = None) -> Procedure[TendonVerdicts]:
    """The tendon check of a robot, by what its actuators take."""
    return (LoadCheck if robot.takes_displacements else TendonCheck)(robot, settings)


def expected_loads(robot: Robot, tension_n: float, k: Vector) -> tuple[Vector, Vector]:
    """Load of tendon k, and extension of string k, for a metre of tendon j at the straight pose."""
    rod = Rod(robot, paths=[*robot.tendon_paths, *(string.path for string in robot.strings)])
    straight = np.zeros(rod.n)
    tension = np.append(np.full(robot.tendon_count, tension_n), np.zeros(len(robot.strings)))
    J, strings = np.split(rod.displacement_gradient(straight), [robot.tendon_count])
    pulled = J.T * k
    moved = np.linalg.solve(Balance(rod).hessian(straight, tension) + pulled @ J, pulled)
    return np.diag(k) - pulled.T @ moved, strings @ moved


def expected_response(robot: Robot) -> tuple[Vector, Vector]:
    """Displacement of tendon k, and extension of string k, for a newton on tendon j at the straight configuration.

    G K^-1 G^T and G K^-1 S^T with the gradients G of the displacements and S of the extensions, and the stiffness K of
    rod and gravity.
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
    pull: Vector | None = None,
    *,
    loads: bool = False,
) -> TendonVerdicts:
    """Compare measured with expected answers, and look for the order of tendons that explains them best."""
    (response, strings), (expected, expected_strings) = measured, model
    names, count = robot.tendon_names, robot.tendon_count
    pull = np.ones(count) if pull is None else pull
    given = tuple(range(count))

    def fit(order: tuple[int, ...]) -> _Fit:
        return _fit(robot, response, expected, pull, order, loads=loads)

    fits = {given: fit(given)}
    best = fits[given]
    centred, strings = best.answer, _from_the_middle(strings, _segments(robot))
    expected_strings = _from_the_middle(expected_strings, _segments(robot))
    verdicts = [OK] * count
    own = np.diag(centred)
    typical = np.median(np.abs(own))
    for index in np.flatnonzero(own <= _STUCK * typical).tolist():
        moved_mm = 1e3 * own[index]
        if loads:
            verdicts[index] = f"bears no more when it is pulled: {moved_mm:.2g} mm of stretch"
        elif own[index] < -_STUCK * typical:
            verdicts[index] = "goes out when it is pulled: its current and its encoder have opposite signs"
        else:
            verdicts[index] = f"is stuck: it moved {moved_mm:.2g} mm"
    wrong = TendonVerdicts(tuple(verdicts), centred, best.misfit, strings, False, NOT_TRIED)
    if not wrong.passed:
        return wrong
    fits |= {order: fit(order) for order in _orders(robot)}
    least = min(one.misfit for one in fits.values())
    order = given
    if least < _BETTER * best.misfit:
        # Turned and mirrored orders fit as well: the one that leaves most tendons where they are comes first.
        order = min((other for other, one in fits.items() if one.misfit <= least + SAME_MISFIT), key=_moved_places)
        best = fits[order]
    for index in np.flatnonzero((best.own > _SPOOL) | (best.own < 1 / _SPOOL)).tolist():
        verdicts[index] = (
            f"answers {best.own[index]:.2g} times as much as the others to its own pull: slack, slipping or snapped,"
            " or its spool or gear ratio is wrong"
        )
    if best.misfit > _UNEXPLAINED:
        worst = int(np.argmax(np.linalg.norm(best.rest, axis=0) + np.linalg.norm(best.rest, axis=1)))
        verdicts[worst] = "does not move with the others: slack, slipping or snapped"
    if verdicts != [OK] * count:
        return replace(wrong, verdicts=tuple(verdicts))
    least = best.misfit + SAME_MISFIT
    alike = [other for other in _turned(robot, order) if fit(other).misfit <= least]
    order, known, sentence = _by_the_strings(alike, order, strings, expected_strings, pull)
    for index, place in enumerate(order):
        if place != index:
            remark = ", by the strings" if known else " (or the order is turned or mirrored)"
            verdicts[index] = f"moves like {names[place]}{remark}: swap their motors"
    return TendonVerdicts(tuple(verdicts), centred, fits[given].misfit, strings, known, sentence)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How an order of the tendons explains the answers."""

    misfit: float
    own: Vector
    answer: Vector
    rest: Vector


def _fit(
    robot: Robot, response: Vector, expected: Vector, pull: Vector, order: tuple[int, ...], *, loads: bool
) -> _Fit:
    """Explain the answers where each motor pulls the tendon of ``order``.

    Friction takes from what the pulls at one segment do at another, and holds the rod against a part of each: the model
    is fitted with a factor for each pair of segments, none negative, and a part that the pulled tendon alone bears.
    Each tendon has a gain, since they are not equally stiff.
    """
    places = np.array(order)
    segment = _segments(robot)[places]
    answer, model, held = response, expected[np.ix_(places, places)] * pull[:, None], np.diag(pull)
    if not loads:
        answer, model, held = (_from_the_middle(one, segment) for one in (answer, model, held))
    parts = range(segment.max() + 1)
    blocks = [np.where(np.outer(segment == i, segment == j), model, 0.0) for i in parts for j in parts]
    basis = np.array([*blocks, held * np.abs(model).max() / np.abs(held).max()])
    basis = basis[np.abs(basis).max(axis=(1, 2)) > 0]
    gain = np.ones(len(order))
    for _ in range(_FITS):
        columns = (basis * gain).reshape(len(basis), -1).T
        found = (columns @ nnls(columns, answer.ravel())[0]).reshape(answer.shape)
        step = (answer * found).sum(axis=0) / np.maximum((found * found).sum(axis=0), 1e-300)
        gain = gain * np.clip(step, 1 / _MOST_GAIN, _MOST_GAIN)
    own = np.diag(answer) / np.diag(model)
    usual = np.array([np.median(own[segment == part]) for part in segment])
    rest = answer - found
    return _Fit(float(np.linalg.norm(rest) / np.linalg.norm(answer)), own / usual, answer, rest)


def _segments(robot: Robot) -> NDArray[np.int_]:
    """The segment of each tendon, (N,)."""
    return np.concatenate([np.full(rows.stop - rows.start, k) for k, rows in enumerate(robot.tendon_slices)])


def _from_the_middle(positions: Vector, segment: NDArray[np.int_]) -> Vector:
    """Positions when each tendon (rows) is pulled, from the mean over the pulls at its segment.

    Not from where the tendons were before: there friction holds the robot in a pose of no meaning, while it holds back
    all pulls alike.
    """
    moved = positions.copy()
    for part in range(segment.max() + 1):
        moved[segment == part] -= positions[segment == part].mean(axis=0)
    return moved


def _by_the_strings(
    alike: list[tuple[int, ...]], given: tuple[int, ...], strings: Vector, expected: Vector, pull: Vector
) -> tuple[tuple[int, ...], bool, str]:
    """Of orders that the tendons cannot distinguish the one that the strings show; whether they do, and a sentence."""
    read = np.isfinite(strings).all(axis=0)
    if not read.any():
        return given, False, "no string was read: " + UNTOLD
    if not alike:
        return given, False, f"there are too many orders to try: {UNTOLD}"
    if np.ptp(strings[:, read], axis=0).max() < _LEAST_STRING_M:
        return given, False, "the strings did not move: " + UNTOLD
    found = [(misfit(strings[:, read], (pull[:, None] * expected[list(order)])[:, read]), order) for order in alike]
    best = min(found)[0]
    if best > _STRING_MISFIT:
        return given, False, f"the strings fit no order (misfit {best:.2f}): check them; " + UNTOLD
    fitting = [order for value, order in found if value <= max(best + SAME_MISFIT, best / _BETTER)]
    order = given if given in fitting else min(fitting, key=_moved_places)
    if len(fitting) > 1:
        return order, False, f"the strings leave {len(fitting)} orders possible: " + UNTOLD
    if order == given:
        return order, True, f"the strings say that the order is neither turned nor mirrored (misfit {best:.2f})"
    return order, True, f"the strings say that the order is turned or mirrored (misfit {best:.2f}), or theirs is"


def misfit(response: Vector, expected: Vector) -> float:
    """Fraction of a movement, 0 to 1, that a multiple of the expected one does not explain."""
    scale = max(0.0, float(np.sum(response * expected) / np.sum(expected * expected)))
    return float(np.linalg.norm(response - scale * expected) / np.linalg.norm(response))


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


def _moved_places(order: tuple[int, ...]) -> int:
    return sum(place != index for index, place in enumerate(order))
