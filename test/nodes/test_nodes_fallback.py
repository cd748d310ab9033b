# SPDX-License-Identifier: Apache-2.0
"""The fallback controller over DDS: a controller falls silent or is killed, the driver holds, then ramps down."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from robot_files import robot_file, robot_values, written
from ros_probe import PATIENT_STACK, Probe, lockstep_stack, patient_on_wires

from continuum_robot.app.running.process_stack import ProcessStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits
HOLD_S, AUTHORITY_N = 0.6, 1.0


@pytest.fixture(params=[pytest.param("hold_tension", marks=pytest.mark.long), "hold_place"])
def setting(request, domain, tmp_path):
    """A stack on its trajectory, with its controller over topics; the probe; what the fallback does."""
    stop = {"commands": request.param, "hold_s": HOLD_S, "hold_authority_n": AUTHORITY_N}
    file = robot_file(tmp_path, {"stop": stop})
    with lockstep_stack(file, controller="topic", start_motion=True) as (stack, probe):
        yield stack, probe, request.param


def check_fallback(probe, action):
    """The driver holds within its authority, reports it, and lets go when the time is over."""
    probe.wait(lambda: "command_timeout" in probe.faults(), 2.0)
    begin = len(probe.received["tendon_states"])
    # The driver's word comes before the supervisor's own.
    probe.wait_real(
        lambda: probe.newest("stack_status").fallback and probe.stack_state() == "fault", what="it does not tell"
    )
    status = probe.newest("stack_status")
    assert (status.stop_action, status.controller, status.state) == (action, "", "fault")
    assert probe.newest("driver_status").fallback_holds
    assert "fallback holds" in probe.newest("driver_status").message
    probe.wait_real(lambda: "fallback holds" in probe.health("/tendon_driver: driver"), what="not in /diagnostics")
    probe.pause(HOLD_S - 0.3)
    held = np.array([message.commanded_tension for message in probe.received["tendon_states"][begin:]])
    allowed_n = AUTHORITY_N if action == "hold_place" else 0.0
    assert np.abs(held - held[0]).max() <= 2 * allowed_n + 1e-9
    if action == "hold_place":
        assert np.abs(np.diff(held, axis=0)).max() > 0
        moved = np.array([message.displacement for message in probe.received["tendon_states"][begin:]])
        assert np.ptp(moved[-100:], axis=0).max() < 1e-4, "the place is not held"
    probe.wait_real(lambda: probe.newest("stack_status").fallback)
    probe.pause(0.5 + LIMITS.longest_ramp_s)
    np.testing.assert_allclose(probe.newest("tendon_states").commanded_tension, LIMITS.safe_n, atol=1e-9)
    steps = np.diff([message.commanded_tension for message in probe.received["tendon_states"][begin:]], axis=0)
    assert steps.min() >= -LIMITS.safe_rate_n_per_s * 1e-3 - AUTHORITY_N - 1e-9
    probe.wait_real(lambda: not probe.newest("stack_status").fallback)
    assert probe.newest("stack_status").stop_action == "release"
    assert probe.faults() == ["command_timeout"]


def test_a_controller_that_falls_silent_is_replaced_by_a_hold_and_a_reset_brings_all_back(setting):
    _stack, probe, action = setting
    probe.pause(0.8)
    assert probe.transition("clarke_controller", "deactivate")
    check_fallback(probe, action)
    assert probe.manage(ManageStack.Request.RESET).success
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 60.0)
    probe.pause(0.3)
    assert probe.faults() == []
    assert probe.newest("stack_status").controller == "topic"
    assert probe.newest("stack_status").stop_action == ""


@pytest.mark.real_time
def test_the_program_of_a_controller_that_is_killed_is_replaced_by_a_hold_until_the_supervisor_pauses(domain, tmp_path):
    data = patient_on_wires(robot_values({"stop": {"commands": "hold_tension", "hold_s": 3600}}))
    options = StackOptions(
        robot=written(data, tmp_path),
        simulation_level="dynamics",
        controller="topic",
        visualize=False,
        parameters=PATIENT_STACK,
    )
    with ProcessStack.server() as server, ProcessStack(options, server, respawns=0) as stack:
        stack.wait_until_up(120.0)
        with Probe() as probe:
            probe.listen_to_stack()
            probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
            probe.wait_for_message("tendon_commands")
            os.kill(stack.pids["clarke_controller"], signal.SIGKILL)
            probe.wait(
                lambda: probe.received["stack_status"] and any(m.fallback for m in probe.received["stack_status"])
            )
            probe.wait(lambda: probe.faults() == ["command_timeout"], what="the driver's status names another fault")
            begin = len(probe.received["tendon_states"])
            # The supervisor notices the loss after a while, and lets the driver ramp down.
            probe.wait(lambda: not probe.newest("driver_status").powered, 60.0, "still powered")
            probe.wait(lambda: np.isnan(probe.newest("tendon_states").commanded_tension).all())
            tensions = np.array([message.commanded_tension for message in probe.received["tendon_states"][begin:]])
            tensions = tensions[np.isfinite(tensions).all(axis=1)]
            assert np.all(tensions[:20] == tensions[0]), "held"
            np.testing.assert_allclose(tensions[-1], LIMITS.safe_n, atol=1e-9)
            probe.wait(lambda: any("node_lost: clarke_controller" in m.faults for m in probe.received["stack_status"]))
            probe.wait(lambda: not probe.newest("stack_status").fallback)


def test_a_brake_switches_the_torque_off_at_once_and_a_reset_brings_it_back(domain, tmp_path):
    file = robot_file(tmp_path, {"actuators.brake_holds_n": 2 * LIMITS.maximum_n, "stop": {"operator": "brake"}})
    with lockstep_stack(file) as (_, probe):
        probe.pause(0.3)
        before = probe.newest("tendon_states").commanded_tension
        begin = len(probe.received["tendon_states"])
        assert "the brakes close" in probe.trigger("estop").message
        probe.pause(0.05)
        tensions = np.array([message.commanded_tension for message in probe.received["tendon_states"][begin:]])
        powered = np.isfinite(tensions).all(axis=1)
        assert not powered[5:].any(), "the torque is not off"
        np.testing.assert_allclose(tensions[powered], np.broadcast_to(before, tensions[powered].shape), atol=0.1)
        probe.wait_real(lambda: not probe.newest("driver_status").powered)
        assert probe.newest("stack_status").stop_action == "brake"
        assert probe.manage(ManageStack.Request.RESET).success
        probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 60.0)
        assert probe.newest("driver_status").powered
        assert probe.faults() == []
