# SPDX-License-Identifier: Apache-2.0
"""The drivers of the devices that a robot file names: those of this package and of others.

A device of this package is a folder of drivers/, named after its kind, with the modules ``settings``
(robot/doors.py) and ``device``. The latter has ``make(robot, settings, ...)``, which gives its driver, and perhaps
``survey(robot, settings)``, which looks for it; without that the motors of a bus are asked who they are, and other
drivers opened. A device that is simulated to the byte has ``emulator(robot, settings, ...)`` in its module
``emulator``, motors on a bus ``emulator(robot, settings, motors)``; boards on CAN channels have ``boards(settings,
port, wire, ...)`` in ``device``, with ``BOARD_FAULTS``, the meaning of what can be injected into them. Motors that
report other faults than servos do have a ``faults.yaml`` (named_faults.py). ``CYCLE_MODULES``: see
:class:`.protocols.RunsInCycle`.

Another package offers tendon actuators under their ``kind`` in the entry points ``continuum_robot.tendon_actuators``: a
class that is made with a robot and the section of its file, is a
:class:`~continuum_robot.drivers.protocols.TendonActuators`, and has as ``settings`` the dataclass of that section, a
:class:`~continuum_robot.robot.hardware.MotorsSection`. So it does string encoders (``continuum_robot.string_encoders``,
with ``strings`` in the section, each with the name ``string``) force sensors (``continuum_robot.force_sensors``)
and sensors of tensions (``continuum_robot.tension_sensors``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import monotonic, sleep
from typing import Any, cast

from continuum_robot.drivers.base_stage import SimulatedStage, StageAxes, stage_motors
from continuum_robot.drivers.joined_actuators import JoinedActuators, MeasuredTensions, transmitted
from continuum_robot.drivers.polled import BusActuators
from continuum_robot.drivers.protocols import (
    DisplacementActuators,
    ForceSensor,
    StringEncoders,
    TendonActuators,
    TensionSensors,
    Tracker,
)
from continuum_robot.drivers.simulated_wires import SimulatedWires
from continuum_robot.drivers.survey import Finding, motors_findings, opened
from continuum_robot.errors import ParameterError
from continuum_robot.robot.coupling import coupling_of
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import (
    DEVICES,
    FORCE_SENSORS,
    STRING_ENCODERS,
    TENDON_ACTUATORS,
    TENSION_SENSORS,
    TRACKERS,
    added,
    offered,
    shipped,
)
from continuum_robot.robot.hardware import Hardware

Time = tuple[Callable[[], float], Callable[[float], None]]
"""Clock and waiting, s."""

_KIND = "hardware.tendon_actuators.kind"
SECTIONS = {
    "tendon_actuators": (TENDON_ACTUATORS, TendonActuators, "tendon actuators", "all motors answer"),
    "string_encoders": (STRING_ENCODERS, StringEncoders, "string encoders", "can be opened"),
    "tension_sensors": (TENSION_SENSORS, TensionSensors, "sensors of tensions", "can be opened"),
    "force_sensor": (FORCE_SENSORS, ForceSensor, "a force sensor", "can be opened"),
    "base_stage": (TENDON_ACTUATORS, DisplacementActuators, "a base stage", "all motors answer"),
    "tracker": (TRACKERS, Tracker, "a tracker of the tip", "answers, and sees what is at the tip"),
}
"""By their key in ``hardware``: door, protocol, what they are, and that one could be opened."""


def hardware_of(robot: Robot) -> Hardware:
    """The hardware section of a robot, checked against it."""
    if robot.hardware is None:
        name = robot.file_name or robot.name
        expected = "a robot file with a hardware section; docs/how-to/hardware_bringup.md shows one"
        raise ParameterError("robot", name, expected)
    robot.check_hardware()
    return robot.hardware


def device_of(kind: str) -> Any:
    """The module ``device`` of a kind of this package; None for those of others."""
    known = any(kind in shipped(door) for door, *_ in SECTIONS.values())
    return import_module(f"{DEVICES}.{kind}.device") if known else None


def emulator_of(kind: str) -> Any:
    """What makes the emulator of a kind of this package; None where there is none."""
    module = f"{DEVICES}.{kind}.emulator"
    if device_of(kind) is None or find_spec(module) is None:
        return None
    return getattr(import_module(module), "emulator", None)


def tendon_actuators(robot: Robot, interface: str = "", *, form: Any = None) -> TendonActuators:
    """The driver of the robot's motors, not open yet."""

    def make(_number: int, settings: Any, form: Any) -> TendonActuators:
        device = device_of(settings.kind)
        options = {"interface": interface, "form": form} if hasattr(device, "boards") else {}
        return cast("TendonActuators", _made(robot, "tendon_actuators", settings, **options))

    actuators = joined(robot, make, None, form)
    sensors = hardware_of(robot).tension_sensors
    if sensors is None:
        return actuators
    if not robot.takes_displacements:
        raise ParameterError("hardware.tension_sensors", sensors.kind, "none: motors that take tensions measure them")
    sensed = MeasuredTensions(actuators, cast("TensionSensors", _made(robot, "tension_sensors")))
    return cast("TendonActuators", sensed)


def simulated_tendon_actuators(robot: Robot, wires: SimulatedWires, time: Time | None, form: Any) -> TendonActuators:
    """The same driver on the wires of a simulated robot, not open yet."""
    if not on_wires(robot):
        kind = hardware_of(robot).tendon_actuators.kind
        raise ParameterError(_KIND, kind, f"with simulation_level wire of {', '.join(_simulated())}")

    def make(number: int, settings: Any, form: Any) -> TendonActuators:
        device = device_of(settings.kind)
        if hasattr(device, "boards"):
            stepped = {} if time is None else {"clock": time[0], "sleep": time[1]}
            boards = device.make(
                robot, settings, socket_factory=wires.open_channel, simulated=True, form=form, **stepped
            )
            made = _checked(robot, settings, boards)
        else:
            made = _made(
                robot,
                "tendon_actuators",
                settings,
                clock=monotonic if time is None else time[0],
                simulated=True,
                find_port=partial(wires.find_servos, number),
                stepped=time is not None,
            )
        return cast("TendonActuators", made)

    return joined(robot, make, time, form)


def joined(
    robot: Robot, make: Callable[[int, Any, Any], TendonActuators], time: Time | None, form: Any = None
) -> TendonActuators:
    """The motors of all sections of a robot, behind its transmission, not open yet."""
    sections = list(hardware_of(robot).motor_sections.values())
    if len(sections) == 1:
        return transmitted(make(0, sections[0], form), coupling_of(robot))
    clock, wait = (monotonic, sleep) if time is None else time
    made = JoinedActuators(
        [make(number, section, None) for number, section in enumerate(sections)],
        [sorted(entry.number for entry in section.motors) for section in sections],
        clock=clock,
        sleep=wait,
        stepped=time is not None,
    )
    return transmitted(cast("TendonActuators", made), coupling_of(robot))


def _motors() -> dict[str, Any]:
    """Modules ``device`` of this package's motors, by kind."""
    return {kind: device_of(kind) for kind in shipped(TENDON_ACTUATORS)}


def _simulated() -> list[str]:
    """Kinds of motors that are simulated to the byte."""
    return [kind for kind, device in _motors().items() if hasattr(device, "boards") or emulator_of(kind)]


def board_faults() -> dict[str, str]:
    """Name and meaning of every fault that can be injected into simulated boards."""
    return {name: words for device in _motors().values() for name, words in getattr(device, "BOARD_FAULTS", {}).items()}


def boards_of(robot: Robot) -> Any:
    """The section of a robot's motor boards on CAN channels. Raises :class:`ParameterError` for other motors."""
    hardware = hardware_of(robot)
    for section in hardware.motor_sections.values():
        if hasattr(device_of(section.kind), "boards"):
            return section
    kinds = ", ".join(kind for kind, device in _motors().items() if hasattr(device, "boards"))
    raise ParameterError(_KIND, hardware.tendon_actuators.kind, f"motor boards on CAN channels: {kinds}")


def on_wires(robot: Robot) -> bool:
    """Whether the robot's motors can be simulated to the byte: of a kind of this package, or none that its
    file names.
    """
    sections = () if robot.hardware is None else robot.hardware.motor_sections.values()
    return {section.kind for section in sections} <= set(_simulated())


def string_encoders(robot: Robot, port: str = "") -> StringEncoders:
    """The driver of the robot's string encoders, not open yet; arguments and errors as :func:`tendon_actuators`."""
    return cast("StringEncoders", _made(robot, "string_encoders", port=port))


def base_stage(robot: Robot, *, simulated: bool, **options: Any) -> StageAxes:
    """The driver of the robot's base stage, not open yet."""
    stage = robot.base_stage
    if stage is None:
        raise ParameterError("robot.base_stage", None, f"a stage in the file of robot {robot.name!r}")
    if simulated:
        return StageAxes(SimulatedStage(int(stage.has.sum())), stage)
    motors = _made(robot, "base_stage", **options)
    if not getattr(motors, "takes_displacements", False):
        raise ParameterError("hardware.base_stage.kind", motors, "motors that take displacements")
    return StageAxes(motors, stage)


def tracker(robot: Robot, port: str = "") -> Tracker:
    """The driver of the tracker of the robot's tip, not open yet; arguments and errors as :func:`string_encoders`."""
    return cast("Tracker", _made(robot, "tracker", port=port))


def force_sensor(robot: Robot, port: str = "") -> ForceSensor:
    """The driver of the robot's force sensor, not open yet; arguments and errors as :func:`string_encoders`."""
    return cast("ForceSensor", _made(robot, "force_sensor", port=port))


def survey(robot: Robot, section: str) -> list[Finding]:
    """Look for the device of a section, without switching anything on; nothing where the file has none."""
    hardware = hardware_of(robot)
    settings = getattr(hardware, section)
    if settings is None:
        return []
    several = list(hardware.motor_sections.values()) if section == "tendon_actuators" else [settings]
    return [finding for one in several for finding in _survey(robot, section, one)]


def _survey(robot: Robot, section: str, settings: Any) -> list[Finding]:
    device = device_of(settings.kind)
    if hasattr(device, "survey"):
        return list(device.survey(robot, settings))
    driver = _made(robot, section, settings)
    if isinstance(driver, BusActuators):
        return motors_findings(driver)
    _, _, title, words = SECTIONS[section]
    place = str(getattr(settings, "port", settings.kind))
    return [opened(title.removeprefix("a "), place, driver, lambda: words)]


def _made(robot: Robot, section: str, settings: Any = None, **options: Any) -> Any:
    """The driver of a section of the robot's hardware, of this package or of another, which takes no options."""
    door, protocol, title, _ = SECTIONS[section]
    settings = settings or getattr(hardware_of(robot), section)
    if settings is None:
        raise ParameterError(f"hardware.{section}", None, f"{title} in the file of robot {robot.name!r}")
    if section == "base_stage":
        robot, settings = stage_motors(robot)
    if (device := device_of(settings.kind)) is not None:
        made = device.make(robot, settings, **options)
    else:
        key = f"hardware.{section}.kind"
        driver = added(door, settings.kind, key)
        if driver is None:
            raise ParameterError(
                key, settings.kind, f"a kind of this package, or of {', '.join(offered(door)) or door}"
            )
        made = driver(robot, settings)
        if not isinstance(made, protocol):
            raise ParameterError(key, settings.kind, f"a class that is a {protocol.__name__}: {driver!r} lacks methods")
    return _checked(robot, settings, made) if section == "tendon_actuators" else made


def _checked(robot: Robot, settings: Any, made: Any) -> Any:
    """A driver that takes what the robot's actuators take."""
    if getattr(made, "takes_displacements", False) != robot.takes_displacements and robot.actuators is not None:
        able = "tension" if robot.takes_displacements else "displacement"
        expected = f"{able}, what motors of kind {settings.kind} take"
        raise ParameterError("actuators.command", robot.actuators.command, expected)
    return made
