# SPDX-License-Identifier: Apache-2.0
"""What kind of contact it is: accidental, sustained, sliding, blocked at the tip, along the body or whole, or several.

Between detection and reaction of Haddadin, De Luca and Albu-Schaeffer (Robot Collisions: A Survey, 2017) comes
classification; what distinguishes contacts of a continuum robot is derived here. The motion of points of the backbone
within a window is compared with the free motion: that of the shape of least energy for what the motors pulled in. Along
the contact's force a point that is driven against it and does not move is blocked; one that moves across it slides.
A tip that is held lets the body bow out; a segment that is held along its body does neither. A residual that no force
at one location explains is that of several contacts, or of a wall along the body.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from continuum_robot.estimation.contact.states import CLEAR, ContactEstimate
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.tendons import coefficients_from_clarke, controlled_manifold

Vector = NDArray[np.float64]

NO_CONTACT, UNKNOWN = "", "unknown"
ACCIDENTAL, SUSTAINED, SLIDING = "accidental", "sustained", "sliding"
TIP_BLOCKED, BODY_BLOCKED, SEGMENT_BLOCKED = "tip_blocked", "body_blocked", "segment_blocked"
SEVERAL = "several"
KINDS = (UNKNOWN, ACCIDENTAL, SUSTAINED, SLIDING, TIP_BLOCKED, BODY_BLOCKED, SEGMENT_BLOCKED, SEVERAL)
_BLOCKED = (TIP_BLOCKED, BODY_BLOCKED, SEGMENT_BLOCKED)
_FRACTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the length, where blocked and free motion are compared
_MIDDLE = 2  # index of the point that bows out where the tip alone is held
_NEAR_TIP = 0.85
_SEEN_S = 0.1  # for which another kind has to be seen before it is reported


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSettings:
    """What separates the kinds of contacts."""

    window_s: float = quantity("time over which motions are compared", "s", default=0.5, ge=0.05, le=10, live=True)
    sustained_s: float = quantity(
        "time from which on a contact is sustained; one that was over before was accidental",
        "s",
        default=0.8,
        ge=0.05,
        le=60,
        live=True,
    )
    remember_s: float = quantity(
        "for which an accidental contact is reported after its end", "s", default=1.0, ge=0, le=60, live=True
    )
    least_motion: float = quantity(
        "motion that counts within the window, as a fraction of the arc length of the contact",
        default=0.01,
        gt=0,
        le=1,
        live=True,
    )
    blocked_motion: float = quantity(
        "fraction of its free motion below which a point is blocked", default=0.3, gt=0, lt=1, live=True
    )
    one_contact_confidence: float = quantity(
        "probability with which one contact is taken for one", default=0.9999, ge=0.5, lt=1, live=True
    )


@dataclass(frozen=True, slots=True)
class ContactKind:
    """The kind of a contact."""

    name: str = NO_CONTACT
    reason: str = ""


def in_words(name: str) -> str:
    """The name of a kind as a person reads it."""
    return {NO_CONTACT: "no contact", UNKNOWN: "of unknown kind"}.get(name, name.replace("_", " "))


def kind_of(names: Iterable[str]) -> str:
    """The kind of a whole contact, from those reported in each of its cycles and just after; empty: no contact.

    The most frequent one; accidental and unknown only where nothing else was.
    """
    reported = Counter(names)
    for name, _ in reported.most_common():
        if name not in (NO_CONTACT, UNKNOWN, ACCIDENTAL):
            return name
    return next((name for name in (ACCIDENTAL, UNKNOWN) if name in reported), NO_CONTACT)


@dataclass(frozen=True, slots=True)
class _Moment:
    """An instant of a contact: time, s, coefficients, Clarke coordinates of the motors, m, direction of the force."""

    time_s: float
    c: Vector
    clarke: Vector
    direction: Vector


class ContactKinds:
    """Shows the kinds of contacts, cycle by cycle."""

    def __init__(
        self, robot: Robot, pose: Callable[[Vector, float], Vector], settings: KindSettings | None = None
    ) -> None:
        self.settings = settings or KindSettings()
        self._pose, self._length_m = pose, robot.length_m
        whole = robot.with_all_coordinates
        self._shapes, self._manifold = coefficients_from_clarke(whole), controlled_manifold(whole)
        self._arc_lengths_m = [fraction * robot.length_m for fraction in _FRACTIONS]
        self.reset()

    def reset(self) -> None:
        """Forget the contact that there was."""
        self._moments: deque[_Moment] = deque()
        self._time_s = self._began_s = self._misfit_s = 0.0
        self._touching, self._kind = False, ContactKind()
        self._candidate, self._candidate_s = NO_CONTACT, 0.0
        self._ended_s = -math.inf

    def update(self, estimate: ContactEstimate, c: ArrayLike, displacement: ArrayLike, dt: float) -> ContactKind:
        """The kind of the contact after one more cycle."""
        self._time_s += dt
        if not estimate.in_contact:
            self._end(clear=estimate.state == CLEAR)
            return self._kind
        if not self._touching:
            self._touching, self._began_s, self._misfit_s = True, self._time_s, 0.0
            self._moments.clear()
            self._kind = ContactKind(UNKNOWN, "it has only begun")
        seen = self._seen(estimate, np.asarray(c, dtype=float), np.asarray(displacement, dtype=float), dt)
        same = seen.name == self._candidate
        self._candidate, self._candidate_s = seen.name, self._candidate_s + dt if same else 0.0
        if seen.name == self._kind.name or self._candidate_s >= _SEEN_S:
            self._kind = seen
        return self._kind

    def _end(self, *, clear: bool) -> None:
        """No contact any more: a short one of no other kind was accidental, if it is over and not out of sight."""
        if self._touching:
            lasted_s, name = self._time_s - self._began_s, self._kind.name
            self._touching, self._ended_s = False, self._time_s
            self._kind = ContactKind()
            if clear and name == UNKNOWN and lasted_s < self.settings.sustained_s:
                self._kind = ContactKind(ACCIDENTAL, f"it was over after {lasted_s:.2g} s")
        elif not clear or self._time_s - self._ended_s > self.settings.remember_s:
            self._kind = ContactKind()

    def _seen(self, estimate: ContactEstimate, c: Vector, displacement: Vector, dt: float) -> ContactKind:
        settings, arc_length_m = self.settings, estimate.wrench_arc_length_m
        pose = self._pose(c, arc_length_m)
        force = np.asarray(pose)[:3, :3] @ estimate.wrench.wrench[:3]
        size_n = float(np.linalg.norm(force))
        if not 0 < size_n < math.inf:
            return ContactKind(UNKNOWN, "its force is not known")
        now = _Moment(self._time_s, c, self._manifold.clarke(displacement), force / size_n)
        self._moments.append(now)
        while now.time_s - self._moments[0].time_s > settings.window_s:
            self._moments.popleft()
        several = self._several(estimate, dt)
        moved = self._moved(now, arc_length_m)
        if moved is not None:
            return moved
        lasted_s = now.time_s - self._began_s
        if self._kind.name in _BLOCKED:
            return self._kind  # nothing has moved since
        # Last of all: against one hard contact the errors of the model grow, and look like another one.
        if several:
            return ContactKind(
                SEVERAL, "no force at one location explains it: several contacts, or a wall along the body"
            )
        if lasted_s < settings.sustained_s:
            return ContactKind(UNKNOWN, "it has only begun")
        return ContactKind(SUSTAINED, f"for {lasted_s:.1f} s, and neither blocked nor sliding")

    def _several(self, estimate: ContactEstimate, dt: float) -> bool:
        """Whether one contact has not explained the residual for longer than observers take to settle."""
        wrench = estimate.wrench
        freedom = wrench.degrees_of_freedom - 1  # the location was found from the same residual
        testable = freedom > 0 and not estimate.wrench_location_assumed
        above = testable and wrench.chi_square > _largest_misfit(self.settings.one_contact_confidence, freedom)
        self._misfit_s = self._misfit_s + dt if above else 0.0
        return self._misfit_s >= self.settings.sustained_s

    def _moved(self, now: _Moment, arc_length_m: float) -> ContactKind | None:
        """What the motion within the window shows; None where too little moves, or moves freely."""
        settings, then = self.settings, self._moments[0]
        free_c = then.c + self._shapes @ (now.clarke - then.clarke)
        mean = np.mean([moment.direction for moment in self._moments], axis=0)
        along = mean / max(float(np.linalg.norm(mean)), math.ulp(0.0))
        least_m = settings.least_motion * self._length_m

        def motions(s_m: float) -> tuple[Vector, Vector]:
            begin = self._pose(then.c, s_m)[:3, 3]
            return self._pose(now.c, s_m)[:3, 3] - begin, self._pose(free_c, s_m)[:3, 3] - begin

        did, could = np.linalg.norm([motions(s_m) for s_m in self._arc_lengths_m], axis=2).T
        driven = could > least_m / 3
        enough = could[-1] > least_m and driven[_MIDDLE]
        if enough and (did < settings.blocked_motion * could)[driven].all():
            return ContactKind(
                SEGMENT_BLOCKED,
                f"no point moves as it is driven; the tip {1e3 * did[-1]:.0f} of {1e3 * could[-1]:.0f} mm",
            )
        moved, free = motions(arc_length_m)
        least_m = settings.least_motion * max(arc_length_m, self._arc_lengths_m[0])
        against_m, given_m = -float(free @ along), float(moved @ along)
        across_m = float(np.linalg.norm(moved - given_m * along))
        if across_m > max(least_m, 2 * abs(given_m), against_m / 2):
            return ContactKind(SLIDING, f"it slid {1e3 * across_m:.0f} mm in {now.time_s - then.time_s:.1f} s")
        if against_m <= least_m:
            withdrawn = self._kind.name in _BLOCKED and against_m < -least_m
            return ContactKind(SUSTAINED, "it was blocked, and draws back") if withdrawn else None
        if -given_m > settings.blocked_motion * against_m:
            return None
        reason = f"driven {1e3 * against_m:.0f} mm against it, it moves {-1e3 * given_m:.0f} mm"
        return ContactKind(TIP_BLOCKED if arc_length_m > _NEAR_TIP * self._length_m else BODY_BLOCKED, reason)


@cache
def _largest_misfit(confidence: float, freedom: int) -> float:
    """Quantile of the chi-squared distribution."""
    return 2 * float(gammaincinv(freedom / 2, confidence))
