# SPDX-License-Identifier: Apache-2.0
"""What other packages add under a name: the entry points of installed distributions, by group."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from continuum_robot.errors import ParameterError

BASIS_FAMILIES = "continuum_robot.basis_families"
CONTROLLERS = "continuum_robot.controllers"
FORCE_SENSORS = "continuum_robot.force_sensors"
STRING_ENCODERS = "continuum_robot.string_encoders"
TENDON_ACTUATORS = "continuum_robot.tendon_actuators"
TENDON_ROUTINGS = "continuum_robot.tendon_routings"
TRACKERS = "continuum_robot.trackers"


def offered(group: str) -> list[str]:
    """Names under which installed packages add something.

    Parameters
    ----------
    group : of the entry points
    """
    return sorted({entry.name for entry in entry_points(group=group)})


def added(group: str, name: str, key: str) -> Any:
    """What an installed package adds under a name; None where there is nothing.

    Parameters
    ----------
    group : of the entry points
    name : of the entry
    key : where the name was given, for the message

    Raises
    ------
    ParameterError : it cannot be imported
    """
    entry = next((entry for entry in entry_points(group=group) if entry.name == name), None)
    if entry is None:
        return None
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise ParameterError(key, name, f"a package that can be imported: {entry.value}: {error}") from error
