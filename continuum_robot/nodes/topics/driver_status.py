# SPDX-License-Identifier: Apache-2.0
"""Names of the constants of DriverStatus, as parameters, pages and logs spell them."""

from __future__ import annotations

from typing import Any

from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.stack.choices import CLARKE, HOLD_TENSION, TIP, TOPIC
from continuum_robot.robot.stop_policy import STOP_ACTIONS

TWO_WRITERS, INTERNAL_ERROR = OWN_REASONS = "two_writers", "internal_error"
"""Reasons for which the driver itself asks for the e-stop; the tendons are released then, whatever the file states."""
STATES = ("unconfigured", "inactive", "active", "safe")
CONTROLLERS = ("", CLARKE, TIP, HOLD_TENSION, TOPIC)
STOPS = ("", *STOP_ACTIONS)
FAULT_CODES = ("", *FAULTS, *OWN_REASONS)


def state_name(status: DriverStatus) -> str:
    """The driver's state, one of :data:`STATES`."""
    return _name(STATES, status.state)


def controller_name(status: DriverStatus) -> str:
    """The controller that commands, "" for none."""
    return _name(CONTROLLERS, status.controller)


def stop_name(status: DriverStatus) -> str:
    """What the stop did, "" without a fault."""
    return _name(STOPS, status.stop_action)


def fault_names(status: DriverStatus) -> tuple[str, ...]:
    """The latched faults."""
    return tuple(_name(FAULT_CODES, code) for code in status.faults)


def values_of_status(status: DriverStatus) -> dict[str, Any]:
    """Its fields by their names, codes as words: what /diagnostics shows."""
    fields = [name for name in status.get_fields_and_field_types() if name not in ("header", "level", "message")]
    return {
        **{name: getattr(status, name) for name in fields},
        "state": state_name(status),
        "controller": controller_name(status),
        "stop_action": stop_name(status),
        "faults": fault_names(status),
        "last_fault": _name(FAULT_CODES, status.last_fault),
    }


def _name(names: tuple[str, ...], code: int) -> str:
    return names[code] if code < len(names) else f"unknown ({code})"
