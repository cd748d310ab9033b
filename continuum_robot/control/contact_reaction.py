# SPDX-License-Identifier: Apache-2.0
"""How the reference of the Clarke coordinates answers a contact: it holds, retracts, yields, is led, or presses.

Derived here. The contact's generalised force on the Clarke coordinates, F = S^T r with the shapes S of least energy and
the residual r, moves an offset from the reference:

    comply   M d'' + D d' + K d = F        guide   M d'' + D d' = F        press   D d' = F - F_0

with mass, damping and stiffness of the tip, brought onto the coordinates by its Jacobian. The robot never begins to
move by itself: without a contact there is no force, and without a valid estimate of contacts it holds.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.blending import quintic, quintic_slope
from continuum_robot.control.motion import MotionLimits, motion_limits, shortened
from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.inverse import TipKinematics
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import COMPLY, GUIDE, HOLD, IGNORE, PRESS, RETRACT, ReactionSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.description import RodDescription

Vector = NDArray[np.float64]

FOLLOWING, HOLDING, RETRACTING, RETRACTED = "following", "holding", "retracting", "retracted"
COMPLYING, GUIDED, PRESSING, RETURNING = "complying", "guided", "pressing", "returning"

_MASS_S = 0.05
# Through a contact the rod is some three times as stiff as bent freely, and giving way has to be five times as slow as
# the controller follows: else both together swing.
_DAMPING = 15.0
_STIFFNESS = 0.05
_DIRECTION_S = 0.1
_SOONER = 3.0
_CLEAR = 0.02
_LARGEST = 0.5
_STEPS = 4000  # that are remembered of the way
_LEAST_RETURN_S = 0.5
_GROWN = 1.5
_TURN_S = 0.5
_RETRACT_FILTER_S = 0.05
_GONE = 0.3
# More, and tensions that may change by so much a second only cannot follow: robot and controller swing then.
_HASTE = 2.0


@dataclass(frozen=True, slots=True)
class ContactSense:
    """What is detected of contacts.

    Attributes
    ----------
    in_contact : whether something touches
    force : generalised force of the contact on the Clarke coordinates, shape (2m,), N; NaN where it is not known
    invalid_reason : why nothing can be detected, empty where it can
    """

    in_contact: bool
    force: Vector
    invalid_reason: str = ""

    @classmethod
    def nothing(cls, size: int, invalid_reason: str = "") -> ContactSense:
        """No contact is known."""
        return cls(in_contact=False, force=np.full(size, np.nan), invalid_reason=invalid_reason)


@dataclass(frozen=True, slots=True)
class Reaction:
    """One cycle of the reaction."""

    reference: ClarkeReference
    state: str
    reason: str
    limited: bool


class ContactReaction:
    """Stands between a reference and the controller.

    Parameters
    ----------
    robot : a rod with limits and control
    settings : may be exchanged between two cycles, see :meth:`with_settings`

    Raises
    ------
    ParameterError : a mechanism, or a robot without limits or control
    """

    def __init__(self, robot: Robot, settings: ReactionSettings | None = None) -> None:
        if robot.limits is None or robot.control is None:
            raise ParameterError("robot", robot.name, "a robot file with the sections limits and control")
        self._kinematics = TipKinematics(robot)
        self._size = robot.coordinate_count
        self._range_m = robot.limits.smallest("maximum_displacement_m", robot.tendon_count)
        shapes, straight = self._kinematics.shape, self._kinematics.place(np.zeros(self._size))[1]
        own_n_per_m = np.trace(shapes.T @ RodDescription.of_robot(robot).stiffness @ shapes) / self._size
        self._own_n_per_m = float(own_n_per_m / np.linalg.norm(straight, 2) ** 2)
        # A controller with a damping ratio of 0.7: p = M w^2, d = 1.4 M w.
        follows = [1.4 * gain.p / gain.d for gain in robot.control.gains if gain.d > 0]
        if robot.actuators is not None and robot.actuators.servo is not None:
            follows = [robot.actuators.smallest("bandwidth_rad_per_s", robot.tendon_count)]
        self._follows_per_s = min(follows, default=_DAMPING)
        self._limits = motion_limits(robot)
        self._settings = settings or ReactionSettings()
        self.reset()

    @property
    def settings(self) -> ReactionSettings:
        """In use."""
        return self._settings

    @property
    def state(self) -> str:
        """What it does."""
        return self._state

    def with_settings(self, settings: ReactionSettings) -> None:
        """Use other settings; another strategy begins with the next contact, and does not end what this one holds."""
        self._settings = settings

    def force_of(self, residual: ArrayLike) -> Vector:
        """Generalised force of a contact on the Clarke coordinates, shape (2m,), N; NaN for other channels.

        Parameters
        ----------
        residual : of the strain coefficients, shape (n,), N.m^2
        """
        shapes, values = self._kinematics.shape, np.asarray(residual, dtype=float)
        return shapes.T @ values if values.size == len(shapes) else np.full(self._size, np.nan)

    def reset(self) -> None:
        """Follow the reference as it is, with no memory of the way."""
        self._state, self._reason, self._limited = FOLLOWING, "", False
        self._offset, self._rate = np.zeros(self._size), np.zeros(self._size)
        self._held, self._detected, self._strongest = (np.zeros(self._size) for _ in range(3))
        self._way: deque[Vector] = deque(maxlen=_STEPS)
        self._left_m = self._back_s = self._back_m_per_s = 0.0
        self._return_from, self._return_s, self._return_for_s = np.zeros(self._size), 0.0, 0.0
        self._excused_n: float | None = None
        self._before: Vector | None = None

    def resume(self) -> None:
        """Go back to the reference from where it holds; a contact that is there now counts again when it grows."""
        if self._state in (FOLLOWING, RETURNING) or self._before is None:
            return
        self._excused_n = 0.0
        self._begin_to_return()

    def _begin_to_return(self) -> None:
        self._state, self._reason = RETURNING, ""
        self._return_s = self._return_for_s = 0.0

    def update(
        self, reference: ClarkeReference, sense: ContactSense, measured: ArrayLike | None, dt: float
    ) -> Reaction:
        """One cycle.

        Parameters
        ----------
        reference : that is asked for, arrays of shape (2m,)
        sense : of contacts
        measured : coordinates, shape (2m,), m; None where they are not known
        dt : time since the last cycle, s, positive

        Raises
        ------
        ParameterError : a dt that is not positive
        """
        if not 0 < dt < math.inf:
            raise ParameterError("dt", dt, "a positive time step in s")
        self._limited = False
        strategy = self._settings.strategy
        if self._state in (FOLLOWING, RETURNING) and strategy != IGNORE:
            if sense.invalid_reason:
                self._hold(reference, None, f"contacts cannot be detected: {sense.invalid_reason}")
            elif sense.in_contact and not self._excuses(sense):
                self._touch(reference, measured)
        elif sense.invalid_reason and self._state in (RETRACTING, COMPLYING, GUIDED, PRESSING):
            self._hold(reference, None, f"contacts cannot be detected: {sense.invalid_reason}")
        if not sense.in_contact:
            self._excused_n = None
        answer = self._answer(reference, sense, dt)
        self._before = answer.position
        if self._state in (FOLLOWING, RETURNING, COMPLYING):
            self._remember(self._here(reference, measured))
        return Reaction(answer, self._state, self._reason, self._limited)

    def _excuses(self, sense: ContactSense) -> bool:
        """Whether it is the contact that there was when the robot was resumed: one has to be able to leave it."""
        force_n = _size_of(sense.force)
        if self._excused_n is None:
            return False
        self._excused_n = self._excused_n or force_n  # the first that is detected
        return force_n <= _GROWN * self._excused_n

    def _touch(self, reference: ClarkeReference, measured: ArrayLike | None) -> None:
        """A contact begins."""
        strategy = self._settings.strategy
        if strategy in (HOLD, RETRACT):
            self._hold(reference, measured, "something touches")
            if strategy == RETRACT:
                self._state, self._left_m = RETRACTING, self._clear_m
                self._forget_ahead()
                self._detected, self._strongest = np.zeros(self._size), np.zeros(self._size)
                self._back_s = self._back_m_per_s = 0.0
            return
        # Measured for comply: no lead of the reference presses on.
        here = self._here(reference, measured if strategy == COMPLY else None)
        self._offset, self._rate, self._detected = here - reference.position, np.zeros(self._size), np.zeros(self._size)
        self._held = reference.position
        self._state = {COMPLY: COMPLYING, GUIDE: GUIDED, PRESS: PRESSING}[strategy]
        self._reason = "something touches"

    def _hold(self, reference: ClarkeReference, measured: ArrayLike | None, reason: str) -> None:
        """Stop where the robot is, or where its reference is: no nearer to what it touches."""
        self._held, self._state, self._reason = self._here(reference, measured), HOLDING, reason

    def _here(self, reference: ClarkeReference, measured: ArrayLike | None) -> Vector:
        """Where the robot is measured, else where its reference was last, shape (2m,), m."""
        place = None if measured is None else np.array(measured, dtype=float)
        if place is not None and np.all(np.isfinite(place)):
            return place
        return np.array(reference.position if self._before is None else self._before)

    def _answer(self, reference: ClarkeReference, sense: ContactSense, dt: float) -> ClarkeReference:
        if self._state == FOLLOWING:
            return reference
        if self._state == RETURNING:
            return self._returning(reference, dt)
        if self._state in (HOLDING, RETRACTED):
            return ClarkeReference.at_rest(self._held)
        if self._state == RETRACTING:
            return self._retracting(sense, dt)
        return self._yielding(reference, sense, dt)

    # --- the strategies

    def _retracting(self, sense: ContactSense, dt: float) -> ClarkeReference:
        """Back along the way, until the force has gone and a little further."""
        self._back_s += dt
        left_n, change = self._left_of_force(sense, dt), dt * self._acceleration_m_per_s2
        # So fast that it comes to rest where it is clear of it.
        slowing = math.sqrt(2 * max(self._left_m, 0.0) * self._acceleration_m_per_s2)
        self._back_m_per_s = min(self._speed_m_per_s, self._back_m_per_s + change, max(slowing, change))
        step_m, before = self._back_m_per_s * dt, self._held
        if left_n < _GONE or not sense.in_contact:
            self._left_m -= step_m
        elif self._back_s > _TURN_S and left_n > _GROWN:
            self._state, self._reason = HOLDING, "the force grows on the way back: something else touches"
            return ClarkeReference.at_rest(self._held)
        if self._left_m <= 0:
            self._state, self._reason = RETRACTED, "something touched; it is clear of it"
            return ClarkeReference.at_rest(self._held)
        self._held = self._back(before, step_m)
        if np.array_equal(self._held, before):
            self._state, self._reason = HOLDING, "something touches, and the way it came is at its beginning"
        return ClarkeReference(self._held, (self._held - before) / dt, np.zeros(self._size))

    def _left_of_force(self, sense: ContactSense, dt: float) -> float:
        """The force along that which was detected as it turned, over that: what the motion itself makes of it averages
        out.

        Until it has turned, what is detected is from before, or still comes: 1 then, as where the force is not known.
        """
        if not np.all(np.isfinite(sense.force)):
            return 1.0
        self._detected = np.asarray(self._detected + min(1.0, dt / _RETRACT_FILTER_S) * (sense.force - self._detected))
        if self._back_s <= _TURN_S and _size_of(self._detected) > _size_of(self._strongest):
            self._strongest = self._detected
        size_n = _size_of(self._strongest)
        if self._back_s <= 2 * _RETRACT_FILTER_S or size_n == 0:
            return 1.0
        return float(self._detected @ self._strongest) / size_n**2

    def _back(self, here: Vector, step_m: float) -> Vector:
        """A step back along the path."""
        while self._way:
            to = self._way[-1] - here
            distance_m = float(np.linalg.norm(to))
            if distance_m > step_m:
                return np.asarray(here + to * (step_m / distance_m))
            here, step_m = self._way.pop(), step_m - distance_m
        return here

    def _yielding(self, reference: ClarkeReference, sense: ContactSense, dt: float) -> ClarkeReference:
        """Give way to the force, or press with one; the reference goes on but with guide."""
        if self._state == GUIDED:
            reference = ClarkeReference.at_rest(self._held)
        force = sense.force if sense.in_contact else np.zeros(self._size)
        if not np.all(np.isfinite(force)):
            self._hold(reference, None, "the contact's force is not known")
            return ClarkeReference.at_rest(self._held)
        position = reference.position + self._offset
        onto = self._onto(position)
        mass, damping, stiffness = self._mass * onto, self._damping * onto, self._stiffness * onto
        if not sense.in_contact:
            damping = damping / _SOONER  # nothing that it could swing with
        if self._state == GUIDED:
            stiffness = np.zeros_like(onto)
        elif self._state == PRESSING:
            stiffness, force = (
                np.zeros_like(onto),
                force - self._desired(force, position) if sense.in_contact else force,
            )
        # Implicit: stable for any step.
        system = mass + dt * damping + dt * dt * stiffness
        rate = np.linalg.solve(system, mass @ self._rate + dt * (force - stiffness @ self._offset))
        rate = self._rate + shortened(rate - self._rate, dt * self._acceleration_m_per_s2)
        rate = shortened(rate, self._speed_m_per_s)
        self._detected = np.asarray(self._detected + min(1.0, dt / _DIRECTION_S) * (force - self._detected))
        offset = self._offset + dt * (rate + self._standing(reference, sense))
        size_m = float(np.linalg.norm(offset))
        if size_m > self._largest_m and size_m >= float(np.linalg.norm(self._offset)):
            # It stands: to go on with the reference would press the robot into what touches it.
            self._limited = True
            stands = self._here(reference, None)
            self._offset, self._rate = stands - reference.position, np.zeros(self._size)
            return ClarkeReference.at_rest(stands)
        before, self._offset = self._offset, offset
        self._rate = np.asarray(rate)
        moved = (offset - before) / dt
        if self._state == COMPLYING and not sense.in_contact and size_m < self._clear_m:
            self._begin_to_return()
        return ClarkeReference(
            reference.position + offset, reference.velocity + moved, np.asarray(reference.acceleration)
        )

    def _standing(self, reference: ClarkeReference, sense: ContactSense) -> Vector:
        """What takes away the reference's motion against the force, (2m,), m/s: damping alone would be pushed by it."""
        size_n = float(np.linalg.norm(self._detected))
        if self._state != COMPLYING or not sense.in_contact or size_n == 0:
            return np.zeros(self._size)
        along = self._detected / size_n
        return np.asarray(-min(0.0, float(along @ reference.velocity)) * along)

    def _desired(self, force: Vector, position: Vector) -> Vector:
        """The force to press with, in the direction of the one that is detected, (2m,), N; none where that is none."""
        jacobian = self._kinematics.place(position)[1]
        at_tip = float(np.linalg.norm(np.linalg.pinv(jacobian.T) @ force))
        if at_tip < sys.float_info.min:
            return np.zeros(self._size)
        return np.asarray(self._settings.press_n * (force / at_tip))

    def _returning(self, reference: ClarkeReference, dt: float) -> ClarkeReference:
        """From where it held to the reference, which may move, along a quintic."""
        if self._return_for_s == 0:
            before = self._here(reference, None)
            self._return_from = before - reference.position
            limits = MotionLimits(self._speed_m_per_s, self._limits.acceleration_m_per_s2)
            self._return_for_s = max(_LEAST_RETURN_S, limits.move_s(before, reference.position))
        self._return_s += dt
        x = self._return_s / self._return_for_s
        if x >= 1:
            self._state, self._reason = FOLLOWING, ""
            return reference
        left, slope = 1 - quintic(x), -quintic_slope(x) / self._return_for_s
        return ClarkeReference(
            reference.position + left * self._return_from,
            reference.velocity + slope * self._return_from,
            np.asarray(reference.acceleration),
        )

    # --- what the settings mean for this robot

    @property
    def _speed_m_per_s(self) -> float:
        return self._settings.speed_m_per_s or self._limits.speed_m_per_s

    @property
    def _acceleration_m_per_s2(self) -> float:
        return self._settings.acceleration_m_per_s2 or _HASTE * self._limits.acceleration_m_per_s2

    @property
    def _clear_m(self) -> float:
        return self._settings.clear_m or _CLEAR * self._range_m

    @property
    def _largest_m(self) -> float:
        return self._settings.largest_m or _LARGEST * self._range_m

    @property
    def _stiffness(self) -> float:
        return self._settings.stiffness_n_per_m or _STIFFNESS * self._own_n_per_m

    @property
    def _damping(self) -> float:
        return self._settings.damping_ns_per_m or _DAMPING / self._follows_per_s * self._own_n_per_m

    @property
    def _mass(self) -> float:
        return self._settings.mass_kg or _MASS_S * self._damping

    def _onto(self, position: Vector) -> Vector:
        """J^T J of the tip, (2m, 2m), and a little of its largest along what does not move the tip."""
        jacobian = self._kinematics.place(position)[1]
        onto = jacobian.T @ jacobian
        return np.asarray(onto + 0.05 * float(np.trace(onto)) / self._size * np.eye(self._size))

    def _forget_ahead(self) -> None:
        """Drop the end of the way that is ahead of the held place, towards the reference: it leads into the contact."""
        if self._before is None:
            return
        lead = self._before - self._held
        kept = len(self._way)
        for k in reversed(range(kept)):
            beyond = self._way[k] - self._held
            if np.linalg.norm(beyond) > np.linalg.norm(lead):
                break
            if beyond @ lead > 0:
                kept = k
        while len(self._way) > kept:
            self._way.pop()

    def _remember(self, position: Vector) -> None:
        """The way of the robot, not that of its reference, in pieces of a quarter of what retract goes further."""
        if not self._way or np.linalg.norm(position - self._way[-1]) > self._clear_m / 4:
            self._way.append(np.array(position))


def _size_of(force: Vector) -> float:
    return float(np.linalg.norm(force)) if np.all(np.isfinite(force)) else 0.0
