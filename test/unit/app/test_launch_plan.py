# SPDX-License-Identifier: Apache-2.0
"""What the launch files start, and with what; launch itself is not needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from robot_files import robot_file

from continuum_robot.app.launching.plan import (
    LaunchArgument,
    misspelt,
    programs_of_stack,
    rviz_arguments,
    stack_arguments,
)
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.nodes.stack.choices import SIMULATION_LEVELS
from continuum_robot.robot.loading import load_robot

# Nothing is measured.
QUICK = {"simulation_level": "dynamics", "clock": "real"}
ARGUMENTS = {"sim": stack_arguments(True), "hardware": stack_arguments(False), "rviz": rviz_arguments()}


def given(file: str, **values: str) -> dict[str, str]:
    return {argument.name: argument.default for argument in ARGUMENTS[file]} | values


@pytest.mark.parametrize("file", ARGUMENTS)
def test_arguments_are_explained_and_their_defaults_allowed(file: str) -> None:
    arguments = ARGUMENTS[file]
    assert len({argument.name for argument in arguments}) == len(arguments)
    for argument in arguments:
        assert len(argument.description) > 15
        assert not argument.choices or argument.default in argument.choices


@pytest.mark.parametrize("composed", ["false", "true"])
@pytest.mark.parametrize("file", ["sim", "hardware"])
def test_no_node_is_asked_for_a_level_that_it_does_not_know(file: str, composed: str) -> None:
    programs = programs_of_stack(given(file, composed=composed))
    levels = {
        program.parameters["simulation_level"] for program in programs if "simulation_level" in program.parameters
    }
    assert len(levels) == 1
    assert levels <= set(SIMULATION_LEVELS)
    assert {program.parameters.get("use_fake_hardware") for program in programs} == {file == "sim"}


@pytest.mark.parametrize("composed", ["false", "true"])
def test_a_world_goes_to_the_simulator_and_chooses_mujoco(composed: str) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")
    values = {"simulation_level": "auto", "clock": "lockstep", "world": "tube.yaml", "composed": composed}
    programs = programs_of_stack(given("sim", **values))
    (holder,) = [one for one in programs if "world" in one.parameters]
    assert Path(str(holder.parameters["world"])).is_file()
    levels = {one.parameters["simulation_level"] for one in programs if "simulation_level" in one.parameters}
    assert levels == {"mujoco"}
    for wrong in ({"simulation_level": "dynamics"}, {"world": "none.yaml"}):
        with pytest.raises(ParameterError, match="world"):
            programs_of_stack(given("sim", **(values | wrong)))


@pytest.mark.parametrize("values", [{"clock": "lockstep"}, {"use_sim_time": "true"}])
def test_in_lockstep_all_nodes_are_one_program(values: dict[str, str]) -> None:
    (program,) = programs_of_stack(given("sim", **(QUICK | values)))
    assert program.executable == "composition"
    assert program.parameters["clock"] == "lockstep"
    assert {"simulator", "tendon_driver", "clarke_controller", "supervisor"} <= set(program.nodes)


def test_the_supervisor_comes_last_and_ends_if_the_start_fails() -> None:
    *_, last = programs_of_stack(given("hardware"))
    assert (last.executable, last.node) == ("supervisor", "supervisor")
    assert last.parameters["exit_on_failed_start"] is True
    others = {name for program in programs_of_stack(given("hardware"))[:-1] for name in program.nodes}
    assert set(last.parameters["node_names"]) == others


def test_programs_that_end_are_started_again_except_the_one_with_which_all_ends() -> None:
    *nodes, supervisor = programs_of_stack(given("sim", **QUICK))
    assert {program.respawns for program in nodes} == {5}
    assert supervisor.respawns == 0
    assert {program.respawns for program in programs_of_stack(given("sim", respawn="0", **QUICK))} == {0}
    (composed,) = programs_of_stack(given("sim", composed="true", **QUICK))
    assert composed.respawns == 0


@pytest.mark.parametrize("composed", ["false", "true"])
def test_a_signal_leaves_time_for_the_ramp(tmp_path: Path, composed: str) -> None:
    fast = programs_of_stack(given("sim", composed=composed, **QUICK))
    limits = load_robot("opencr_five_tendon").limits
    assert {program.grace_s for program in fast} == {20.0 + limits.maximum_n / limits.safe_rate_n_per_s}
    robot = robot_file(tmp_path, {"limits.safe_rate_n_per_s": 2.0})
    slow = programs_of_stack(given("sim", composed=composed, robot=robot, **QUICK))
    assert {program.grace_s for program in slow} == {30.0}


def test_ports_go_to_the_nodes_that_open_them() -> None:
    values = {"can_interface": "slcan", "serial_port": "/dev/a", "force_sensor": "true", "force_port": "/dev/b"}
    by_node = {name: one.parameters for one in programs_of_stack(given("hardware", **values)) for name in one.nodes}
    assert by_node["tendon_driver"]["can_interface"] == "slcan"
    assert by_node["string_encoder"]["serial_port"] == "/dev/a"
    assert by_node["force_sensor"]["serial_port"] == "/dev/b"
    (composed,) = programs_of_stack(given("hardware", composed="true", **values))
    assert values.items() - {("force_sensor", "true")} <= composed.parameters.items()
    assert composed.parameters["force_sensor"] is True


def test_the_other_name_of_the_same_argument_wins() -> None:
    programs = programs_of_stack(given("hardware", use_mock_hardware="true"))
    assert all(program.parameters["use_fake_hardware"] for program in programs)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"robot": "no_such_robot"}, "opencr_five_tendon"),
        ({"robot": str(Path(__file__).parents[2] / "robots/bare_rod.yaml")}, "actuators, limits, control"),
        ({"robot": "two_segment"}, "hardware"),
        ({"params_file": "/no/such/file.yaml"}, "a readable file of ROS parameters"),
        ({"use_fake_hardware": "true", "respawn": "-1"}, "a whole number from 0"),
    ],
)
def test_wrong_values_are_refused_before_anything_starts(values: dict[str, str], words: str) -> None:
    with pytest.raises((ParameterError, RobotFileError), match=words):
        programs_of_stack(given("hardware", **values))


def test_a_recording_goes_where_launch_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_node = {
        name: one.parameters for one in programs_of_stack(given("hardware", record="true")) for name in one.nodes
    }
    assert by_node["recorder"]["directory"] == str(tmp_path / "runs")


@pytest.mark.parametrize(
    ("kind", "start_motion", "expected"),
    [("hardware", "true", "if_missing"), ("hardware", "false", "auto"), ("sim", "true", "auto")],
)
def test_a_robot_that_moves_by_itself_teaches_its_floor_where_none_is_stored(
    kind: str, start_motion: str, expected: str
) -> None:
    plan = programs_of_stack(given(kind, contact="true", start_motion=start_motion))
    by_node = {name: one.parameters for one in plan for name in one.nodes}
    assert by_node["contact_monitor"]["free_motion"] == expected


def test_a_misspelt_argument_is_told() -> None:
    arguments = [LaunchArgument("simulation_level", "auto", "how much is simulated")]
    assert misspelt(["simulation_levle", "simulation_level", "other"], arguments) == [
        "[WARN] launch argument simulation_levle:= is unknown and ignored; meant simulation_level:= ?"
    ]
