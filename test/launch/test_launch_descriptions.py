# SPDX-License-Identifier: Apache-2.0
"""Every launch file is built and every argument expanded, with a stub of launch: the real one is not on PyPI."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from launch_stub import (
    LaunchContext,
    LaunchDescription,
    LogInfo,
    Node,
    ProcessExited,
    RegisterEventHandler,
    expanded,
    stubbed,
)

from continuum_robot.app.launching.plan import rviz_arguments, stack_arguments
from continuum_robot.errors import MISCONFIGURED

FOLDER = Path(__file__).parents[2] / "launch"
PARAMS = FOLDER.parent / "examples" / "own_estimators" / "own.yaml"
FILES = {"sim": stack_arguments(True), "hardware": stack_arguments(False), "rviz": rviz_arguments()}
# Nothing is measured, and no rviz needed.
QUICK = {"clock": "real", "simulation_level": "dynamics"}
# What goes with a value; of arguments without choices, a value.
WITH = {
    "simulation_level:=mujoco": {"world": "tube.yaml"},
    "simulation_level:=mirror": {"use_fake_hardware": "true"},
}
COMPOSED = ("composed:=true", "clock:=lockstep", "use_sim_time:=true")
OTHERS = {
    "robot": "opencr_five_tendon", "world": "", "record_directory": "elsewhere", "namespace": "left", "prefix": "left_",
    "can_interface": "slcan", "serial_port": "/dev/strings", "payload_kg": "0.02", "force_port": "/dev/force",
    "params_file": str(PARAMS), "respawn": "2", "seed": "7", "rviz_config": __file__, "truth": "none",
}  # fmt: skip
VALUES = [
    (file, argument.name, value)
    for file, arguments in FILES.items()
    # The arguments of hardware.launch.py are those of sim.launch.py with another default.
    for argument in (arguments if file != "hardware" else [one for one in arguments if one.name == "robot"])
    for value in argument.choices or (OTHERS[argument.name],)
]


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for package in ("rviz2", "continuum_robot"):
        mark = tmp_path / "share/ament_index/resource_index/packages" / package
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    yield from stubbed(monkeypatch)


def described(file: str) -> LaunchDescription:
    return runpy.run_path(str(FOLDER / f"{file}.launch.py"))["generate_launch_description"]()


def nodes_of(file: str, **given: str) -> list[Node]:
    return [action for action in expanded(described(file), **given) if isinstance(action, Node)]


def test_all_files_are_tried() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.suffix == ".py"} == {f"{file}.launch.py" for file in FILES}


@pytest.mark.parametrize(("file", "name", "value"), VALUES)
def test_every_value_of_every_argument_starts_nodes(file: str, name: str, value: str) -> None:
    if value == "mujoco":
        pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")
    quick = {} if file == "rviz" else QUICK
    started = nodes_of(file, **(quick | {name: value} | WITH.get(f"{name}:={value}", {})))
    last = {"rviz:=true": "rviz2"} | dict.fromkeys(COMPOSED, "composition")
    assert started[-1].executable == ("rviz2" if file == "rviz" else last.get(f"{name}:={value}", "supervisor"))
    assert all(one.exec_name == one.executable for one in started)
    # No program goes on without launch.
    tether = f"{sys.executable} -m continuum_robot.app.running.child_process {os.getpid()} "
    assert all(one.prefix == tether for one in started)
    if name == "namespace":
        assert {one.namespace for one in started} == {"left"}
    if name == "params_file":
        assert all(one.parameters[-1] == str(PARAMS) for one in started)


def test_a_launch_prefix_comes_behind_what_binds_a_program_to_launch() -> None:
    for file in FILES:
        for one in nodes_of(file, **({} if file == "rviz" else QUICK | {"rviz": "true"}), **{"launch-prefix": "gdb"}):
            assert one.prefix.endswith(f"child_process {os.getpid()} gdb")


def exits_of(file: str, **given: str) -> dict[str, Callable[..., Any]]:
    """What is called at the end of each program."""
    actions = expanded(described(file), **(QUICK | given))
    handlers = [action.event_handler for action in actions if isinstance(action, RegisterEventHandler)]
    return {handler.target_action.executable: handler.on_exit for handler in handlers}


def test_a_program_that_cannot_use_its_parameters_ends_launch_and_is_not_started_again() -> None:
    exits = exits_of("sim")
    assert set(exits) == {node.executable for node in nodes_of("sim", **QUICK)}
    on_exit = exits["control_loop"]
    with pytest.raises(RuntimeError, match=r"parameters.*the log above"):
        on_exit(ProcessExited(MISCONFIGURED), LaunchContext())
    for code in (0, 1, -9):
        assert not on_exit(ProcessExited(code), LaunchContext())
    assert not on_exit(ProcessExited(MISCONFIGURED), LaunchContext(is_shutdown=True))


def test_the_end_of_the_supervisor_ends_launch() -> None:
    on_exit = exits_of("sim")["supervisor"]
    assert [type(one).__name__ for one in on_exit(ProcessExited(0), LaunchContext())] == [
        "Shutdown"
    ]
    with pytest.raises(RuntimeError, match="see the log"):
        on_exit(ProcessExited(1), LaunchContext())
    assert on_exit(ProcessExited(1), LaunchContext(is_shutdown=True)) == []


@pytest.mark.parametrize(("file", "given"), [("sim", {"rviz": "true"}), ("rviz", {})])
def test_a_missing_rviz_is_refused_before_anything_starts(
    file: str, given: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "share/ament_index/resource_index/packages/rviz2").unlink()
    with pytest.raises(RuntimeError, match=r"rviz2.*an installed package"):
        expanded(described(file), **(given if file == "rviz" else QUICK | given))


def test_a_misspelt_argument_is_named() -> None:
    notes = [one.msg for one in expanded(described("sim"), **QUICK, namesapce="left") if isinstance(one, LogInfo)]
    assert any("namesapce" in note and "namespace" in note for note in notes)
