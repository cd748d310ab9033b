# SPDX-License-Identifier: Apache-2.0
"""Options that would do nothing, files that could not be written at the end, and misspelt names are refused at once."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import pytest

from continuum_robot.app import tune
from continuum_robot.app.command_line import main
from continuum_robot.app.commands.arguments import output_file
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROBOT = "rolling_five_link"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("up two_segment --hardware --world tube.yaml", "--world"),
        ("up two_segment --hardware --clock lockstep", "--clock lockstep"),
        ("up two_segment --no-view --view-only", "--view-only"),
        ("demo --no-view --view-only", "--view-only"),
        ("up two_segment --composed --respawn 1", "--respawn"),
        ("identify two_segment --out {0}/x.yaml --workers 2", "--workers"),
        ("identify two_segment --out {0}/x.yaml --data x.csv --hardware", "--hardware"),
        ("experiment --list --workers 2", "--workers"),
        ("experiment --json {0}/x.json", "--json"),
        ("experiment muhmann.energies --workers 2", "workers"),
        ("experiment muhmann.energies --check --workers 2", "--workers"),
        (f"demo --robot {ROBOT} --payload-kg 0.1", "payload_kg = 0.1 -- expected none"),
        (f"up {ROBOT} --payload-kg 0.1", "payload_kg = 0.1 -- expected none"),
        ("demo --payload-kg -1", "--payload-kg"),
        ("demo --clock lock-step", "'lock-step' is not one of 'auto', 'real', 'lockstep'; did you mean lockstep?"),
        ("check twosegment", "did you mean two_segment?"),
        ("up two_segment --world tubee.yaml", "did you mean tube.yaml?"),
        ("calibrate-torque two_segment --tendon 1 --mass 300g", "the unit is kg"),
        ("weigh", "a terminal"),
        (f"tune {Path(__file__).parents[2] / 'robots/bare_rod.yaml'}", "actuators and limits"),
        ("tune rolling_five_link --by gradient", "the rule alone"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    words: str, named: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.stdin", open("/dev/null", encoding="utf-8"))  # noqa: SIM115
    assert main(words.format(tmp_path).split()) == 2
    assert named in capfd.readouterr().err


def test_the_folder_of_an_output_is_made_before_the_work(tmp_path: Path) -> None:
    assert output_file(tmp_path / "a" / "b.json") == tmp_path / "a" / "b.json"
    assert (tmp_path / "a").is_dir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    for wrong in (tmp_path, tmp_path / "file" / "b.json"):
        with pytest.raises(ParameterError):
            output_file(wrong)


def test_help_shows_where_reports_go(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--help"]) == 0
    assert "DIR/DATE/" in capfd.readouterr().out


def test_tune_writes_numbers_and_a_file_that_check_accepts(tmp_path: Path) -> None:
    out, numbers = tmp_path / "tuned.yaml", tmp_path / "new" / "tune.json"
    assert main(["tune", ROBOT, "--out", str(out), "--json", str(numbers), "--margin", "50"]) == 0
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert found["phase_margin_rad"] >= 0.872
    assert found["gains"][0]["p"] > 0
    assert len(found["reasons"]) == 3
    assert main(["check", str(out)]) == 0


def test_tune_by_gradient_judges_its_gains_beside_the_rule_on_the_simulated_robot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "_TRACKED_S", 1.0)
    monkeypatch.setattr(tune, "tune_by_gradient", partial(tune.tune_by_gradient, duration_s=0.6, iterations=3))
    out, numbers = tmp_path / "tuned.yaml", tmp_path / "tune.json"
    words = f"tune opencr_five_tendon --by gradient --rate 500 --out {out} --json {numbers}"
    assert main(words.split()) == 0
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert found["simulated_error_m"]["gradient"] < found["simulated_error_m"]["rule"]
    assert found["phase_margin_rad"] >= math.radians(45)
    assert {one["fault"] for one in found["judged"].values()} == {""}
    assert tune.verdict({name: tune.Judged(**one) for name, one in found["judged"].items()}) in capfd.readouterr().out
    gains = load_robot(str(out)).control_settings.gains
    assert [{"p": one.p, "i": one.i, "d": one.d} for one in gains] == found["gains"]


@pytest.mark.parametrize(
    ("rule", "gradient", "said"),
    [
        (tune.Judged(2e-4, 0.1, 0.2), tune.Judged(1e-4, 0.1, 0.2), "50% less"),
        (tune.Judged(2e-4, 0.1, 0.2), tune.Judged(1e-4, 0.3, 0.2), "overshoots by 30 %, not by 10 %"),
        (tune.Judged(1e-4, 0.1, 0.2), tune.Judged(2e-4, 0.1, 0.2), "Keep the rule's"),
        (tune.Judged(1e-4, 0.1, 0.2), tune.Judged(fault="overcurrent"), "Keep the rule's"),
        (tune.Judged(fault="overcurrent"), tune.Judged(1e-4, 0.1, 0.2), "Take those"),
        (tune.Judged(fault="overcurrent"), tune.Judged(fault="overcurrent"), "Neither"),
    ],
)
def test_it_is_said_whether_the_gradient_helps(rule: tune.Judged, gradient: tune.Judged, said: str) -> None:
    assert said in tune.verdict({"rule": rule, "gradient": gradient})


def test_a_payload_of_one_run_is_the_models_and_the_simulated_robots() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")
    from continuum_robot.app.running.stack import load_for_stack  # noqa: PLC0415
    from continuum_robot.nodes.stack.options import StackOptions  # noqa: PLC0415
    from continuum_robot.rod import Rod  # noqa: PLC0415

    robot = load_for_stack(StackOptions(robot="two_segment", payload_kg=0.02))
    assert robot.payload_kg == 0.02
    assert load_for_stack(StackOptions(robot="two_segment")).payload_kg == 0.0
    assert Rod(robot).payload_kg == 0.02
    assert robot.file_name.endswith("two_segment.yaml")
