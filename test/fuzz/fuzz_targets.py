# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: the name of a target, and the function that takes bytes and raises nothing but what is a defect."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
_MODULES = {
    "fuzz_codecs": (
        "cobs_frame", "string_encoder", "rokubi_sensor", "odri_can", "slcan_line", "simulated_link", "dynamixel",
    ),
    "fuzz_robot_file": ("plain_yaml", "robot_file", "robot_text"),
    "fuzz_page": ("page_request", "page_message"),
    "fuzz_recordings": ("mcap", "mcap_records", "metadata_yaml", "recorded_csv"),
}  # fmt: skip
TARGETS = {name: module for module, names in _MODULES.items() for name in names}
"""Module of each target; the function has the target's name."""


def load(target: str) -> Callable[[bytes], None]:
    """The function of a target; imports what it tests."""
    function: Callable[[bytes], None] = getattr(importlib.import_module(TARGETS[target]), target)
    return function
