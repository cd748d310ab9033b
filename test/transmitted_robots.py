# SPDX-License-Identifier: Apache-2.0
"""Robots whose motors share tendons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import parse_robot

PAIR = Path(__file__).parent / "unit" / "robot" / "planar_pair.yaml"
CAPSTAN = [[1.0], [-1.0]]
PRELOAD_N = 8.0


def pair_values(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> dict[str, Any]:
    """The strip with two antagonist tendons, held by servos behind a transmission, as its file has it."""
    values = yaml.safe_load(PAIR.read_text())
    values["actuators"] = {
        "command": "displacement",
        "servo": {"bandwidth_hz": 12.0, "maximum_speed_rad_per_s": 6.0},
        "spool_radius_m": 0.01,
        "torque_constant_nm_per_a": 1.08,
        "maximum_current_a": 1.3,
        "rotor_inertia_kg_m2": 5.0e-4,
        "viscous_friction_nms": 0.02,
        "coulomb_friction_nm": 0.02,
        "encoder_counts_per_turn": 4096,
    }
    values["limits"] = {
        "maximum_n": 30.0,
        "maximum_displacement_m": 0.03,
        "speed_m_per_s": 0.05,
        "acceleration_m_per_s2": 1.0,
        "pay_out_m": 0.005,
        "pay_out_speed_m_per_s": 0.02,
    }
    values["control"] = {}
    values["reference"] = {"kind": "chirp", "amplitude_m": [0.004], "frequency_hz": [0.3]}
    values["transmission"] = {"preload_n": preload_n, **({"matrix": matrix} if matrix else {}), **transmission}
    return values


def tension_values(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> dict[str, Any]:
    """The same with motors that take tensions."""
    values = pair_values(matrix, preload_n, **transmission)
    del values["actuators"]["command"], values["actuators"]["servo"]
    values["limits"] = {"maximum_n": 30.0, "minimum_n": 1.0, "total_n": 45.0, "maximum_displacement_m": 0.03}
    values["limits"] |= {"rate_n_per_s": 300.0, "safe_rate_n_per_s": 100.0}
    values["control"] = {"gains": [{"p": 4000.0, "i": 8000.0, "d": 200.0, "derivative_filter_time": 0.01}]}
    values["control"] |= {"feedforward_stiffness": 1.0, "feedforward_gravity": 1.0}
    values["transmission"] = {key: value for key, value in values["transmission"].items() if value}
    return values


def made(values: dict[str, Any]) -> Robot:
    """The robot of a file."""
    return parse_robot(yaml.safe_dump(values))


def pair(matrix: Any = CAPSTAN, preload_n: float = PRELOAD_N, **transmission: Any) -> Robot:
    """The robot of :func:`pair_values`."""
    return made(pair_values(matrix, preload_n, **transmission))
