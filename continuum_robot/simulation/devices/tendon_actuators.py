# SPDX-License-Identifier: Apache-2.0
"""Simulated tendon actuators: what drivers/protocols.py asks for, with a plant behind it, or another moving body."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.protocols import Aborted, TendonReading, interrupted, never
from continuum_robot.drivers.simulated_link.codec import device_fault
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.differentiation import FilteredDerivative
from continuum_robot.geometry.finite import all_finite
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.simulation import faults
from continuum_robot.simulation.bodies.mechanisms import SimulatedBody, mechanism_body
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.channel import Channel, FaultyReadings, gaussian, quantised
from continuum_robot.simulation.devices.plant_link import PlantLinkWriter, StringSample, StringSource
from continuum_robot.simulation.moving_rod import MovingRod
from continuum_robot.simulation.plant import Plant

Vector = NDArray[np.float64]

RECEIVE_TIMEOUT_S = 0.1
LONGEST_CATCH_UP_S = 0.05
VELOCITY_FILTER_S = 0.001
KEPT_SAMPLES = 1024
"""Of cycles that have the device for themselves; ``faults.LONGEST_DELAY_S`` at 1 kHz."""


class SimulatedTendonActuators:
    """All tendon actuators of a robot, simulated, and the robot itself.

    Time passes when :meth:`read` is called: the robot moves up to ``now_s`` under the commands that arrived meanwhile.
    After a stall of the caller of more than 50 ms the robot moves for 50 ms under its last command and the rest is
    skipped and counted. The motor board has a receive timeout of its own: without a new command for that long, or
    before the first, it gives no current, and a servo holds where it is; an old command is never taken up again.

    Readings are those of the motors' encoders, quantised and differentiated by the board; the tension is the measured
    current times the motor's constant, which friction and cogging make differ from the true one. The temperature is not
    simulated and therefore NaN, except where a fault gives one. Where ``actuators.brake_holds_n`` states brakes, they
    close at once with the torque, and hold any load.
    """

    simulated = True

    def __init__(
        self,
        robot: Robot,
        plant: Plant | None = None,
        rng: np.random.Generator | None = None,
        *,
        link: PlantLinkWriter | None = None,
        receive_timeout_s: float = RECEIVE_TIMEOUT_S,
        contacts: Sequence[Contact] = (),
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if robot.actuators is None:
            raise ParameterError("robot.actuators", None, f"actuators in the file of robot {robot.name!r}")
        self._mechanism: SimulatedBody | None = mechanism_body(robot)
        if plant is not None and (self._mechanism is not None or plant.motor is None):
            raise ParameterError("plant", plant, 'a plant with actuation="motors", and none of a mechanism')
        if contacts and (self._mechanism is not None or plant is not None):
            raise ParameterError("contacts", contacts, "none but of a rod without a plant of its own")
        self.set_receive_timeout(receive_timeout_s)
        self.robot = robot
        self.tendon_count, self.takes_displacements = robot.tendon_count, robot.takes_displacements
        self.skipped_s, self.stalls, self.timeouts = 0.0, 0, 0
        self._actuators: Actuators = robot.actuators
        self._rng = np.random.default_rng(robot.simulation.seed) if rng is None else rng
        self._plant = plant
        self._contacts = tuple(contacts)
        self._link = link
        self._progress = progress
        self._has_brakes = self._mechanism is None and self._actuators.brake_holds_n is not None
        known = tuple(
            name
            for name, kind in faults.FAULTS.items()
            if (self._mechanism is None or not kind.mechanical) and (self._has_brakes or name not in faults.BRAKES)
        )
        self._faults = faults.FaultBoard(self.tendon_count, "tendon", known)
        self._tripped, self._is_tripped = np.zeros(self.tendon_count, dtype=bool), False
        self._unknown, self._without_noise = np.full(self.tendon_count, np.nan), np.zeros(self.tendon_count)
        self._coupling = coupling_of(robot)
        keys = "newton_per_ampere", "maximum_current_a", "spool_radius_m", "gear_ratio", "encoder_counts_per_turn"
        self._newton_per_ampere, self._largest_a, radius_m, ratio, counts = (
            self._actuators.each(key, self.tendon_count) for key in keys
        )
        self._resolution_m = 2 * np.pi * radius_m / ratio / counts
        self._quantise = quantised(self._resolution_m)
        self._noise = gaussian(robot.simulation.current_noise_a, self._rng)
        self._derivative = FilteredDerivative(VELOCITY_FILTER_S)
        self._jitter_s = robot.simulation.reading_jitter_s
        self._channel = Channel(delay_s=robot.simulation.reading_delay_s, memory_s=faults.LONGEST_DELAY_S)
        self._is_open = self._is_enabled = False
        self._now_s: float | None = None
        self._readings = FaultyReadings(self._faults, self._channel, self._rng)
        self._is_altered = False
        self._sampled_s, self._served_s = math.nan, -math.inf
        self._nothing = np.full(self.tendon_count, np.nan if self.takes_displacements else 0.0)
        if self._coupling is not None and not self.takes_displacements:
            self._nothing = self._coupling.loads(np.zeros(robot.motor_count))
        self._step: _CompiledStep | None = None
        self._untold = False
        self._forget_commands()

    # --- the protocol

    def open(self) -> None:
        """Start; makes the plant, which may take a few seconds the first time on a machine."""
        if self._is_open:
            return
        if self._link is not None:
            self._link.open()
        try:
            if self._mechanism is None and self._plant is None:
                self._plant = Plant(self.robot, rng=self._rng, progress=self._progress, contacts=self._contacts)
        except BaseException:
            if self._link is not None:
                self._link.close()
            raise
        self._now_s = None
        self._readings.forget()
        self._derivative.reset()
        self._sampled_s, self._served_s = math.nan, -math.inf
        self._forget_commands()
        self._is_open = True

    def enable(self, aborted: Aborted = never) -> None:
        """Switch torque on; a tension that was written before takes effect now, and servos hold where they are."""
        self._require_open()
        if aborted():
            raise interrupted("simulated tendon actuators")
        if self.takes_displacements and not self._is_enabled:
            self._forget_commands()
        self._is_enabled = True

    def read(self, now_s: float) -> TendonReading:
        """Let the robot move up to ``now_s`` (s, monotonic or virtual) and read the sensors."""
        self._require_open()
        if self._now_s is None:
            self._now_s = now_s
        self._move(now_s)
        self._sample()
        return self._reading(now_s)

    def write(self, command: Vector, now_s: float) -> None:
        """Send a tension (N) or displacement (m) to every tendon; it arrives after the robot file's command delay."""
        self._require_open()
        given = np.array(command, dtype=float)
        if given.shape != (self.tendon_count,) or not all_finite(given):
            raise ParameterError("command", command, f"{self.tendon_count} finite values")
        settings = self.robot.simulation
        arrives_s = now_s + settings.command_delay_s
        if settings.command_jitter_s:
            arrives_s += self._rng.uniform(0.0, settings.command_jitter_s)
            if self._queue:
                arrives_s = max(arrives_s, self._queue[-1][0])  # a wire keeps the order
        self._queue.append((arrives_s, given))

    def disable(self) -> None:
        """Switch torque off and forget all commands."""
        self._is_enabled = False
        self._forget_commands()

    def close(self) -> None:
        """End; the simulated robot stays as it is for a later :meth:`open`."""
        self.disable()
        self._is_open = False
        if self._link is not None:
            self._link.close()

    def clear_faults(self) -> None:
        """Clear faults that the motor boards latch; those that are still injected come back."""
        self._tripped[:] = self._is_tripped = False

    def set_receive_timeout(self, receive_timeout_s: float) -> None:
        """Set the motor board's receive timeout."""
        if not 0 < receive_timeout_s < math.inf:
            raise ParameterError("receive_timeout_s", receive_timeout_s, "a positive time in s")
        self._receive_timeout_s = receive_timeout_s

    def step_with(self, parts: Any) -> None:
        """Let a form of the cycle move the motors while nothing is out of the ordinary; open, before it is read."""
        plant, make = self._plant, getattr(parts, "BoardStep", None)
        body = None if plant is None else plant.ordinary_body
        self._step = None
        if make is None or plant is None or body is None or not self._resolution_m.all() or self._coupling is not None:
            return
        self._step = _CompiledStep(make, plant, body.moving, body.share, self._resolution_m, self._newton_per_ampere)

    # --- in the cycle itself

    def lend(self, samples: int) -> Any:
        """The device that moves and samples the motors in a compiled cycle, for so many samples at most, until
        :meth:`take_back`; None where something is out of the ordinary, and the cycle has to be read and written for.
        """
        step, now_s = self._step, self._now_s
        ordinary = self._faults.empty and not (self._is_tripped or self._is_altered or self._has_brakes)
        if step is None or now_s is None or not (ordinary and self._is_enabled and self._now_s == self._sampled_s):
            return None
        if not self._is_on_time or self.plant.is_pushed:
            return None
        self._receive(now_s)
        if self._queue:
            return None
        noise_a = self.robot.simulation.current_noise_a
        return step.lend(self._derivative, self._command, now_s, self._rng, noise_a, samples)

    def take_back(self) -> ContinuumRobotError | None:
        """Go on where the cycle has come to; the error of a step that had no solution."""
        step = self._step
        if step is None:
            raise DeviceError("simulated tendon actuators", "lent nothing", "Call lend first.")
        samples, found, command, error = step.take_back(self._rng)
        if samples:
            self._now_s = self._sampled_s = now_s = step.now_s
            self._channel.push(found, now_s)
            self._untold = True
            self._reading(now_s)
        if math.isfinite(step.written_s):
            self._command, self._command_s = command, step.written_s
        return error

    @cached_property
    def _is_on_time(self) -> bool:
        """Whether readings and commands come at once, and nobody else looks at the robot meanwhile."""
        given = self.robot.simulation
        late_s = given.reading_delay_s, given.reading_jitter_s, given.command_delay_s, given.command_jitter_s
        return not any(late_s) and self._link is None

    def _tell_samples(self) -> None:
        """Readings that come late may be those of a cycle that had the device for itself."""
        if self._untold and self._step is not None:
            self._channel.clear()
            for stamp_s, sample in self._step.kept():
                self._channel.push(sample, stamp_s)
        self._untold = False

    # --- faults, and what tests look at

    def inject(
        self,
        fault: str,
        tendon: int = -1,
        magnitude: float = 0.0,
        duration_s: float = 0.0,
        *,
        start_s: float | None = None,
    ) -> None:
        """Inject or schedule a fault of simulation/faults.py, which defines the meaning of the magnitude."""
        self._tell_samples()
        self._faults.inject(fault, tendon, magnitude, duration_s, now_s=self._now_s, start_s=start_s)

    @property
    def plant(self) -> Plant:
        """The plant of a rod."""
        if self._plant is None:
            raise DeviceError("simulated tendon actuators", "there is no plant", "Open them; a mechanism has none.")
        return self._plant

    @property
    def string_source(self) -> StringSource:
        """The robot's strings for encoders in the same process."""
        return _OwnStrings(self)

    @property
    def now_s(self) -> float | None:
        """Time up to which the robot moved, s; None before the first reading."""
        return self._now_s

    def true_strings(self) -> StringSample | None:
        """True extensions of the strings now; None before the first reading."""
        if not self._is_open or self._now_s is None:
            return None
        return StringSample(self._now_s, self._body().string_extension)

    # --- time

    def _body(self) -> SimulatedBody:
        return self._plant or self._mechanism or self.plant

    def _require_open(self) -> None:
        if not self._is_open:
            raise DeviceError("simulated tendon actuators", "are not open", "Open them first.")

    def _forget_commands(self) -> None:
        self._queue: deque[tuple[float, Vector]] = deque()
        self._command = self._let_go()
        self._command_s = -math.inf

    def _let_go(self) -> Vector:
        """What the board commands by itself, with torque: no tension, or the displacement where the servo is."""
        if not self.takes_displacements or (self._mechanism is None and self._plant is None):
            return self._nothing
        return self._quantise(self._body().displacement)

    def _move(self, now_s: float) -> None:
        """Advance to ``now_s``, in pieces between which the board's command is constant."""
        time_s = self._now_s
        if time_s is None or now_s < time_s:
            return
        end_s = min(now_s, time_s + LONGEST_CATCH_UP_S)
        while time_s < end_s:
            self._receive(time_s)
            piece_end_s = end_s
            if self._queue:
                piece_end_s = min(piece_end_s, self._queue[0][0])
            expires_s = self._command_s + self._receive_timeout_s
            if time_s < expires_s < piece_end_s:
                piece_end_s = expires_s
            self._advance(time_s, piece_end_s - time_s)
            time_s = piece_end_s
        if now_s > end_s:
            self.skipped_s += now_s - end_s
            self.stalls += 1
            self._faults.forget_ended(now_s)
        self._now_s = now_s
        self._receive(now_s)
        if self._link is not None:
            self._link.offer(now_s, self._body())

    def _receive(self, time_s: float) -> None:
        while self._queue and self._queue[0][0] <= time_s:
            self._command_s, self._command = self._queue.popleft()
        if self._command_s > -math.inf and time_s - self._command_s >= self._receive_timeout_s * (1 - 1e-12):
            self._command, self._command_s = self._let_go(), -math.inf
            self.timeouts += self._is_enabled

    def _advance(self, time_s: float, duration_s: float) -> None:
        body = self._body()
        command = self._command if self._is_enabled else self._nothing
        if not self._faults.empty or self._is_tripped or self._is_altered or self._has_brakes:
            command = self._with_faults(body, command, time_s)
        if self._step is not None and not self.plant.is_pushed:
            self._step.advance(command, duration_s)
        else:
            body.advance(command, duration_s)

    def _with_faults(self, body: SimulatedBody, command: Vector, time_s: float) -> Vector:
        """Set the plant's faults at a time, and return what is left of the command."""
        board = self._faults
        self._is_altered = not board.empty  # once more after the last fault, to restore the plant
        self._tripped |= board.mask(faults.DEVICE_FAULT, time_s)
        self._is_tripped = bool(self._tripped.any())
        limit = board.magnitude(faults.SATURATE_CURRENT, time_s)
        body.current_limit_a = np.where(np.isnan(limit), self._largest_a, np.minimum(limit, self._largest_a))
        if self._mechanism is None:
            plant = self.plant
            slack = board.magnitude(faults.SLACK_TENDON, time_s)
            plant.tendon_offset_m = np.where(np.isnan(slack), 0.0, slack)
            plant.stiffness_fraction = np.where(board.mask(faults.SNAPPED_TENDON, time_s), 0.0, 1.0)
            plant.motor_free = np.where(board.mask(faults.STUCK_MOTOR, time_s) | self._braked(time_s), 0.0, 1.0)
        off = self._tripped
        if self._coupling is not None:  # with all tendons of its motors
            moves = self._coupling.moves
            off = (moves[:, moves[off].any(axis=0)]).any(axis=1)
        return np.where(off, self._nothing, command)

    def _braked(self, time_s: float) -> NDArray[np.bool_]:
        """Motors that a brake keeps: where the torque is off, whatever the load."""
        if not self._has_brakes:
            return np.zeros(self.tendon_count, dtype=bool)
        shut = self._faults.mask(faults.BRAKE_SHUT, time_s) | self._tripped | (not self._is_enabled)
        return shut & ~self._faults.mask(faults.BRAKE_OPEN, time_s)

    # --- readings

    def _sample(self) -> None:
        now_s = self._now_s
        if now_s is None or now_s == self._sampled_s:
            return
        if self._step is not None and math.isfinite(self._sampled_s):
            noise_a = self._noise(self._without_noise)
            found = self._step.sample(self._derivative, now_s - self._sampled_s, noise_a)
            self._sampled_s = now_s
            self._channel.push(found, now_s)
            return
        body = self._body()
        position = self._quantise(body.displacement)
        step_s = now_s - self._sampled_s if math.isfinite(self._sampled_s) else 0.0
        velocity = self._derivative.update(position, max(0.0, step_s))
        current = self._noise(body.current)
        self._sampled_s = now_s
        if math.isnan(velocity.dot(velocity)):
            # At rest until there are two samples: the board starts with its motors standing still.
            velocity = np.where(np.isnan(velocity), 0.0, velocity)
        sample = np.empty((4, self.tendon_count))
        sample[0], sample[1], sample[3] = position, velocity, current
        np.multiply(current, self._newton_per_ampere, out=sample[2])
        if self._coupling is not None:
            force = self._coupling.each_motors(sample[2]) / self._coupling.radius_at(position)
            sample[2] = self._coupling.loads(force)
        self._channel.push(sample, now_s)

    def _reading(self, now_s: float) -> TendonReading:
        jitter_s, late_s = self._jitter_s, 0.0
        if jitter_s:  # a bus keeps the order
            late_s = max(0.0, min(self._rng.uniform(0.0, jitter_s), now_s - self._served_s))
        sample = self._channel.read(now_s, late_s)
        self._served_s = now_s - late_s
        if sample is None:
            stamp_s, (values, age) = now_s, self._readings.unknown(now_s, (4, self.tendon_count))
        else:
            stamp_s, (values, age) = sample.stamp_s, self._readings.served(sample, now_s)
        reported: tuple[str, ...] = ()
        if self._is_tripped:
            reported = tuple(device_fault(int(index)) for index in np.flatnonzero(self._tripped))
        position, velocity, tension, current = values
        temperature = self._unknown if self._faults.empty else self._faults.magnitude(faults.HOT_MOTOR, now_s)
        return TendonReading(stamp_s, position, velocity, tension, current, temperature, age, reported)


class _CompiledStep:
    """Motors and rod of a plant that a compiled :class:`.BoardStep` moves and samples, on their own arrays."""

    def __init__(
        self, make: Any, plant: Plant, moving: MovingRod, share: Vector, resolution_m: Vector, newton_per_ampere: Vector
    ) -> None:
        count = plant.tendon_count
        self._plant, self._moving = plant, moving
        self._bound: tuple[Vector | None, ...] = (None,) * 4
        self._command, self._asked, self._allowed, self._noise_a, self._previous_m, self._rate = np.zeros((6, count))
        self._found = np.zeros((4, count))
        names = ("desired", "offset_m", "stiffness_fraction", "motor_free", "largest_current_a", "spooled_m")
        arrays = {name: getattr(moving, name) for name in (*names, "current_a")}
        arrays |= {"forces": moving.force, "given_force": moving.given_force, "share": np.array(share)}
        arrays |= {"command": self._command, "asked": self._asked, "allowed": self._allowed, "noise_a": self._noise_a}
        arrays |= plant.wiring.arrays
        arrays |= {"previous_m": self._previous_m, "rate": self._rate, "found": self._found.reshape(-1)}
        arrays |= {"resolution_m": np.array(resolution_m), "newton_per_ampere": np.array(newton_per_ampere)}
        self._step = make(arrays, moving.addresses, VELOCITY_FILTER_S, wired=not plant.wiring.right)
        self._kept: Vector | None = None

    def lend(
        self, derivative: FilteredDerivative, command: Vector, now_s: float, rng: np.random.Generator, noise_a: float,
        samples: int,
    ) -> Any:  # fmt: skip
        """As :meth:`SimulatedTendonActuators.lend`; noise is drawn for all samples."""
        if self._kept is None:
            self._kept = np.full((KEPT_SAMPLES, 1 + self._found.size), np.nan)
        self._prepare(command)
        derivative.share(self._previous_m, self._rate)
        self._noise_a[:] = 0.0
        self._before, self._drawn = rng.bit_generator.state, (samples, len(command))
        self._draws_a = noise_a * rng.standard_normal(self._drawn) if noise_a else np.zeros((0, len(command)))
        plant = self._plant
        self._step.lend(now_s, plant.time_s, plant.substep_s, self._draws_a, self._kept)
        return self._step

    def take_back(self, rng: np.random.Generator) -> tuple[int, Vector, Vector, ContinuumRobotError | None]:
        """Samples, the newest of them and the newest command; what was drawn in vain is drawn again."""
        step, samples = self._step, self._step.samples
        if samples < len(self._draws_a):
            rng.bit_generator.state = self._before
            rng.standard_normal((samples, self._drawn[1]))
        self._plant.moved(step.plant_s)
        error = None if step.solved else self._plant.diverged()
        return samples, self._found, self._command.copy(), error

    def kept(self) -> Iterator[tuple[float, Vector]]:
        """Times (s) and samples, (4, N), of the newest cycles to which it was lent."""
        if self._kept is None:
            return
        count, size = self._step.kept_count, len(self._kept)
        for number in range(max(0, count - size), count):
            row = self._kept[number % size]
            yield float(row[0]), row[1:].reshape(self._found.shape)

    @property
    def now_s(self) -> float:
        """Time of the newest sample, s."""
        return float(self._step.now_s)

    @property
    def written_s(self) -> float:
        """Time of the newest command since it was lent, s; NaN: none."""
        return float(self._step.written_s)

    def advance(self, command: Vector, duration_s: float) -> None:
        """As :meth:`.Plant.advance`."""
        self._prepare(command)
        self._plant.step(self._step, duration_s)

    def _prepare(self, command: Vector) -> None:
        plant = self._plant
        given = plant.tendon_offset_m, plant.stiffness_fraction, plant.motor_free, plant.current_limit_a
        before = self._bound
        if not (given[0] is before[0] and given[1] is before[1] and given[2] is before[2] and given[3] is before[3]):
            self._step.bind(*given)
            self._bound = given
        self._command[:] = command
        plant.take(self._asked, self._allowed)

    def sample(self, derivative: FilteredDerivative, step_s: float, noise_a: Vector) -> Vector:
        """Position, rate, tension and current, (4, N), which the next sample overwrites."""
        derivative.share(self._previous_m, self._rate)
        self._noise_a[:] = noise_a
        self._step.sample(step_s)
        return self._found


class _OwnStrings:
    """String source within the process of the actuators."""

    def __init__(self, actuators: SimulatedTendonActuators) -> None:
        self._actuators = actuators

    def open(self) -> None:
        """Nothing to begin."""

    def read(self) -> StringSample | None:
        """True strings at the actuators' time."""
        return self._actuators.true_strings()

    def close(self) -> None:
        """Nothing to end."""
