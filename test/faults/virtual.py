# SPDX-License-Identifier: Apache-2.0
"""The runs in virtual time: a stand of the shipped stack, the truth of its plant, and what a user hears.

The same seed gives the same records.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import Reference, RestToRest
from continuum_robot.drivers.backends import emulator_of, hardware_of
from continuum_robot.drivers.named_faults import HOME, faults_of
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.drivers.safety.tendon_safety import ACTIVE, SAFE
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.identification.procedures.homing import Homing, HomingSettings, homing_of
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.robot.stop_policy import RELEASE
from continuum_robot.simulation.faults import HOT_MOTOR, SLACK_TENDON
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware, wired
from continuum_robot.simulation.wire.ports import UNPLUGGED
from continuum_robot.stepped.buffers import vector
from continuum_robot.testing import VirtualStack
from faults import kinds
from faults.actions import ROBOTS, happen
from faults.judge import REST_S, Truth
from faults.kinds import (
    BEFORE,
    INJECTION_TIMES,
    MOVE_S,
    MOVING,
    POWER,
    STOPPING,
    VIRTUAL,
    Kind,
    known_after_s,
    limits_of,
    moments,
    move_of,
)
from faults.runner import LIMITS, Effect, FaultRecord, failed, run_one

Vector = NDArray[np.float64]

WATCH_S, SENSORS_READY_S, STOPS_FOR_S = 0.9, 1.2, 0.05
STRINGS = "string_encoder_serial"
SENSOR_EVERY = 10
COOL_C = 25.0
RESIDUAL_M = 0.001
"""As the estimator's node: residual at which it warns."""
ALIGNMENT_S, BOOT_S, SETTLE_S = 0.3, 1.1, 0.6
"""In the first second after power-on boards send their status all the time, and faults would be known too soon."""
RESTART_S, FIRST_LOOK_S = 1.0, 0.1
"""Servos restart when their faults are cleared."""
QUEUE_BYTES = 65536
"""Of frames that wait in an adapter: some 160 of them, so that a queue fills up within a run."""
GOES_ON_S = 0.3
QUICK_HOMING = HomingSettings(turns=1, settle_s=0.5)


class Command(NamedTuple):
    """What a controller sent: a value a tendon (any shape, N or m), when the state it answers was read (s), which."""

    values: Vector
    born_s: float
    sequence: int


Alter = Callable[[Command], Command | None]


class PluggableHardware(SimulatedHardware):
    """Simulated hardware whose CAN adapters can be unplugged."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unplugged: set[str] = set()
        self._hosts: dict[str, socket.socket] = {}

    def host_socket(self, channel: str) -> socket.socket:
        """As the simulated hardware's; nothing where the adapter is out."""
        if channel in self._unplugged:
            raise DeviceError(f"CAN channel {channel}", "there is no such device", "Plug the adapter in.")
        self._hosts[channel] = made = super().host_socket(channel)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE_BYTES)
        return made

    def unplug(self, tendon: int) -> None:
        """Pull out the adapter of a tendon's board: what the host holds is dead."""
        channel = next(name for name, board in self.boards.items() if board is self.board_of(tendon)[0])
        self._unplugged.add(channel)
        self._hosts[channel].shutdown(socket.SHUT_RDWR)

    def plug_in(self) -> None:
        """Plug all adapters in again."""
        self._unplugged.clear()


class VirtualStand(VirtualStack):
    """A :class:`.runner.Stand` in virtual time; ``tendon`` is the one that faults hit.

    ``wire``: its devices are emulated to the byte. While :attr:`alter` changes the commands on their way, the
    controller is another program's, whose commands arrive a cycle later.
    """

    exact = True

    def __init__(
        self,
        robot: Robot,
        plant: Plant,
        seed: int,
        tendon: int,
        *,
        wire: bool,
        start_rev: float = 0.0,
        sensors: bool = False,
    ) -> None:
        plant.reset()
        self.tendon = tendon
        self.refused = ""
        self.rows: dict[str, list[Any]] = {
            name: [] for name in ("time_s", "tension_n", "motor_n", "clarke_m", "reference_m", "spool_m", "commanded")
        }
        self.reported: list[str] = []
        self.notices: dict[str, float] = {}
        self.device_faults: dict[str, None] = {}
        self.limited = 0
        self._alter: Alter | None = None
        self._rod, self._manifold = plant, clarke_manifold(robot)
        self._newton_per_ampere = robot.newton_per_ampere
        boards = not robot.takes_displacements
        hardware = None
        if wire:
            hardware = PluggableHardware(
                robot, plant, np.random.default_rng(seed), alignment_s=ALIGNMENT_S, start_rev=start_rev,
                strings=boards and bool(robot.strings), force=boards,
            )  # fmt: skip
        named = robot if hardware is None else hardware.robot
        self._texts = faults_of(hardware_of(named).tendon_actuators.kind)
        self._sensors: dict[str, Any] = {}
        super().__init__(robot, plant, hardware=hardware, seed=seed)
        self.rate_hz = 1 / self.period_s
        if boards and hardware is not None:
            self.stall(BOOT_S)
            self.run(0.05)
            reading = self.reading
            if reading is not None:
                self.loop.cycle.set_zero(reading.displacement_m.tolist())
            if sensors:
                self._open_sensors(hardware)

    def _open_sensors(self, hardware: SimulatedHardware) -> None:
        if self.robot.strings:
            self._sensors[STRINGS] = hardware.string_encoders(answer_timeout_s=0.0)
            self._watcher = ShapeEstimator(self.robot)
        if hardware.rokubi is not None:
            self._sensors["rokubi_serial"] = hardware.force_sensor(wait=False)
        for sensor in self._sensors.values():
            sensor.open()

    @property
    def pluggable(self) -> PluggableHardware:
        """The devices to the byte. Raises :class:`DeviceError` where there are none."""
        if not isinstance(self.hardware, PluggableHardware):
            raise DeviceError("hardware", "is not simulated to the byte", "Take level wire.")
        return self.hardware

    @property
    def limits(self) -> Any:
        """Of the robot."""
        return limits_of(self.robot)

    # --- as a stand

    @property
    def powered(self) -> bool:
        """Whether the torque of servos is on."""
        return self.robot.takes_displacements and self.loop.powered

    def move(self, kind: Kind, moment: str) -> None:
        """As :class:`.runner.Stand`."""
        self.activate()
        if moment == BEFORE:
            self.end()
        else:
            self.run(SENSORS_READY_S if kind.sensors else 0.5 * self.robot.takes_displacements)
            self.begin(move_of(self.robot))
            self.run(INJECTION_TIMES[MOVING if moment == STOPPING else moment])
            if self.faults:
                raise ContinuumRobotError(f"{self.faults[0][1]} latched without a fault")
        self.forget_told()

    def act(self, kind: Kind, moment: str) -> Effect:
        """As :class:`.runner.Stand`."""
        problems, found = list[str](), dict[str, str]()
        begin_s = self.now_s
        if moment == STOPPING:
            self.safety.ask_estop("service")
            self.run(STOPS_FOR_S)
        given = happen(kind, self, self.tendon)
        if moment == BEFORE:
            self.stall(RESTART_S)
            self.refused = self.refusal()
            if self.refused:
                found["tendon_driver: refused"] = self.refused
                named = " ".join((self.refused, *self.device_faults))
                if not kind.refused_as or not re.search(kind.refused_as, named):
                    problems.append(f"refused for another reason: {self.refused}")
                if self.loop.powered:
                    problems.append("it is on though its start was refused")
            else:
                if kind.lasts:
                    problems.append("the robot started with it")
                self.run(0.5)
                self.begin(move_of(self.robot))
                self.run(MOVE_S)
        return Effect(tendon=self.tendon, begin_s=given or begin_s, found=found, problems=tuple(problems))

    def known_after_s(self, kind: Kind) -> float:
        """As :class:`.runner.Stand`."""
        return known_after_s(kind, self.robot if self.hardware is None else self.hardware.robot)

    def watch(self, kind: Kind, _effect: Effect, begin_s: float, _after_s: float) -> None:
        """As :class:`.runner.Stand`."""
        stop = self.robot.stop
        if self.robot.takes_displacements:
            self.run(self.limits.longest_ramp_s + stop.hold_s * (stop.operator != RELEASE) + 2 * REST_S)
        else:
            self.run(max(0.0, begin_s + WATCH_S - self.now_s))
        if self.limited and LIMITS in kind.found_by:
            self.tell(LIMITS, "tendon_states.limited shows which limits changed the command")
        for fault in self.device_faults if self.robot.takes_displacements else ():
            self.reported.append(fault)

    def truth_time(self, at_s: float) -> float:
        """As :class:`.runner.Stand`."""
        return at_s

    def stopped(self, _truth: Truth) -> bool:
        """As :class:`.runner.Stand`."""
        return bool(self.refused) or self.safety.state != ACTIVE

    def recover(self, kind: Kind, _effect: Effect, *, stopped: bool) -> str:
        """As :class:`.runner.Stand`: in the same process; where the robot went on, it only has to go on."""
        if self.robot.takes_displacements:
            return self._recover_servos(kind, stopped=stopped)
        if not stopped:
            self.repair(kind)
            self.run(GOES_ON_S)
            if self.safety.state == ACTIVE:
                return ""
        return self._recover_boards(kind)

    def _recover_servos(self, kind: Kind, *, stopped: bool) -> str:
        says_home = self._says_home(kind)
        try:
            if stopped and kind.lasts and not self.refused:
                # A start before the cure: nothing may hide what is still there.
                again = self.refusal(clear=True)
                if not re.search(kind.refused_as, " ".join((again, *self.device_faults))):
                    return f"before the cure a reset was answered with {again or 'a start'}"
            self.repair(kind)
            if not stopped:
                self.follow(None)
                self.alter = None
                self.run(GOES_ON_S)
                return "" if self.safety.state == ACTIVE else ", ".join(self.safety.faults)
            self.end(clear=True)
            self.open()
            if self.is_lost:
                if not says_home:
                    return "its zero is lost, and no cure says to home it"
                if kind.times[0] != MOVING or self.refused:  # a homing takes a minute
                    return ""
                self.home()
            self.activate()
            self.run(GOES_ON_S)
        except ContinuumRobotError as error:
            return str(error)
        return "" if self.safety.state == ACTIVE else "stopped again: " + ", ".join(self.safety.faults)

    def _says_home(self, kind: Kind) -> bool:
        texts = faults_of(hardware_of(self.robot).tendon_actuators.kind)
        words = {fault.rsplit(": ", 1)[-1].split()[0] for fault in self.device_faults}
        return "home" in kind.cure or any(HOME in texts[word].cure for word in words if word in texts)

    @property
    def alter(self) -> Alter | None:
        """Changes the commands of a controller in another program on their way; its None: a command gets lost."""
        return self._alter

    @alter.setter
    def alter(self, change: Alter | None) -> None:
        if (change is None) != (self._alter is None):
            self.loop.cycle.attach(self.control if change is None else None)
            self.loop.cycle.control_now(on=change is None and self.safety.state == ACTIVE)
        self._alter = change

    def begin(self, motion: Reference) -> None:
        """Begin a motion."""
        self.follow(motion.at)
        self.loop.cycle.control_now(on=self._alter is None)

    def heat(self, temperature_c: float, tendon: int | None = None) -> None:
        """Have the model of a motor, of which the boards measure no temperature, at a temperature; None: all."""
        heat = self.safety.heat
        winding_c, housing_c = list(heat.winding()), list(heat.housing())
        for one in range(self.robot.tendon_count) if tendon is None else [tendon]:
            winding_c[one] = housing_c[one] = temperature_c
        self.loop.call(lambda: heat.take(winding_c, housing_c, 0.0))

    # --- the truth, and what a user hears

    def truth(self, begin_s: float) -> Truth:
        """As :class:`.runner.Stand`."""
        first = int(np.searchsorted(self.rows["time_s"], begin_s - 1e-9))
        return {name: np.array(rows[first:]) for name, rows in self.rows.items()}

    def on_step(self, now_s: float) -> None:
        """Time passes, for the truth too."""
        super().on_step(now_s)
        plant, rows = self._rod, self.rows
        if not hasattr(self, "loop") or (rows["time_s"] and rows["time_s"][-1] >= now_s):
            return
        clarke_m, desired = self._manifold.clarke(plant.rod_displacement), self.desired
        values = (
            now_s,
            plant.tension,
            plant.current * self._newton_per_ampere,
            clarke_m,
            np.full(clarke_m.shape, np.nan) if desired is None else desired.position,
            plant.displacement,
            self.safety.commanded,
        )
        for row, value in zip(rows.values(), values, strict=True):
            row.append(value)

    def on_row(self, row: list[float]) -> None:
        """Hear what a user of the robot would."""
        super().on_row(row)
        loop = self.loop
        self.limited += any(row[loop.row.limited]) and loop.safety.state == ACTIVE
        if not loop.powered and loop.safety.state == SAFE:
            self.tell("tendon_driver: torque off", "the torque is off: brakes are closed")
        for fault in loop.devices.device_faults:
            name = fault.rsplit(": ", 1)[-1]
            self.device_faults[fault] = None
            self.tell(f"motors: {name}", f"{fault}: {self._texts[name].meaning if name in self._texts else name}")
        if loop.devices.error is not None:
            self.tell("motors: bus", str(loop.devices.error))
        if self._alter is not None:
            self._answer_from_outside(self._alter)
        if self.desired is not None and loop.powered and self.control.silent_since_s is not None:
            self.tell("clarke_controller: silent", "the controller is silent: the state is old or not finite")
        if int(row[loop.row.number]) % SENSOR_EVERY == 0:
            self._look_at_sensors()

    def _answer_from_outside(self, alter: Alter) -> None:
        """Another program's controller answers the state of this cycle; the next one hears it."""
        cycle, safety = self.loop.cycle, self.safety
        following = self.loop.powered and safety.state == ACTIVE and self.desired is not None
        if self.control.answer(cycle.reading, vector(safety.commanded.tolist()), following, self.now_s, cycle.cycles):
            command = alter(Command(np.array(self.control.command), self.now_s, cycle.cycles))
            if command is not None:
                cycle.command(np.ravel(command.values).tolist(), command.born_s, command.sequence)

    def on_change(self, new_faults: Sequence[str]) -> None:
        """Hear of faults."""
        super().on_change(new_faults)
        for name in new_faults:
            reason = f" ({self.safety.estop_reason})" if self.safety.estop_reason and name == "estop" else ""
            self.tell(f"tendon_safety: {name}", f"fault {name}{reason}: {FAULTS[name]}")

    def _look_at_sensors(self) -> None:
        for who, sensor in self._sensors.items():
            extension = None
            try:
                reading = sensor.read(self.now_s)
            except DeviceError as error:
                self.tell(f"{who}: lost", str(error))
            else:
                extension = getattr(reading, "extension_m", None)
                for fault in reading.device_faults:
                    self.tell(f"{who}: {fault}", fault)
            q = self.reading
            if who == STRINGS and q is not None:
                dt = self.period_s * SENSOR_EVERY
                estimate = self._watcher.update(q.displacement_m, q.velocity_m_per_s, extension, dt)
                if estimate.residual_m > RESIDUAL_M:
                    self.tell("shape_estimator: residual", f"residual {estimate.residual_m * 1e3:.2f} mm")

    def tell(self, who: str, sentence: str) -> None:
        """Note who found something, and what a user learns of it."""
        if who not in self.notices:
            self.notices[who] = self.now_s
            self.reported.append(sentence)

    def forget_told(self) -> None:
        """Begin again with what was reported and found."""
        self.notices.clear()
        self.reported.clear()
        self.faults.clear()
        self.device_faults.clear()
        self.limited = 0

    # --- what a user does

    def power_off(self) -> None:
        """Ramp to the safe tension, torque off, and nobody asks for anything."""
        self.alter = None
        self.follow(None)
        self.deactivate()

    def repair(self, kind: Kind) -> None:
        """End the cause of a fault."""
        self.inject("")
        if self.robot.takes_displacements:
            self._rod.release()
            if self.hardware is None:
                self.inject(HOT_MOTOR, -1, COOL_C)
            return
        if kind.refastened:
            wound_m = float((self._rod.displacement - self._rod.rod_displacement)[self.tendon])
            self.inject(SLACK_TENDON, self.tendon, wound_m)
        self.pluggable.plug_in()
        self.safety.release_estop()
        self.heat(COOL_C)
        self.alter = None
        if kind.recovery == POWER:
            self.inject("board.reboot", self.tendon)

    def reset_stack(self, *, clear: bool = True) -> None:
        """Reset the stack: close the driver, clear, open. Raises :class:`ContinuumRobotError`."""
        if clear:
            self.actuators.close()
            self.actuators.clear_faults()
        self.safety.torque_off()
        self.actuators.open()
        self._reset()

    def _reset(self) -> None:
        blocking = self.safety.reset()
        if blocking:
            raise DeviceError("reset", "refused: " + ", ".join(blocking), "Remove the cause.")

    def _recover_boards(self, kind: Kind) -> str:
        """Repair it, reset, home where the zero is lost, up, and move; why that does not work, "" where it does."""
        try:
            self.power_off()
            self.repair(kind)
            self.run(SETTLE_S)
            self.reset_stack()
            if kind.recovery in (kinds.HOME, POWER):
                self.drive(Homing(self.pluggable.robot, QUICK_HOMING))
                self.run(0.02)
            self.run(0.005)
            self.activate()
            self.run(0.001)
            reading = self.reading
            if reading is None:
                return "the devices cannot be read"
            here = self._manifold.clarke(reading.displacement_m)
            self.begin(RestToRest(here, 0.8 * here, 0.3))
            self.run(0.5)
        except ContinuumRobotError as error:
            return str(error)
        return "" if self.safety.state == ACTIVE else "stopped again: " + ", ".join(self.safety.faults)

    # --- the same of servos, which may have lost their zero, and refuse to start then

    def end(self, *, clear: bool = False) -> None:
        """Power off and end the driver."""
        self.power_off()
        if clear:
            self.actuators.clear_faults()
            self.run(RESTART_S)
        self.actuators.close()

    def open(self) -> None:
        """Start the driver, and reset it. Raises :class:`DeviceError`."""
        self.device_faults.clear()
        self.actuators.open()
        self.safety.torque_off()
        self.safety.positions_known = not self.is_lost
        self.run(FIRST_LOOK_S)
        self._reset()

    @property
    def is_lost(self) -> bool:
        """Whether it has to be homed: a servo does not count from where it did."""
        return self.hardware is not None and not self.actuators.aligned

    def refusal(self, *, clear: bool = False) -> str:
        """Why a start is refused, "" where it is not."""
        try:
            if clear:
                self.end(clear=True)
            self.open()
            if self.is_lost:
                raise DeviceError("servos", "one lost its power, or its position, since the homing", "Home the robot.")
            self.activate()
        except DeviceError as error:
            return str(error)
        return ""

    def home(self) -> None:
        """Home the robot, and switch off. Raises :class:`ContinuumRobotError`."""
        self.drive(homing_of(self.robot))
        self.safety.positions_known = True
        self.run(self.period_s)  # what is read counts from the new zero then

    def close(self) -> None:
        """End."""
        super().close()
        for sensor in self._sensors.values():
            sensor.close()


def _start_before_rollover(robot: Robot, moment: str) -> float:
    """What the boards must count at the start, so that tendon 1 (pulled in) passes 100 revolutions at the moment."""
    if robot.actuators is None:
        raise ParameterError("robot.actuators", None, "actuators")
    meter_per_rev = 2 * math.pi * robot.actuators.spool_radius_m / robot.actuators.gear_ratio
    return 100.0 - float(move_of(robot).at(INJECTION_TIMES[moment]).position[0]) / meter_per_rev


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """A task: one run in virtual time."""

    robot: Robot
    kind: str
    moment: str
    seed: int
    campaign_seed: int


@lru_cache(maxsize=1)
def _plant(robot: Robot, seed: int) -> Plant:
    """Making one takes a second, a run a fraction of it."""
    if robot.takes_displacements:
        return Plant(robot)
    return Plant(wired(robot), rng=np.random.default_rng(seed))


def run_virtual(run: VirtualRun) -> FaultRecord:
    """Do one run; the same for the same run, whatever was done before it."""
    kind = kinds.by_name(kinds.kinds_of(run.robot), run.kind)[0]
    robot = ROBOTS[kind.robot](run.robot) if kind.robot else run.robot
    servos = robot.takes_displacements
    tendon = 0 if kind.rollover else int(np.random.default_rng(run.seed).integers(robot.tendon_count))
    start_rev = _start_before_rollover(robot, run.moment) if kind.rollover else 0.0
    plant = _plant(run.robot if servos else robot, run.campaign_seed)
    try:
        with VirtualStand(
            robot, plant, run.seed, tendon, wire=bool(kind.bus) or not servos, start_rev=start_rev, sensors=kind.sensors
        ) as stand:
            return run_one(stand, kind, run.moment, run.seed)
    except ContinuumRobotError as error:
        return failed(kind, run.moment, run.seed, str(error))


def virtual_runs(robot: Robot, chosen: Sequence[Kind], count: int = 3, seed: int = 0) -> list[VirtualRun]:
    """All runs in virtual time; faults that the robot's servos cannot have are left out."""
    every, known = kinds.kinds_of(robot), _faults_of_servos(robot)
    return [
        VirtualRun(robot, kind.name, moment, seed + 1000 * every.index(kind) + place, seed)
        for kind in chosen
        if kind.runs == VIRTUAL and (not kind.bus or kind.bus["fault"] in known)
        for place, moment in enumerate(moments(kind, count))
    ]


def _faults_of_servos(robot: Robot) -> set[str]:
    settings = None if robot.hardware is None else robot.hardware.tendon_actuators
    emulator = None if settings is None else emulator_of(settings.kind)
    return set() if emulator is None else {UNPLUGGED, *emulator(robot, settings, {}).known_faults}
