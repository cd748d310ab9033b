# SPDX-License-Identifier: Apache-2.0
"""What stands under a name: the devices of this package, by folder, and the entry points of other distributions.

A folder of drivers/ with the modules ``device`` and ``settings`` is a device. The latter names the door that the
device belongs to, and has the dataclass of its section in a robot file, whose ``kind`` is the folder's name. Folders
are searched for, as entry points are: nothing here, and nothing else outside of a device's folder, names it.
"""

from __future__ import annotations

import dataclasses
import functools
import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
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
TENSION_SENSORS = "continuum_robot.tension_sensors"
TRACKERS = "continuum_robot.trackers"


DEVICES = "continuum_robot.drivers"
"""The package whose folders are devices."""


@functools.cache
def shipped(group: str) -> dict[str, type[Any]]:
    """The sections' dataclasses of this package's devices, by kind."""
    folder = Path(__file__).parents[1] / DEVICES.rpartition(".")[2]
    found = {}
    for name in sorted(entry.name for entry in pkgutil.iter_modules([str(folder)]) if entry.ispkg):
        if (folder / name / "device.py").exists():
            module = import_module(f"{DEVICES}.{name}.settings")
            if group == module.DOOR:
                found[name] = next(kind for kind in vars(module).values() if _names(kind, name))
    return found


def _names(kind: Any, name: str) -> bool:
    """Whether this is the dataclass of a section whose ``kind`` is a name."""
    fields = dataclasses.fields(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else ()
    return any(field.name == "kind" and name in field.metadata["quantity"].choices for field in fields)


def offered(group: str) -> list[str]:
    """Names that stand under a door: of this package's devices first, then of other packages."""
    own = list(shipped(group))
    return own + sorted({entry.name for entry in entry_points(group=group)} - set(own))


def added(group: str, name: str, key: str) -> Any:
    """What stands under a name: the section's dataclass of a device of this package, or what another package adds.

    None where there is nothing.
    """
    if name in (own := shipped(group)):
        return own[name]
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
    """An object of the class that an installed package adds under a name."""
    make = added(group, name, key)
    if make is None:
        names = ", ".join([*known, *offered(group)])
        raise ParameterError(key, name, f"one of {names}" if names else f"a name of the entry points {group}")
    kind = getattr(make, "settings", None)
    if kind is None:
        return make(*given)
    return make(*given, settings=kind() if settings is None else settings(name, kind()))
