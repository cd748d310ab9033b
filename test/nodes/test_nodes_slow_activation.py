# SPDX-License-Identifier: Apache-2.0
"""A driver that waits for its devices: e-stop, status, parameters and its lifecycle answer meanwhile."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import DriverStatus
from ros_probe import Probe, patient_robot

from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.simulator import SimulatorNode
from continuum_robot.nodes.tendon_driver import TendonDriver
from continuum_robot.nodes.topics import qos

pytestmark = [pytest.mark.ros, pytest.mark.real_time]


@pytest.fixture
def driver(context):
    own = {"robot": patient_robot()}
    nodes = [SimulatorNode(context=context, overrides=own), TendonDriver(context=context, overrides=own)]
    spinner = Spinner(nodes, context)
    spinner.start()
    for node in nodes:
        spinner.run(node.trigger_configure)
        assert node.state == "inactive", node.last_error
    yield nodes[-1]
    assert spinner.stop()
    for node in reversed(nodes):
        node.destroy_node()


def test_it_answers_while_it_is_activated(driver):
    begun, may_end, result = threading.Event(), threading.Event(), []
    usual = driver.loop.take_up_slack

    def slow(*arguments) -> None:
        begun.set()
        may_end.wait(60.0)
        usual(*arguments)

    driver.loop.take_up_slack = slow
    with Probe() as probe, Probe() as other:
        probe.listen(DriverStatus, "driver_status", qos.latched())
        thread = threading.Thread(target=lambda: result.append(other.transition("tendon_driver", "activate")))
        thread.start()
        assert begun.wait(30.0)
        assert probe.lifecycle_state("tendon_driver") == "activating"
        assert probe.set_parameter("tendon_driver", "second_writer", "refuse").successful
        assert probe.get_parameter("tendon_driver", "second_writer") == "refuse"
        assert probe.trigger("reset_statistics").success
        assert probe.trigger("estop").success
        probe.wait(lambda: probe.newest("driver_status").estop, what="the status does not report the e-stop")
        assert not result
        # What comes meanwhile waits for its end: it fails of the e-stop, and nothing has torque.
        may_end.set()
        thread.join(60.0)
        assert result == [False]
        assert probe.lifecycle_state("tendon_driver") == "inactive"
        assert not driver.powered
        assert probe.trigger("reset_estop").success
        driver.loop.take_up_slack = usual
        for name, state in (("activate", "active"), ("deactivate", "inactive"), ("cleanup", "unconfigured")):
            assert probe.transition("tendon_driver", name), name
            assert probe.lifecycle_state("tendon_driver") == state
