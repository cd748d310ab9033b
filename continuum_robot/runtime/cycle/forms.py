# SPDX-License-Identifier: Apache-2.0
"""Which form of the cycle runs, compiled or interpreted, and why; its parts by their names in either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.inverse_dynamics import InverseDynamicsController
from continuum_robot.drivers.handed_device import HandedDevice
from continuum_robot.drivers.protocols import RunsInCycle, TendonActuators
from continuum_robot.drivers.reading_buffer import ReadingBuffer
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.runtime.cycle.loop import CycleLoop
from continuum_robot.runtime.cycle.reference_input import ReferenceInput

INTERPRETED = SimpleNamespace(
    TendonSafety=TendonSafety,
    ClarkeController=ClarkeController,
    InverseDynamicsController=InverseDynamicsController,
    ControllerCycle=ControllerCycle,
    ReferenceInput=ReferenceInput,
    ReadingBuffer=ReadingBuffer,
    HandedDevice=HandedDevice,
    DriverCycle=DriverCycle,
    CycleLoop=CycleLoop,
)
"""The parts as Python runs them."""


@dataclass(frozen=True)
class Form:
    """A form of the cycle."""

    parts: Any
    compiled: bool
    reason: str

    @property
    def name(self) -> str:
        """``compiled`` or ``interpreted``."""
        return "compiled" if self.compiled else "interpreted"


def compiled_form(progress: Callable[[str], None] | None = None) -> Form:
    """The compiled form where it can be had, else the interpreted one with the reason."""
    try:
        return Form(compiled_cycle(progress), True, "without the interpreter lock")
    except NotCompiledError as error:
        return interpreted_form(str(error).partition("\n")[0])


def interpreted_form(reason: str) -> Form:
    """The interpreted form."""
    return Form(INTERPRETED, False, reason)


def form_of(actuators: TendonActuators, desired: Form) -> Form:
    """The form in which these actuators can be driven."""
    if not desired.compiled:
        return desired
    if not isinstance(actuators, RunsInCycle):
        return Form(desired.parts, True, f"between calls of Python to {type(actuators).__name__}")
    return desired if actuators.compiled else interpreted_form(f"{type(actuators).__name__} were made interpreted")
