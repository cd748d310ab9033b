# SPDX-License-Identifier: Apache-2.0
"""The commands for first power-on: on simulated devices in virtual time, and with no device there."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from pictures import shows_something
from robot_files import robot_file

from continuum_robot.app.command_line import main
from continuum_robot.app.procedures import devices as procedure_devices
from continuum_robot.app.procedures import run as procedures
from continuum_robot.app.running.stack import AUTO, SimulationLevel, choose_level, measure_wire
from continuum_robot.robot.loading import load_robot

ROBOT = "opencr_five_tendon"


@pytest.fixture(autouse=True)
def calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTINUUM_ROBOT_CALIBRATION", str(tmp_path / "calibration"))
    monkeypatch.setenv("ROS_DOMAIN_ID", os.environ["CONTINUUM_ROBOT_TEST_DOMAIN_APP"])
    return tmp_path / "calibration"


def test_home_stores_what_it_found(calibration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["home", ROBOT, "--json", str(tmp_path / "home.json")]) == 0
    found = json.loads((tmp_path / "home.json").read_text())
    assert Path(found["file"]).parent == calibration / "simulated"
    assert Path(found["file"]).is_file()
    assert min(found["slack_m"]) > 1e-3
    assert "string string_x: zero" in capsys.readouterr().out


@pytest.mark.long
def test_check_tendons_passes_a_sound_robot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-tendons", ROBOT]) == 0
    printed = capsys.readouterr().out
    assert printed.count("ok") >= 5
    assert "neither turned nor mirrored" in printed


def test_who_watched_is_asked_which_way_the_tip_moved() -> None:
    question = procedures.orientation_question(load_robot("two_segment"))
    assert "towards 0 degrees with proximal/tendon_1 and towards 72 degrees with proximal/tendon_2" in question
    assert "towards 36 degrees with distal/tendon_1" in question


def test_calibrate_torque_writes_the_constant(tmp_path: Path) -> None:
    out = tmp_path / "calibrated.yaml"
    assert main(["calibrate-torque", ROBOT, "--tendon", "2", "--mass", "0.6", "--out", str(out)]) == 0
    motor = load_robot(out).hardware.tendon_actuators.motors[1]
    believed = load_robot(ROBOT).actuators.torque_constant_nm_per_a
    assert motor.torque_constant_nm_per_a == pytest.approx(believed * procedures.SIMULATED_TORQUE_FRACTION, rel=1e-3)


def test_identify_moves_a_robot_with_motors_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, numbers = tmp_path / "fitted.yaml", tmp_path / "numbers.json"
    arguments = ["identify", ROBOT, "--duration", "12", "--out", str(out), "--json", str(numbers)]
    assert main([*arguments, "--plot", str(tmp_path / "fit.png")]) == 0
    found = json.loads(numbers.read_text())
    name = "actuators.rotor_inertia_kg_m2"
    assert abs(found["values"][name] - found["before"][name]) < 4 * found["deviations"][name]
    assert load_robot(out).provenance[0].data == "fitted.csv"
    assert shows_something(tmp_path / "fit.png")
    again = tmp_path / "again.yaml"
    assert main(["identify", ROBOT, "--data", str(tmp_path / "fitted.csv"), "--out", str(again)]) == 0
    assert load_robot(again).actuators == load_robot(out).actuators
    assert main(["identify", "ftdcr_v4", "--out", str(again)]) != 0
    assert "--data" in capsys.readouterr().err


def test_identify_of_every_kind_of_robot_goes_its_own_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, numbers = tmp_path / "fitted.yaml", tmp_path / "numbers.json"
    arguments, short = ["--out", str(out), "--json", str(numbers)], ["--duration", "10"]
    assert main(["identify", "crem_segment", *arguments, *short]) == 0
    assert json.loads(numbers.read_text())["shown"]["mechanism.youngs_modulus_pa"]
    assert load_robot(out).mechanism != load_robot("crem_segment").mechanism
    capsys.readouterr()
    assert main(["identify", "vanderbilt_segment", "--hardware", *arguments]) != 0
    assert "a recording of torques, tendons and strings" in capsys.readouterr().err
    for option in (short, ["--tension", "3"]):
        assert main(["identify", "vanderbilt_segment", *arguments, *option]) != 0
        assert option[0] in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("robot", "mass"), [("vanderbilt_segment", "mass_kg"), ("vanderbilt_two_segment", "segments[1].mass_kg")]
)
def test_identify_of_capstans_finds_their_masses(robot: str, mass: str, tmp_path: Path) -> None:
    out, numbers, plot = tmp_path / "fitted.yaml", tmp_path / "numbers.json", tmp_path / "fit.png"
    arguments = ["--out", str(out), "--json", str(numbers), "--plot", str(plot)]
    assert main(["identify", robot, "--simulated", *arguments]) == 0
    assert json.loads(numbers.read_text())[mass] == pytest.approx(2.312, rel=0.05)
    assert any("mass_kg" in value.key and value.deviation > 0 for value in load_robot(out).provenance[0].values)
    assert shows_something(plot)


@pytest.mark.parametrize(
    "arguments", [["home"], ["check-tendons"], ["calibrate-torque", "--tendon", "1", "--mass", "1"]]
)
def test_hardware_that_is_not_there_is_one_line_that_says_what_to_do(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {"kind": "odri_can", "channels": ["nocan0", "nocan1", "nocan2"]}
    robot = robot_file(tmp_path, {"hardware.tendon_actuators": board}, ROBOT)
    yes = ["--yes"] if arguments[0] == "calibrate-torque" else []
    assert main([arguments[0], robot, "--hardware", *arguments[1:], *yes]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert "nocan0" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["home", "two_segment", "--hardware"], "devices"),
        (["home", ROBOT, "--tension", "15"], "tension_n"),
        (["check-tendons", ROBOT, "--pull", "40"], "pull_n"),
        (["calibrate-torque", ROBOT, "--tendon", "9", "--mass", "1"], "1 to 5"),
        (["calibrate-torque", ROBOT, "--tendon", "1", "--mass", "9"], "mass_kg"),
        (["home", str(Path(__file__).parents[2] / "robots/bare_rod.yaml")], "actuators"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_signal_cancels_in_good_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    waits = 0
    plain = procedure_devices.ProcedureDevices.wait

    def wait(devices: procedure_devices.ProcedureDevices, duration_s: float) -> bool:
        nonlocal waits
        waits += 1
        if waits == 40:
            signal.raise_signal(signal.SIGTERM)
        return plain(devices, duration_s)

    monkeypatch.setattr(procedure_devices.ProcedureDevices, "wait", wait)
    assert main(["check-tendons", ROBOT]) == 130
    assert "cancelled" in capsys.readouterr().out


def test_the_level_is_what_was_desired_or_what_the_machine_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = load_robot(ROBOT)
    assert choose_level("wire", robot, real_time=False) == SimulationLevel("wire", "wire")
    median_s, most_s = measure_wire(robot, cycles=50)
    assert 0 < median_s <= most_s
    for cost, level in (((1e-4, 2e-4), "wire"), ((9e-4, 1e-3), "dynamics"), ((1e-4, 5e-3), "dynamics")):
        monkeypatch.setattr("continuum_robot.app.running.stack.measure_wire", lambda _robot, cost=cost: cost)
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
        chosen = choose_level(AUTO, robot)
        assert chosen.name == level
        assert "ms a cycle" in chosen.reason
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0})
    assert choose_level(AUTO, robot).name == "dynamics"
