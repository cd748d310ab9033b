# SPDX-License-Identifier: Apache-2.0
"""A policy in the place of a controller: evaluated at its own rate, and replaced by the law where it fails.

An action acts ``control.policy.delay_s`` after the observation that it answers, however fast it was computed, so that
it acts at the same time in simulated as in real time. In real time a thread of its own computes it: the cycle never
waits. In simulated time it is computed at once, and what that takes does not count.
"""

from __future__ import annotations

import math
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.motion import LimitedMotion, motion_limits
from continuum_robot.control.observations import CLARKE
from continuum_robot.control.policy import Policy
from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold

Vector = NDArray[np.float64]
Questions = queue.SimpleQueue[tuple[dict[str, Vector], "Future[Vector]"] | None]

BLEND_S = 1.0
"""In which time the reference of the law goes from where a policy left it to the one that was asked for, s."""
TARGET = "tip_target"
REST_S = 0.2
"""In which time the law brings a robot to rest that a policy moved by commands, s."""
HEARD = (TARGET, "tip_pose.position")
"""Observations that come from outside of the cycle."""
HEARD_S = 0.25
"""Age up to which a measurement from outside of the cycle is known, s."""
_ROUNDING = 1e-5  # of an action's range: a model computes in float32


class PolicyController:
    """Has the methods that the cycle calls of a :class:`CycleController`, and hands on what it has not to the law.

    A policy whose action is ``clarke`` moves the reference of the law, within the range, speed and acceleration of the
    robot's own references, and observes that reference; another one gives the command itself. The law follows the
    reference that the cycle gives until all observations are known, while there is no target that the policy sees, and
    from the first failure on until the controller starts again.

    Attributes
    ----------
    law : the controller that serves the policy
    failure : why it has ended, a sentence; empty: it has not
    acts : whether an action of the policy moves the robot now
    """

    needs_python = True

    def __init__(self, robot: Robot, law: Any, policy: Policy, *, real_time: bool = False) -> None:
        settings, actuators = robot.control_settings.policy, robot.actuators
        if settings is None or actuators is None:
            raise ParameterError("robot", robot.name, "a robot file with the sections control.policy and actuators")
        if settings.rate_hz > actuators.cycle_hz:
            expected = f"at most the rate of the cycle, {actuators.cycle_hz:g} Hz"
            raise ParameterError("control.policy.rate_hz", settings.rate_hz, expected)
        self.law, self.policy, self.name = law, policy, robot.control_settings.law
        self._manifold, self._limits = controlled_manifold(robot), motion_limits(robot)
        self._read: dict[str, Callable[[], ArrayLike]] = {
            "tendon_states.displacement": lambda: self._reading.displacement_m,
            "tendon_states.velocity": lambda: self._reading.velocity_m_per_s,
            "tendon_states.tension": lambda: self._reading.tension_n,
            f"tendon_commands.{actuators.command}": lambda: self._written,
            "clarke_state.position": lambda: self.clarke,
            "clarke_state.velocity": lambda: self.clarke_rate,
            "clarke_reference.position": lambda: (self._followed if self._leads else self._desired)[0],
            "clarke_reference.velocity": lambda: (self._followed if self._leads else self._desired)[1],
            **{name: lambda name=name: self._heard_now(name) for name in HEARD},  # type: ignore[misc]
        }
        for name in policy.observations:
            if name not in self._read:
                raise ParameterError(
                    "control.policy", name, f"observations that a policy has in the stack: {', '.join(self._read)}"
                )
        self._every = round(actuators.cycle_hz / settings.rate_hz)
        delay_s = settings.delay_s or 0.5 / settings.rate_hz
        self._delay = min(max(1 if real_time else 0, round(delay_s * actuators.cycle_hz)), self._every)
        self._late_s = settings.late_s
        self._questions = _thread(self, policy) if real_time else None
        self._leads = policy.action.name == CLARKE
        tendons, coordinates = robot.tendon_count, robot.coordinate_count
        self.command, self.force = [math.nan] * tendons, [math.nan] * coordinates
        self._heard: dict[str, tuple[Vector, float]] = {}
        self._reading: Any = None
        self._written = np.full(tendons, np.nan)
        self.failure, self.beyond, self._blind = "", False, ""
        self._cycle = self._due = 0
        self._motion = LimitedMotion(self._limits, np.zeros(coordinates))
        self._restart((np.zeros(coordinates), np.zeros(coordinates)))

    def __getattr__(self, name: str) -> Any:
        """What this class has not is of the law."""
        if name == "law":
            raise AttributeError(name)
        return getattr(self.law, name)

    @property
    def acts(self) -> bool:
        return self._action is not None

    @property
    def problem(self) -> str:
        """What is wrong, a sentence; empty: nothing."""
        if self.failure:
            return f"{self.failure}: the law {self.name} follows the reference until the stack is reset"
        if self.beyond:
            return "the policy asks for more than the range of references, and is limited to it"
        return str(getattr(self.law, "problem", ""))

    def hear(self, name: str, values: ArrayLike, stamp_s: float = math.inf) -> None:
        """Take an observation from outside of the cycle, measured at ``stamp_s``, s; inf: it does not age.

        From any thread. NaN: it is not known.
        """
        if name not in HEARD:
            raise ParameterError("observation", name, f"one of {', '.join(HEARD)}")
        self._heard[name] = np.array(values, float), stamp_s

    # --- what the cycle calls

    def take(self, reading: Any) -> None:
        """Take over what the cycle read."""
        self._reading = reading
        if hasattr(self.law, "take"):
            self.law.take(reading)

    def begin(
        self, command: list[float], position: list[float], velocity: list[float], acceleration: list[float]
    ) -> None:
        """Start with the law, at a ``command`` (N or m) and a reference (m, m/s, m/s^2)."""
        self.law.begin(command, position, velocity, acceleration)
        self._written = np.array(command, float)
        self._restart((np.array(position), np.array(velocity)))

    def realise(self, command: list[float]) -> None:
        """Take what the driver's limits left of the last answer."""
        self._written = np.array(command, float)
        if self._leads or self._action is None:
            self.law.realise(command)

    def rest(self) -> None:
        """Give no answer."""
        self.law.rest()
        self.command[:], self.force[:] = self.law.command, self.law.force

    def step(
        self,
        position: list[float],
        velocity: list[float],
        acceleration: list[float],
        measured_tension: list[float],
        rate_measured: bool,
        dt: float,
    ) -> bool:
        """Answer the state; False: there is no answer."""
        self._desired = np.array(position), np.array(velocity)
        if not self.failure:
            self._hear_answer(dt)
            self._ask()
        self._cycle += 1
        if self._action is not None and not self._leads:
            self._followed = np.array(self.clarke), np.array(self.clarke_rate)
            self.command[:] = self._action.tolist()
            if not self.law.takes_displacements:
                self.force[:] = self._manifold.generalized_force(self._action).tolist()
            self._written = self._action
            return True
        if self._action is not None:
            led = self._motion.towards(self._action, dt) if dt > 0 else self._motion.reference
            position, velocity, acceleration = (
                part.tolist() for part in (led.position, led.velocity, led.acceleration)
            )
        elif self._offset is not None:
            position, velocity = self._blended(dt)
        self._followed = np.array(position), np.array(velocity)
        answered = bool(self.law.step(position, velocity, acceleration, measured_tension, rate_measured, dt))
        self.command[:], self.force[:] = self.law.command, self.law.force
        self._written = np.array(self.command)
        return answered

    # --- the policy

    def _restart(self, followed: tuple[Vector, Vector]) -> None:
        """The law follows, and nothing is known of the policy."""
        self._followed = self._desired = followed
        self._action: Vector | None = None
        self._pending: Future[Vector] | None = None
        self._offset: tuple[Vector, Vector, float, float] | None = None
        self._cycle = self._due = 0
        self._overdue_s = self._blended_s = 0.0
        self.failure, self.beyond, self._blind = "", False, ""

    def _heard_now(self, name: str) -> Vector:
        values, stamp_s = self._heard.get(name, (np.full(3, np.nan), math.inf))
        return values if self._reading.stamp_s - stamp_s < HEARD_S else np.full_like(values, np.nan)

    def _ask(self) -> None:
        """Have the policy answer what is observed now, where it is its turn and it is not busy."""
        if self._pending is not None or self._cycle % self._every:
            return
        seen = {name: np.array(self._read[name](), float) for name in self.policy.observations}
        unknown = [name for name, values in seen.items() if not np.isfinite(values).all()]
        self._blind = TARGET if TARGET in unknown else "".join(unknown[:1])
        if self._blind == TARGET:  # dropped, or not given yet
            self._leave()
        if self._blind:
            return
        self._pending, self._due = Future(), self._cycle + self._delay
        if self._questions is None:
            _answer(self.policy, seen, self._pending)
        else:
            self._questions.put((seen, self._pending))
        if not self._delay:
            self._hear_answer(0.0)

    def _hear_answer(self, dt: float) -> None:
        """Let the newest action act when its time has come; notice that it is late or wrong."""
        pending, late_s = self._pending, self._late_s
        if pending is None or self._cycle < self._due:
            # What moved the robot sees nothing more: it is late as well.
            self._overdue_s = self._overdue_s + dt if self._blind and self._action is not None else 0.0
            if self._overdue_s > late_s + self._every * dt:
                self._fail(f"the policy does not know {self._blind} any more")
            return
        if not pending.done():
            self._overdue_s += dt
            if self._overdue_s > late_s:
                self._fail(f"the policy was more than {late_s:g} s late")
            return
        self._pending, self._overdue_s = None, 0.0
        error = pending.exception()
        if error is not None:
            self._fail(f"the policy failed: {error if isinstance(error, ParameterError) else repr(error)}")
            return
        self._act(pending.result())

    def _act(self, action: Vector) -> None:
        if self._leads:
            given = self.policy.action
            inside = np.clip(action, given.low, given.high)
            self.beyond |= bool(np.any(np.abs(action - inside) > _ROUNDING * (given.high - given.low)))
            action = inside
            if self._action is None:
                self._motion.reset(*self._followed)
        self._action, self._offset = action, None

    def _fail(self, failure: str) -> None:
        self.failure = failure
        self._leave()

    def _leave(self) -> None:
        """Let the law go on from where the policy moved the robot, to the reference."""
        acted, self._action, self._pending = self._action is not None, None, None
        self._overdue_s = 0.0
        if not acted:
            return
        position, velocity = self._followed
        if not self._leads:
            zero = [0.0] * len(position)
            self.law.begin(self._written.tolist(), position.tolist(), velocity.tolist(), zero)
        way, rate = position - self._desired[0], velocity - self._desired[1]
        duration_s = max(BLEND_S, self._limits.move_s(np.zeros_like(way), way))
        self._offset, self._blended_s = (way, rate, duration_s, BLEND_S if self._leads else REST_S), 0.0

    def _blended(self, dt: float) -> tuple[list[float], list[float]]:
        """The reference and what is left of the way to it: cubic polynomials that begin with the position and velocity
        at which the policy left, and end at rest.
        """
        (position, velocity), offset = self._desired, self._offset
        assert offset is not None
        way, rate, duration_s, rest_s = offset
        self._blended_s += dt
        x, y = self._blended_s / duration_s, min(self._blended_s / rest_s, 1.0)
        if x >= 1:
            self._offset = None
        else:
            position = position + way * (1 - x * x * (3 - 2 * x)) + rest_s * rate * y * (1 - y) ** 2
            velocity = velocity + way * 6 * x * (x - 1) / duration_s + rate * (1 - y) * (1 - 3 * y)
        return position.tolist(), velocity.tolist()


def _answer(policy: Policy, seen: dict[str, Vector], into: Future[Vector]) -> None:
    try:
        into.set_result(policy(seen))
    except Exception as error:
        into.set_exception(error)


def _thread(owner: PolicyController, policy: Policy) -> Questions:
    """A thread that answers what is put into the queue, and ends with its owner; a policy that hangs ends nothing."""
    questions: Questions = queue.SimpleQueue()

    def serve() -> None:
        while (question := questions.get()) is not None:
            _answer(policy, *question)

    weakref.finalize(owner, questions.put, None)
    threading.Thread(target=serve, name="policy", daemon=True).start()
    return questions
