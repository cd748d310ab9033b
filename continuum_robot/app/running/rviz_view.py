# SPDX-License-Identifier: Apache-2.0
"""The rviz configuration in a robot's size: robots are from centimetres to a metre long, and rviz has one distance."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot

# The shipped configuration is that of a robot of this length.
REFERENCE_LENGTH_M = 0.2
_DISPLAY_LENGTHS = {
    "rviz_default_plugins/Grid": ("Cell Size",),
    "rviz_default_plugins/Path": ("Line Width", "Radius", "Head Diameter", "Head Length", "Shaft Diameter"),
    "rviz_default_plugins/TF": ("Marker Scale",),
}


def scaled_configuration(configuration: dict[str, Any], length_m: float) -> dict[str, Any]:
    """A configuration whose view and line widths fit a robot."""
    factor = length_m / REFERENCE_LENGTH_M
    try:
        manager = configuration["Visualization Manager"]
        for display in manager["Displays"]:
            for name in _DISPLAY_LENGTHS.get(display["Class"], ()):
                if name in display:
                    display[name] *= factor
        view = manager["Views"]["Current"]
        for name in ("Distance", "Near Clip Distance", "Focal Shape Size"):
            view[name] *= factor
        for axis in "XYZ":
            view["Focal Point"][axis] *= factor
    except (KeyError, TypeError) as error:
        raise ParameterError(
            "rviz configuration", str(error), "an rviz configuration with displays and a view"
        ) from None
    return configuration


def write_scaled(configuration: Path, robot: Robot) -> Path:
    """A file of :func:`scaled_configuration` for a robot."""
    scaled = scaled_configuration(yaml.safe_load(configuration.read_text(encoding="utf-8")), robot.length_m)
    file = Path(tempfile.mkdtemp(prefix="continuum_robot_rviz_")) / configuration.name
    file.write_text(yaml.safe_dump(scaled, sort_keys=False), encoding="utf-8")
    return file
