# SPDX-License-Identifier: Apache-2.0
"""A robot under control in virtual time, down to the bytes: shipped drivers, safety logic and controller on fake wires.

The cycle is that of the driver's node: read, check, write; the controller answers the reading, and its command arrives
in the next cycle. Whatever time passes, the truth of the plant is written down every millisecond.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.odri_can.faults import FAULTS as BOARD_FAULTS
from continuum_robot.drivers.protocols import ForceReading, StringReading, TendonReading
from continuum_robot.drivers.rokubi_serial.reader import RokubiForceSensor
from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.drivers.tendon_faults import FAULTS
from continuum_robot.drivers.tendon_safety import ACTIVE, TendonSafety
from continuum_robot.drivers.zeroed import ZeroedActuators
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.identification.procedures.homing import Homing, HomingSettings
from continuum_robot.identification.procedures.procedure import TakeUp, TakeUpSettings
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import ROKUBI_SERIAL, RokubiSerial
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware, wired

Vector = NDArray[np.float64]

PERIOD_S = 0.001
SENSOR_EVERY = 10
TAKE_UP = TakeUpSettings(rest_time_s=0.1, timeout_s=4.0)
TAKE_UP_SHARE = 0.25
"""As the driver's node: tension that takes up slack, as a share of what a tendon may carry when all carry the same."""
RESIDUAL_M = 0.001
"""As the estimator's node: residual at which it warns."""
ALIGNMENT_S = 0.3
BOOT_S = 1.1
"""In the first second after power-on boards send their status all the time, and faults would be known too soon."""
SETTLE_S = 0.6
HOMING_TIMEOUT_S = 40.0
QUICK_HOMING = HomingSettings(turns=1, settle_s=0.5)


class Command(NamedTuple):
    """What a controller sent: tensions (any shape, N), when the state it answers was published (s), its sequence.

    Attributes
    ----------
    tension : of every tendon, any shape, N
    born_s : when the state that it answers was published, s
    sequence : of that state
    """

    tension: Vector
    born_s: float
    sequence: int


@dataclass
class Truth:
    """The plant, every millisecond.

    Attributes
    ----------
    time_s : virtual time, s
    tension_n : true tensions, (N,)
    motor_n : what each motor's true current pulls with, (N,), N; negative where it brakes
    clarke_m, reference_m : true and wanted Clarke coordinates, (2m,); the reference is NaN while nothing is wanted
    """

    time_s: list[float] = field(default_factory=list)
    tension_n: list[Vector] = field(default_factory=list)
    motor_n: list[Vector] = field(default_factory=list)
    clarke_m: list[Vector] = field(default_factory=list)
    reference_m: list[Vector] = field(default_factory=list)

    def since(self, begin_s: float) -> dict[str, Vector]:
        """All as arrays, a row a millisecond, from ``begin_s`` on.

        Returns
        -------
        by name of the attribute: shape (T,) or (T, entries)
        """
        first = int(np.searchsorted(self.time_s, begin_s))
        names = ("time_s", "tension_n", "motor_n", "clarke_m", "reference_m")
        return {name: np.array(getattr(self, name)[first:]) for name in names}


class PluggableHardware(SimulatedHardware):
    """Simulated hardware whose CAN adapters can be unplugged, and that calls ``on_step`` after each step.

    Parameters
    ----------
    start_rev : what the motor boards count at the start, rev
    """

    def __init__(self, robot: Robot, plant: Plant, rng: np.random.Generator, start_rev: float) -> None:
        super().__init__(
            robot, plant, rng, alignment_s=ALIGNMENT_S, start_rev=start_rev, strings=bool(robot.strings), force=True
        )
        self._unplugged: set[str] = set()
        self._hosts: dict[str, socket.socket] = {}

    def host_socket(self, channel: str) -> socket.socket:
        """As the simulated hardware's; nothing where the adapter is out."""
        if channel in self._unplugged:
            raise DeviceError(f"CAN channel {channel}", "there is no such device", "Plug the adapter in.")
        self._hosts[channel] = super().host_socket(channel)
        return self._hosts[channel]

    def unplug(self, channel: str) -> None:
        """Pull an adapter out: what the host holds is dead.

        Parameters
        ----------
        channel : its name
        """
        self._unplugged.add(channel)
        self._hosts[channel].shutdown(socket.SHUT_RDWR)

    def plug_in(self) -> None:
        """Plug all adapters in again."""
        self._unplugged.clear()


class VirtualRobot:
    """See the module. Use as a context manager.

    Parameters
    ----------
    robot : with actuators, limits and control
    plant : of :func:`make_plant`; it is reset
    seed : of noise and faults
    start_rev : what the motor boards count at the start
    sensors : read string encoders and force sensor too, and estimate the shape

    Attributes
    ----------
    now_s : virtual time, s
    truth : what really happened
    told : what a user was told, sentences in the order in which they came
    found : who found something, ``who: name``, in the order in which they did, with the time
    limited : cycles in which the limits changed a command
    reference : wanted Clarke coordinates; starts with :meth:`follow`
    alter : changes the controller's commands on their way; None: a command gets lost

    Raises
    ------
    ParameterError : a robot without limits or control
    """

    def __init__(self, robot: Robot, plant: Plant, seed: int, *, start_rev: float = 0.0, sensors: bool = False) -> None:
        if robot.limits is None or robot.actuators is None or robot.control is None:
            raise ParameterError("robot", robot.name, "a robot file with actuators, limits and control")
        self.robot, self.limits = robot, robot.limits
        plant.reset()
        self.plant = plant
        self.hardware = PluggableHardware(robot, plant, np.random.default_rng(seed), start_rev)
        self.hardware.open()
        self.now_s = 1.0
        self.actuators = ZeroedActuators(self.hardware.tendon_actuators(clock=lambda: self.now_s, sleep=self._pass))
        self.safety = TendonSafety(robot)
        self.controller = ClarkeController(robot)
        self.truth = Truth()
        self.told: list[str] = []
        self.found: dict[str, float] = {}
        self.limited = 0
        self.alter: Callable[[Command], Command | None] = lambda command: command
        self.reference: RestToRest | None = None
        self._reference_begin_s = 0.0
        self._newton_per_ampere = robot.newton_per_ampere
        self._command: Command | None = None
        self._aligned = self._powered = False
        self._sequence = 0
        self._reading: TendonReading | None = None
        self._take_up: Vector | None = None
        self._procedure: ProcedureRun | None = None
        self._strings: StringEncoderReader | None = None
        self._force: RokubiForceSensor | None = None
        self._estimator: ShapeEstimator | None = None
        if sensors:
            self._open_sensors()

    def __enter__(self) -> VirtualRobot:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _open_sensors(self) -> None:
        self.hardware.step(self.now_s)
        if self.robot.strings:
            self._strings = self.hardware.string_encoders(answer_timeout_s=0.0)
            self._strings.open()
            self._estimator = ShapeEstimator(self.robot)
        rokubi, own = self.hardware.rokubi, self.hardware.robot.hardware
        if rokubi is not None and own is not None:
            settings = own.force_sensor or RokubiSerial(kind=ROKUBI_SERIAL, port=rokubi.port)
            self._force = RokubiForceSensor(settings, port=rokubi.port, simulated=True, wait=False)
            self._force.open()

    # --- time

    def _pass(self, duration_s: float) -> None:
        """Let time pass for the robot, in which the host does nothing."""
        end_s = self.now_s + duration_s
        while self.now_s < end_s - 1e-9:
            self.now_s = round(self.now_s + min(PERIOD_S, end_s - self.now_s), 9)
            self.hardware.step(self.now_s)
            self._note_truth()

    def stall(self, duration_s: float) -> None:
        """The whole host stands still for a time (s); its devices do not."""
        self._pass(duration_s)

    def run(self, duration_s: float) -> None:
        """Cycles of the host, s."""
        for _ in range(round(duration_s / PERIOD_S)):
            self.cycle()

    def cycle(self) -> None:
        """One cycle of the host."""
        before_s = self.now_s
        self.now_s = round(self.now_s + PERIOD_S, 9)
        now_s, elapsed_s = self.now_s, self.now_s - before_s
        reading = self._read(now_s)
        command, procedure = self._command, self._procedure
        self._sequence += 1
        if procedure is not None:
            wanted = procedure.wanted(reading, elapsed_s)
            output = self.safety.update(reading, wanted, 0.0, now_s, elapsed_s, command_sequence=self._sequence)
        elif command is None:
            output = self.safety.update(reading, None, 0.0, now_s, elapsed_s)
        else:
            age_s = now_s - command.born_s
            output = self.safety.update(
                reading, command.tension, age_s, now_s, elapsed_s, command_sequence=command.sequence
            )
        self.limited += bool(output.limited.any()) and output.state == ACTIVE
        for name in output.new_faults:
            reason = f" ({self.safety.estop_reason})" if self.safety.estop_reason and name == "estop" else ""
            self._tell(f"tendon_safety: {name}", f"fault {name}{reason}: {FAULTS[name]}")
        tension = output.tension if self._powered and output.write else self._take_up
        if tension is not None:
            try:
                self.actuators.write(tension, now_s)
            except ContinuumRobotError as error:
                self._tell("odri_can: bus", str(error))
        self._control(reading)
        if self._sequence % SENSOR_EVERY == 0:
            self._sense(now_s)
        self._note_truth()

    def _read(self, now_s: float) -> TendonReading | None:
        try:
            reading = self.actuators.read(now_s)
        except ContinuumRobotError as error:
            self._tell("odri_can: bus", str(error))
            return None
        self._reading = reading
        for fault in reading.device_faults:
            name = fault.rsplit(": ", 1)[-1]
            self._tell(f"odri_can: {name}", f"{fault}: {BOARD_FAULTS.get(name, name)}")
        return reading

    def _control(self, reading: TendonReading | None) -> None:
        if reading is None or self.reference is None or self.safety.state != ACTIVE or not self._powered:
            self._aligned = False
            return
        settings = self.controller.settings
        stale = self.now_s - reading.stamp_s + float(reading.age_s.max()) > settings.state_timeout_s
        finite = math.isfinite(reading.displacement_m.sum() + reading.velocity_m_per_s.sum())
        if stale or not finite:
            self._tell("clarke_controller: silent", "the controller is silent: the state is old or not finite")
            self._aligned = False
            return
        if not self._aligned:
            self.controller.reset(reading.displacement_m, self.safety.tension, velocity=reading.velocity_m_per_s)
            self._aligned = True
        wanted = self.reference.at(self.now_s - self._reference_begin_s)
        output = self.controller.update(reading.displacement_m, reading.velocity_m_per_s, wanted, PERIOD_S)
        if np.isfinite(output.tension).all():
            command = self.alter(Command(output.tension, self.now_s, self._sequence))
            if command is not None:
                self._command = command

    def _sense(self, now_s: float) -> None:
        strings: StringReading | None = None
        if self._strings is not None:
            try:
                strings = self._strings.read(now_s)
            except DeviceError as error:
                self._tell("string_encoder_serial: lost", str(error))
            else:
                for fault in strings.device_faults:
                    self._tell(f"string_encoder_serial: {fault}", fault)
        if self._estimator is not None and self._reading is not None:
            q = self._reading
            extension = None if strings is None else strings.extension_m
            estimate = self._estimator.update(q.displacement_m, q.velocity_m_per_s, extension, PERIOD_S * SENSOR_EVERY)
            if estimate.residual_m > RESIDUAL_M:
                self._tell("shape_estimator: residual", f"residual {estimate.residual_m * 1e3:.2f} mm")
        if self._force is not None:
            try:
                force: ForceReading = self._force.read(now_s)
            except DeviceError as error:
                self._tell("rokubi_serial: lost", str(error))
            else:
                for fault in force.device_faults:
                    self._tell(f"rokubi_serial: {fault}", fault)

    def _tell(self, who: str, sentence: str) -> None:
        if who not in self.found:
            self.found[who] = self.now_s
            self.told.append(sentence)

    def forget_told(self) -> None:
        """Begin anew with what was told and found."""
        self.found.clear()
        self.told.clear()
        self.limited = 0

    def _note_truth(self) -> None:
        truth, plant = self.truth, self.plant
        if truth.time_s and truth.time_s[-1] >= self.now_s:
            return
        truth.time_s.append(self.now_s)
        truth.tension_n.append(plant.tension)
        truth.motor_n.append(plant.current * self._newton_per_ampere)
        truth.clarke_m.append(self.controller.manifold.clarke(plant.rod_displacement))
        reference, nothing = self.reference, np.full(truth.clarke_m[-1].shape, np.nan)
        wanted = nothing if reference is None else reference.at(self.now_s - self._reference_begin_s).position
        truth.reference_m.append(wanted)

    # --- bringing it up and down, as the driver's node does

    def bring_up(self) -> None:
        """Open, count from here, enable, take up slack, obey; from a straight robot. Raises :class:`DeviceError`."""
        self._pass(BOOT_S)
        self.actuators.open()
        self.run(0.05)
        if self._reading is not None:
            self.actuators.zero_m = self._reading.displacement_m.copy()
        self.activate()

    def activate(self) -> None:
        """Torque on, slack taken up, then obey commands from the measured tensions. Raises :class:`DeviceError`."""
        self.actuators.enable()
        self._take_up_slack()
        self.safety.activate(self.actuators.read(self.now_s), self.now_s)
        self._take_up = self._command = None
        self._powered = True

    def _take_up_slack(self) -> None:
        limits, count = self.limits, self.robot.tendon_count
        low_n = max(limits.safe_n, limits.minimum_n)
        level_n = max(low_n, TAKE_UP_SHARE * min(limits.maximum_n, limits.total_n / count))
        take_up, tight = TakeUp(np.full(count, level_n), self.robot.tendon_names, TAKE_UP), False
        while not tight:
            reading = self.actuators.read(self.now_s)
            self._take_up, tight = take_up.update(reading, PERIOD_S)
            self.cycle()

    def follow(self, reference: RestToRest) -> None:
        """Begin a motion, and wait for it nowhere."""
        self.reference, self._reference_begin_s = reference, self.now_s
        self._aligned = False

    def power_off(self) -> None:
        """Ramp to the safe tension, torque off."""
        self.safety.deactivate()
        for _ in range(1000):
            if self.safety.released:
                break
            self.cycle()
        self.actuators.disable()
        self.safety.torque_off()
        self._powered, self._command, self._take_up, self.reference = False, None, None, None
        self.alter = lambda command: command

    def recover(self, repair: Callable[[], None], *, home: bool) -> str:
        """What a user does: power off, mend it, reset the stack (close, clear, open), home where the zero is lost, up.

        Parameters
        ----------
        repair : ends the cause
        home : whether it needs a homing

        Returns
        -------
        why it did not work, "" where it did and the robot moves again
        """
        try:
            self.power_off()
            repair()
            self.run(SETTLE_S)
            self.actuators.close()
            self.actuators.clear_faults()
            self.safety.torque_off()
            self.actuators.open()
            blocking = self.safety.reset()
            if blocking:
                return "reset refused: " + ", ".join(blocking)
            if home:
                self._home()
            self.activate()
            here = self.controller.manifold.clarke(self.actuators.read(self.now_s).displacement_m)
            self.follow(RestToRest(here, 0.8 * here, 0.3))
            self.run(0.5)
        except ContinuumRobotError as error:
            return str(error)
        if self.safety.state != ACTIVE:
            return "stopped again: " + ", ".join(self.safety.faults)
        return ""

    def _home(self) -> None:
        robot = self.hardware.robot
        homing = Homing(robot, QUICK_HOMING)
        run = ProcedureRun(homing, self.safety)
        self.actuators.enable()
        self.actuators.zero_m = np.zeros(self.robot.tendon_count)
        self.run(0.01)
        run.begin(self.actuators.read(self.now_s), self.now_s)
        self._powered, self._procedure = True, run
        end_s = self.now_s + HOMING_TIMEOUT_S
        while not run.finished and self.now_s < end_s:
            self.cycle()
        self._procedure = None
        self.power_off()
        run.restore()
        if homing.result is None or run.problem:
            raise DeviceError("homing", run.problem or "did not end in time", "Look at the tendons.")
        self.actuators.zero_m = homing.result.zero_m
        self.run(0.02)

    def close(self) -> None:
        """End."""
        self.actuators.close()
        for sensor in (self._strings, self._force):
            if sensor is not None:
                sensor.close()
        self.hardware.close()


def make_plant(robot: Robot, seed: int, progress: Callable[[str], None] | None = None) -> Plant:
    """A plant for one :class:`VirtualRobot` after the other; ``seed`` draws the rotors' angles."""
    return Plant(wired(robot), rng=np.random.default_rng(seed), progress=progress)
