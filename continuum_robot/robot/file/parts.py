# SPDX-License-Identifier: Apache-2.0
"""A robot file with the files that it includes, as one mapping of plain values, each with the place where it stands.

``include`` names files whose values hold where the file itself has none; mappings are merged, everything else is
replaced whole. ``set`` gives single values by their dotted keys. So a second robot of one design is its name, its
devices and what differs.
"""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.file.derived import wire
from continuum_robot.robot.file.plain_yaml import place_of, plain_yaml, read_yaml, value_at, yaml_text
from continuum_robot.robot.file.shipped_files import did_you_mean, shipped_robots
from continuum_robot.robot.schema import Source

INCLUDE, SET = "include", "set"
VERSION = 2
ASSUMED = "assumed"
_GATHERED = (ASSUMED, "provenance")
"""Lists that every file adds to."""
_NAMES = "name", "description"
_MOST_FILES = 32


def whole_robot(text: str, file: Path | None, single: Mapping[str, Any] | None = None) -> tuple[Any, Source]:
    """The values of a robot file with all that it includes, in the form of the newest version.

    ``single`` gives values by their dotted keys, as the key ``set`` of a file does.
    """
    parts = _Parts()
    values = parts.read(text, file)
    for key, value in (single or {}).items():
        _set(values, key, copy.deepcopy(value), Source(file))
    return values, Source(file, parts.lines, {key: path for key, path in parts.files.items() if path != file})


def self_contained(file: Path) -> str:
    """Text of a robot file that needs no other file: its own where it includes none, else the values of all."""
    text = read_yaml(file, "robot file")
    values = plain_yaml(text, file)[0]
    if not isinstance(values, dict) or not {INCLUDE, SET} & set(values):
        return text
    return yaml_text(whole_robot(text, file)[0])


def newest_values(text: str, file: Path) -> dict[str, Any]:
    """The values of a robot file alone, in the form of the newest version."""
    values, lines = plain_yaml(text, file)
    if not isinstance(values, dict):
        raise RobotFileError(file, "", values, "a mapping, as of a robot file", 1)
    return _newest(values, Source(file, lines))


@dataclass
class _Parts:
    """Reads a file and what it includes; ``lines`` and ``files`` have the place of each dotted key."""

    lines: dict[str, int] = field(default_factory=dict)
    files: dict[str, Path | None] = field(default_factory=dict)
    open: list[Path] = field(default_factory=list)
    count: int = 0

    def read(self, text: str, file: Path | None) -> Any:
        values, lines = plain_yaml(text, file)
        source = Source(file, lines)
        if not isinstance(values, dict):
            self._note(lines, file)
            return values
        values = _newest(values, source)
        for name in set(values) - {INCLUDE, SET}:
            if near := difflib.get_close_matches(str(name), (INCLUDE, SET), 1, 0.8):
                raise source.error(str(name), values[name], f"another key; did you mean {near[0]!r}?")
        names, single = values.pop(INCLUDE, []), values.pop(SET, {})
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise source.error(INCLUDE, names, "a list of robot files: paths from this file's folder, or shipped names")
        if not isinstance(single, dict):
            raise source.error(SET, single, "a mapping of dotted keys to values")
        merged: dict[str, Any] = {}
        for index, name in enumerate(names):
            key = f"{INCLUDE}[{index}]"
            _merge(merged, self._included(name, key, source), source, key)
        if isinstance(assumed := merged.get(ASSUMED), list):  # what this file states itself, that of the part is not
            stated = [key for key in assumed if isinstance(key, str) and _states(values, single, key)]
            merged[ASSUMED] = [key for key in assumed if key not in stated]
        _override(merged, values)
        self._note(lines, file)
        for key, value in single.items():
            _set(merged, key, value, source)
            self._note({key: lines[f"{SET}.{key}"]}, file)
        return merged

    def _note(self, lines: Mapping[str, int], file: Path | None) -> None:
        self.lines |= lines
        self.files |= dict.fromkeys(lines, file)

    def _included(self, name: str, key: str, source: Source) -> dict[str, Any]:
        folder = Path() if source.file is None else source.file.parent
        path = Path(os.path.normpath(folder / Path(name).expanduser()))  # the file's folder may not be there yet
        shipped = shipped_robots(parts=True)
        if not path.is_file() and name not in shipped:
            expected = f"a robot file in {path.parent}, or a shipped robot{did_you_mean(name, shipped)}"
            raise source.error(key, name, expected)
        path = (path if path.is_file() else shipped[name]).resolve()
        if path in self.open:
            raise source.error(key, name, "a file that does not include this one")
        self.count += 1
        if self.count > _MOST_FILES:
            raise source.error(key, name, f"at most {_MOST_FILES} included files")
        self.open.append(path)
        part = self.read(read_yaml(path, "robot file"), path)
        self.open.pop()
        if not isinstance(part, dict):
            raise source.error(key, name, "a file that holds a mapping")
        return part


def _set(merged: Any, key: str, value: Any, source: Source) -> None:
    place = place_of(merged, key, make="[" not in key)
    if place is None and wire(merged):  # an entry that follows from others, and is not written out
        place = place_of(merged, key)
    if place is None:
        near = did_you_mean(key.partition("[")[0].partition(".")[0], merged)
        raise source.error(f"{SET}.{key}", value, f"the dotted key of a value, e.g. segments[0].length_m{near}")
    place[0][place[1]] = value


def _states(values: Mapping[str, Any], single: Mapping[str, Any], key: str) -> bool:
    """Whether a file gives the value of a key itself; of a mapping it gives single values."""
    return key in single or not isinstance(value_at(values, key), (dict, type(None)))


def _newest(values: dict[str, Any], source: Source) -> dict[str, Any]:
    version = values.get("schema_version", VERSION)
    if version not in (1, VERSION):
        raise source.error(
            "schema_version", version, f"{VERSION}, or 1, which is read too; CHANGELOG.md has what changed"
        )
    return from_version_1(values) if version == 1 else dict(values)


def _merge(merged: dict[str, Any], part: Mapping[str, Any], source: Source, place: str, key: str = "") -> None:
    """Add what a further included file has: files beside each other do not contradict each other."""
    for name, value in part.items():
        before, inner = merged.get(name), f"{key}.{name}" if key else name
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value, source, place, inner)
        elif isinstance(before, list) and isinstance(value, list) and inner in _GATHERED:
            merged[name] = [*before, *value]
        elif name in merged and before != value and inner not in _NAMES:
            raise source.error(place, inner, f"the value of a file included before it, {before!r}, or no {inner}")
        else:
            merged[name] = value


def _override(merged: dict[str, Any], own: Mapping[str, Any], key: str = "") -> None:
    """Put the values of the including file over those of the included ones; another ``kind`` begins anew."""
    for name, value in own.items():
        before, inner = merged.get(name), f"{key}.{name}" if key else name
        if isinstance(before, dict) and isinstance(value, dict) and _one_kind(before, value):
            _override(before, value, inner)
        elif isinstance(before, list) and isinstance(value, list) and inner in _GATHERED:
            merged[name] = [*before, *value]
        else:
            merged[name] = value


def _one_kind(before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return value.get("kind") in (None, before.get("kind"))


_COMMANDS = {"recording": "continuum-robot identify-geometry", "displaced_tendons": "continuum-robot identify"}
_MOVED = "continuum-robot identify"
_STIFFNESS, _MOTORS = "tendon_stiffness_n_per_m", "tendon_actuators"


def from_version_1(values: dict[str, Any]) -> dict[str, Any]:
    """The plain values of a file of version 1 as version 2 has them; what is no mapping stays, to be refused later.

    Fits came from five places, now ``provenance``; tendons were stiff in simulation alone.
    """
    found: list[dict[str, Any]] = list(values.get("provenance", ()))
    values = {**values, "schema_version": 2}
    if isinstance(simulation := values.get("simulation"), dict) and _STIFFNESS in simulation:
        values["simulation"] = rest = dict(simulation)
        values[_STIFFNESS] = rest.pop(_STIFFNESS)
    if isinstance(assumed := values.get("assumed"), list):
        values["assumed"] = [_STIFFNESS if key == f"simulation.{_STIFFNESS}" else key for key in assumed]
    if isinstance(control := values.get("control"), dict) and value_at(values, "actuators.servo") is not None:
        if control.get("law", "pid") in ("pid", "statics"):  # gains had to be there; servos have no use for them
            values["control"] = {key: value for key, value in control.items() if key != "gains"}
    if isinstance(hardware := values.get("hardware"), dict) and isinstance(hardware.get(_MOTORS), dict):
        # The servos tell their model, and with it what a count of current is.
        motors = {key: value for key, value in hardware[_MOTORS].items() if key != "current_unit_a"}
        values["hardware"] = {**hardware, _MOTORS: motors}
    for section, command in _COMMANDS.items():
        if isinstance(own := values.get(section), dict):
            values[section] = own = dict(own)
            found += _fitted(own, command)
    if isinstance(motion := values.pop("identified_motion", None), dict):
        rows = motion.get("fitted_values", ())
        found.append(_fit(_MOVED, motion.get("file"), motion.get("sha256"), motion.get("date"), rows))
    if isinstance(segments := values.get("segments"), list):
        values["segments"] = [dict(one) if isinstance(one, dict) else one for one in segments]
        for index, own in enumerate(values["segments"]):
            if isinstance(own, dict) and isinstance(fit := own.pop("calibration", None), dict):
                found.append(_calibration(index, own, fit))
    return {**values, "provenance": found} if found else values


def _fitted(section: dict[str, Any], command: str) -> list[dict[str, Any]]:
    data, sha256, rows = (section.pop(f"fitted_{name}", None) for name in ("from", "sha256", "values"))
    errors = {"tip": section.pop("fitted_rmse_mm", None)}
    errors["tip, on blocks left out of the fit"] = section.pop("cross_validated_rmse_mm", None)
    fit = _fit(command, data, sha256, None, rows or ())
    if found := [{"of": of, "rmse": 1e-3 * rmse_mm} for of, rmse_mm in errors.items() if rmse_mm]:
        fit["errors"] = found
    return [fit] if data else []


def _fit(command: str, data: Any, sha256: Any, date: Any, rows: Any) -> dict[str, Any]:
    stated = {"command": command, "data": data, "sha256": sha256, "date": date}
    values = [{"key" if name == "name" else name: value for name, value in row.items()} for row in rows]
    return {key: value for key, value in {**stated, "values": values}.items() if value}


def _calibration(index: int, segment: dict[str, Any], fit: dict[str, Any]) -> dict[str, Any]:
    backbone, capstans = segment.get("backbone", {}), segment.get("capstans", {})
    stiffness = [(f"backbone.bending_stiffness_{axis}_nm2", backbone) for axis in "xy"]
    rows = [
        {"key": f"segments[{index}].{key}", "value": own[key.split(".")[1]], "deviation": deviation}
        for (key, own), deviation in zip(stiffness, fit.get("stiffness_deviations_nm2", ()), strict=False)
        if key.split(".")[1] in own
    ]
    coefficients = capstans.get("friction_coefficients", ())
    rows += [
        {"key": f"segments[{index}].capstans.friction_coefficients[{k}]", "value": value, "deviation": deviation}
        for k, (value, deviation) in enumerate(zip(coefficients, fit.get("friction_deviations", ()), strict=False))
    ]
    made = _fit(_MOVED, fit.get("file"), fit.get("sha256"), fit.get("date"), rows)
    tip = zip("xyz", fit.get("rmse_tip_m", ()), strict=False)
    return {**made, "errors": [{"of": f"tip {axis}, simulated in windows", "rmse": rmse} for axis, rmse in tip]}
