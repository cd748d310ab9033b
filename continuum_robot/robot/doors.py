# SPDX-License-Identifier: Apache-2.0
"""What other packages add under a name: the entry points of installed distributions, by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from continuum_robot.errors import ParameterError

BASIS_FAMILIES = "continuum_robot.basis_families"
CONTACT_OBSERVERS = "continuum_robot.contact_observers"
CONTROLLERS = "continuum_robot.controllers"
FORCE_SENSORS = "continuum_robot.force_sensors"
REFERENCES = "continuum_robot.references"
SHAPE_ESTIMATORS = "continuum_robot.shape_estimators"
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


def made(
    group: str,
    name: str,
    key: str,
    *given: Any,
    known: Sequence[str] = (),
    settings: Callable[[str, Any], Any] | None = None,
) -> Any:
    """An object of the class that an installed package adds under a name.

    Parameters
    ----------
    group : of the entry points
    name : of the entry
    key : where the name was given, for the message
    given : what the class is made with
    known : names of this package, for the message
    settings : gives the class its settings, from the name and the defaults, where it has a dataclass as ``settings``;
        None: the defaults

    Raises
    ------
    ParameterError : nothing has the name, or it cannot be imported
    """
    make = added(group, name, key)
    if make is None:
        names = ", ".join([*known, *offered(group)])
        raise ParameterError(key, name, f"one of {names}" if names else f"a name of the entry points {group}")
    kind = getattr(make, "settings", None)
    if kind is None:
        return make(*given)
    return make(*given, settings=kind() if settings is None else settings(name, kind()))
