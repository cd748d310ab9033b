# SPDX-License-Identifier: Apache-2.0
"""The stack on simulated wires over DDS: it moves, and a board that was gone is recovered without a restart."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import StringLengths
from continuum_robot.srv import InjectFault, ManageStack
from geometry_msgs.msg import WrenchStamped
from robot_files import robot_values, written
from ros_probe import PATIENT_STACK, Probe, patient_on_wires

from continuum_robot.errors import DeviceError
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions

pytestmark = [pytest.mark.ros, pytest.mark.real_time]


@pytest.fixture(scope="module")
def stack(domain, tmp_path_factory):
    options = StackOptions(
        robot=written(patient_on_wires(robot_values()), tmp_path_factory.mktemp("robot")),
        simulation_level="wire",
        visualize=False,
        force_sensor=True,
        start_motion=True,
        # A busy machine would be late for boards that are read at 1 kHz.
        parameters=PATIENT_STACK,
    )
    with ComposedStack(options) as stack:
        stack.wait_until_up(90.0)
        yield stack


@pytest.fixture(scope="module")
def probe(stack):
    with Probe() as probe:
        probe.listen_to_stack()
        probe.listen(StringLengths, "string_lengths")
        probe.listen(WrenchStamped, "wrench")
        probe.wait_for_message("tendon_states")
        yield probe


def test_the_robot_moves_over_the_wires(stack, probe):
    probe.bring_up()
    probe.wait(probe.moving, 20.0, "no motion is started")
    probe.wait(lambda: probe.travel_m() > 1e-3, 20.0, "no tendon moves")
    message = probe.wait_for_message("tendon_states")
    assert message.simulated
    assert np.isfinite(message.current).all()
    lengths = probe.wait_for_message("string_lengths")
    probe.wait(lambda: np.isfinite(probe.newest("string_lengths").extension).all())
    assert len(lengths.extension) == 2
    # The first report may have come a moment after the bus began.
    probe.wait(lambda: int(bus_values(probe).get("can2.frames_in", 0)) > 100)
    assert bus_values(probe)["can0.bad_frames"] == "0"


def bus_values(probe):
    status = probe.diagnostics.get("/tendon_driver: bus")
    return {} if status is None else {item.key: item.value for item in status.values}


def test_the_force_sensor_is_read_and_tared(stack, probe):
    wrench = probe.wait_for_message("wrench")
    assert wrench.header.frame_id == "force_sensor"
    assert math.isfinite(wrench.wrench.force.z)
    assert probe.trigger("force_sensor/tare").success
    probe.wait(lambda: not stack.nodes["force_sensor"].component.sensor.taring)


@pytest.mark.parametrize("fault", ["board.silent", "board.bus_off", "board.reboot"])
def test_a_board_that_is_gone_and_comes_back_needs_no_restart(probe, fault):
    probe.bring_up()
    response = probe.inject(fault, tendon=2)
    assert response.success, response.message
    # With patient limits the check of currents, or of the shape, may find it before the board counts as silent.
    probe.wait(probe.faults, what="the driver notices nothing")
    probe.wait(lambda: probe.driver_state() == "safe")
    probe.wait(lambda: "can1: " in bus_values(probe).get("device_faults", ""), what="the channel is not named")
    # The plug is in again: the reset opens the devices again.
    assert probe.inject("").success
    probe.wait(lambda: probe.manage(ManageStack.Request.RESET, 60.0).success, 60.0)
    probe.wait(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 20.0)
    assert probe.faults() == []


def test_strings_break_and_mend(probe):
    request = InjectFault.Request(fault="silence", tendon=-1, duration_s=2.0)
    assert probe.call(InjectFault, "string_encoder/inject_fault", request).success
    probe.wait(lambda: np.isnan(probe.newest("string_lengths").extension).all())
    probe.wait(lambda: np.isfinite(probe.newest("string_lengths").extension).all())
    refused = probe.call(InjectFault, "string_encoder/inject_fault", InjectFault.Request(fault="gremlins"))
    assert not refused.success
    assert "silence" in refused.message


def test_unknown_faults_are_refused_with_the_known_ones(probe):
    response = probe.inject("gremlins")
    assert not response.success
    assert "board.lost_frames" in response.message


def test_limits_that_can_hurt_are_read_only(probe):
    result = probe.set_parameter("tendon_driver", "limits.maximum_n", 50.0)
    assert not result.successful
    assert "read-only" in result.reason


def test_hardware_that_is_not_there_is_one_sentence_and_nothing_is_enabled(domain):
    options = StackOptions(simulated=False, namespace="real", visualize=False)
    with ComposedStack(options) as stack:
        with pytest.raises(DeviceError, match="CAN channel") as caught:
            stack.wait_until_up(60.0)
        assert "\n" not in str(caught.value)
        assert not stack.driver.powered
        assert stack.driver.state == "unconfigured"
