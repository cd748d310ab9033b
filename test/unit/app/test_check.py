# SPDX-License-Identifier: Apache-2.0
"""Numbers of the summary against closed forms."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from continuum_robot.app.check import abilities, run_check
from continuum_robot.control.delay_margin import delay_margin_s
from continuum_robot.models.rod import masses_kg, natural_frequencies_hz
from continuum_robot.robot.loading import load_robot


def single_disk():
    """A light rod without gravity that carries one heavy disk at its end."""
    robot = load_robot("opencr_five_tendon")
    segment = robot.segments[0]
    disks = dataclasses.replace(segment.disks, count=1, mass_kg=0.05, radius_m=0.007, thickness_m=1e-6)
    backbone = dataclasses.replace(segment.backbone, density_kg_per_m3=1.0)
    segment = dataclasses.replace(segment, disks=disks, backbone=backbone)
    return dataclasses.replace(robot, segments=(segment,), gravity_m_per_s2=(0.0, 0.0, 0.0))


def test_frequency_of_a_mass_on_a_constant_curvature_rod() -> None:
    robot = single_disk()
    segment = robot.segments[0]
    # At small curvature the tip moves l^2/2 kappa sideways; V = EI l kappa^2 / 2, T = m (l^2/2)^2 kappa_rate^2 / 2.
    stiffness = segment.backbone.bending_stiffness_nm2 * segment.length_m
    inertia = segment.disks.mass_kg * (segment.length_m**2 / 2) ** 2
    expected = math.sqrt(stiffness / inertia) / (2 * math.pi)
    np.testing.assert_allclose(natural_frequencies_hz(robot), [expected, expected], rtol=1e-3)


def test_hanging_stiffens_and_standing_softens() -> None:
    robot = single_disk()
    hanging = dataclasses.replace(robot, gravity_m_per_s2=(0.0, 0.0, 9.81))
    standing = dataclasses.replace(robot, gravity_m_per_s2=(0.0, 0.0, -1.0))
    free = natural_frequencies_hz(robot)
    assert (natural_frequencies_hz(hanging) > free).all()
    assert (natural_frequencies_hz(standing) < free).all()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("opencr_five_tendon", r"Delay margin: 8\.\d+ ms more than a cycle .* in segment_1"),
        ("rolling_five_link", r"Delay margin: .*, of the motors' mass alone"),
    ],
)
def test_the_delay_margin_is_printed_and_written(name: str, line: str, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=1000)
    run_check(name, tmp_path / "check.json", console)
    assert re.search(line, console.file.getvalue())  # type: ignore[attr-defined]
    numbers = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert numbers["delay_margin_s"] == pytest.approx(delay_margin_s(load_robot(name)).margin_s)


def test_a_robot_without_control_has_no_delay_margin(tmp_path: Path) -> None:
    run_check("ftdcr_v4", tmp_path / "check.json", Console(file=io.StringIO()))
    assert "delay_margin_s" not in json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))


def test_masses_add_up() -> None:
    backbone, disks, tendons = masses_kg(load_robot("opencr_five_tendon").segments[0])
    assert backbone == pytest.approx(6400 * math.pi / 4 * 1e-6 * 0.2)
    assert disks == pytest.approx(10 * 0.81e-3)
    assert tendons == 0


def test_abilities_name_what_is_missing() -> None:
    assert abilities(load_robot("opencr_five_tendon")) == {"demo, up": "", "replay": "recording"}
    assert "limits" in abilities(load_robot("ftdcr_v4"))["demo, up"]
