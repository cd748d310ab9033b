# SPDX-License-Identifier: Apache-2.0
"""Emulated servos in real time on a pseudo-terminal, and a driver: for the tests of every kind of servos."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from board_peers import FreeMotor
from odri_stand import five_tendons

from continuum_robot.drivers.dynamixel.device import DynamixelActuators
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.drivers.dynamixel.models import model_named
from continuum_robot.drivers.dynamixel.settings import Dynamixel
from continuum_robot.drivers.servo_emulation import EmulatedServos
from continuum_robot.drivers.servo_settings import ServoMotor as Entry
from continuum_robot.robot.actuation import DisplacementLimits, PositionServo
from continuum_robot.robot.description import Robot
from continuum_robot.robot.hardware import Motor
from continuum_robot.simulation.wire.ports import Pacer, ServoLine

RADIUS_M, CONSTANT = 0.01, 1.78
NEWTON_PER_AMPERE = CONSTANT / RADIUS_M
METER_PER_TURN = 2 * np.pi * RADIUS_M
SERVOS = (1, 2, 3, 7, 11)
# Driver and servos share an interpreter here, which a busy machine stops now and then.
PATIENCE_S = 0.5
TIMEOUT_MS = 2000


class ServoMotor(FreeMotor):
    """A motor without load that a loop can hold at a place."""

    largest_a = 1.0

    def __init__(self, position_rev: float = 0.0) -> None:
        super().__init__(acceleration_rev_per_s2_a=20.0, damping_per_s=10.0, position_rev=position_rev)
        self.goal_rev: float | None = None
        self.torque_fraction = 0.0

    @property
    def load_fraction(self) -> float:
        return self.current_a / self.largest_a

    def drive(self, current_a: float, held: bool) -> None:
        super().drive(current_a, held)
        self.goal_rev = None

    def follow(self, position_rev: float, torque_fraction: float, held: bool) -> None:
        self.goal_rev, self.torque_fraction, self.held = position_rev, torque_fraction, held

    def advance(self, duration_s: float) -> None:
        if self.goal_rev is None or self.held:
            super().advance(duration_s)
            return
        step = min(1.0, 20 * duration_s) * (self.goal_rev - self.position_rev)
        self.velocity_rev_per_s = step / duration_s if duration_s > 0 else 0.0
        self.position_rev += step
        self.current_a = 0.2 * self.torque_fraction * self.largest_a


def positioned(robot: Robot | None = None, **limits: float) -> Robot:
    """The robot with actuators that take displacements."""
    robot = robot or five_tendons()
    assert robot.actuators is not None
    values: dict[str, float] = {
        "maximum_n": 20.0,
        "maximum_displacement_m": 0.03,
        "speed_m_per_s": 0.05,
        "acceleration_m_per_s2": 0.5,
        "pay_out_m": 0.01,
        "pay_out_speed_m_per_s": 0.02,
        **limits,
    }
    servo = PositionServo(maximum_speed_rad_per_s=6.0)
    actuators = dataclasses.replace(
        robot.actuators,
        command="displacement",
        servo=servo,
        maximum_current_a=1.0,
        torque_constant_nm_per_a=CONSTANT,
        spool_radius_m=RADIUS_M,
        gear_ratio=1.0,
    )
    return robot.changed(actuators=actuators, limits=DisplacementLimits(**values), control=None, hardware=None)


def entries_of(kind: type[Motor], servos: Sequence[int] = SERVOS, **given: Any) -> tuple[Motor, ...]:
    """Entries of motors in a robot file, each other one turned round."""
    wound = {"spool_radius_m": RADIUS_M, "torque_constant_nm_per_a": CONSTANT, **given}
    return tuple(
        kind(**wound, id=servo, tendon=index + 1, polarity=-1 if index % 2 else 1) for index, servo in enumerate(servos)
    )


def dynamixels(port: str, servos: Sequence[int] = SERVOS, **changes: Any) -> Dynamixel:
    motors = entries_of(Entry, servos)
    given = {"maximum_current_a": 0.5, "receive_timeout_ms": TIMEOUT_MS, **changes}
    return Dynamixel(kind="dynamixel", port=port, motors=motors, **given)


class ServoStand:
    """Servos in real time, and a driver; X servos in current control unless others are given."""

    def __init__(
        self,
        servos: Callable[[dict[int, ServoMotor]], EmulatedServos] | None = None,
        driver: Callable[[str], Any] | None = None,
        start_rev: float = 0.0,
    ) -> None:
        self.motors = {servo: ServoMotor(start_rev) for servo in SERVOS}
        self.servos: Any = (servos or EmulatedDynamixels)(self.motors)
        self.line = ServoLine(self.servos)
        self._last_s = time.monotonic()
        self.pacer = Pacer(self.step, 0.0005)
        self.line.step(self._last_s)
        self.pacer.start()
        made = driver or (lambda port: driver_of(five_tendons(), dynamixels(port)))
        self.actuators = made(self.line.port)

    def step(self, now_s: float) -> None:
        for motor in self.motors.values():
            motor.advance(min(0.01, now_s - self._last_s))
        self._last_s = now_s
        self.line.step(now_s)

    def run_until(self, happened: Callable[[], bool], command: Any = None, timeout_s: float = 60.0) -> None:
        """Cycles of the driver until something happened, which must be in time."""
        end_s = time.monotonic() + timeout_s
        while not happened():
            assert time.monotonic() < end_s, "it did not happen in time"
            if command is not None:
                self.actuators.write(np.broadcast_to(np.asarray(command, dtype=float), 5), time.monotonic())
            self.actuators.read(time.monotonic())
            time.sleep(0.005)

    def names(self) -> set[str]:
        return {fault.split(": ", 1)[1] for fault in self.actuators.read(time.monotonic()).device_faults}

    def read(self) -> Any:
        return self.actuators.read(time.monotonic())

    def close(self) -> None:
        self.actuators.close()
        self.pacer.stop()
        self.line.close()


def driver_of(robot: Robot, settings: Dynamixel, **options: Any) -> DynamixelActuators:
    return DynamixelActuators(robot, settings, **{"answer_margin_s": PATIENCE_S, "simulated": True, **options})


def position_stand(model: str = "XL430-W250", start_rev: float = 0.3, **settings: Any) -> ServoStand:
    """A stand of servos that hold places."""
    return ServoStand(
        lambda motors: EmulatedDynamixels(motors, model_named(model)),
        lambda port: driver_of(positioned(), dynamixels(port, **settings)),
        start_rev,
    )


class SdkLine:
    """The library's port onto emulated servos in this process; it keeps what was written."""

    def __init__(self, sdk: Any, servos: Any) -> None:
        line, self.written, self.answers = self, bytearray(), bytearray()

        class Port(sdk.PortHandler):  # type: ignore[misc, name-defined]
            def readPort(self, length: int) -> bytes:
                taken = bytes(line.answers[:length])
                del line.answers[:length]
                return taken

            def writePort(self, data: Sequence[int]) -> int:
                line.written += bytes(data)
                line.answers += servos.take(bytes(data))
                return len(data)

            def clearPort(self) -> None:
                line.answers.clear()

            def setPacketTimeout(self, packet_length: int) -> None: ...

            def isPacketTimeout(self) -> bool:
                return not line.answers

        self.port = Port("servos")
