# SPDX-License-Identifier: Apache-2.0
"""Writing a fitted robot as a robot file that the strict loader reads back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

from continuum_robot.control.tuning import Tuning
from continuum_robot.drivers.mounted_tracker import MountedTracker
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.identification.displaced.fit import DisplacedFit
from continuum_robot.identification.dynamics_fit import DynamicsFit
from continuum_robot.identification.fit import FoundValues
from continuum_robot.identification.geometry_fit import GeometryFit
from continuum_robot.identification.motion.fit import MotionFit
from continuum_robot.identification.procedures.hung_weight import TorqueFit
from continuum_robot.identification.robot_keys import file_keys
from continuum_robot.identification.self_calibration import SelfCalibrationFit, mounted
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.parts import SET
from continuum_robot.robot.file.plain_yaml import place_of, yaml_text
from continuum_robot.robot.file.whole_file import write_whole
from continuum_robot.robot.loading import load_robot, own_values, parse_robot, plain
from continuum_robot.robot.provenance import FitError, FoundValue, Provenance

Fit = GeometryFit | DynamicsFit | DisplacedFit | SelfCalibrationFit | TorqueFit | MotionFit | Tuning
# What was fitted, for the head of the file, the new values by their dotted keys, and where they come from.
Found = tuple[str, dict[str, Any], Provenance | None]


def write_fitted_robot(robot: Robot, fit: Fit, out: Path | str) -> Robot:
    """Write a robot file with what a fit found; all other keys stay, and what was found is no longer ``assumed``."""
    path = Path(out).expanduser()
    mapping = own_values(robot, path.parent)
    _straighten(mapping, robot)
    what, values, provenance = _found(fit, robot)
    for key, value in values.items():
        _put(mapping, key, plain([dataclasses.asdict(one) for one in value] if _objects(value) else value))
    if "assumed" in mapping:
        mapping["assumed"] = [key for key in mapping["assumed"] if key not in values]
    if provenance is not None:
        kept = [one for one in mapping.get("provenance", ()) if one["command"] != provenance.command]
        mapping["provenance"] = [*kept, plain(dataclasses.asdict(provenance))]
    source = Path(robot.file_name).name if robot.file_name else robot.name
    text = f"# SPDX-License-Identifier: Apache-2.0\n# {source}, {what}. SI units.\n" + yaml_text(mapping)
    parse_robot(text, path)
    try:
        write_whole(path, text)
    except OSError as error:
        raise RobotFileError(path, "", str(error), "a path that can be written") from error
    return load_robot(path)


def _straighten(mapping: dict[str, Any], robot: Robot) -> None:
    """Write parallel tendons as such, however the file spells their routing: their angle is then the one
    that is used.
    """
    for own, segment in zip(mapping.get("segments", ()), robot.segments, strict=False):
        if segment.tendons.routing.parallel and own["tendons"].pop("routing", None) is not None:
            for key in ("pitch_radius_m", "angle_offset_rad"):
                own["tendons"][key] = getattr(segment.tendons, key)


@singledispatch
def _found(fit: Any, robot: Robot) -> Found:
    raise ParameterError("fit", type(fit).__name__, f"what was fitted to a recording of {robot.name}")


@_found.register
def _(fit: GeometryFit, robot: Robot) -> Found:
    if len(fit.angle_offsets_rad) != len(robot.segments):
        expected = f"{len(robot.segments)} angles, one a segment of {robot.name}"
        raise RobotFileError(robot.file_name or None, "segments", len(fit.angle_offsets_rad), expected)
    values: dict[str, Any] = {
        f"segments[{index}].tendons.angle_offset_rad": float(angle) for index, angle in enumerate(fit.angle_offsets_rad)
    }
    values["recording"] = dataclasses.asdict(fit.recording)
    return f"its tendon angles and recording section fitted to {fit.provenance.data}", values, fit.provenance


@_found.register
def _(fit: DynamicsFit, robot: Robot) -> Found:
    for index in fit.segments:
        if not index < len(robot.segments) or robot.segments[index].capstans is None:
            raise RobotFileError(robot.file_name or None, "segments", index, "a fit of segments with capstans")
    # A file has the coefficients of both capstans of a segment as one list.
    found = file_keys(robot, {key: value for key, value in fit.found.items() if not key.endswith("]")})
    for index in fit.segments:
        found[f"segments[{index}].capstans.friction_coefficients"] = fit.of_segment(index)[1]
    errors = {
        **{f"c[{index}], simulated in windows": value for index, value in enumerate(fit.rmse_coefficients)},
        **{f"tip {axis}, simulated in windows": value for axis, value in zip("xyz", fit.rmse_tip_m, strict=True)},
        **{f"tip {axis}, in one piece": value for axis, value in zip("xyz", fit.open_loop_rmse_tip_m, strict=True)},
    }
    return f"its dynamics fitted to {fit.file.name}", found, _provenance(fit, "continuum-robot identify", errors)


@_found.register
def _(fit: DisplacedFit, robot: Robot) -> Found:
    fitted, values = fit.robot, dict[str, Any]()
    if len(fitted.segments) != len(robot.segments):
        expected = f"a fit of the {len(robot.segments)} segments of {robot.name}"
        raise RobotFileError(robot.file_name or None, "segments", len(fitted.segments), expected)
    for index, segment in enumerate(fitted.segments):
        values[f"segments[{index}].tendons.angle_offset_rad"] = segment.tendons.angle_offset_rad
        for axis, stiffness in zip("xy", segment.backbone.bending_stiffnesses_nm2, strict=True):
            values[f"segments[{index}].backbone.bending_stiffness_{axis}_nm2"] = stiffness
        if segment.backbone.axial_stiffness_n != robot.segments[index].backbone.axial_stiffness_n:
            values[f"segments[{index}].backbone.axial_stiffness_n"] = segment.backbone.axial_stiffness_n
            own = dataclasses.asdict(segment.basis).items()
            values[f"segments[{index}].basis"] = {key: value for key, value in own if value or key.endswith("_order")}
    values["gravity_m_per_s2"] = fitted.gravity_m_per_s2
    for section in ("recording", "displaced_tendons"):
        found = getattr(fitted, section)
        if found is not None:
            values[section] = dataclasses.asdict(found)
    return f"geometry, stiffness and friction fitted to {fit.recording.file.name}", values, fit.provenance


@_found.register
def _(fit: SelfCalibrationFit, robot: Robot) -> Found:
    _, values, _ = _found(replace(fit.fit, robot=fit.robot), robot)
    settings = None if robot.hardware is None else robot.hardware.tracker
    if isinstance(settings, MountedTracker):
        values |= {f"hardware.tracker.{key}": value for key, value in mounted(fit, settings).items()}
    return f"calibrated by itself, its record in {fit.provenance.data}", values, fit.provenance


@_found.register
def _(fit: TorqueFit, robot: Robot) -> Found:
    number, hardware = fit.tendon + 1, robot.hardware
    keys = {motor.number: key for key, motor in hardware.motors.items()} if hardware else {}
    if number not in keys:
        raise RobotFileError(
            robot.file_name or None, "hardware", None, f"a motor of tendon {number} in a hardware section"
        )
    key = f"{keys[number]}.torque_constant_nm_per_a"
    value = float(f"{fit.torque_constant_nm_per_a:.6g}")
    return f"the torque constant of tendon {number} calibrated with hung weights", {key: value}, None


@_found.register
def _(fit: MotionFit, robot: Robot) -> Found:
    values = file_keys(robot, {key: value for key, value in fit.found.items() if value > 0})
    if fit.cogging_nm > 3 * fit.cogging_deviation_nm:
        values["actuators.cogging_amplitude_nm"] = fit.cogging_nm
    values = {key: _rounded(value) for key, value in values.items()}
    what = f"masses, stiffness, damping and friction found from {fit.file.name}"
    return what, values, _provenance(fit, "continuum-robot identify", {})


@_found.register
def _(fit: Tuning, robot: Robot) -> Found:
    what = f"its gains tuned for a phase margin of {math.degrees(fit.wanted_phase_rad):.3g} degrees"
    if robot.control is None:
        return what, {"control": dataclasses.asdict(fit.control)}, None
    if not fit.control.gains:
        return what, {"control.integral_per_s": fit.control.integral_per_s}, None
    values: dict[str, Any] = {
        f"control.gains[{index}].{name}": getattr(gains, name)
        for index, gains in enumerate(fit.control.gains)
        for name in ("p", "i", "d")
    }
    return what, values | {"control.note": fit.control.note}, None


def _provenance(fit: FoundValues, command: str, errors: Mapping[str, float]) -> Provenance:
    rows = zip(fit.names, fit.values.tolist(), fit.deviations.tolist(), fit.priors.tolist(), strict=True)
    return Provenance(
        command=command,
        date=fit.date,
        data=fit.file.name,
        sha256=fit.sha256,
        values=tuple(
            FoundValue(
                key=name,
                value=_rounded(value),
                deviation=_rounded(deviation),
                prior_deviation=_rounded(prior) if math.isfinite(prior) else None,
            )
            for name, value, deviation, prior in rows
        ),
        errors=tuple(FitError(of=of, rmse=_rounded(float(rmse))) for of, rmse in errors.items() if math.isfinite(rmse)),
    )


def _objects(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(dataclasses.is_dataclass, value))


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _put(mapping: dict[str, Any], dotted: str, value: Any) -> None:
    """Where the file itself has what encloses the key, there; else among the single values of what it includes."""
    if place := place_of(mapping, dotted):
        place[0][place[1]] = value
    else:
        mapping.setdefault(SET, {})[dotted] = value
