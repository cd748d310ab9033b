# SPDX-License-Identifier: Apache-2.0
"""A servo robot under control in virtual time: the shipped cycle, safety logic and controller, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import RestToRest
from continuum_robot.drivers.safety.tendon_safety import ACTIVE
from continuum_robot.errors import DeviceError
from continuum_robot.identification.procedures.load_onset import homing_of
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.testing.virtual_stack import VirtualStack

Vector = NDArray[np.float64]
RESTART_S = 1.0
"""Servos restart when their faults are cleared."""
FIRST_LOOK_S = 0.1

Change = Callable[[Vector], Vector | None]


@dataclass
class Seen:
    """A row a cycle."""

    time_s: list[float] = field(default_factory=list)
    tension_n: list[Vector] = field(default_factory=list)
    spool_m: list[Vector] = field(default_factory=list)
    commanded_m: list[Vector] = field(default_factory=list)
    error_m: list[Vector] = field(default_factory=list)


class VirtualServos(VirtualStack):
    """A servo robot under control, and what really happens to it."""

    def __init__(self, robot: Robot, plant: Plant, seed: int, *, bus: bool = False) -> None:
        plant.reset()
        self.seen, self._plant = Seen(), plant
        self.device_faults: dict[str, None] = {}
        self._manifold, self._sequence = clarke_manifold(robot), 0
        self.bus = SimulatedHardware(robot, plant, np.random.default_rng(seed)) if bus else None
        super().__init__(robot, plant, seed=seed, hardware=self.bus)
        self._control = self.loop.cycle.controller

    def begin(self, way: RestToRest) -> None:
        """Begin a motion."""
        self._way, self._way_from_s = way.at, self.now_s

    def command_instead(self, change: Change, *, late_s: float = 0.0, repeated: bool = False) -> None:
        """Another program commands from now on, in every cycle."""
        start = self.loop.safety.commanded

        def send(_stack: VirtualStack) -> None:
            self._sequence += not repeated or not self._sequence
            command = change(start.copy())
            if command is not None:
                self.loop.cycle.command(command.tolist(), self.now_s - late_s, self._sequence)

        self.loop.cycle.attach(None)
        self._look = send

    def command_again(self) -> None:
        """The shipped controller commands, and holds where it is; until it is activated again, if the robot stopped."""
        self._look = self._way = None
        self.loop.cycle.attach(self._control)
        self.loop.cycle.control_now(on=self.loop.safety.state == ACTIVE)

    # --- what a user does

    def end(self, *, clear: bool = False) -> None:
        """Power off and end the driver."""
        self.command_again()
        self.deactivate()
        if clear:
            self.actuators.clear_faults()
            self.run(RESTART_S)
        self.actuators.close()

    def open(self) -> None:
        """Start the driver, and reset it."""
        self.device_faults.clear()
        self.actuators.open()
        self.loop.safety.torque_off()
        self.loop.safety.positions_known = not self.is_lost
        self.run(FIRST_LOOK_S)
        blocking = self.loop.safety.reset()
        if blocking:
            raise DeviceError("reset", "refused: " + ", ".join(blocking), "Remove the cause.")

    @property
    def is_lost(self) -> bool:
        """Whether it has to be homed: a servo does not count from where it did."""
        return self.bus is not None and not self.actuators.aligned

    def require_zero(self) -> None:
        """Raise :class:`DeviceError` where the robot has to be homed, as the driver's node does."""
        if self.is_lost:
            raise DeviceError("servos", "one lost its power, or its position, since the homing", "Home the robot.")

    def home(self) -> None:
        """Home the robot, and switch off. Raises :class:`ContinuumRobotError`."""
        self.drive(homing_of(self.robot))
        self.loop.safety.positions_known = True
        self.run(self.period_s)  # what is read counts from the new zero then

    def on_row(self, row: list[float]) -> None:
        """Note the truth, then as :class:`VirtualStack`."""
        plant, seen, desired = self._plant, self.seen, self.desired
        seen.time_s.append(self.now_s)
        seen.tension_n.append(plant.tension)
        seen.spool_m.append(plant.displacement)
        seen.commanded_m.append(self.loop.safety.commanded)
        here = self._manifold.clarke(plant.rod_displacement)
        seen.error_m.append(np.full(here.shape, np.nan) if desired is None else here - desired.position)
        self.device_faults.update(dict.fromkeys(self.loop.devices.device_faults))
        super().on_row(row)
