# SPDX-License-Identifier: Apache-2.0
"""Robot files of version 1: fits came from five places, now ``provenance``; tendons were stiff in simulation alone."""

from __future__ import annotations

from typing import Any

from continuum_robot.robot.file.dotted import value_at

_COMMANDS = {"recording": "continuum-robot identify-geometry", "displaced_tendons": "continuum-robot identify"}
_MOVED = "continuum-robot identify"
_STIFFNESS, _MOTORS = "tendon_stiffness_n_per_m", "tendon_actuators"


def from_version_1(values: dict[str, Any]) -> dict[str, Any]:
    """The plain values of a file of version 1 as version 2 has them; what is no mapping stays, to be refused later."""
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
