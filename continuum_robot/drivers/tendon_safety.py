# SPDX-License-Identifier: Apache-2.0
"""The tendon driver's state machine: what may be sent to the actuators, and what happens when something is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.limits import LIMITED_MAXIMUM, LIMITED_RATE, TensionLimiter
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]

INACTIVE, ACTIVE, SAFE = "inactive", "active", "safe"

COMMAND_TIMEOUT = "command_timeout"
COMMAND_NOT_FINITE = "command_not_finite"
COMMAND_WRONG_SIZE = "command_wrong_size"
COMMAND_OUT_OF_RANGE = "command_out_of_range"
READING_TIMEOUT = "reading_timeout"
READING_NOT_FINITE = "reading_not_finite"
FROZEN_READING = "frozen_reading"
DISPLACEMENT_JUMP = "displacement_jump"
INCONSISTENT_DISPLACEMENT = "inconsistent_displacement"
DISPLACEMENT_OUT_OF_RANGE = "displacement_out_of_range"
TENSION_OUT_OF_RANGE = "tension_out_of_range"
CURRENT_MISMATCH = "current_mismatch"
DEVICE_FAULT = "device_fault"
ESTOP = "estop"

FAULTS: dict[str, str] = {
    COMMAND_TIMEOUT: "no fresh command within limits.command_timeout_s",
    COMMAND_NOT_FINITE: "a command holds NaN or infinity",
    COMMAND_WRONG_SIZE: "a command does not hold one tension a tendon",
    COMMAND_OUT_OF_RANGE: "a command lies so far outside of the limits that its sender cannot be in order",
    READING_TIMEOUT: "the newest reading is older than limits.reading_timeout_s",
    READING_NOT_FINITE: "a reading holds NaN or infinity",
    FROZEN_READING: "a displacement repeats bit by bit although the robot moves",
    DISPLACEMENT_JUMP: "a displacement changed faster than a tendon can move",
    INCONSISTENT_DISPLACEMENT: "displacements of a segment miss the Clarke manifold: slack, slipped or broken tendon",
    DISPLACEMENT_OUT_OF_RANGE: "a displacement exceeds limits.maximum_displacement_m",
    TENSION_OUT_OF_RANGE: "a measured tension exceeds limits.maximum_n, or is negative, by more than the margin",
    CURRENT_MISMATCH: "measured and commanded current disagree",
    DEVICE_FAULT: "an actuator reports a fault",
    ESTOP: "the emergency stop was requested",
}
"""Name and meaning of every fault that latches the safe state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings:
    """Thresholds of :class:`TendonSafety` that do not stand in the robot's limits."""

    command_share: float = quantity(
        "how far a command may lie outside [0, maximum_n] to be limited and not refused, as a share of maximum_n",
        "",
        default=1.0,
        gt=0,
        le=1e3,
    )
    soft_share: float = quantity(
        "share of maximum_n above which a tension rises slowly: motors that swing on elastic tendons overshoot",
        "",
        default=0.5,
        gt=0,
        le=1,
    )
    soft_time_s: float = quantity(
        "time constant with which a tension approaches its highest from there", "s", default=0.1, gt=0, le=10
    )
    headroom_share: float = quantity(
        "share of maximum_n that commands leave to what swinging adds to them", "", default=0.05, ge=0, lt=1
    )
    activation_grace_s: float = quantity(
        "added to the command timeout until the first command after activation", "s", default=2.0, ge=0, le=60
    )
    frozen_time_s: float = quantity("how long a displacement must repeat to be frozen", "s", default=0.1, gt=0, le=10)
    frozen_motion_m: float = quantity(
        "how far the other tendons say that it moved meanwhile", "m", default=3e-4, gt=0, le=0.1
    )
    frozen_force_n: float = quantity(
        "change of the commanded generalised force that must move some tendon", "N", default=2.0, gt=0, le=1e3
    )
    maximum_speed_m_per_s: float = quantity("fastest believable tendon", "m/s", default=2.0, gt=0, le=100)
    jump_m: float = quantity("change of a displacement that is never a jump", "m", default=5e-4, gt=0, le=0.1)
    tension_margin_n: float = quantity(
        "how far a measured tension may lie outside [0, maximum_n]", "N", default=2.0, gt=0, le=1e3
    )
    current_mismatch_share: float = quantity(
        "tolerated difference of currents, as a share of maximum_current_a", "", default=0.05, gt=0, le=1
    )
    current_mismatch_time_s: float = quantity(
        "how long currents must disagree without a break", "s", default=0.05, ge=0, le=10
    )
    safe_within_s: float = quantity(
        "longest ramp to the safe tension after a fault: faster than limits.safe_rate_n_per_s where that takes longer",
        "s",
        default=0.06,
        gt=0,
        le=10,
    )
    brake_speed_m_per_s: float = quantity(
        "speed at which a tendon runs in after a fault and above which its motor is braked",
        "m/s",
        default=0.02,
        gt=0,
        le=100,
    )
    brake_time_s: float = quantity("time in which a braked motor loses its speed", "s", default=0.01, gt=0, le=10)
    brake_duration_s: float = quantity(
        "longest time for which motors are braked after a fault; 0: never", "s", default=0.1, ge=0, le=10
    )
    maximum_step_s: float = quantity(
        "longest time step that rate limits count, so that a stalled cycle does not jump", "s", default=0.01, gt=0, le=1
    )


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
        self._watch = _ReadingWatch(robot.limits, tendon_manifold(robot), self.settings)
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


class _ReadingWatch:
    """Looks for what is wrong with the readings; remembers the previous one."""

    def __init__(self, limits: TensionLimits, manifold: ClarkeManifold, settings: SafetySettings) -> None:
        self._limits = limits
        self._settings = settings
        self._manifold = manifold
        # One product gives what misses the manifold and what the other tendons predict.
        off_manifold = np.eye(manifold.tendon_count) - manifold.displacement_matrix @ manifold.clarke_matrix
        self._observed = np.vstack([off_manifold, _leave_one_out(manifold.displacement_matrix)])
        self.restart()

    def restart(self) -> None:
        """Forget the past, so that a gap in the readings is no jump and no standstill."""
        self._previous: TendonReading | None = None
        self._changed_s: list[float] | None = None

    def check(
        self, reading: TendonReading | None, now_s: float, command: Vector, *, moving: bool, known: bool
    ) -> list[str]:
        """Names of what is wrong with the newest reading.

        ``moving``: the tendons are tight and may be told to move; ``known``: displacements count from home.
        """
        if reading is None:
            reading = self._previous
            if reading is None:
                return [READING_TIMEOUT]
        # Lists and built-in functions: for a handful of tendons they take a tenth of NumPy's time, in every cycle.
        found = []
        limits, settings = self._limits, self._settings
        since_s = now_s - reading.stamp_s
        if not all(since_s + age <= limits.reading_timeout_s for age in (0.0, *reading.age_s.tolist())):
            found.append(READING_TIMEOUT)
        if reading.device_faults:
            found.append(DEVICE_FAULT)
        if not _finite(reading):
            found.append(READING_NOT_FINITE)
            return found
        q, tensions = reading.displacement_m.tolist(), reading.tension_n.tolist()
        observed = (self._observed @ reading.displacement_m).tolist()
        if known and max(map(abs, q)) > limits.maximum_displacement_m:
            found.append(DISPLACEMENT_OUT_OF_RANGE)
        elif known and self._inconsistent(observed):
            found.append(INCONSISTENT_DISPLACEMENT)
        margin = settings.tension_margin_n
        if max(tensions) > limits.maximum_n + margin or min(tensions) < -margin:
            found.append(TENSION_OUT_OF_RANGE)
        before = None if self._previous is None else self._previous.displacement_m.tolist()
        if before is not None and self._jumped(reading, q, before):
            found.append(DISPLACEMENT_JUMP)
        if self._frozen(reading.stamp_s, q, before, observed[len(q) :], command=command, moving=moving and known):
            found.append(FROZEN_READING)
        self._previous = reading
        return found

    def _inconsistent(self, missed: list[float]) -> bool:
        """Whether the root mean square over a segment's tendons of what misses the manifold exceeds the limit."""
        square_m2 = self._limits.inconsistency_m**2
        return any(
            sum(value * value for value in missed[rows]) > square_m2 * (rows.stop - rows.start)
            for rows in self._manifold.tendon_slices
        )

    def _jumped(self, reading: TendonReading, q: list[float], before: list[float]) -> bool:
        previous = self._previous
        if previous is None or reading.stamp_s <= previous.stamp_s:
            return False
        # Values that the device repeated, with their age, may make up for it in one reading.
        jump_m, speed = self._settings.jump_m, self._settings.maximum_speed_m_per_s
        elapsed_s = reading.stamp_s - previous.stamp_s
        return any(
            abs(new - old) > jump_m + speed * (elapsed_s + age)
            for new, old, age in zip(q, before, previous.age_s.tolist(), strict=True)
        )

    def _frozen(
        self,
        stamp_s: float,
        q: list[float],
        before: list[float] | None,
        predicted: list[float],
        *,
        command: Vector,
        moving: bool,
    ) -> bool:
        """Whether a tendon repeats its value while the others, or the commanded forces, say that it must move.

        Without tension a tendon may rest where its motor's cogging holds it: then nothing is found. A tendon that was
        found frozen stays so until its value changes.
        """
        if before is None or self._changed_s is None:
            self._changed_s = [stamp_s] * len(q)
            self._at_change = predicted
            self._command_at_change = command
            self._stands = [False] * len(q)
            return False
        settings, stood = self._settings, 0
        if not moving or q != before:
            self._command_at_change = command
        for j, value in enumerate(q):
            moved = value != before[j]
            if moved:
                self._stands[j] = False
            if moved or not moving:
                self._changed_s[j] = stamp_s
                self._at_change[j] = predicted[j]
            if stamp_s - self._changed_s[j] >= settings.frozen_time_s:
                stood += 1
                if abs(predicted[j] - self._at_change[j]) > settings.frozen_motion_m:
                    self._stands[j] = True
        if stood == len(q):
            force = self._manifold.generalized_force(command - self._command_at_change)
            if np.abs(force).max() > settings.frozen_force_n:
                self._stands = [True] * len(q)
        return any(self._stands)


def _finite(reading: TendonReading) -> bool:
    """Whether displacements are finite, and so are tensions and currents unless the device measures none of them."""
    # A sum is finite only if all its terms are; it is the cheapest test.
    if not math.isfinite(reading.stamp_s + sum(reading.displacement_m.tolist())):
        return False
    for values in (reading.velocity_m_per_s, reading.tension_n, reading.current_a):
        if math.isfinite(sum(values.tolist())):
            continue
        finite = np.isfinite(values)
        if not finite.all() and not np.isnan(values).all():
            return False
    return True


def _leave_one_out(displacement_matrix: Vector) -> Vector:
    """Matrix L with a zero diagonal: L q predicts each tendon's displacement from all others, least squares."""
    count = displacement_matrix.shape[0]
    predictor = np.zeros((count, count))
    for j in range(count):
        others = np.delete(np.arange(count), j)
        predictor[j, others] = displacement_matrix[j] @ np.linalg.pinv(displacement_matrix[others])
    return predictor
