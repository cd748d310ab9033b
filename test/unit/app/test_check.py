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
from robot_files import robot_file

from continuum_robot.app.check import abilities, run_check
from continuum_robot.control.delay_margin import delay_margin_s
from continuum_robot.models.rod import masses_kg, natural_frequencies_hz
from continuum_robot.robot.file.shipped_files import shipped_robots
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
    run_check(str(NINE.with_name("bare_rod.yaml")), tmp_path / "check.json", Console(file=io.StringIO()))
    assert "delay_margin_s" not in json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))


def test_masses_add_up() -> None:
    backbone, disks, tendons = masses_kg(load_robot("opencr_five_tendon").segments[0])
    assert backbone == pytest.approx(6400 * math.pi / 4 * 1e-6 * 0.2)
    assert disks == pytest.approx(10 * 0.81e-3)
    assert tendons == 0


def test_abilities_name_what_is_missing() -> None:
    robot = load_robot("opencr_five_tendon")
    assert abilities(robot) == {"up": "", "demo": "", "replay of a run": "", "replay of a .csv": "recording"}
    assert abilities(robot.changed(reference=None)) == {**abilities(robot), "demo": "reference"}
    assert "limits" in abilities(load_robot(Path(__file__).parents[2] / "robots/bare_rod.yaml"))["up"]


NINE = Path(__file__).parents[2] / "robots/untuned_nine_servos.yaml"
TUNED = {"p: 6000.0": "p: 37000.0", "i: 30000.0": "i: 67000.0", "d: 300.0": "d: 5100.0"}


def judged(tmp_path: Path, changes: dict[str, str]) -> tuple[int, list[tuple[str, str]], str]:
    """Exit code, levels and keys of the judgements, and what was printed, of the nine servos with other words."""
    text = NINE.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "robot.yaml").write_text(text, encoding="utf-8")
    console = Console(file=io.StringIO(), width=1000)
    code = run_check(str(tmp_path / "robot.yaml"), tmp_path / "check.json", console)
    numbers = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert numbers["works"] == (code == 0)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for one in numbers["judgements"]:
        assert f"{one['level']}: {one['key']}: {one['cause']}. {one['remedy']}." in printed
    return code, [(one["level"], one["key"]) for one in numbers["judgements"]], printed


def test_a_robot_that_can_work_is_ready(tmp_path: Path) -> None:
    code, found, printed = judged(tmp_path, TUNED)
    assert code == 0
    assert not [key for level, key in found if level == "error"]
    assert "up: ready" in printed
    assert "bus" in printed


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({}, "control.gains", "unstable on the linear model"),
        ({**TUNED, "i: 30000.0": "i: 7000.0", "d: 300.0": "d: 150.0"}, "control.gains", "continuum-robot tune"),
        ({**TUNED, "coulomb_friction_nm: 0.015": "coulomb_friction_nm: 0.07"}, "control.pretension_n", "14 N"),
        ({**TUNED, "maximum_displacement_m: 0.02": "maximum_displacement_m: 0.0004"}, "reference", "0.4 mm"),
        ({**TUNED, "  maximum_n: 60.0": "  maximum_n: 15.0"}, "reference", "limits.maximum_n = 15 N"),
        ({**TUNED, "  total_n: 300.0": "  total_n: 110.0"}, "reference", "limits.total_n"),
        ({**TUNED, "rate_n_per_s: 2000.0": "rate_n_per_s: 2.0"}, "reference", "limits.rate_n_per_s"),
        ({**TUNED, "u_clamp_max: 60.0": "u_clamp_max: 1.0"}, "control.gains", "u_clamp_max"),
        ({**TUNED, "kind: chirp": "kind: csv\n  file: none.csv"}, "reference", "none.csv"),
        ({**TUNED, "control:": "control:\n  law: lqqr"}, "control.law", "lqqr"),
        (
            {**TUNED, "pretension_n: 12.0": "pretension_n: 0.9", "minimum_n: 4.0": "minimum_n: 0.5"},
            "hardware.tendon_actuators.model",
            "0.958 N",
        ),
        (
            {**TUNED, "  tendon_actuators:": "  tracker: {kind: ndi_serial, port: /dev/x, tool_file: gone.rom}\n"
             "  tendon_actuators:"},
            "hardware.tracker.tool_file",
            "gone.rom",
        ),
    ],
)  # fmt: skip
def test_what_keeps_a_robot_from_working_is_an_error(
    changes: dict[str, str], key: str, words: str, tmp_path: Path
) -> None:
    code, found, printed = judged(tmp_path, changes)
    assert code == 1
    assert ("error", key) in found
    assert words in printed
    assert "would not work" in printed


def test_coarse_steps_and_friction_of_the_first_file_are_told_apart(tmp_path: Path) -> None:
    """Pretension of 4 N, steps of the current of 0.96 N: it works poorly."""
    changes = {**TUNED, "pretension_n: 12.0": "pretension_n: 4.5", "minimum_n: 4.0": "minimum_n: 2.0"}
    code, found, printed = judged(tmp_path, changes)
    assert code == 0
    assert ("warning", "hardware.tendon_actuators.model") in found
    assert "0.958 N" in printed


def test_an_own_controller_is_not_printed_as_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("continuum_robot.app.judgement.added", lambda _group, name, _key: {"lqr": object}.get(name))
    code, _found, printed = judged(tmp_path, {"control:": "control:\n  law: lqr"})
    assert code == 0  # its gains say nothing of that controller
    assert "lqr, a controller of another package" in printed
    assert "PID" not in printed


@pytest.mark.parametrize("name", ["rucker", "two_segment"])
def test_what_the_strain_basis_misses_is_named(name: str, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=1000)
    assert run_check(name, tmp_path / "check.json", console) == 0
    assert "warning: segments.basis: the strain basis misses the tip" in console.file.getvalue()  # type: ignore[attr-defined]
    assert max(json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["defects_m"].values()) > 1e-3


def test_a_reference_that_bends_the_robot_into_itself_is_warned_of(tmp_path: Path) -> None:
    far = robot_file(tmp_path, {"reference.amplitude_m": [0.0, 0.045, 0.0, 0.045]}, "two_segment")
    console = Console(file=io.StringIO(), width=1000)
    run_check(far, tmp_path / "check.json", console)
    found = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["judgements"]
    assert any("into itself" in one["cause"] for one in found if one["level"] == "warning"), found
    run_check("two_segment", tmp_path / "check.json", console)
    found = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["judgements"]
    assert not any("into itself" in one["cause"] for one in found)


def test_the_quadratures_error_is_printed_and_beyond_its_bound_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO(), width=1000)
    assert run_check("two_segment", tmp_path / "check.json", console) == 0
    error = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["quadrature_error"]
    assert 0 < error < 1e-6
    assert "Quadrature: 6 Gauss nodes a piece" in console.file.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr("continuum_robot.rod.accuracy.LARGEST_ERROR", error / 2)
    assert run_check("two_segment", tmp_path / "check.json", console) == 1
    assert "error: segments.basis.nodes: energies and lengths" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(shipped_robots()))
def test_every_shipped_robot_can_work(name: str, tmp_path: Path) -> None:
    assert run_check(name, tmp_path / "check.json", Console(file=io.StringIO())) == 0
    found = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["judgements"]
    assert {one["key"] for one in found} <= {"segments.basis"}
