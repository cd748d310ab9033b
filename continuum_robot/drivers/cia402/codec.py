# SPDX-License-Identifier: Apache-2.0
"""CANopen frames and the state machine of drives. Source: CiA 301 and CiA 402 (IEC 61800-7-201).

An object is given as ``index << 8 | subindex``. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from continuum_robot.drivers.can_bus import Frame

NMT, SYNC, EMERGENCY, HEARTBEAT = 0x000, 0x080, 0x080, 0x700
TPDO1, TPDO2, RPDO1 = 0x180, 0x280, 0x200
SDO_ANSWER, SDO_REQUEST = 0x580, 0x600
"""Function codes of CiA 301's predefined connection set; the node id is added."""
START, PRE_OPERATE = 0x01, 0x80
BOOT_UP, OPERATIONAL, PRE_OPERATIONAL = 0x00, 0x05, 0x7F

DEVICE_TYPE = 0x1000_00
CONSUMER_HEARTBEAT = 0x1016_01
PRODUCER_HEARTBEAT = 0x1017_00
ABORT_CONNECTION = 0x6007_00
ERROR_CODE = 0x603F_00
CONTROLWORD = 0x6040_00
STATUSWORD = 0x6041_00
QUICK_STOP_OPTION = 0x605A_00
MODE, MODE_DISPLAY = 0x6060_00, 0x6061_00
POSITION = 0x6064_00
VELOCITY = 0x606C_00
FOLLOWING_WINDOW = 0x6065_00
TARGET_TORQUE = 0x6071_00
LARGEST_TORQUE = 0x6072_00
RATED_TORQUE = 0x6076_00
TORQUE = 0x6077_00
TARGET_POSITION = 0x607A_00
CYCLE, CYCLE_EXPONENT = 0x60C2_01, 0x60C2_02
SUPPORTED_MODES = 0x6502_00

OBJECTS = {
    DEVICE_TYPE: "<I",
    CONSUMER_HEARTBEAT: "<I",
    PRODUCER_HEARTBEAT: "<H",
    ABORT_CONNECTION: "<h",
    ERROR_CODE: "<H",
    CONTROLWORD: "<H",
    STATUSWORD: "<H",
    QUICK_STOP_OPTION: "<h",
    MODE: "<b",
    MODE_DISPLAY: "<b",
    POSITION: "<i",
    VELOCITY: "<i",
    FOLLOWING_WINDOW: "<I",
    TARGET_TORQUE: "<h",
    LARGEST_TORQUE: "<H",
    RATED_TORQUE: "<I",
    TORQUE: "<h",
    TARGET_POSITION: "<i",
    CYCLE: "<B",
    CYCLE_EXPONENT: "<b",
    SUPPORTED_MODES: "<I",
}
"""How each object is packed; those of PDOs have :func:`form_of`."""

CSP, CST = 8, 10
PROFILE_402 = 402
STOP_QUICKLY = 3
"""Value of :data:`ABORT_CONNECTION`."""
STOP_AND_SWITCH_OFF, STOP_AND_HOLD = 2, 6
"""Values of :data:`QUICK_STOP_OPTION`: on the quick stop ramp, and what follows."""

DISABLE_VOLTAGE, SHUTDOWN, SWITCH_ON, ENABLE_OPERATION, RESET_FAULT = 0x00, 0x06, 0x07, 0x0F, 0x80
"""Values of :data:`CONTROLWORD`."""
FOLLOWING_ERROR = 1 << 13
"""Of :data:`STATUSWORD`, in CSP."""

NOT_READY, SWITCH_ON_DISABLED, READY, SWITCHED_ON, ENABLED, QUICK_STOP_ACTIVE, FAULT_REACTION, FAULT = (
    "not ready to switch on",
    "switch on disabled",
    "ready to switch on",
    "switched on",
    "operation enabled",
    "quick stop active",
    "fault reaction active",
    "fault",
)
STATES = {
    NOT_READY: (0x4F, 0x00),
    SWITCH_ON_DISABLED: (0x4F, 0x40),
    READY: (0x6F, 0x21),
    SWITCHED_ON: (0x6F, 0x23),
    ENABLED: (0x6F, 0x27),
    QUICK_STOP_ACTIVE: (0x6F, 0x07),
    FAULT_REACTION: (0x4F, 0x0F),
    FAULT: (0x4F, 0x08),
}
"""Mask and value of :data:`STATUSWORD` in each state."""
TOWARDS_ENABLED = {
    SWITCH_ON_DISABLED: SHUTDOWN,
    READY: SWITCH_ON,
    SWITCHED_ON: ENABLE_OPERATION,
    QUICK_STOP_ACTIVE: DISABLE_VOLTAGE,
}
"""The controlword that brings a drive a state nearer to operation; in the others it has to be waited for."""

_SIZES = {1: 0x2F, 2: 0x2B, 4: 0x23}
_READ, _WRITTEN, _ABORTED = 0x40, 0x60, 0x80
_GIVEN = {0x4F: 1, 0x4B: 2, 0x47: 3, 0x43: 4, 0x42: 4}
_NO_PDO, _NO_REMOTE_FRAMES = 1 << 31, 1 << 30
_EVERY_SYNC = 1
_WORD = struct.Struct("<H")
STATE_PDO, SPEED_PDO = struct.Struct("<Hih"), struct.Struct("<i")
"""Statusword, position, torque; velocity."""


class Pdo(NamedTuple):
    """A process data object: its communication and mapping parameters, function code, and objects."""

    communication: int
    mapping: int
    function: int
    objects: tuple[int, ...]


STATES_SENT = Pdo(0x1800, 0x1A00, TPDO1, (STATUSWORD, POSITION, TORQUE))
SPEEDS_SENT = Pdo(0x1801, 0x1A01, TPDO2, (VELOCITY,))


def goals_received(target: int) -> Pdo:
    """Controlword and target; ``target``: its object."""
    return Pdo(0x1400, 0x1600, RPDO1, (CONTROLWORD, target))


def is_mapping(index: int) -> bool:
    """Whether an object's index is that of the mapping of a PDO."""
    return 0x1400 <= index <= 0x1BFF and bool(index & 0x200)


def form_of(key: int) -> str:
    """How an object is packed; "" for one that is not known."""
    index, sub = key >> 8, key & 0xFF
    if 0x1400 <= index <= 0x1BFF:
        return "<B" if sub == 0 or (sub == 2 and not is_mapping(index)) else "<I"
    return OBJECTS.get(key, "")


def pdo_set_up(pdo: Pdo, node: int) -> list[tuple[int, int]]:
    """Objects and values that set a PDO up, in order: off, mapped, with each SYNC, on."""
    communication, mapping = pdo.communication << 8, pdo.mapping << 8
    # Drives without remote frames refuse to be asked by them, as CiA 301 wants.
    identifier = pdo.function + node | (_NO_REMOTE_FRAMES if pdo.communication >= 0x1800 else 0)
    entries = [key << 8 | 8 * struct.calcsize(form_of(key)) for key in pdo.objects]
    return [
        (communication | 1, _NO_PDO | identifier),
        (mapping, 0),
        *((mapping | sub, entry) for sub, entry in enumerate(entries, 1)),
        (mapping, len(entries)),
        (communication | 2, _EVERY_SYNC),
        (communication | 1, identifier),
    ]


def read_request(node: int, key: int) -> Frame:
    """Upload of an object."""
    return Frame(SDO_REQUEST + node, struct.pack("<BHB4x", _READ, key >> 8, key & 0xFF))


def write_request(node: int, key: int, value: int) -> Frame:
    """Expedited download of an object."""
    data = struct.pack(form_of(key), value)
    head = struct.pack("<BHB", _SIZES[len(data)], key >> 8, key & 0xFF)
    return Frame(SDO_REQUEST + node, head + data.ljust(4, b"\0"))


class SdoAnswer(NamedTuple):
    """Of a drive: the object, its value where it was read, and why it refused, 0 where it did not."""

    key: int
    value: int
    abort: int


def sdo_answer(data: bytes) -> SdoAnswer | None:
    """What a drive answered to an expedited transfer; None for anything else."""
    if len(data) != 8:
        return None
    command, index, sub = struct.unpack_from("<BHB", data)
    key, rest = index << 8 | sub, data[4:]
    if command == _ABORTED:
        return SdoAnswer(key, 0, int.from_bytes(rest, "little"))
    if command == _WRITTEN:
        return SdoAnswer(key, 0, 0)
    form, size = form_of(key), _GIVEN.get(command)
    if not form or size is None or size < struct.calcsize(form):
        return None
    return SdoAnswer(key, struct.unpack_from(form, rest)[0], 0)


def state_of(statusword: int) -> str:
    """State of a drive."""
    return next((name for name, (mask, value) in STATES.items() if statusword & mask == value), NOT_READY)


def goal_frame(node: int, target: int, controlword: int, value: int) -> Frame:
    """The RPDO of :func:`goals_received`."""
    return Frame(RPDO1 + node, _WORD.pack(controlword) + struct.pack(form_of(target), value))


def wrapped(counts: int) -> int:
    """A position as 32 bits with a sign hold it."""
    return (counts + (1 << 31)) % (1 << 32) - (1 << 31)


ABORTS = {
    0x0504_0000: "SDO timeout",
    0x0601_0000: "access not supported",
    0x0601_0002: "read only",
    0x0602_0000: "no such object",
    0x0604_0041: "cannot be mapped",
    0x0607_0010: "another length",
    0x0609_0011: "no such subindex",
    0x0609_0030: "value out of range",
    0x0800_0022: "not in this state",
}
ERRORS = {
    0x10: "generic",
    0x21: "over_current_input",
    0x22: "over_current_inside",
    0x23: "over_current_output",
    0x31: "mains_voltage",
    0x32: "dc_link_voltage",
    0x33: "output_voltage",
    0x41: "ambient_temperature",
    0x42: "device_temperature",
    0x43: "drive_temperature",
    0x44: "supply_temperature",
    0x51: "supply",
    0x54: "power_stage",
    0x55: "data_storage",
    0x61: "internal_software",
    0x63: "parameters",
    0x71: "power_module",
    0x73: "sensor",
    0x75: "communication",
    0x81: "communication_monitoring",
    0x82: "protocol",
    0x84: "velocity_control",
    0x85: "position_control",
    0x86: "positioning",
    0xFF: "manufacturer",
}
"""By the high byte of :data:`ERROR_CODE`, CiA 402 and CiA 301."""
HEARTBEAT_ERROR, FOLLOWING_ERROR_CODE = 0x8130, 0x8611


def error_text(code: int) -> str:
    """Name and code of a drive's error, e.g. ``drive_temperature_4310``."""
    exact = {HEARTBEAT_ERROR: "host_heartbeat_lost", FOLLOWING_ERROR_CODE: "following_error"}
    return f"{exact.get(code) or ERRORS.get(code >> 8, 'unknown')}_{code:04x}"
