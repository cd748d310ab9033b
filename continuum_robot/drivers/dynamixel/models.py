# SPDX-License-Identifier: Apache-2.0
"""Models of Dynamixel servos: their numbers, modes and units. Source: their control tables on emanual.robotis.com."""

from __future__ import annotations

from typing import NamedTuple

from continuum_robot.errors import DeviceError

PROTOCOL_1, PROTOCOL_2 = 1, 2

CURRENT, VELOCITY, POSITION = "current", "velocity", "position"
EXTENDED_POSITION, CURRENT_BASED_POSITION = "extended_position", "current_based_position"
MODES = {CURRENT: 0, VELOCITY: 1, POSITION: 3, EXTENDED_POSITION: 4, CURRENT_BASED_POSITION: 5}
"""Value of the register Operating Mode."""

_LOAD = (VELOCITY, POSITION, EXTENDED_POSITION)
_TORQUE = (CURRENT, *_LOAD)
_ALL = (*_TORQUE, CURRENT_BASED_POSITION)
RAM_OF_P = 448
"""By how much the volatile registers of the P series stand higher than those of the X series."""


class Model(NamedTuple):
    """What the driver has to know of a model."""

    name: str
    modes: tuple[str, ...]
    current_unit_a: float = 0.0
    counts_per_turn: float = 4096
    turn_rev: float = 1.0
    velocity_unit_rev_per_s: float = 0.229 / 60
    acceleration_unit_rev_per_s2: float = 214.577 / 3600
    ram: int = 0
    protocol: int = PROTOCOL_2


def _p(name: str, counts_per_turn: int) -> Model:
    return Model(name, _TORQUE, 0.001, counts_per_turn, 1.0, 0.01 / 60, 60.0**-2, RAM_OF_P)


def _old(name: str, counts: float, turn_rev: float, rpm: float) -> Model:
    return Model(name, (POSITION,), 0.0, counts, turn_rev, rpm / 60, protocol=PROTOCOL_1)


def _ax(name: str) -> Model:
    """AX and RX: 1023 counts over 300 degrees."""
    return _old(name, 1023 * 360 / 300, 300 / 360, 0.111)


MODELS: dict[int, Model] = {
    **{
        number: Model(name, _LOAD)
        for number, name in {
            1060: "XL430-W250",
            1070: "XC430-W150",
            1080: "XC430-W240",
            1090: "2XL430-W250",
            1160: "2XC430-W250",
        }.items()
    },
    **{
        number: Model(name, _ALL, 0.001)
        for number, name in {
            1190: "XL330-M077",
            1200: "XL330-M288",
            1210: "XC330-T181",
            1220: "XC330-T288",
            1230: "XC330-M181",
            1240: "XC330-M288",
        }.items()
    },
    **{
        number: Model(name, _ALL, 0.00269)
        for number, name in {
            1000: "XH430-W350",
            1010: "XH430-W210",
            1040: "XH430-V350",
            1050: "XH430-V210",
            1100: "XH540-W270",
            1110: "XH540-W150",
            1140: "XH540-V270",
            1150: "XH540-V150",
            1001: "XD430-T350",
            1011: "XD430-T210",
            1101: "XD540-T270",
            1111: "XD540-T150",
            1020: "XM430-W350",
            1030: "XM430-W210",
            1120: "XM540-W270",
            1130: "XM540-W150",
            1170: "XW540-T260",
            1180: "XW540-T140",
            1270: "XW430-T333",
            1280: "XW430-T200",
            1310: "XW540-H260",
        }.items()
    },
    30: Model("MX-28(2.0)", _LOAD),
    311: Model("MX-64(2.0)", _ALL, 0.00336),
    321: Model("MX-106(2.0)", _ALL, 0.00336),
    2000: _p("PH42-020-S300", 607_500),
    2010: _p("PH54-100-S500", 1_003_846),
    2020: _p("PH54-200-S500", 1_003_846),
    2100: _p("PM42-010-S260", 526_374),
    2110: _p("PM54-040-S250", 502_834),
    2120: _p("PM54-060-S250", 502_834),
    12: _ax("AX-12A"),
    18: _ax("AX-18A"),
    300: _ax("AX-12W"),
    10: _ax("RX-10"),
    24: _ax("RX-24F"),
    28: _ax("RX-28"),
    64: _ax("RX-64"),
    360: _old("MX-12W", 4096, 1.0, 0.916),
    29: _old("MX-28", 4096, 1.0, 0.114),
    310: _old("MX-64", 4096, 1.0, 0.114),
    320: _old("MX-106", 4096, 1.0, 0.114),
}
"""By the number in their first register."""

NUMBERS = {model.name: number for number, model in MODELS.items()}


def model_named(name: str) -> Model:
    """The model of a name of :data:`NUMBERS`."""
    return MODELS[NUMBERS[name]]


def known_model(number: int, protocol: int, wanted: str, device: str) -> Model:
    """The model of a number in a servo's first register."""
    model = MODELS.get(number)
    if model is None or model.protocol != protocol:
        known = ", ".join(names_of(protocol))
        raise DeviceError(device, f"is of model {number}, which is not known here", f"Known are {known}.")
    if wanted not in ("", model.name):
        remedy = "Mend hardware.tendon_actuators.model, or the servo's number."
        raise DeviceError(device, f"is an {model.name}, not an {wanted}", remedy)
    return model


def names_of(protocol: int) -> list[str]:
    """Names of the models that speak a protocol."""
    return [model.name for model in MODELS.values() if model.protocol == protocol]


def assumed_model(name: str, protocol: int, displacements: bool) -> Model:
    """The model that a robot file names, or the one that is taken where it names none."""
    if protocol == PROTOCOL_1:
        return model_named(name or "AX-12A")
    return model_named(name or ("XL430-W250" if displacements else "XM430-W350"))


def mode_for(mode: str, model: Model, displacements: bool) -> str:
    """The mode for a servo: the one that is asked for, or the model's own for what the robot takes."""
    if mode != "auto":
        return mode
    if not displacements:
        return CURRENT
    return next((one for one in (CURRENT_BASED_POSITION, EXTENDED_POSITION) if one in model.modes), POSITION)


def identity(data: bytes) -> str:
    """Model and firmware in words: the three bytes that servos give as theirs."""
    number = int.from_bytes(data[:2], "little")
    model = MODELS.get(number)
    return f"{model.name if model else f'unknown model {number}'}, firmware {data[2]}"
