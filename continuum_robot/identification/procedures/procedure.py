# SPDX-License-Identifier: Apache-2.0
"""What all procedures share: slack is taken up, then they move the robot, cycle by cycle, until they have a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import TendonReading, TrackedPose
from continuum_robot.drivers.safety.displacement_rules import DisplacementRules
from continuum_robot.drivers.safety.tendon_safety import ACTIVE, TendonSafety
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.actuation import Actuators, TensionLimits
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]
Found = TypeVar("Found")
_STALL_PERIODS = 4.0


@dataclass(frozen=True, slots=True)
class Step:
    """What a procedure wants in this cycle."""

    command: Vector
    phase: str
    progress: float
    done: bool = False


class ProcedureError(ContinuumRobotError):
    """A procedure found something that keeps it from going on: ``problem``, ``remedy`` (what to do)."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}. {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeUpSettings:
    """How slack is taken up: a tendon is pulled with a force that falls to zero at a low speed."""

    speed_m_per_s: float = quantity("speed at which nothing pulls any more", "m/s", default=0.02, gt=0, le=1)
    longest_slack_m: float = quantity(
        "slack beyond which a tendon counts as not attached", "m", default=0.05, gt=0, le=2
    )
    rest_m_per_s: float = quantity("speed below which a tendon rests", "m/s", default=0.002, gt=0, le=1)
    rest_time_s: float = quantity("how long all must rest to be tight", "s", default=0.3, gt=0, le=10)
    timeout_s: float = quantity("longest time for it", "s", default=20.0, gt=0, le=600)


class TakeUp:
    """Pulls tendons gently until all of them rest under a tension."""

    def __init__(self, tension: Vector, names: tuple[str, ...], settings: TakeUpSettings | None = None) -> None:
        self.settings = settings or TakeUpSettings()
        self._level, self._names = tension, names
        self._start: Vector | None = None
        self._rested_s = self._elapsed_s = 0.0
        self.slack_m = np.zeros(tension.size)

    def update(self, reading: TendonReading, dt: float) -> tuple[Vector, bool]:
        """The tensions of this cycle, and whether all tendons are tight."""
        settings, q = self.settings, reading.displacement_m
        if self._start is None:
            self._start = q.copy()
        self.slack_m = q - self._start
        ran = np.flatnonzero(np.abs(self.slack_m) > settings.longest_slack_m)
        if ran.size:
            raise ProcedureError(
                f"{_listed(self._names, ran)} ran {1e3 * np.abs(self.slack_m[ran]).max():.0f} mm without resistance",
                "It is not attached, or its polarity in the robot file is wrong: fasten it, or change the sign.",
            )
        self._elapsed_s += dt
        resting = bool((np.abs(reading.velocity_m_per_s) < settings.rest_m_per_s).all())
        self._rested_s = self._rested_s + dt if resting else 0.0
        if self._elapsed_s > settings.timeout_s:
            moving = np.flatnonzero(np.abs(reading.velocity_m_per_s) >= settings.rest_m_per_s)
            raise ProcedureError(
                f"{_listed(self._names, moving) or 'the robot'} did not come to rest within {settings.timeout_s:g} s",
                "Look for a tendon that slips on its spool, and for a motor that oscillates.",
            )
        return self.gentle(reading.velocity_m_per_s), self._rested_s >= settings.rest_time_s

    def gentle(self, velocity: Vector) -> Vector:
        """The tension at which a tendon comes in slowly: falls from the level at rest to 0 at the speed, (N,), N."""
        return np.clip(self._level * (1.0 - velocity / self.settings.speed_m_per_s), 0.0, self._level)


class Procedure(ABC, Generic[Found]):
    """Tendons are tightened, then moved until there is a result. Pure: no clock, no thread.

    Driven by the driver's cycle, which checks, limits and sends the tensions.
    """

    tightening = "taking up slack"
    needs_currents = True

    def __init__(self, robot: Robot, rest_n: Vector) -> None:
        self.rest_n = rest_n
        self._take_up = TakeUp(rest_n, robot.tendon_names)
        self._tight = self._started = self._stopped = self.ended = False
        self._result: Found | None = None
        self.straight_m: Vector | None = None
        self._string_names = tuple(string.name for string in robot.strings)
        self._strings: list[Vector] = []

    @property
    def measuring(self) -> bool:
        """Whether what is read of the strings now belongs to the result."""
        return False

    @property
    def result(self) -> Found | None:
        """What was found, None before the end. Evaluated when first asked for, which takes longer than a cycle may."""
        if self.ended and self._result is None:
            self._result = self.found()
        return self._result

    @abstractmethod
    def found(self) -> Found:
        """Evaluate what was measured; errors as of :attr:`result`."""

    def update(self, reading: TendonReading, dt: float) -> Step:
        """The next step."""
        if self._stopped or self.ended:
            return Step(self.rest_n.copy(), "stopped" if self._stopped else "done", 1.0, done=True)
        if not self._tight:
            tension, self._tight = self.tighten(reading, dt)
            return Step(tension, self.tightening, 0.05)
        if not self._started:
            self._started = True
            self.start(reading)
        return self.move(reading, dt)

    def tighten(self, reading: TendonReading, dt: float) -> tuple[Vector, bool]:
        """Tensions (N,), N, and whether all tendons are tight; parameters and errors as :meth:`update`."""
        return self._take_up.update(reading, dt)

    def start(self, reading: TendonReading) -> None:
        """Take note of where the tendons are when they are tight."""

    @abstractmethod
    def move(self, reading: TendonReading, dt: float) -> Step:
        """The next step with tight tendons; sets :attr:`ended` at its end; parameters and errors as :meth:`update`."""

    def take_strings(self, extension_m: Vector) -> None:
        """Strings as read now; ignored where nothing is measured of them."""
        if self.measuring and extension_m.shape == (len(self._string_names),):
            self._strings.append(np.array(extension_m, dtype=float))

    def take_pose(self, pose: TrackedPose) -> None:
        """A pose of the tip as a tracker reports it now; ignored where nothing is measured of it."""

    def stop(self) -> None:
        """End early and in good order: the next steps lead to one that is done, without a result."""
        self._stopped = True


class HeldProcedure(Procedure[Found]):
    """A procedure whose steps are displacements: servos are where they are when it begins."""

    needs_currents = False

    def __init__(self, robot: Robot) -> None:
        if not robot.takes_displacements or robot.actuators is None or robot.limits is None:
            raise ParameterError("robot", robot.name, "a robot file with actuators that take displacements, and limits")
        super().__init__(robot, np.zeros(robot.tendon_count))
        self._tendon_names = robot.tendon_names
        actuators, limits, count = robot.actuators, robot.limits, robot.tendon_count
        w = actuators.each("bandwidth_rad_per_s", count)
        self.k_n_per_m = actuators.each("reflected_mass_kg", count) * w**2
        self.drive_n_per_m: Vector = 1 / (1 / robot.tendon_stiffnesses_n_per_m + 1 / self.k_n_per_m)
        self.goal_m: Vector = np.zeros(0)
        self._longest_s = _STALL_PERIODS / actuators.cycle_hz
        self._late_s = 2 / float(w.min())
        self._start_m, self.reach_m = self.goal_m, limits.each("maximum_displacement_m", count)

    def update(self, reading: TendonReading, dt: float) -> Step:
        """As of :class:`Procedure`; slack is not taken up first."""
        if not self.goal_m.size:
            self.goal_m = reading.displacement_m.copy()
            self._start_m = self.goal_m.copy()
            self.start(reading)
        if self._stopped or self.ended:
            return Step(self.goal_m.copy(), "stopped" if self._stopped else "done", 1.0, done=True)
        # A stall of the computer gives no credit: the goals would jump, and the servos with them.
        step = self.move(reading, min(dt, self._longest_s))
        beyond = np.flatnonzero(np.abs(self.goal_m - self._start_m) > self.reach_m * (1 + 1e-9))
        if beyond.size:
            raise ProcedureError(
                f"{_listed(self._tendon_names, beyond)} would go further than limits.maximum_displacement_m"
                f" = {self.reach_m[beyond[0]]:g} m from where it began",
                "Begin nearer to the straight pose, or raise the limit where the spools bear it.",
            )
        return step

    def load_n(self, reading: TendonReading) -> Vector:
        """Loads of all tendons, and of their motors' friction: as measured, else by how far the servos are behind."""
        if np.isfinite(reading.tension_n).all():
            return reading.tension_n
        # Critically damped, a servo in motion is 2 v / w behind without any load.
        behind_m = self.goal_m - reading.displacement_m - self._late_s * reading.velocity_m_per_s
        return np.asarray(self.k_n_per_m * behind_m)

    def bearable_load_n(self, reading: TendonReading, most_n: Vector) -> Vector:
        """The same of loads that may be borne."""
        load_n = self.load_n(reading)
        high = np.flatnonzero(np.abs(load_n) > most_n)
        if high.size:
            raise ProcedureError(
                f"{self._tendon_names[high[0]]} bears {load_n[high[0]]:.3g} N, more than {most_n[high[0]]:.3g} N",
                "Look for what blocks it, and for a tendon on the wrong side of its spool.",
            )
        return load_n

    def towards(self, target_m: Vector, speed_m_per_s: float, dt: float) -> bool:
        """Let the goals go on to targets, and whether all are there."""
        step_m = speed_m_per_s * dt
        self.goal_m = self.goal_m + np.clip(target_m - self.goal_m, -step_m, step_m)
        return bool((self.goal_m == target_m).all())


def pretension_n(robot: Robot) -> float:
    """Tension of each tendon at the straight pose, where nobody asks for another, N."""
    if robot.takes_displacements and robot.limits is not None:
        least_n = robot.limits.largest("least_n", robot.tendon_count)
        return max(least_n, 1.0 if robot.control is None else robot.control.pretension_n)
    _, limits = driven_parts(robot)
    usual_n = 4 * limits.safe_n if robot.control is None else robot.control.pretension_n
    return max(usual_n, limits.largest("minimum_n", robot.tendon_count))


def driven_parts(robot: Robot) -> tuple[Actuators, TensionLimits]:
    """Actuators and limits of a robot that has both, for what commands tensions."""
    if robot.actuators is None or robot.limits is None:
        raise ParameterError("robot", robot.name, "a robot file with actuators and limits")
    if not isinstance(robot.limits, TensionLimits):
        expected = "tension: this commands tensions, which servos that hold displacements do not take"
        raise ParameterError("actuators.command", robot.actuators.command, expected)
    if robot.shares_motors:
        expected = "a motor for each tendon: this pulls tendons that share one each by its own tension"
        raise ParameterError("transmission.matrix", f"{robot.motor_count} motors", expected)
    return robot.actuators, robot.limits


def _listed(names: tuple[str, ...], indices: NDArray[np.intp]) -> str:
    return ", ".join(names[index] for index in indices)


CANCELLED = "cancelled"


class ProcedureRun:
    """Runs a procedure in the driver's cycle, which reads the devices, asks :meth:`desired`, lets the safety logic
    limit it, and writes; after :attr:`finished` it switches the torque off and calls
    :meth:`restore`. Whatever ends the run, the tendons are released first: tensions ramp to ``limits.safe_n``, or
    servos pay out.
    """

    def __init__(self, procedure: Procedure[Any], safety: TendonSafety) -> None:
        self.procedure, self._safety = procedure, safety
        self.step: Step | None = None
        self.succeeded, self.problem = False, ""
        self._cancelled = False
        self._known_before = safety.positions_known

    def begin(self, reading: TendonReading, now_s: float) -> None:
        """Take the tendons over, without a jump. Raises :class:`DeviceError` where the driver cannot be activated."""
        self._safety.positions_known = False
        self._safety.run_procedure(on=True)
        try:
            self._safety.activate(reading, now_s)
        except ContinuumRobotError:
            self.restore()
            raise

    def desired(self, reading: TendonReading | None, dt: float) -> Vector | None:
        """The command that the procedure wants in this cycle, shape (N,), N or m; None once it lets go; ``dt`` as in
        the procedure.
        """
        if self.succeeded or self.problem:
            return None
        safety = self._safety
        if safety.state != ACTIVE:
            devices = () if reading is None else reading.device_faults
            meanings = "; ".join([*(f"{name}: {safety.explain(name)}" for name in safety.faults), *devices])
            self.problem = f"the driver stopped it ({meanings})" if meanings else CANCELLED
            return None
        if reading is None:
            return None  # the driver's safety logic decides how long that may last
        needed = [reading.displacement_m, reading.velocity_m_per_s]
        if not np.isfinite([*needed, reading.current_a] if self.procedure.needs_currents else needed).all():
            return None
        try:
            self.step = step = self.procedure.update(reading, dt)
        except ContinuumRobotError as error:
            self.problem = str(error)
            safety.deactivate()
            return None
        if step.done:
            if self.procedure.straight_m is not None and isinstance(safety.rules, DisplacementRules):
                safety.rules.straighten(self.procedure.straight_m)
            self.succeeded, self.problem = not self._cancelled, CANCELLED if self._cancelled else ""
            safety.deactivate()
            return None
        return step.command

    def cancel(self) -> None:
        """End it early: a hung weight is put down first, tensions ramp to the safe one."""
        self._cancelled = True
        self.procedure.stop()

    def conclude(self) -> Any:
        """What the procedure found, None where it did not come to its end: see :attr:`problem`. Not in the cycle."""
        try:
            return self.procedure.result if self.succeeded else None
        except ProcedureError as error:
            self.succeeded, self.problem = False, str(error)
            return None

    @property
    def finished(self) -> bool:
        """Whether it has ended and the tendons are at their safe tension, so that the torque may go off."""
        return bool(self.succeeded or self.problem) and self._safety.released

    def restore(self) -> None:
        """Let the driver judge displacements as before."""
        self._safety.positions_known = self._known_before
        self._safety.run_procedure(on=False)
