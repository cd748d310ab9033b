# SPDX-License-Identifier: Apache-2.0
"""Words that several nodes take as a parameter's value."""

from __future__ import annotations

MUJOCO = "mujoco"
SIMULATION_LEVELS = ("dynamics", "wire", MUJOCO)
ON_WIRES = ("wire", MUJOCO)
"""Levels at which the real drivers speak to simulated boards; two plants behind the same wires."""
HOMING_POLICIES = ("auto", "required", "ignored")
LOCKSTEP = "lockstep"
CLOCKS = ("real", LOCKSTEP)
CLARKE, TIP, HOLD_TENSION, TOPIC = "clarke", "tip", "hold_tension", "topic"
"""Controllers, as the service ``switch_controller`` names them: in the driver's cycle, the tip's around it, the driver
itself, and the program that writes ``tendon_commands``."""
NONE = "none"
CONTROLLERS = (CLARKE, TIP, HOLD_TENSION, TOPIC, NONE)
"""What commands the tendons after the start."""

AUTO, STORED, IF_MISSING, AT_START, OFF = "auto", "stored", "if_missing", "at_start", "off"
FLOOR_POLICIES = (AUTO, STORED, IF_MISSING, AT_START, OFF)
"""Which floor of its residual the contact monitor uses."""
