# SPDX-License-Identifier: Apache-2.0
"""setuptools, which asks for what builds the messages only where they are built: not for an sdist, nor without ROS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from setuptools.build_meta import *  # noqa: F403 - the hooks of PEP 517 and PEP 660

MESSAGES = Path(__file__).with_name("messages.txt")


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:  # noqa: ARG001
    """The lines of messages.txt, or CMake alone with CONTINUUM_ROBOT_WITHOUT_ROS."""
    if os.environ.get("CONTINUUM_ROBOT_WITHOUT_ROS"):
        return ["cmake>=3.20"]
    return [line for line in MESSAGES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:  # noqa: ARG001
    """Nothing: an sdist holds sources."""
    return []
