# SPDX-License-Identifier: Apache-2.0
"""The tendon driver's state machine: what may be sent to the actuators, and what happens when something is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.limits import LIMITED_MAXIMUM, LIMITED_RATE, TensionLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.reading_watch import ReadingWatch
from continuum_robot.drivers.safety_settings import SafetySettings
from continuum_robot.drivers.tendon_faults import (
    COMMAND_NOT_FINITE,
    COMMAND_OUT_OF_RANGE,
    COMMAND_TIMEOUT,
    COMMAND_WRONG_SIZE,
    CURRENT_MISMATCH,
    ESTOP,
    FAULTS,
)
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

INACTIVE, ACTIVE, SAFE = "inactive", "active", "safe"


@dataclass(frozen=True, slots=True)
class SafetyOutput:
    """What the driver sends in this cycle, and why.

    Attributes
    ----------
    tension : shape (N,), N; always finite, in [0, maximum_n]; shortly after a fault down to -maximum_n for a motor that
        winds in fast what nothing holds: it is braked, before the slack runs out with a jerk
    limited : LIMITED_ bits of control/limits.py for each tendon, shape (N,), uint8
    state : "inactive", "active" or "safe"
    write : whether to send it. False in a cycle without a fresh command, so that the driver never feeds the motor
        board's own watchdog with an old command, and before the first activation
    faults : latched faults, in the order in which they came
    new_faults : those that latched since the previous output
    """

    tension: Vector
    limited: NDArray[np.uint8]
    state: str
    write: bool
    faults: tuple[str, ...]
    new_faults: tuple[str, ...]


class TendonSafety:
    """Decides in each cycle of the tendon driver which tensions are sent.

    States: *inactive* (commands are ignored), *active* (commands pass through the limits), *safe* (a fault latched).
    Leaving *active* in either direction ramps the tensions from the last command to ``limits.safe_n`` at
    ``limits.safe_rate_n_per_s``, after a fault in ``safe_within_s`` at most, and holds them there. From *safe* only
    :meth:`reset` leads to *inactive*, and from there only :meth:`activate` to *active*. Pure: no clock, no thread.

    Parameters
    ----------
    robot : with ``limits``
    settings : further thresholds

    Attributes
    ----------
    limits, settings : in use
    positions_known : False: displacements count from nowhere (not homed yet, or a procedure looks for slack), and are
        only checked for jumps; may be written
    last_fault : name of the newest fault, kept after a reset; "" before the first
    estop_reason : reason of the latest emergency stop, kept after a reset

    Raises
    ------
    ParameterError : a robot without limits
    """

    def __init__(self, robot: Robot, settings: SafetySettings | None = None) -> None:
        if robot.limits is None:
            raise ParameterError("robot.limits", None, f"limits in the file of robot {robot.name!r}")
        self.limits = robot.limits
        self.settings = settings or SafetySettings()
        self.positions_known = True
        self.last_fault = ""
        self.estop_reason = ""
        self._count = robot.tendon_count
        self._actuators = robot.actuators
        self._newton_per_ampere = robot.newton_per_ampere
        self._ampere_per_newton = (1.0 / self._newton_per_ampere).tolist()
        self._limiter = TensionLimiter(robot.limits, self._count)
        self._watch = ReadingWatch(robot.limits, tendon_manifold(robot), self.settings)
        self._state = INACTIVE
        self._faults: tuple[str, ...] = ()
        self._reported = 0
        self._command = np.zeros(self._count)
        self._engaged = False
        self._estop_held = False
        self._conditions: tuple[str, ...] = ()
        self._mismatch_s = 0.0
        self._since_command_s = 0.0
        self._activated_s = self._arrived_s = -math.inf
        self._ramp_rate_n_per_s = self.limits.safe_rate_n_per_s
        self._braked_s = math.inf
        self._runs_in = np.zeros(self._count, dtype=bool)
        mass_kg = 0.0 if robot.actuators is None else robot.actuators.reflected_mass_kg
        self._brake_ns_per_m = mass_kg / self.settings.brake_time_s
        self._sequence: int | None = None
        self._waiting = True

    # --- what the state is

    @property
    def state(self) -> str:
        """Which of "inactive", "active" and "safe"."""
        return self._state

    @property
    def faults(self) -> tuple[str, ...]:
        """Latched faults, in the order in which they came."""
        return self._faults

    @property
    def conditions(self) -> tuple[str, ...]:
        """Faults that the newest reading would cause now, latched or not."""
        return self._conditions

    @property
    def tension(self) -> Vector:
        """The newest command to the actuators, shape (N,), N."""
        return self._command.copy()

    @property
    def released(self) -> bool:
        """Whether the ramp to the safe tension has ended (or nothing was ever sent), so that torque may go off."""
        if self._state == ACTIVE:
            return False
        return not self._engaged or bool(np.all(np.abs(self._command - self.limits.safe_n) < 1e-9))

    @property
    def estop_held(self) -> bool:
        """Whether the e-stop's input is still held."""
        return self._estop_held

    # --- requests

    def activate(self, reading: TendonReading, now_s: float | None = None) -> None:
        """Begin to obey commands, without a jump: the first output is the measured tension.

        Where that lies below the minimum, the first output is the minimum. Commands from before this call are ignored.

        Parameters
        ----------
        reading : a new reading; unknown tensions are taken from the currents, else as the minimum
        now_s : on the clock of the reading's stamp; None: the reading was acquired just now

        Raises
        ------
        DeviceError : already active, a latched fault, or a reading outside of the limits; names which
        """
        if self._state == ACTIVE:
            raise DeviceError("tendon driver", "is already active", "Deactivate it first.")
        self.refuse_faults()
        now_s = reading.stamp_s if now_s is None else now_s
        self._watch.restart()
        tension = self._measured_tension(reading)
        found = self._watch.check(reading, now_s, self._command, moving=False, known=self.positions_known)
        problems = [FAULTS[name] for name in found] + list(reading.device_faults)
        if np.any(tension > self.limits.maximum_n):
            problems.append(f"measured tension {tension.max():.3g} N > maximum_n = {self.limits.maximum_n:g} N")
        start = np.clip(tension, self.limits.minimum_n, self.limits.maximum_n)
        if start.sum() > self.limits.total_n:
            problems.append(f"sum of tensions {start.sum():.3g} N > total_n = {self.limits.total_n:g} N")
        if problems:
            raise DeviceError(
                "tendon driver", f"cannot be activated: {'; '.join(problems)}", "Bring the robot within its limits."
            )
        self._limiter.reset(start)
        self._command = start
        self._engaged = True
        self._mismatch_s = self._since_command_s = 0.0
        self._forget_commands(now_s)
        self._state = ACTIVE

    def refuse_faults(self) -> None:
        """Raise :class:`DeviceError` where a fault is latched; it names all."""
        if self._faults:
            raise DeviceError(
                "tendon driver",
                f"latched faults: {', '.join(self._faults)}",
                "Remove the cause, then reset the faults.",
            )

    def deactivate(self) -> None:
        """Stop to obey commands and ramp to the safe tension; :attr:`released` says when it is reached.

        Latched faults stay latched. Allowed in every state.
        """
        if self._state == ACTIVE:
            self._ramp_rate_n_per_s = self.limits.safe_rate_n_per_s
        self._state = SAFE if self._faults else INACTIVE

    def torque_off(self) -> None:
        """The driver switched torque off or closed the bus: nothing is sent until the next activation.

        What earlier readings said is forgotten, so that an e-stop can be reset while there are none.
        """
        self.deactivate()
        self._engaged = False
        self._command = np.zeros(self._count)
        self._conditions = ()
        self._watch.restart()

    def estop(self, reason: str, *, held: bool = False) -> None:
        """Latch the emergency stop. Allowed in every state.

        Parameters
        ----------
        reason : who asked for it, for the diagnostics
        held : the input stays pressed: a reset is refused until :meth:`release_estop`
        """
        self.estop_reason = reason
        self._estop_held = self._estop_held or held
        self._latch([ESTOP])

    def release_estop(self) -> None:
        """The e-stop's input is no longer held; the fault stays latched until :meth:`reset`."""
        self._estop_held = False

    def reset(self) -> tuple[str, ...]:
        """Clear latched faults, if all inputs are neutral; leads to *inactive*.

        Returns
        -------
        what is not neutral: names of faults that the newest reading would cause again, "estop" while its input is
        held; empty when the faults were cleared
        """
        blocking = self._conditions + ((ESTOP,) if self._estop_held else ())
        if not blocking:
            self._faults = ()
            self._reported = 0
            if self._state == SAFE:
                self._state = INACTIVE
        return blocking

    # --- the cycle

    def update(
        self,
        reading: TendonReading | None,
        command: ArrayLike | None,
        command_age_s: float,
        now_s: float,
        dt: float,
        *,
        command_sequence: int | None = None,
    ) -> SafetyOutput:
        """One cycle of the driver.

        A command is fresh if its sequence differs from the previous one's, or, without a sequence, if it arrived
        later; and in both cases if it arrived after the activation and is younger than the timeout.

        Parameters
        ----------
        reading : the newest reading; None where none came, its predecessor then grows old
        command : the newest command, shape (N,), N; None where none came yet
        command_age_s : its age at ``now_s``, s
        now_s : monotonic or virtual time, s
        dt : time since the previous update, s
        command_sequence : its sequence number; None or 0: it has none

        Returns
        -------
        the tensions to send

        Raises
        ------
        ParameterError : dt negative or not finite, now_s not finite
        """
        if not 0 <= dt < math.inf:
            raise ParameterError("dt", dt, "a time step of at least 0 s")
        if not math.isfinite(now_s):
            raise ParameterError("now_s", now_s, "a finite time in s")
        moving, known = self._state == ACTIVE, self.positions_known
        found = self._watch.check(reading, now_s, self._command, moving=moving, known=known)
        if self._current_mismatch(reading, dt):
            found.append(CURRENT_MISMATCH)
        self._conditions = tuple(found)
        wanted = None
        first = self._waiting
        if self._state == ACTIVE:
            wanted = self._fresh_command(command, command_age_s, now_s, command_sequence, found)
            if found:
                self._latch(found)
        new_faults = self._faults[self._reported :]
        self._reported = len(self._faults)
        limited = np.zeros(self._count, dtype=np.uint8)
        step_s = min(dt, self.settings.maximum_step_s)
        # Time with nothing but the hold after activation gives no credit for the first step.
        credit_s = 0.0 if first else self._since_command_s
        self._since_command_s = min(credit_s + dt, self.settings.maximum_step_s)
        brake: Vector | float = 0.0
        if self._state != ACTIVE:
            self._ramp(step_s)
            brake = self._brake(reading, step_s)
            write = self._engaged
        elif wanted is not None:
            soft = self._softened(wanted, self._since_command_s)
            result = self._limiter.update(soft, self._since_command_s)
            self._since_command_s = 0.0
            self._command, limited = result.tension, result.limited
            if soft is not wanted:
                limited[soft < wanted] |= LIMITED_RATE
                limited[wanted > self.limits.maximum_n] |= LIMITED_MAXIMUM
            write = True
        else:
            # Until the first command the driver itself holds the tension; afterwards only commands are sent.
            write = self._waiting
        return SafetyOutput(self._command - brake, limited, self._state, write, self._faults, new_faults)

    def _fresh_command(
        self, command: ArrayLike | None, age_s: float, now_s: float, sequence: int | None, found: list[str]
    ) -> Vector | None:
        wanted = None
        arrived_s = now_s - age_s
        if command is not None and arrived_s >= self._activated_s and age_s <= self.limits.command_timeout_s:
            numbered = bool(sequence)
            later = arrived_s > self._arrived_s + 1e-6
            if (sequence != self._sequence) if numbered else later:
                self._sequence, self._arrived_s, self._waiting = sequence, arrived_s, False
                wanted = np.asarray(command, dtype=float)
                if wanted.shape != (self._count,):
                    found.append(COMMAND_WRONG_SIZE)
                elif not np.isfinite(wanted).all():
                    found.append(COMMAND_NOT_FINITE)
                elif self._is_out_of_range(wanted.tolist()):
                    found.append(COMMAND_OUT_OF_RANGE)
        grace_s = self.settings.activation_grace_s if self._waiting else 0.0
        if now_s - self._arrived_s > self.limits.command_timeout_s + grace_s:
            found.append(COMMAND_TIMEOUT)
        return None if found else wanted

    def _is_out_of_range(self, wanted: list[float]) -> bool:
        margin_n = self.settings.command_share * self.limits.maximum_n
        return min(wanted) < -margin_n or max(wanted) > self.limits.maximum_n + margin_n

    def _softened(self, wanted: Vector, dt: float) -> Vector:
        """Wanted tensions that rise slowly towards the maximum; the very same array where nothing has to be done.

        A step to the maximum would let a motor swing on its elastic tendon, up to twice as far as it was told.
        """
        settings = self.settings
        highest = (1 - settings.headroom_share) * self.limits.maximum_n
        soft_n = min(highest, settings.soft_share * self.limits.maximum_n)
        if wanted.max() <= soft_n:
            return wanted
        approach = self._command + (highest - self._command) * min(1.0, dt / settings.soft_time_s)
        ceiling = np.maximum(soft_n, approach)
        return np.minimum(wanted, ceiling) if (wanted > ceiling).any() else wanted

    def _forget_commands(self, now_s: float) -> None:
        self._activated_s = self._arrived_s = now_s
        self._sequence = None
        self._waiting = True

    def _latch(self, names: list[str]) -> None:
        added = [name for name in dict.fromkeys(names) if name not in self._faults]
        if added:
            self._faults = (*self._faults, *added)
            self.last_fault = added[-1]
        if self._state == ACTIVE:
            fall_n = float(self._command.max()) - self.limits.safe_n
            self._ramp_rate_n_per_s = max(self.limits.safe_rate_n_per_s, fall_n / self.settings.safe_within_s)
            self._braked_s, self._runs_in = 0.0, np.ones(self._count, dtype=bool)
        self._state = SAFE

    def _ramp(self, dt: float) -> None:
        """Towards the safe tension; what rises waits for what falls where the total would be exceeded."""
        if not self._engaged:
            return
        step = self._ramp_rate_n_per_s * dt
        change = np.clip(self.limits.safe_n - self._command, -step, step)
        lowered = self._command + np.minimum(change, 0.0)
        rise = np.maximum(change, 0.0)
        room = max(0.0, self.limits.total_n - lowered.sum())
        wanted = rise.sum()
        self._command = lowered + (rise if wanted <= room else rise * (room / wanted))

    def _brake(self, reading: TendonReading | None, dt: float) -> Vector | float:
        """What motors that wind in fast get less than the ramp, from the fault until they are slow, (N,), N."""
        self._braked_s += dt
        if reading is None or not self._engaged or self._braked_s > self.settings.brake_duration_s:
            return 0.0
        speed = np.asarray(reading.velocity_m_per_s, dtype=float)
        # Faster than a tendon can be is no measurement.
        speed = np.where(np.abs(speed) < self.settings.maximum_speed_m_per_s, speed, 0.0)
        excess = np.maximum(speed - self.settings.brake_speed_m_per_s, 0.0)
        # A robot that springs back may pull a tendon to and fro: that is no winding in.
        self._runs_in &= excess > 0
        force = np.where(self._runs_in, self._brake_ns_per_m * excess, 0.0)
        return np.asarray(np.minimum(force, self._command + self.limits.maximum_n))

    def _measured_tension(self, reading: TendonReading) -> Vector:
        tension = np.asarray(reading.tension_n, dtype=float)
        if self._actuators is not None:
            from_current = np.asarray(reading.current_a, dtype=float) * self._newton_per_ampere
            tension = np.where(np.isfinite(tension), tension, from_current)
        return np.where(np.isfinite(tension), tension, self.limits.minimum_n)

    def _current_mismatch(self, reading: TendonReading | None, dt: float) -> bool:
        if reading is None or self._actuators is None or not self._engaged:
            self._mismatch_s = 0.0
            return False
        tolerated_a = self.settings.current_mismatch_share * self._actuators.maximum_current_a
        pairs = zip(reading.current_a.tolist(), self._command.tolist(), self._ampere_per_newton, strict=True)
        if not any(abs(current - tension * ratio) > tolerated_a for current, tension, ratio in pairs):
            self._mismatch_s = 0.0
            return False
        self._mismatch_s += dt
        # Once torque is off (not active, ramp at its end) the current is rightly zero.
        return self._state == ACTIVE and self._mismatch_s > self.settings.current_mismatch_time_s
