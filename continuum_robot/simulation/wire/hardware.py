# SPDX-License-Identifier: Apache-2.0
"""All devices of a robot, simulated to the byte and moved by one plant: the real drivers are pointed at them."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.assumed_wiring import wired, with_force_sensor
from continuum_robot.drivers.backends import board_faults, device_of, emulator_of, joined
from continuum_robot.drivers.can_bus import frame_sockets
from continuum_robot.drivers.emulated_sensor import EmulatedSensor
from continuum_robot.drivers.protocols import TendonActuators
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.simulated_wires import channel_name, servos_name, socket_path
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Hardware
from continuum_robot.simulation import faults
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.channel import gaussian
from continuum_robot.simulation.devices.plant_link import PlantLinkWriter
from continuum_robot.simulation.devices.sensors import string_error
from continuum_robot.simulation.plant import Plant, largest_currents_a
from continuum_robot.simulation.wire.can_wire import FrameSocketWire
from continuum_robot.simulation.wire.plant_motors import PlantMotor, PlantMotors
from continuum_robot.simulation.wire.ports import LINE_FAULTS, Listener, ServoLine

Vector = NDArray[np.float64]
Device = TypeVar("Device")

PERIOD_S, SERVO_PERIOD_S = 0.001, 0.002
"""Of the steps in real time; a bus of servos is not asked more often than in two milliseconds."""
LONGEST_STEP_S = 0.005
LONGEST_CATCH_UP_S = 1.0
BOARD, SERVO, STRINGS, FORCE = "board", "servo", "strings", "force"
_TITLES = {BOARD: "motor boards", SERVO: "servos", STRINGS: "string-encoder board", FORCE: "force sensor"}
STRINGS_PORT, FORCE_PORT = "strings", "force"
MECHANICAL = (faults.SLACK_TENDON, faults.SNAPPED_TENDON, faults.STUCK_MOTOR, faults.SATURATE_CURRENT)


def catalog() -> dict[str, str]:
    """Name and meaning of every fault of :meth:`SimulatedHardware.inject`."""
    named = {name: faults.FAULTS[name].meaning for name in MECHANICAL}
    for prefix, kinds in (
        (BOARD, board_faults()),
        (SERVO, LINE_FAULTS),
        (STRINGS, SimulatedStringEncoderBoard.catalog()),
        (FORCE, SimulatedRokubi.catalog()),
    ):
        named |= {f"{prefix}.{name}": meaning for name, meaning in kinds.items()}
    return named


class SimulatedHardware:
    """Motor boards on CAN, servos on serial buses, string-encoder board and force sensor, and the robot between them.

    Time passes by :meth:`step`, which the drivers of :meth:`tendon_actuators` call themselves. The drivers are those of
    the real devices.
    """

    def __init__(
        self,
        robot: Robot,
        plant: Plant | None = None,
        rng: np.random.Generator | None = None,
        *,
        contacts: Sequence[Contact] = (),
        plant_maker: Callable[..., Plant] = Plant,
        aligned: bool = True,
        alignment_s: float = 2.0,
        zeroed: bool = True,
        start_rev: float = 0.0,
        link: PlantLinkWriter | None = None,
        strings: bool = False,
        force: bool = False,
        folder: Path | None = None,
        wrench: Callable[[], Vector] | None = None,
        progress: Callable[[str], None] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.robot, self.clock = wired(robot), clock
        self._rng = np.random.default_rng(robot.simulation.seed) if rng is None else rng
        self._plant, self._contacts, self._progress = plant, tuple(contacts), progress
        self._plant_maker = plant_maker
        self._aligned, self._alignment_s, self._zeroed = aligned, alignment_s, zeroed
        self._start_rev = start_rev
        self._link, self._folder = link, folder
        encoders = self._hardware.string_encoders
        self._has_strings = strings and encoders is not None and emulator_of(encoders.kind) is not None
        self._has_force = force
        self._wrench = wrench or (lambda: np.zeros(6))
        self._lock = threading.RLock()
        self._mechanical = faults.FaultBoard(robot.tendon_count, "tendon", MECHANICAL)
        self._altered = False
        self._now_s: float | None = None
        self.skipped_s = 0.0
        self.motors: PlantMotors | None = None
        self.boards: dict[str, Any] = {}
        self.lines: dict[str, ServoLine] = {}
        self._servo_of: dict[int, tuple[ServoLine, int]] = {}  # by the index of its motor
        self.string_board: EmulatedSensor | None = None
        self.rokubi: EmulatedSensor | None = None

    # --- life

    def open(self) -> None:
        """Make the plant and all devices; the first time on a machine that takes a few seconds."""
        if self.motors is not None:
            return
        if self._link is not None:
            self._link.open()
        try:
            if self._plant is None:
                self._plant = self._plant_maker(
                    self.robot, rng=self._rng, progress=self._progress, contacts=self._contacts
                )
            self._make_devices(self._plant)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all devices; the robot stays as it is for a later :meth:`open`. Safe to call at any time."""
        with self._lock:
            boards, devices = self.boards, (*self.lines.values(), self.string_board, self.rokubi)
            self.boards, self.lines, self._servo_of = {}, {}, {}
            self.motors = self.string_board = self.rokubi = None
            self._now_s = None
            if self._link is not None:
                self._link.close()
        # Not with the lock held: a thread that answers may wait for it.
        for board in boards.values():
            board.wire.close()
        for device in devices:
            if device is not None:
                device.close()

    def step(self, now_s: float) -> None:
        """Move the robot up to ``now_s`` (s, monotonic or virtual) and let every device do what is due.

        After a longer pause the devices see short steps, so that their own timeouts strike when they would have.
        """
        with self._lock:
            if self.motors is None:
                raise DeviceError("simulated hardware", "is not open", "Open it first.")
            before_s = now_s if self._now_s is None else self._now_s
            if now_s < before_s or self._now_s == now_s:
                return
            behind_s = now_s - before_s
            if behind_s > LONGEST_STEP_S:
                begin_s = now_s - min(behind_s, LONGEST_CATCH_UP_S)
                self.skipped_s += begin_s - before_s
                pieces = math.ceil((now_s - begin_s) / LONGEST_STEP_S)
                for line in self.lines.values():
                    line.begin_catching_up(now_s)
                for piece in range(1, pieces):
                    self._step(self.motors, begin_s + piece * (now_s - begin_s) / pieces, late=True)
            self._step(self.motors, now_s)

    @property
    def period_s(self) -> float:
        """Of the steps in real time, s."""
        return SERVO_PERIOD_S if self.lines and not self.boards else PERIOD_S

    def _catch_up(self) -> None:
        """Servos do not wait for a computer that steps them late; what fails here fails in the next step too."""
        with self._lock, contextlib.suppress(ContinuumRobotError):
            if self.clock is not None and self._now_s is not None:
                now_s = self.clock()
                if now_s - self._now_s > LONGEST_STEP_S:
                    self.step(now_s)

    def _step(self, motors: PlantMotors, now_s: float, *, late: bool = False) -> None:
        plant = self.plant
        self._now_s = now_s
        if not self._mechanical.empty or self._altered:
            self._apply_mechanical(motors, plant, now_s)
        motors.advance(now_s)
        for line in self.lines.values():
            (line.go_on if late else line.step)(now_s)
        for device in filter(None, (*self.boards.values(), self.string_board, self.rokubi)):
            device.step(now_s)
        if self._link is not None:
            self._link.offer(now_s, plant)

    # --- the drivers of these devices

    def tendon_actuators(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        form: Any | None = None,
    ) -> TendonActuators:
        """The real driver of the motors, not open yet.

        Time passes for the simulated hardware when the driver reads or waits: ``clock``, ``sleep`` and ``form`` as its
        own. Who uses its ``cycle`` lets time pass with :meth:`step`.
        """

        def make(number: int, settings: Any, form: Any) -> TendonActuators:
            device = device_of(settings.kind)
            if emulator_of(settings.kind) is not None:
                own = {"ask": self._present(self.lines.get(servos_name(number)), "servos").ask, "stepped": True}
            else:
                own = {"socket_factory": self.host_socket, "sleep": sleep, "form": form}
            made: TendonActuators = device.make(
                self.robot, settings, clock=clock, simulated=True, pass_time=self.step, **own
            )
            return made

        return joined(self.robot, make, (clock, sleep), form)

    def string_encoders(self, *, answer_timeout_s: float = 1.0) -> Any:
        """The real driver of the string-encoder board, not open yet. Raises :class:`DeviceError` without one."""
        settings: Any = self._hardware.string_encoders
        port = self._present(self.string_board, "string-encoder board").port
        options = {"simulated": True, "answer_timeout_s": answer_timeout_s, "clock": None}
        return device_of(settings.kind).make(self.robot, settings, port, **options)

    def force_sensor(self, **options: Any) -> Any:
        """The real driver of the force sensor, not open yet. Raises :class:`DeviceError` where there is none."""
        settings, port = with_force_sensor(self.robot), self._present(self.rokubi, "force sensor").port
        return device_of(settings.kind).make(self.robot, settings, port, simulated=True, clock=None, **options)

    def host_socket(self, channel: str) -> socket.socket:
        """The host's end of a CAN channel; opened again, the frames of before are gone."""
        board = self.boards.get(channel)
        if board is None:
            raise DeviceError(f"simulated CAN channel {channel}", "is not there", "Open the hardware.")
        host, device = frame_sockets()
        with self._lock:
            board.wire.close()
            board.wire = FrameSocketWire(device)
        return host

    # --- what tests look at

    @property
    def plant(self) -> Plant:
        """The robot that moves. Raises :class:`DeviceError` before the first :meth:`open`."""
        if self._plant is None:
            raise DeviceError("simulated hardware", "is not open", "Open it first.")
        return self._plant

    def board_of(self, tendon: int) -> tuple[Any, int]:
        """The board that has a tendon's motor, and the motor's number on it; ``tendon`` counts from 0."""
        for entry in self._hardware.tendon_actuators.motors:
            channel, motor = getattr(entry, "place", ("", 0))
            if entry.number == tendon + 1 and channel in self.boards:
                return self.boards[channel], motor
        raise ParameterError("tendon", tendon, f"0 to {self.robot.tendon_count - 1}, of a motor board")

    # --- faults

    def inject(self, fault: str, target: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Inject a fault from the next step on."""
        with self._lock:
            if fault and fault not in catalog():
                raise ParameterError("fault", fault, "one of " + ", ".join(catalog()) + ", or empty to end all")
            prefix, _, name = fault.rpartition(".")
            kinds: dict[str, Callable[..., None] | None] = {
                BOARD: self._inject_boards if self.boards else None,
                SERVO: self._inject_servos if self.lines else None,
                STRINGS: self.string_board.inject if self.string_board else None,
                FORCE: self.rokubi.inject if self.rokubi else None,
            }
            if not prefix:
                self._mechanical.inject(fault, target, magnitude, duration_s, now_s=self._now_s)
            for inject in kinds.values() if not fault else ():
                if inject is not None:
                    inject("", -1, 0.0, duration_s=0.0)
            if prefix:
                one = -1 if prefix == FORCE else target
                self._present(kinds[prefix], _TITLES[prefix])(name, one, magnitude, duration_s=duration_s)

    def _inject_boards(self, name: str, target: int, magnitude: float, duration_s: float) -> None:
        if target < 0:
            for board in self.boards.values():
                board.inject(name, magnitude, duration_s)
        else:
            board, motor = self.board_of(target)
            board.inject(name, magnitude, duration_s, motor)

    def _inject_servos(self, name: str, target: int, magnitude: float, duration_s: float) -> None:
        if duration_s:
            raise ParameterError("duration_s", duration_s, "0: faults of servos last until they are ended")
        one = None if target < 0 or self.motors is None else self.motors.motor_of[target]
        meant = [place for motor, place in self._servo_of.items() if one in (None, motor)]
        if not meant:
            raise ParameterError("target", target, "a tendon that a servo pulls")
        for line, number in meant:
            line.inject(name, number, magnitude)

    def _apply_mechanical(self, motors: PlantMotors, plant: Plant, now_s: float) -> None:
        board = self._mechanical
        board.forget_ended(now_s)
        self._altered = not board.empty  # once more after the last fault, to restore the plant
        slack = board.magnitude(faults.SLACK_TENDON, now_s)
        plant.tendon_offset_m = np.where(np.isnan(slack), 0.0, slack)
        plant.stiffness_fraction = np.where(board.mask(faults.SNAPPED_TENDON, now_s), 0.0, 1.0)
        motors.stuck = board.mask(faults.STUCK_MOTOR, now_s)
        limit = board.magnitude(faults.SATURATE_CURRENT, now_s)
        highest = largest_currents_a(self.robot)
        plant.current_limit_a = motors.current_limit_a = np.where(np.isnan(limit), highest, np.minimum(limit, highest))

    # --- making it

    @property
    def _hardware(self) -> Hardware:
        if self.robot.hardware is None:
            raise ParameterError("robot.hardware", None, "a hardware section")
        return self.robot.hardware

    @property
    def servos(self) -> ServoLine | None:
        """The first bus of servos; None where there is none."""
        return next(iter(self.lines.values()), None)

    def _make_devices(self, plant: Plant) -> None:
        self.motors = PlantMotors(self.robot, self._hardware.tendon_actuators, plant, self._noise())
        for number, settings in enumerate(self._hardware.motor_sections.values()):
            motors = self.motors.at(settings)
            if emulator_of(settings.kind) is not None:
                self._make_servos(settings, motors, servos_name(number))
            else:
                self._make_boards(settings, motors)
        self._make_sensors(plant)

    def _noise(self) -> Callable[[Vector], Vector]:
        """What servos measure of their motors' currents; boards have noise of their own."""
        servos, noise_a = np.zeros(self.robot.motor_count, dtype=bool), self.robot.simulation.current_noise_a
        for section in self._hardware.motor_sections.values():
            servos[[entry.number - 1 for entry in section.motors]] = emulator_of(section.kind) is not None
        if not noise_a or not servos.any():
            return np.asarray
        noise = gaussian(noise_a, self._rng)
        return lambda current_a: np.where(servos, noise(current_a), current_a)

    def _make_servos(self, settings: Any, motors: dict[tuple[str, int], PlantMotor], name: str) -> None:
        emulator = emulator_of(settings.kind)
        self.lines[name] = line = ServoLine(
            emulator(self.robot, settings, {number: motor for (_, number), motor in motors.items()}),
            None if self._folder is None else self._folder / name,
            self._catch_up,
        )
        self._servo_of |= {entry.number - 1: (line, entry.id) for entry in settings.motors}
        line.serve()

    def _make_boards(self, settings: Any, motors: dict[tuple[str, int], PlantMotor]) -> None:
        self.boards |= device_of(settings.kind).boards(
            settings,
            lambda channel, number: motors.get((channel, number)),
            FrameSocketWire,
            alignment_s=self._alignment_s,
            aligned=self._aligned,
            start_rev=self._start_rev,
            current_noise_a=self.robot.simulation.current_noise_a,
            rng=self._rng,
        )

    def _make_sensors(self, plant: Plant) -> None:
        encoders: Any = self._hardware.string_encoders
        strings, force = (None if self._folder is None else self._folder / name for name in (STRINGS_PORT, FORCE_PORT))
        if self._has_strings:
            error = string_error(self.robot, np.random.default_rng([self.robot.simulation.seed, 1]))
            self.string_board = emulator_of(encoders.kind)(
                self.robot,
                encoders,
                lambda: error(plant.string_extension),
                link=strings,
                zeroed=self._zeroed,
                rng=self._rng,
            )
        if self._has_force:
            settings = with_force_sensor(self.robot)
            emulator = emulator_of(settings.kind)
            self.rokubi = emulator(self.robot, settings, self._wrench, link=force, rng=self._rng)

    @staticmethod
    def _present(device: Device | None, name: str) -> Device:
        if device is None:
            raise DeviceError(f"simulated {name}", "is not there", "Open the hardware with it.")
        return device


class BoardSockets:
    """One listening socket for each motor board; a new connection takes the place of the old one."""

    def __init__(self, hardware: SimulatedHardware, folder: Path) -> None:
        self._hardware = hardware
        self.listeners: dict[str, Listener] = {}
        try:
            for channel, board in hardware.boards.items():
                self.listeners[channel] = Listener(socket_path(folder, channel_name(channel)))
                board.wire.close()
                board.wire = FrameSocketWire()
        except BaseException:
            self.close()
            raise

    def accept(self) -> None:
        """Put new connections on their boards; what was under way to and from the old ones is gone."""
        for channel, listener in self.listeners.items():
            wire = listener.accept()
            if wire is not None:
                board = self._hardware.boards[channel]
                board.wire.close()
                board.wire = FrameSocketWire(wire)

    def close(self) -> None:
        """End; the boards' own wires are closed with the hardware. Safe to call at any time."""
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()


SLACK_M = (0.002, 0.01)


def switched_on(robot: Robot, *, force: bool = False, folder: Path | None = None) -> SimulatedHardware:
    """Open hardware whose rotors are not aligned, whose tendons are slack, and whose strings have no zero."""
    hardware = SimulatedHardware(robot, aligned=False, zeroed=False, strings=True, force=force, folder=folder)
    hardware.open()
    rng = np.random.default_rng([robot.simulation.seed, 2])
    for tendon, slack_m in enumerate(rng.uniform(*SLACK_M, robot.tendon_count)):
        hardware.inject("slack_tendon", tendon, float(slack_m))
    return hardware
