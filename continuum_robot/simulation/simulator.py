# SPDX-License-Identifier: Apache-2.0
"""A simulated robot for drivers in other processes: plant, devices, and the sockets on which drivers find them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from continuum_robot.drivers.protocols import TendonActuators, TendonReading
from continuum_robot.drivers.simulated_wires import simulator_folder
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.bodies.mechanisms import linked_count
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.link_server import LinkServer
from continuum_robot.simulation.devices.own_link import OwnLink
from continuum_robot.simulation.devices.plant_link import PlantLinkWriter, link_path
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.faults import LEVELS, MUJOCO, WIRE, check_device_settings
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.mujoco.world import PlacedWorld
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import BoardSockets, SimulatedHardware
from continuum_robot.simulation.wire.ports import Listener, make_folder, remove_folder

STEP_NS = 1_000_000
"""Longest step in lock-step, ns."""


@dataclass(frozen=True, slots=True)
class SimulatorReport:
    """What a simulator did since it was opened."""

    simulated_s: float
    busy_s: float
    skipped_s: float

    @property
    def us_per_ms(self) -> float:
        """Time for a simulated millisecond, us; NaN before the first."""
        return 1e3 * self.busy_s / self.simulated_s if self.simulated_s > 0 else math.nan


class Simulator:
    """The robot, moved by :meth:`step` in somebody's time. All methods may be called from any thread."""

    def __init__(
        self,
        robot: Robot,
        level: str,
        *,
        namespace: str = "",
        domain_id: str | None = None,
        contacts: Sequence[Contact] = (),
        world: PlacedWorld | None = None,
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        clock: Callable[[], float] | None = None,
        own_driver: bool = False,
    ) -> None:
        """``own_driver``: the driver is in the thread that moves the robot, and needs no socket at level dynamics."""
        if level not in LEVELS:
            raise ParameterError("level", level, ", ".join(LEVELS))
        check_device_settings(robot, level)
        if world is not None and level != MUJOCO:
            raise ParameterError("world", f"at level {level}", f"level {MUJOCO}: no other has obstacles")
        self.robot, self.level = robot, level
        self.folder = simulator_folder(namespace, robot.name, domain_id)
        self.now_s: float | None = None
        self.is_open = False
        """Whether drivers may connect."""
        self._lock = threading.RLock()
        self._begin_s = self._busy_s = self._skipped_before_s = 0.0
        self._boards: BoardSockets | None = None
        self._link: LinkServer | None = None
        self._own_driver = own_driver
        self._reading: TendonReading | None = None
        self._strings = PlantLinkWriter(link_path(namespace, robot.name, domain_id), linked_count(robot))
        self.hardware: SimulatedHardware | None = None
        self.actuators: SimulatedTendonActuators | None = None
        if level in (WIRE, MUJOCO):
            maker = Plant if level == WIRE else partial(MujocoPlant, world=world)
            self.hardware = SimulatedHardware(
                robot,
                rng=rng,
                contacts=contacts,
                link=self._strings,
                progress=progress,
                plant_maker=maker,
                clock=clock,
                folder=self.folder,
            )
        else:
            self.actuators = SimulatedTendonActuators(
                robot, rng=rng, link=self._strings, contacts=contacts, progress=progress
            )

    def open(self) -> None:
        """Make plant and devices, which may take a while the first time on a machine, then let drivers connect."""
        with self._lock:
            if self.is_open:
                return
            try:
                self._strings.open()  # first of all: it locks the robot's name
                make_folder(self.folder)
                if self.hardware is not None:
                    self.hardware.open()
                    self._boards = BoardSockets(self.hardware, self.folder)
                elif self.actuators is not None:
                    self.actuators.open()
                    if not self._own_driver:
                        self._link = LinkServer(self.actuators, self.folder)
            except BaseException:
                self.close()
                raise
            self.is_open = True
            self.now_s = None
            self._busy_s = 0.0
            self._skipped_before_s = self._skipped_s

    def close(self) -> None:
        """End; connected drivers notice. Safe to call at any time."""
        with self._lock:
            served, self.is_open, self._reading = self.is_open, False, None
            if self._boards is not None:
                self._boards.close()
            if self._link is not None:
                self._link.close()
            self._boards = self._link = None
            if served:
                # While the name is still locked: the folder may be another simulator's afterwards.
                for name in self.hardware.lines if self.hardware is not None else ():
                    (self.folder / name).unlink(missing_ok=True)
                remove_folder(self.folder)
            if self.hardware is not None:
                self.hardware.close()
            if self.actuators is not None:
                self.actuators.close()

    # --- time

    @property
    def period_s(self) -> float:
        """Of the steps in real time, s; of an open simulator."""
        return STEP_NS * 1e-9 if self.hardware is None else self.hardware.period_s

    def step(self, now_s: float) -> None:
        """Move the robot up to ``now_s``: what was sent before acts, what the devices send then can be read."""
        begun_s = time.perf_counter()
        with self._lock:
            if self.now_s is None:
                self._begin_s = self.now_s = now_s
            if self._boards is not None and self.hardware is not None:
                self._boards.accept()
                self.hardware.step(now_s)
            elif self.is_open and self.actuators is not None:
                if self._link is not None:
                    self._link.obey(self.now_s)
                self._reading = self.actuators.read(now_s)
                if self._link is not None:
                    self._link.send(self._reading)
            else:
                raise DeviceError("simulator", "is not open", "Open it first.")
            self.now_s = max(self.now_s, now_s)
            self._busy_s += time.perf_counter() - begun_s

    def advance_to(self, t_ns: int) -> None:
        """Move the robot up to a time in steps of a millisecond, and skip nothing: for lock-step.

        It begins at the first time: after a reset of the stack, time does not begin at 0 again.
        """
        with self._lock:
            if self.now_s is None:
                self.step(t_ns * 1e-9)
            now_ns = t_ns if self.now_s is None else round(self.now_s * 1e9)
            while now_ns < t_ns:
                now_ns = min(t_ns, now_ns + STEP_NS)
                self.step(now_ns * 1e-9)

    def link_on_demand(self) -> None:
        """Work out what sensors see when they ask: for an open simulator in one thread with all of them."""
        self._strings.write_on_demand()

    def accept(self) -> None:
        """Let drivers connect without moving the robot."""
        with self._lock:
            if self._boards is not None:
                self._boards.accept()
            if self._link is not None:
                self._link.accept()

    def own_actuators(
        self, tendon_count: int, *, takes_displacements: bool, receive_timeout_s: float
    ) -> TendonActuators:
        """What a driver in this thread drives at level dynamics, not open yet."""
        if self.actuators is None:
            raise DeviceError("simulator", f"has wires at level {self.level}", "Connect to these.")
        return OwnLink(
            self.actuators,
            lambda: self._reading,
            tendon_count,
            takes_displacements=takes_displacements,
            receive_timeout_s=receive_timeout_s,
        )

    @property
    def listeners(self) -> list[Listener]:
        """What drivers connect to: readable when one wants to."""
        boards = [] if self._boards is None else list(self._boards.listeners.values())
        return boards if self._link is None else [*boards, self._link.listener]

    def report(self) -> SimulatorReport:
        """What it did since it was opened."""
        with self._lock:
            lived_s = 0.0 if self.now_s is None else self.now_s - self._begin_s
            skipped_s = self._skipped_s - self._skipped_before_s
            return SimulatorReport(max(0.0, lived_s - skipped_s), self._busy_s, skipped_s)

    # --- the robot

    @property
    def plant(self) -> Plant:
        """The robot that moves, at levels "wire", "mujoco" and "dynamics" of a rod."""
        if self.hardware is not None:
            return self.hardware.plant
        if self.actuators is not None:
            return self.actuators.plant
        raise DeviceError("simulator", "has no plant", "Open it, at level dynamics or wire.")

    def set_payload(self, payload_kg: float) -> None:
        """Hang another mass at the robot's tip, from the next step on."""
        with self._lock:
            self.plant.set_payload(payload_kg)

    def set_gravity(self, gravity_m_per_s2: ArrayLike) -> None:
        """Go on in another gravity, as a stage turns the robot, from the next step on."""
        with self._lock:
            self.plant.set_gravity(gravity_m_per_s2)

    def inject(self, fault: str, target: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Make a device misbehave from the next step on."""
        with self._lock:
            if self.hardware is not None:
                self.hardware.inject(fault, target, magnitude, duration_s)
            elif self.actuators is not None:
                self.actuators.inject(fault, target, magnitude, duration_s)

    @property
    def _skipped_s(self) -> float:
        if self.hardware is not None:
            motors = self.hardware.motors
            return self.hardware.skipped_s + (0.0 if motors is None else motors.skipped_s)
        return 0.0 if self.actuators is None else self.actuators.skipped_s
