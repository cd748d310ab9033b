# SPDX-License-Identifier: Apache-2.0
"""The package mujoco, imported when it is needed: it is an optional extra."""

from __future__ import annotations

import importlib
from typing import Any

from continuum_robot.errors import ContinuumRobotError

PIP_COMMAND = "pip install 'mujoco>=4.0'"


def mujoco_library() -> Any:
    """The module ``mujoco``.

    Raises
    ------
    ContinuumRobotError : it is not installed, with the command that installs it
    """
    try:
        return importlib.import_module("mujoco")
    except ImportError as error:
        raise ContinuumRobotError(
            f"the simulation level mujoco needs the package mujoco ({error}). Install it with: {PIP_COMMAND}"
        ) from error
