# SPDX-License-Identifier: Apache-2.0
"""The controller's cycle: a state and the newest reference give a command, or none. Stepped code, without ROS."""

from __future__ import annotations

from collections.abc import Sequence

import cython
import numpy as np
from cython.cimports.libc.math import isfinite
from numpy.typing import NDArray

from continuum_robot.control.controller import ClarkeOutput
from continuum_robot.control.cycle_controller import CycleController
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.stepped.buffers import UNKNOWN, indices, stepped, vector


@cython.cclass
class ControllerCycle:
    """Answers the states of a robot that follows; starts without a jump, and skips what it cannot answer.

    One state that is old or not finite skips one answer and nothing else. The controller restarts, from the tensions
    that are on the tendons, or their displacements,

    - where the driver did not follow before, or its sequence ran backwards (another driver): at the measured position,
      from which it blends into the reference,
    - after ``long_gap_s`` without an answer: at the reference that it followed, from which it blends back.

    All times are monotonic. The time step of the integral is that between the acquisitions of two answered states, at
    most ``longest_step_periods``.
    """

    command = cython.declare(cython.double[::1], visibility="readonly")
    clarke = cython.declare(cython.double[::1], visibility="readonly")
    clarke_rate = cython.declare(cython.double[::1], visibility="readonly")
    generalized_force = cython.declare(cython.double[::1], visibility="readonly")
    received = cython.declare(cython.longlong, visibility="readonly")
    answered = cython.declare(cython.longlong, visibility="readonly")
    stale = cython.declare(cython.longlong, visibility="readonly")
    not_finite = cython.declare(cython.longlong, visibility="readonly")
    lost = cython.declare(cython.longlong, visibility="readonly")
    restarts = cython.declare(cython.longlong, visibility="readonly")
    limited = cython.declare(cython.bint, visibility="public")
    controller: CycleController
    reference: ReferenceInput
    reader: object
    state_timeout_s: cython.double
    period_s: cython.double
    long_gap_s: cython.double
    longest_step_periods: cython.double
    aligned: cython.bint
    sequenced: cython.bint
    last_sequence: cython.longlong
    last_stamp_s: cython.double
    last_answer_s: cython.double
    skipping_since_s: cython.double

    def __init__(
        self,
        controller: CycleController,
        reference: ReferenceInput,
        state_timeout_s: float,
        period_s: float,
        long_gap_s: float = 0.25,
        longest_step_periods: float = 3.0,
    ) -> None:
        for name, value in (
            ("state_timeout_s", state_timeout_s),
            ("period_s", period_s),
            ("long_gap_s", long_gap_s),
            ("longest_step_periods", longest_step_periods),
        ):
            if not value > 0:
                raise ParameterError(name, value, "a positive number")
        self.controller, self.reference = controller, reference
        self.reader = controller if hasattr(controller, "take") else None
        self.state_timeout_s, self.period_s = float(state_timeout_s), float(period_s)
        self.long_gap_s, self.longest_step_periods = float(long_gap_s), float(longest_step_periods)
        self.command, self.generalized_force = controller.command, controller.force
        self.clarke, self.clarke_rate = controller.clarke, controller.clarke_rate
        self.last_sequence, self.last_stamp_s, self.last_answer_s = 0, 0.0, 0.0
        self.reset()

    @property
    def needs_python(self) -> bool:
        """Whether only the interpreted form can run the controller."""
        return bool(self.controller.needs_python)

    @property
    def settings(self) -> ControlSettings:
        """Of the controller."""
        return self.controller.settings

    @property
    def problem(self) -> str:
        """What a setting of the controller asks for in vain, a sentence; empty: nothing."""
        return str(getattr(self.controller, "problem", ""))

    @property
    def silent_since_s(self) -> float | None:
        """Monotonic time of the first state in a row without an answer, s; None: the newest one has an answer."""
        return None if self.skipping_since_s != self.skipping_since_s else self.skipping_since_s

    def reset(self) -> None:
        """Start at the measured position with the next state, and count from 0."""
        self.aligned = self.sequenced = self.limited = False
        self.skipping_since_s = UNKNOWN
        self.received = self.answered = self.stale = self.not_finite = self.lost = self.restarts = 0

    def set_settings(self, settings: ControlSettings) -> None:
        """Go on in the same state with other settings, all of them from the next state on. Between two cycles only."""
        self.controller.set_settings(settings)
        self.state_timeout_s = float(settings.state_timeout_s)

    def ask_pretension(self, pretension_n: float) -> None:
        """As :meth:`CycleController.ask_pretension`."""
        self.controller.ask_pretension(pretension_n)

    def ask_payload(self, payload_kg: float) -> None:
        """As :meth:`CycleController.ask_payload`."""
        self.controller.ask_payload(payload_kg)

    def set_gravity(self, gravity_m_per_s2: list[float]) -> None:
        """As :meth:`CycleController.set_gravity`."""
        self.controller.set_gravity(gravity_m_per_s2)

    @property
    def pretension(self) -> float:
        """As :attr:`CycleController.pretension`, N."""
        return float(self.controller.pretension)

    def set_period(self, period_s: float) -> None:
        """Expect the states at other intervals."""
        if not period_s > 0:
            raise ParameterError("period_s", period_s, "a positive time in s")
        self.period_s = float(period_s)

    def output(self) -> ClarkeOutput:
        """What the controller computed last, the terms of its force too, as arrays of its own."""
        return self.controller.output()

    def answer_state(
        self, reading: ReadingBuffer, commanded: Sequence[float], following: bool, now_s: float, sequence: int
    ) -> bool:
        """:meth:`answer` for Python code: ``commanded`` is any sequence, N or m; ``now_s`` is the monotonic time, s."""
        return bool(self.answer(reading, vector(commanded), following, now_s, sequence))

    def see(self, *, clarke: NDArray[np.float64] | None, tip: NDArray[np.float64] | None, stamp_s: float) -> None:
        """Hand what sensors of the shape measured to a controller that takes it. From any thread."""
        for name, seen in (("see", clarke), ("see_tip", tip)):
            take = getattr(self.controller, name, None)
            if take is not None and seen is not None:
                take(seen, stamp_s)

    @stepped
    def answer(
        self,
        reading: ReadingBuffer,
        commanded: cython.double[::1],
        following: cython.bint,
        now_s: cython.double,
        sequence: cython.longlong,
    ) -> cython.bint:
        """Answer a state; True: ``command`` is the answer.

        ``reading`` is what was read, ``commanded`` is the newest command (N or m; NaN where torque is off),
        ``following``: the driver is active and obeys, ``now_s`` is the monotonic time (s), and ``sequence`` the number
        of the state.
        """
        if not cython.compiled:
            if self.reader is not None:
                self.reader.take(reading)  # type: ignore[attr-defined]
        finite: cython.bint = self.controller.observe(reading.displacement_m, reading.velocity_m_per_s)
        self.count(sequence)
        if not following:
            self.aligned = False
            self.skipping_since_s = UNKNOWN
            self.controller.rest()
            return False
        self.received += 1
        if reading.older_than(self.state_timeout_s, now_s):
            self.stale += 1
            return self.skip(now_s)
        if not finite:
            self.not_finite += 1
            return self.skip(now_s)
        gap: cython.bint = self.aligned and now_s - self.last_answer_s > self.long_gap_s
        step_s: cython.double = reading.stamp_s - self.last_stamp_s
        if gap or not self.aligned:
            if not self.restart(reading, commanded, gap):
                self.not_finite += 1
                return self.skip(now_s)
            step_s = self.period_s
        else:
            self.reference.step(reading.stamp_s)
            if self.limited:
                self.controller.realise(commanded)
            if step_s < 0.0:
                step_s = 0.0
            if step_s > self.longest_step_periods * self.period_s:
                step_s = self.longest_step_periods * self.period_s
        if not self.follow(reading, step_s):
            self.not_finite += 1
            return self.skip(now_s)
        self.last_stamp_s, self.last_answer_s = reading.stamp_s, now_s
        self.skipping_since_s = UNKNOWN
        self.answered += 1
        return True

    @stepped
    def skip(self, now_s: cython.double) -> cython.bint:
        """Give no answer at ``now_s`` (s): False."""
        if self.skipping_since_s != self.skipping_since_s:
            self.skipping_since_s = now_s
        self.controller.rest()
        return False

    @stepped
    def count(self, sequence: cython.longlong) -> cython.void:
        """Notice what the ``sequence`` (the number of the state) left out, or that it ran backwards."""
        if self.sequenced:
            if sequence > self.last_sequence + 1:
                self.lost += sequence - self.last_sequence - 1
            elif sequence < self.last_sequence:
                self.aligned = False
        self.sequenced, self.last_sequence = True, sequence

    @stepped
    def restart(self, reading: ReadingBuffer, commanded: cython.double[::1], gap: cython.bint) -> cython.bint:
        """Start with what is ``commanded``, N or m, else with the ``reading``; False where neither is known.

        After a ``gap`` at the reference that was followed, else at the measured position.
        """
        j: cython.int
        known: cython.double = 0.0
        measured: cython.double = 0.0
        held: cython.double[::1] = reading.tension_n
        if self.controller.takes_displacements:
            held = reading.displacement_m
        for j in indices(reading.tendon_count):
            known += commanded[j]
            measured += held[j]
        if not isfinite(known) and not isfinite(measured):
            return False
        if gap:
            self.reference.resume()
        else:
            self.reference.hold(self.controller.clarke)
        self.reference.step(reading.stamp_s)
        if isfinite(known):
            self.start_from(commanded)
        else:
            self.start_from(held)
        self.aligned = True
        self.restarts += 1
        return True

    @stepped
    def start_from(self, command: cython.double[::1]) -> cython.void:
        """Let the controller start with a ``command`` of all tendons, N or m."""
        self.controller.begin(command, self.reference.position, self.reference.velocity, self.reference.acceleration)

    @stepped
    def follow(self, reading: ReadingBuffer, step_s: cython.double) -> cython.bint:
        """Let the controller answer a ``reading``, ``step_s`` (s) after the one before; False: there is no answer."""
        return self.controller.step(
            self.reference.position,
            self.reference.velocity,
            self.reference.acceleration,
            reading.tension_n,
            True,
            step_s,
        )
