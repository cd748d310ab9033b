# SPDX-License-Identifier: Apache-2.0
"""The package mujoco, imported when it is needed: it is an optional extra."""

from __future__ import annotations

import importlib
from typing import Any

from continuum_robot.errors import ContinuumRobotError

PIP_COMMAND = "pip install 'continuum-robot[mujoco]'"


def mujoco_library() -> Any:
    """The module ``mujoco``."""
    try:
        library = importlib.import_module("mujoco")
    except ImportError as error:
        raise ContinuumRobotError(
            f"the simulation level mujoco needs the package mujoco ({error}). Install it with: {PIP_COMMAND}"
        ) from error
    # Divergence is an error of the plant's; by itself MuJoCo would write a log file into the working directory.
    if library.get_mju_user_warning() is None:
        library.set_mju_user_warning(lambda _text: None)
    return library
