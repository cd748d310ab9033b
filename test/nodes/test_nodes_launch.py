# SPDX-License-Identifier: Apache-2.0
"""What hardware.launch.py starts, against devices on real wires: motor boards, string-encoder board, force sensor."""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Shape
from continuum_robot.srv import ManageStack
from geometry_msgs.msg import WrenchStamped
from ros_device_ports import stand
from ros_probe import PATIENT, Probe

from continuum_robot.app.launching.plan import programs_of_stack, stack_arguments
from continuum_robot.app.running.processes import ProcessGroup, node_command
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.simulation.wire.device_ports import DevicePorts

pytestmark = [pytest.mark.ros, pytest.mark.real_time]

LONG_S = 240.0
TOPICS = ("tendon_states", "clarke_state", "clarke_reference", "shape", "wrench")
# The robot is not homed by hand, and a busy machine steps the boards late.
PARAMETERS = {
    "homing": "ignored",
    "safety.activation_grace_s": 30.0,
    "safety.current_mismatch_time_s": 2.0,
    "safety.inconsistent_displacement_time_s": 2.0,
    **PATIENT,
}


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, DevicePorts]]:
    with stand(tmp_path_factory.mktemp("launch"), strings=True, force=True) as file_and_desk:
        yield file_and_desk


@pytest.fixture
def probe(domain: int) -> Iterator[Probe]:
    with Probe() as listening:
        listening.listen_to_stack()
        listening.listen(Shape, "shape", qos.newest_state())
        listening.listen(WrenchStamped, "wrench", qos.newest_state())
        yield listening


@pytest.mark.parametrize("composed", ["false", "true"])
def test_the_robot_moves_on_its_wires_and_ends_in_order(
    composed: str, standing: tuple[Path, DevicePorts], probe: Probe, tmp_path: Path
) -> None:
    robot, desk = standing
    file = tmp_path / "parameters.yaml"
    sections = {"/**": PARAMETERS, "/**/tendon_driver": {"rate_hz": 250.0}}
    text = yaml.safe_dump({name: {"ros__parameters": values} for name, values in sections.items()}, sort_keys=False)
    file.write_text(text, encoding="utf-8")
    values = {"robot": str(robot), "composed": composed, "force_sensor": "true", "params_file": str(file)}
    values["start_motion"] = "true"
    programs = programs_of_stack({argument.name: argument.default for argument in stack_arguments(False)} | values)
    commands = {
        program.executable: node_command(program.executable, program.parameters, extra=["--params-file", str(file)])
        for program in programs
    }
    with running(commands, probe) as group:
        probe.wait(lambda: all(probe.received[topic] for topic in TOPICS), LONG_S, "not all topics are heard")
        assert not probe.newest("stack_status").simulated
        assert not probe.newest("tendon_states").simulated
        follow(probe, desk)
        probe.wait(lambda: np.isfinite(probe.newest("shape").coefficients).all(), LONG_S, "no shape")
        probe.wait(lambda: np.isfinite(probe.newest("wrench").wrench.force.z), LONG_S, "no force")
    codes = group.exit_codes()
    assert set(codes.values()) == {0}, codes
    assert wait_for(lambda: desk.hardware.plant.tension.max() < 1.0, 5.0), "the tendons are not released"


@contextlib.contextmanager
def running(commands: dict[str, list[str]], probe: Probe) -> Iterator[ProcessGroup]:
    """Again where a busy machine made the boards look silent: the stack ends itself then, and reports it."""
    for _ in range(5):
        group = ProcessGroup(commands, grace_s=30.0, signals=(signal.SIGINT, signal.SIGKILL))
        is_up = functools.partial(up_or_ended, group, probe)
        probe.received["stack_status"].clear()
        group.start()
        try:
            probe.wait(is_up, LONG_S, "the stack does not come up")
            if not group.ended():
                yield group
                return
        finally:
            group.stop()
    pytest.fail("the stack ends itself, see the log")


def up_or_ended(group: ProcessGroup, probe: Probe) -> bool:
    return probe.stack_state() == "up" or bool(group.ended())


def follow(probe: Probe, desk: DevicePorts) -> None:
    """The true robot follows its reference, whatever a busy machine made of the first tries."""
    begin = probe.newest("clarke_state").position[0]

    def moves() -> bool:
        if probe.stack_state() != "up":
            probe.manage(ManageStack.Request.RESET)
        else:
            probe.moving()
        state, desired = probe.newest("clarke_state").position, probe.newest("clarke_reference").position
        return abs(state[0] - begin) > 0.002 and abs(state[0] - desired[0]) < 0.001

    probe.wait(moves, LONG_S, "the robot does not follow")
    assert desk.hardware.plant.tension.max() > 2.0
