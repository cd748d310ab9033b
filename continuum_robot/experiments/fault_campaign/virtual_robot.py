# SPDX-License-Identifier: Apache-2.0
"""A robot under control in virtual time, down to the bytes: shipped drivers, safety logic, controller, simulated wires.

The cycle is that of the driver's node, the very same code. Whatever time passes, the truth of the plant is written down
every millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.references import Reference, RestToRest
from continuum_robot.drivers.backends import device_faults, hardware_of
from continuum_robot.drivers.protocols import ForceReading, StringReading
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.drivers.safety.tendon_safety import ACTIVE, SAFE, TendonSafety
from continuum_robot.drivers.string_encoder_serial.reader import StringEncoderReader
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.experiments.fault_campaign.pluggable_hardware import PluggableHardware
from continuum_robot.identification.procedures.homing import Homing, HomingSettings
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.robot.control_settings import ControlSettings
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.assembly import PERIOD_S, QuietWatcher, make_loop
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import wired
from continuum_robot.stepped.buffers import vector

Vector = NDArray[np.float64]


SENSOR_EVERY = 10


TAKE_UP_FRACTION = 0.25
"""As the driver's node: tension that takes up slack, of what a tendon may carry when all carry the same."""


COOL_C = 25.0


RESIDUAL_M = 0.001
"""As the estimator's node: residual at which it warns."""


ALIGNMENT_S = 0.3


BOOT_S = 1.1
"""In the first second after power-on boards send their status all the time, and faults would be known too soon."""


SETTLE_S = 0.6


HOMING_TIMEOUT_S = 40.0


QUICK_HOMING = HomingSettings(turns=1, settle_s=0.5)


class Command(NamedTuple):
    """What a controller sent: tensions (any shape, N), when the state it answers was published (s), its sequence."""

    tension: Vector
    born_s: float
    sequence: int


@dataclass
class Truth:
    """The plant, every millisecond."""

    time_s: list[float] = field(default_factory=list)
    tension_n: list[Vector] = field(default_factory=list)
    motor_n: list[Vector] = field(default_factory=list)
    clarke_m: list[Vector] = field(default_factory=list)
    reference_m: list[Vector] = field(default_factory=list)

    def since(self, begin_s: float) -> dict[str, Vector]:
        """All as arrays, a row a millisecond, from ``begin_s`` on."""
        first = int(np.searchsorted(self.time_s, begin_s))
        names = ("time_s", "tension_n", "motor_n", "clarke_m", "reference_m")
        return {name: np.array(getattr(self, name)[first:]) for name in names}


class VirtualRobot(QuietWatcher):
    """See the module. Use as a context manager.

    The controller is in the driver's cycle, as shipped; while :attr:`alter` changes its commands on their way, it is
    another program's, whose commands arrive a cycle later.
    """

    def __init__(self, robot: Robot, plant: Plant, seed: int, *, start_rev: float = 0.0, sensors: bool = False) -> None:
        if robot.actuators is None or robot.control is None:
            raise ParameterError("robot", robot.name, "a robot file with actuators, limits and control")
        self.robot, self.limits = robot, robot.tension_limits
        plant.reset()
        self.plant = plant
        self.hardware = PluggableHardware(robot, plant, np.random.default_rng(seed), start_rev)
        self.hardware.open()
        _, self._texts = device_faults()[hardware_of(self.hardware.robot).tendon_actuators.kind]
        self._time = VirtualPace(PERIOD_S, 1.0, self._on_step)
        self.truth = Truth()
        self.reported: list[str] = []
        self.found: dict[str, float] = {}
        self.limited = 0
        self.reference: Reference | None = None
        self._reference_begin_s = 0.0
        self._newton_per_ampere = robot.newton_per_ampere
        self._manifold = clarke_manifold(robot)
        self._alter: Callable[[Command], Command | None] | None = None
        actuators = self.hardware.tendon_actuators(clock=self._time.now_s, sleep=self._time.pass_time)
        self.loop = make_loop(robot, actuators, self, self._time)
        self._input = ReferenceInput(robot.coordinate_count, blend_s=0.0)
        self.control = ControllerCycle(ClarkeController(robot), self._input, robot.control.state_timeout_s, PERIOD_S)
        self.loop.cycle.attach(self.control)
        self._strings: StringEncoderReader | None = None
        self._force: Any = None
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
        if self.hardware.rokubi is not None:
            self._force = self.hardware.force_sensor(wait=False)
            self._force.open()

    @property
    def now_s(self) -> float:
        """Virtual time, s."""
        return self._time.now_s()

    @property
    def safety(self) -> TendonSafety:
        """The driver's safety logic."""
        return self.loop.safety

    @property
    def alter(self) -> Callable[[Command], Command | None] | None:
        """Changes the commands of a controller in another program on their way; its None: a command gets lost."""
        return self._alter

    @alter.setter
    def alter(self, change: Callable[[Command], Command | None] | None) -> None:
        """Set it; ``change`` None: the controller is in the cycle."""
        if (change is None) != (self._alter is None):
            self.loop.cycle.attach(self.control if change is None else None)
            self.loop.cycle.control_now(on=change is None)
        self._alter = change

    # --- time

    def stall(self, duration_s: float) -> None:
        """The whole host stands still for a time (s); its devices do not."""
        self._time.pass_time(duration_s)

    def run(self, duration_s: float) -> None:
        """Cycles of the host, s."""
        self._time.run(duration_s)

    def cycle(self) -> None:
        """One cycle of the host."""
        self._time.run_one()

    def _on_step(self, now_s: float) -> None:
        self.hardware.step(now_s)
        self._note_truth(now_s)
        reference = self.reference
        if reference is not None:
            self._input.receive(reference.at(now_s - self._reference_begin_s), now_s)

    # --- the motors' temperatures

    def heat(self, tendon: int, temperature_c: float) -> None:
        """Have the model of a motor, of which the boards measure no temperature, at a temperature."""
        heat = self.safety.heat
        winding_c, housing_c = list(heat.winding()), list(heat.housing())
        winding_c[tendon] = housing_c[tendon] = temperature_c
        self.loop.call(lambda: heat.take(winding_c, housing_c, 0.0))

    def cool(self) -> None:
        """Have all motors at a temperature at which nothing is wrong with them."""
        heat = self.safety.heat
        cool_c = [COOL_C] * self.robot.tendon_count
        self.loop.call(lambda: heat.take(cool_c, cool_c, 0.0))

    # --- what happens in the loop

    def on_row(self, row: list[float]) -> None:
        """Hear what a user of the robot would."""
        loop, now_s = self.loop, self.now_s
        self.limited += any(row[loop.row.limited]) and loop.safety.state == ACTIVE
        if not loop.powered and loop.safety.state == SAFE:
            self.tell("tendon_driver: torque off", "the torque is off: brakes are closed")
        for fault in loop.devices.device_faults:
            name = fault.rsplit(": ", 1)[-1]
            self.tell(f"motors: {name}", f"{fault}: {self._texts[name].meaning if name in self._texts else name}")
        if loop.devices.error is not None:
            self.tell("motors: bus", str(loop.devices.error))
        if self._alter is not None:
            self._answer_from_outside(self._alter)
        if self.reference is not None and loop.powered and self.control.silent_since_s is not None:
            self.tell("clarke_controller: silent", "the controller is silent: the state is old or not finite")
        if int(row[loop.row.number]) % SENSOR_EVERY == 0:
            self._sense(now_s)

    def _answer_from_outside(self, alter: Callable[[Command], Command | None]) -> None:
        """Another program's controller answers the state of this cycle; the next one hears it."""
        cycle, safety = self.loop.cycle, self.loop.safety
        following = self.loop.powered and safety.state == ACTIVE and self.reference is not None
        tension = vector(safety.commanded.tolist())
        if self.control.answer(cycle.reading, tension, following, self.now_s, cycle.cycles):
            command = alter(Command(np.array(self.control.command), self.now_s, cycle.cycles))
            if command is not None:
                cycle.command(np.ravel(command.tension).tolist(), command.born_s, command.sequence)

    def on_change(self, new_faults: Sequence[str]) -> None:
        """Hear of faults."""
        for name in new_faults:
            reason = f" ({self.safety.estop_reason})" if self.safety.estop_reason and name == "estop" else ""
            self.tell(f"tendon_safety: {name}", f"fault {name}{reason}: {FAULTS[name]}")

    def _sense(self, now_s: float) -> None:
        strings: StringReading | None = None
        if self._strings is not None:
            try:
                strings = self._strings.read(now_s)
            except DeviceError as error:
                self.tell("string_encoder_serial: lost", str(error))
            else:
                for fault in strings.device_faults:
                    self.tell(f"string_encoder_serial: {fault}", fault)
        q = self.loop.reading
        if self._estimator is not None and q is not None:
            extension = None if strings is None else strings.extension_m
            estimate = self._estimator.update(q.displacement_m, q.velocity_m_per_s, extension, PERIOD_S * SENSOR_EVERY)
            if estimate.residual_m > RESIDUAL_M:
                self.tell("shape_estimator: residual", f"residual {estimate.residual_m * 1e3:.2f} mm")
        if self._force is not None:
            try:
                force: ForceReading = self._force.read(now_s)
            except DeviceError as error:
                self.tell("rokubi_serial: lost", str(error))
            else:
                for fault in force.device_faults:
                    self.tell(f"rokubi_serial: {fault}", fault)

    def tell(self, who: str, sentence: str) -> None:
        """Note who found something, and what a user learns of it."""
        if who not in self.found:
            self.found[who] = self.now_s
            self.reported.append(sentence)

    def forget_told(self) -> None:
        """Begin again with what was reported and found."""
        self.found.clear()
        self.reported.clear()
        self.limited = 0

    def _note_truth(self, now_s: float) -> None:
        truth, plant = self.truth, self.plant
        if truth.time_s and truth.time_s[-1] >= now_s:
            return
        truth.time_s.append(now_s)
        truth.tension_n.append(plant.tension)
        truth.motor_n.append(plant.current * self._newton_per_ampere)
        truth.clarke_m.append(self._manifold.clarke(plant.rod_displacement))
        reference, nothing = self.reference, np.full(truth.clarke_m[-1].shape, np.nan)
        desired = nothing if reference is None else reference.at(now_s - self._reference_begin_s).position
        truth.reference_m.append(desired)

    # --- bringing it up and down, as the driver's node does

    def bring_up(self) -> None:
        """Open, count from here, enable, take up slack, obey; from a straight robot. Raises :class:`DeviceError`."""
        self._time.pass_time(BOOT_S)
        self.loop.actuators.open()
        self.loop.start()
        self.run(0.05)
        reading = self.loop.reading
        if reading is not None:
            self.loop.cycle.set_zero(reading.displacement_m.tolist())
        self.activate()

    def activate(self) -> None:
        """Torque on, slack taken up, then obey commands from the measured tensions. Raises :class:`DeviceError`."""
        self.loop.switch_on()
        self.loop.take_up_slack(TAKE_UP_FRACTION, self._warn)
        self.loop.obey()

    def _warn(self, sentence: str) -> None:
        raise DeviceError("tendons", sentence, "Look at the tendons.")

    def follow(self, reference: Reference) -> None:
        """Begin a motion, and wait for it nowhere."""
        self.reference, self._reference_begin_s = reference, self.now_s
        self.loop.cycle.control_now(on=self._alter is None)

    def set_settings(self, settings: ControlSettings) -> None:
        """Give the controller other gains."""
        self.loop.call(lambda: self.control.set_settings(settings))

    def power_off(self) -> None:
        """Ramp to the safe tension, torque off."""
        self.loop.ramp_down(lambda _sentence: None)
        self.loop.call(self.loop.power_off)
        self.reference, self.alter = None, None
        self.loop.cycle.control_now(on=False)

    def recover(self, repair: Callable[[], None], *, home: bool) -> str:
        """What a user does: power off, mend it, reset the stack (close, clear, open), home where the zero is
        lost, up.
        """
        loop, actuators = self.loop, self.loop.actuators
        try:
            self.power_off()
            repair()
            self.run(SETTLE_S)
            actuators.close()
            actuators.clear_faults()
            self.safety.torque_off()
            actuators.open()
            blocking = self.safety.reset()
            if blocking:
                return "reset refused: " + ", ".join(blocking)
            if home:
                self._home()
            self.run(0.005)
            self.activate()
            self.run(0.001)
            reading = loop.reading
            if reading is None:
                return "the devices cannot be read"
            here = self._manifold.clarke(reading.displacement_m)
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
        self.loop.switch_on()
        self.run(0.01)
        self.loop.begin_procedure(run)
        self._time.wait(lambda: run.finished, HOMING_TIMEOUT_S)
        self.power_off()
        homed = run.conclude()
        if homed is None:
            raise DeviceError("homing", run.problem or "did not end in time", "Look at the tendons.")
        self.loop.end_procedure(run, homed.zero_m.tolist())
        self.run(0.02)

    def close(self) -> None:
        """End."""
        self.loop.stop()
        self.loop.close()
        for sensor in (self._strings, self._force):
            if sensor is not None:
                sensor.close()
        self.hardware.close()


def make_plant(robot: Robot, seed: int, progress: Callable[[str], None] | None = None) -> Plant:
    """A plant for one :class:`VirtualRobot` after the other; ``seed`` draws the rotors' angles."""
    return Plant(wired(robot), rng=np.random.default_rng(seed), progress=progress)
