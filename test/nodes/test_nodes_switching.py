# SPDX-License-Identifier: Apache-2.0
"""Switching controllers over DDS, in lock-step: the torque stays on, and no tension jumps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import SwitchController
from ros_probe import lockstep_stack
from typer.testing import CliRunner

from continuum_robot.app.client.robot import Robot
from continuum_robot.app.command_line import application
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.topics.driver_status import controller_name

pytestmark = [pytest.mark.ros]

ROBOT = "opencr_five_tendon"
# In a cycle; ordinary motion has steps of 0.2 N.
LARGEST_STEP_N = 0.3


@pytest.fixture(params=["clarke", "topic"], scope="module")
def setting(request, domain):
    """A stack on its trajectory with the controller in the driver's cycle, or over topics; the probe; its name."""
    with lockstep_stack(ROBOT, controller=request.param, start_motion=True) as (stack, probe):
        probe.pause(0.5)
        yield stack, probe, request.param


def switch(probe, name):
    return probe.call(SwitchController, "switch_controller", SwitchController.Request(controller=name))


def available(name):
    return ["clarke", "tip", "hold_tension"] if name == "clarke" else [name, "hold_tension"]


def commanded(probe):
    return np.array([message.commanded_tension for message in probe.received["tendon_states"]])


def controller_of(probe):
    return controller_name(probe.newest("driver_status"))


def test_a_stack_that_starts_with_hold_tension_moves_only_after_the_switch(domain):
    with lockstep_stack(ROBOT, controller="hold_tension", start_motion=True) as (_, probe):
        probe.pause(0.5)
        tensions = commanded(probe)[-300:]
        assert np.all(tensions == tensions[0])
        assert probe.newest("stack_status").controller == "hold_tension"
        assert probe.newest("stack_status").holding
        assert switch(probe, "clarke").success
        probe.wait_real(lambda: controller_of(probe) == "clarke")
        # The reference source hears of the switch when it does.
        probe.wait_real(lambda: probe.trigger("reference_source/restart").success)
        probe.pause(1.0)
        assert np.abs(np.diff(commanded(probe), axis=0)).max() < LARGEST_STEP_N
        assert np.any(commanded(probe)[-1] != tensions[0])
        assert probe.faults() == []


def test_the_service_says_which_controller_commands_and_which_could(setting):
    _stack, probe, name = setting
    answer = probe.call(SwitchController, "switch_controller")
    assert answer.success
    assert (answer.active, answer.available) == (name, available(name))
    assert probe.newest("stack_status").controller == name


def test_tensions_are_continuous_over_a_switch_and_back_while_the_robot_moves(setting):
    _stack, probe, name = setting
    probe.trigger("reference_source/restart")
    probe.received["tendon_states"].clear()
    probe.pause(0.8)
    moving = np.abs(np.diff(commanded(probe), axis=0)).max()
    probe.received["tendon_states"].clear()
    probe.pause(0.05)
    assert switch(probe, "hold_tension").active == "hold_tension"
    probe.wait_real(lambda: probe.newest("stack_status").controller == "hold_tension")
    probe.pause(0.5)
    held = commanded(probe)[-400:]
    assert np.all(held == held[0]), "tensions are held to the last bit"
    answer = switch(probe, name)
    assert answer.success, answer.message
    probe.wait_real(lambda: probe.newest("stack_status").controller == name)
    probe.pause(1.0)
    tensions = commanded(probe)
    assert np.all(np.isfinite(tensions)), "the torque went off"
    assert np.abs(np.diff(tensions, axis=0)).max() < 1.3 * moving, "more than in ordinary motion"
    assert np.any(tensions[-1] != held[0]), "the controller commands again"
    assert probe.faults() == []
    assert probe.driver_state() == "active"


def test_a_motion_ends_with_the_switch_and_starts_no_more_by_itself(setting):
    _stack, probe, name = setting
    probe.trigger("reference_source/restart")
    probe.wait_real(lambda: not probe.newest("stack_status").holding)
    switch(probe, "hold_tension")
    probe.wait_real(lambda: probe.newest("stack_status").holding)
    refused = probe.trigger("reference_source/restart")
    assert not refused.success
    assert "holds the tensions" in refused.message
    switch(probe, name)
    probe.wait_real(lambda: controller_of(probe) == name)
    probe.pause(0.3)
    assert probe.newest("stack_status").holding
    assert probe.trigger("reference_source/restart").success


def test_what_cannot_be_switched_to_is_refused_and_nothing_changes(setting):
    _stack, probe, name = setting
    other = {"clarke": "topic", "topic": "clarke"}[name]
    for wrong in (other, "Tip", "Hold_Tension"):
        answer = switch(probe, wrong)
        assert not answer.success
        assert f"one of {', '.join(available(name))}" in answer.message
        assert answer.active == name
    assert probe.transition("clarke_controller", "deactivate")
    switch(probe, "hold_tension")
    probe.pause(0.3)
    if name == "clarke":
        answer = switch(probe, name)
        assert not answer.success
        assert "not active" in answer.message
        assert controller_of(probe) == "hold_tension"
    assert probe.transition("clarke_controller", "activate")
    assert switch(probe, name).success
    probe.pause(0.3)
    assert probe.faults() == []


def test_client_and_command_line_switch(setting):
    _stack, probe, name = setting
    with_robot = Robot.connect()
    try:
        assert "hold_tension commands" in with_robot.switch_controller("hold_tension")
        probe.wait_real(lambda: with_robot.state.controller == "hold_tension")
        with pytest.raises(DeviceError, match="one of"):
            with_robot.switch_controller("macro")
    finally:
        with_robot.close()
    said = CliRunner().invoke(application, ["controller"])
    assert said.exit_code == 0
    names = ", ".join(available(name))
    assert said.output.strip() == f"hold_tension commands the tendons; available: {names}"
    assert CliRunner().invoke(application, ["controller", name]).output.startswith(f"{name} commands")
    refused = CliRunner().invoke(application, ["controller", "macro"])
    assert refused.exit_code == 1
