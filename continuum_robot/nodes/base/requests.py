# SPDX-License-Identifier: Apache-2.0
"""What the requests of services and the goals of actions may hold: the same :class:`Quantity` as in robot files.

These bounds are those of any robot; what a robot's own limits allow is checked behind them, before anything moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from continuum_robot.estimation.contact.floor_learning import LEAST_DURATION_S, LONGEST_DURATION_S
from continuum_robot.robot.schema import checked, quantity

_FACTOR: dict[str, Any] = {"ge": -1.0, "le": 1e6, "default": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectFaultRequest:
    """Of ``inject_fault``; bounds of a fault's own magnitude are the simulated device's."""

    fault: str = quantity("name of the fault; empty: clear all")
    tendon: int = quantity("index of the tendon, -1: all", ge=-1, le=63)
    magnitude: float = quantity("meaning and unit depend on the fault", ge=-1e6, le=1e6)
    duration_s: float = quantity("0: until cleared", "s", ge=0, le=86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManageStackRequest:
    """Of ``manage_stack``."""

    command: int = quantity("of ManageStack.srv", ge=0, le=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEstopRequest:
    """Of ``release_estop``."""

    holder: str = quantity("name of who holds the e-stop, as reset_estop gives it")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContactThresholdsRequest:
    """Of ``contact_monitor/set_thresholds``; below 0: unchanged."""

    contact_factor_steady: float = quantity("times the bound from the errors, below 0: unchanged", **_FACTOR)
    contact_factor_accelerating: float = quantity("times the bound from the errors, below 0: unchanged", **_FACTOR)
    collision_factor_steady: float = quantity("times the bound from the errors, below 0: unchanged", **_FACTOR)
    collision_factor_accelerating: float = quantity("times the bound from the errors, below 0: unchanged", **_FACTOR)
    contact_force_steady_n: float = quantity("force at the contact, below 0: unchanged", "N", **_FACTOR)
    contact_force_accelerating_n: float = quantity("force at the contact, below 0: unchanged", "N", **_FACTOR)
    collision_force_steady_n: float = quantity("force at the contact, below 0: unchanged", "N", **_FACTOR)
    collision_force_accelerating_n: float = quantity("force at the contact, below 0: unchanged", "N", **_FACTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchControllerRequest:
    """Of ``switch_controller``."""

    controller: str = quantity("name of the controller that commands from now on; empty: only say which does")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeCommandsRequest:
    """Of ``take_commands``."""

    writer: str = quantity("name of the program that writes; empty: the first that does")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeReferenceRequest:
    """Of ``reference_source/take``."""

    writer: str = quantity("name of the program that writes; empty: the reference source")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateTorqueGoal:
    """Of ``calibrate_torque``."""

    tendon: int = quantity("number from 1", ge=1, le=64)
    mass: float = quantity("of the weight", "kg", gt=0, le=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTendonsGoal:
    """Of ``check_tendons``."""

    pull: float = quantity("by which a tendon is pulled, 0: chosen from the robot's limits", "N", ge=0, le=1e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeTendonsGoal:
    """Of ``home_tendons``."""

    tension: float = quantity("on every tendon at the straight pose, 0: the robot file's", "N", ge=0, le=1e4)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnFloorGoal:
    """Of ``contact_monitor/learn_floor``."""

    duration: float = quantity("of free motion", "s", ge=LEAST_DURATION_S, le=LONGEST_DURATION_S)
    only_if_missing: bool = quantity("succeed at once where a floor is in use")


REQUESTS: Mapping[str, type[Any]] = {
    "InjectFault": InjectFaultRequest,
    "ManageStack": ManageStackRequest,
    "ReleaseEstop": ReleaseEstopRequest,
    "SetContactThresholds": SetContactThresholdsRequest,
    "SwitchController": SwitchControllerRequest,
    "TakeCommands": TakeCommandsRequest,
    "TakeReference": TakeReferenceRequest,
    "CalibrateTorque": CalibrateTorqueGoal,
    "CheckTendons": CheckTendonsGoal,
    "HomeTendons": HomeTendonsGoal,
    "LearnFloor": LearnFloorGoal,
}
"""By the name of the file in srv/ or action/: every one of them is here."""


def check_request(name: str, request: Any) -> Any:
    """The checked values of a request or a goal; asked by its server before anything else."""
    kind = REQUESTS[name]
    return checked(kind, {field.name: getattr(request, field.name) for field in dataclasses.fields(kind)})
