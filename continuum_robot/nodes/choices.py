# SPDX-License-Identifier: Apache-2.0
"""Words that several nodes take as a parameter's value."""

from __future__ import annotations

FAKE_LEVELS = ("dynamics", "mirror", "wire")
HOMING_POLICIES = ("auto", "required", "ignored")
CLOCKS = ("real", "lockstep")
