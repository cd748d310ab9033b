# SPDX-License-Identifier: Apache-2.0
"""Models of Dynamixel servos: their numbers, modes and units, as models.yaml has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from continuum_robot.errors import DeviceError

PROTOCOL_1, PROTOCOL_2 = 1, 2

CURRENT, VELOCITY, POSITION = "current", "velocity", "position"
EXTENDED_POSITION, CURRENT_BASED_POSITION = "extended_position", "current_based_position"
MODES = {CURRENT: 0, VELOCITY: 1, POSITION: 3, EXTENDED_POSITION: 4, CURRENT_BASED_POSITION: 5}
"""Value of the register Operating Mode."""


class Model(NamedTuple):
    """What the driver has to know of a model."""

    name: str
    modes: tuple[str, ...]
    velocity_unit_rev_per_s: float
    acceleration_unit_rev_per_s2: float
    turn_rev: float
    current_unit_a: float = 0.0
    counts_per_turn: float = 4096
    ram: int = 0
    protocol: int = PROTOCOL_2


def _read() -> Iterator[tuple[int, Model]]:
    """The models of models.yaml."""
    for group in yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8")):
        units = {
            "velocity_unit_rev_per_s": group.pop("velocity_unit_rpm", 0.229) / 60,
            "acceleration_unit_rev_per_s2": group.pop("acceleration_unit_rpm2", 214.577) / 3600,
            "turn_rev": group.pop("turn_deg", 360) / 360,
            "modes": tuple(group.pop("modes")),
        }
        for number, name in group.pop("models").items():
            yield number, Model(name, **units, **group)


MODELS = dict(_read())
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
