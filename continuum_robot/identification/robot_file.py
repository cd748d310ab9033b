# SPDX-License-Identifier: Apache-2.0
"""Writing a fitted robot as a robot file that the strict loader reads back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from continuum_robot.errors import RobotFileError
from continuum_robot.identification.displaced_fit import DisplacedFit
from continuum_robot.identification.dynamics_fit import DynamicsFit
from continuum_robot.identification.geometry_fit import GeometryFit
from continuum_robot.identification.procedures.hung_weight import TorqueFit
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot, parse_robot


def write_fitted_robot(robot: Robot, fit: GeometryFit, out: Path | str) -> Robot:
    """Write a robot file with the fitted angles and the ``recording`` section; all other keys stay as they were.

    Parameters
    ----------
    robot : what was fitted; its file is taken as it stands, or its values where it came from none
    fit : result of ``identify_geometry`` for this robot
    out : path of the file to write; replaced in one step, so that a reader never sees half of it

    Returns
    -------
    the robot as read back from ``out``

    Raises
    ------
    RobotFileError : the robot's own file is gone, the fit is of another robot, or ``out`` cannot be written
    """
    path = Path(out).expanduser()
    mapping = _mapping(robot)
    if len(fit.angle_offsets_rad) != len(robot.segments):
        expected = f"{len(robot.segments)} angles, one a segment of {robot.name}"
        raise RobotFileError(robot.file_name or None, "segments", len(fit.angle_offsets_rad), expected)
    for segment, angle in zip(mapping["segments"], fit.angle_offsets_rad, strict=True):
        segment["tendons"]["angle_offset_rad"] = float(angle)
    mapping["recording"] = _plain(dataclasses.asdict(fit.recording))
    fitted = {f"segments[{index}].tendons.angle_offset_rad" for index in range(len(robot.segments))}
    if "assumed" in mapping:
        mapping["assumed"] = [key for key in mapping["assumed"] if key not in fitted]
    return _write(
        robot, mapping, f"its tendon angles and recording section fitted to {fit.recording.fitted_from}", path
    )


def write_calibrated_robot(robot: Robot, fit: DynamicsFit, out: Path | str) -> Robot:
    """Write a robot file with fitted stiffnesses and friction coefficients, and where they come from.

    Parameters
    ----------
    robot : what was fitted; its file is taken as it stands, or its values where it came from none
    fit : result of ``fit_dynamics`` for this robot
    out : path of the file to write; replaced in one step

    Returns
    -------
    the robot as read back from ``out``

    Raises
    ------
    RobotFileError : the robot's own file is gone, the fit is of another robot, or ``out`` cannot be written
    """
    path = Path(out).expanduser()
    mapping = _mapping(robot)
    if not 0 <= fit.segment < len(robot.segments) or robot.segments[fit.segment].capstans is None:
        raise RobotFileError(robot.file_name or None, "segments", fit.segment, "a fit of a segment with capstans")
    segment = mapping["segments"][fit.segment]
    values, deviations = [[float(value) for value in array] for array in (fit.values, fit.deviations)]
    segment["backbone"]["bending_stiffness_x_nm2"], segment["backbone"]["bending_stiffness_y_nm2"] = values[:2]
    segment["capstans"]["friction_coefficients"] = values[2:]
    ran = bool(np.isfinite(fit.open_loop_rmse_tip_m).all())
    segment["calibration"] = {
        "date": fit.date,
        "file": fit.file.name,
        "sha256": fit.sha256,
        "stiffness_deviations_nm2": deviations[:2],
        "friction_deviations": deviations[2:],
        "rmse_coefficients_per_m": [float(value) for value in fit.rmse_coefficients],
        "rmse_tip_m": [float(value) for value in fit.rmse_tip_m],
        "open_loop_rmse_tip_m": [float(value) for value in fit.open_loop_rmse_tip_m] if ran else [],
    }
    return _write(robot, mapping, f"its stiffnesses and friction fitted to {fit.file.name}", path)


def write_displaced_robot(robot: Robot, fit: DisplacedFit, out: Path | str) -> Robot:
    """Write a robot file with all that :func:`~continuum_robot.identification.displaced_fit.identify_displaced` found.

    Parameters
    ----------
    robot : what was fitted; its file is taken as it stands, or its values where it came from none
    fit : result of ``identify_displaced`` for this robot
    out : path of the file to write; replaced in one step

    Returns
    -------
    the robot as read back from ``out``

    Raises
    ------
    RobotFileError : the robot's own file is gone, the fit is of another robot, or ``out`` cannot be written
    """
    mapping, fitted, replaced = _mapping(robot), fit.robot, {"gravity_m_per_s2"}
    if len(fitted.segments) != len(robot.segments):
        expected = f"a fit of the {len(robot.segments)} segments of {robot.name}"
        raise RobotFileError(robot.file_name or None, "segments", len(fitted.segments), expected)
    for index, (segment, found) in enumerate(zip(mapping["segments"], fitted.segments, strict=True)):
        segment["tendons"]["angle_offset_rad"] = found.tendons.angle_offset_rad
        x_nm2, y_nm2 = found.backbone.bending_stiffnesses_nm2
        segment["backbone"]["bending_stiffness_x_nm2"], segment["backbone"]["bending_stiffness_y_nm2"] = x_nm2, y_nm2
        replaced.add(f"segments[{index}].tendons.angle_offset_rad")
    mapping["gravity_m_per_s2"] = list(fitted.gravity_m_per_s2)
    if fitted.recording is not None:
        mapping["recording"] = _plain(dataclasses.asdict(fitted.recording))
    if fitted.displaced_tendons is not None:
        mapping["displaced_tendons"] = _plain(dataclasses.asdict(fitted.displaced_tendons))
    if "assumed" in mapping:
        mapping["assumed"] = [key for key in mapping["assumed"] if key not in replaced]
    return _write(
        robot, mapping, f"geometry, stiffness and friction fitted to {fit.recording.file.name}", Path(out).expanduser()
    )


def write_torque_constant(robot: Robot, tendon: int, fit: TorqueFit, out: Path | str) -> Robot:
    """Write a robot file with the calibrated torque constant of one tendon's motor.

    Parameters
    ----------
    robot : what was calibrated; its file is taken as it stands, or its values where it came from none
    tendon : number from 1
    fit : of hung weights
    out : path of the file to write; replaced in one step

    Returns
    -------
    the robot as read back from ``out``

    Raises
    ------
    RobotFileError : the robot's own file is gone, it has no hardware section, or ``out`` cannot be written
    """
    mapping = _mapping(robot)
    motors = mapping.get("hardware", {}).get("tendon_actuators", {}).get("motors", [])
    index = next((index for index, motor in enumerate(motors) if motor["tendon"] == tendon), None)
    if index is None:
        raise RobotFileError(
            robot.file_name or None, "hardware", None, f"a motor of tendon {tendon} in a hardware section"
        )
    motors[index]["torque_constant_nm_per_a"] = float(f"{fit.torque_constant_nm_per_a:.6g}")
    what = f"the torque constant of tendon {tendon} calibrated with hung weights"
    return _write(robot, mapping, what, Path(out).expanduser())


def _write(robot: Robot, mapping: dict[str, Any], what: str, path: Path) -> Robot:
    source = Path(robot.file_name).name if robot.file_name else robot.name
    text = f"# SPDX-License-Identifier: Apache-2.0\n# {source}, {what}. SI units.\n" + yaml.dump(
        mapping, Dumper=_Plain, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110
    )
    parse_robot(text, path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        if partial.exists():
            partial.unlink()
        raise RobotFileError(path, "", str(error), "a path that can be written") from error
    return load_robot(path)


class _Plain(yaml.SafeDumper):
    """Writes equal values out instead of referring to the first of them."""

    def ignore_aliases(self, _data: Any) -> bool:
        """No value gets an anchor."""
        return True


def _mapping(robot: Robot) -> dict[str, Any]:
    if not robot.file_name:
        plain: dict[str, Any] = _plain(dataclasses.asdict(robot))
        plain.pop("file_name")
        return plain
    load_robot(robot.file_name)
    loaded: dict[str, Any] = yaml.safe_load(Path(robot.file_name).read_text(encoding="utf-8"))
    return loaded


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
