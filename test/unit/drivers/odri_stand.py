# SPDX-License-Identifier: Apache-2.0
"""A stand for tests: simulated ODRI boards with free motors, and the shipped driver, over wires in virtual time."""

from __future__ import annotations

import dataclasses
import itertools
import socket
from typing import Any

import can
import numpy as np
from board_peers import FreeMotor, PythonCanWire

from continuum_robot.drivers.can_bus import frame_sockets
from continuum_robot.drivers.odri_can.actuators import OdriTendonActuators
from continuum_robot.drivers.odri_can.emulator import SimulatedOdriBoard
from continuum_robot.drivers.odri_can.settings import OdriCan, OdriMotor
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.robot.actuation import Actuators
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.simulation.wire.can_wire import FrameSocketWire, SlcanAdapter

_NAMES = itertools.count()
SOCKETS = "sockets"
TICK_S = 0.001
GEAR, RADIUS_M, CONSTANT = 6.0, 0.009, 0.0235
NEWTON_PER_AMPERE = CONSTANT * GEAR / RADIUS_M
METER_PER_TURN = 2 * np.pi * RADIUS_M / GEAR


def five_tendons() -> Robot:
    """A robot with five tendons whose actuators are those of the constants above."""
    robot = load_robot("opencr_five_tendon")
    assert isinstance(robot.actuators, Actuators)
    return robot


def wiring(channels: tuple[str, ...], interface: str = "virtual", **changes: Any) -> OdriCan:
    """Five motors on three boards, tendon 2 and 4 with the other polarity."""
    places = [(channels[0], 1), (channels[0], 2), (channels[1], 1), (channels[1], 2), (channels[2], 2)]
    motors = tuple(
        OdriMotor(
            channel=channel,
            motor=motor,
            tendon=index + 1,
            polarity=-1 if index % 2 else 1,
            gear_ratio=GEAR,
            spool_radius_m=RADIUS_M,
            torque_constant_nm_per_a=CONSTANT,
        )
        for index, (channel, motor) in enumerate(places)
    )
    settings = OdriCan(kind="odri_can", interface=interface, channels=channels, maximum_current_a=2.0, motors=motors)
    return dataclasses.replace(settings, **changes)


class OdriStand:
    """Boards, motors and the driver, by default on socket pairs; ``sleep`` lets virtual time pass."""

    def __init__(
        self,
        interface: str = SOCKETS,
        *,
        start_rev: float = 0.0,
        aligned: bool = False,
        form: Any = None,
        current_noise_a: float = 0.0,
        **changes: Any,
    ):
        self.now_s = 10.0
        self.motors = [(FreeMotor(), FreeMotor()) for _ in range(3)]
        self.wires: list[Any]
        if interface == "slcan":
            self.wires = [SlcanAdapter() for _ in range(3)]
            self.names = tuple(wire.port for wire in self.wires)
        elif interface == SOCKETS:
            self.wires = [FrameSocketWire() for _ in range(3)]
            self.names = ("can0", "can1", "can2")
        else:
            self.names = tuple(f"stand{next(_NAMES)}" for _ in range(3))
            self.wires = [PythonCanWire(can.Bus(interface="virtual", channel=name)) for name in self.names]
        self.settings = wiring(self.names, "socketcan" if interface == SOCKETS else interface, **changes)
        self.boards = [
            SimulatedOdriBoard(
                wire,
                motors,
                alignment_s=0.3,
                start_rev=start_rev,
                aligned=aligned,
                single_slot=True,
                current_noise_a=current_noise_a,
                rng=np.random.default_rng(number),
            )
            for number, (wire, motors) in enumerate(zip(self.wires, self.motors, strict=True))
        ]
        self.actuators = OdriTendonActuators(
            five_tendons(),
            self.settings,
            socket_factory=self.socket if interface == SOCKETS else None,
            form=form,
            clock=lambda: self.now_s,
            sleep=self.sleep,
            simulated=True,
        )

    def socket(self, name: str) -> socket.socket:
        """The host's end of a channel."""
        host, device = frame_sockets()
        number = self.names.index(name)
        self.wires[number].close()
        self.wires[number] = self.boards[number].wire = FrameSocketWire(device)
        return host

    def sleep(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        while self.now_s < end_s - 1e-9:
            self.now_s += TICK_S
            for board in self.boards:
                board.step(self.now_s)
            for motor in itertools.chain(*self.motors):
                motor.advance(TICK_S)

    def run(self, duration_s: float, tension: Any = None) -> TendonReading:
        """Cycles of the driver, with a command in each, or none; the last reading."""
        for _ in range(round(duration_s / TICK_S)):
            self.sleep(TICK_S)
            reading = self.actuators.read(self.now_s)
            if tension is not None:
                self.actuators.write(np.asarray(tension, dtype=float), self.now_s)
        return reading

    def up(self) -> TendonReading:
        """Open and enabled, and past the boards' first second with its many statuses."""
        self.actuators.open()
        self.actuators.enable()
        self.sleep(1.2)
        return self.run(0.02, np.zeros(5))

    def close(self) -> None:
        self.actuators.close()
        for wire in self.wires:
            wire.close()
