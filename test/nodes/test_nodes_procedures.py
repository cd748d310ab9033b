# SPDX-License-Identifier: Apache-2.0
"""Procedures as actions of the driver, against simulated boards; homing decides whether a robot may be driven."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from action_msgs.msg import GoalStatus
from continuum_robot.action import CalibrateTorque, CheckTendons, HomeTendons
from rclpy.context import Context
from ros_goal import Goal
from ros_probe import PATIENT, Probe

from continuum_robot.identification.procedures.record import load_record, record_path
from continuum_robot.nodes.simulator import SimulatorNode
from continuum_robot.nodes.spinning import Spinner, initialize
from continuum_robot.nodes.string_encoder import StringEncoder
from continuum_robot.nodes.tendon_driver import TendonDriver
from continuum_robot.robot.loading import find_robot_file, load_robot

pytestmark = [pytest.mark.ros, pytest.mark.real_time, pytest.mark.slow]

SLACK_M = np.array([0.004, 0.001, 0.008, 0.002, 0.005])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibration")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The robot with boards that wait longer: a busy machine is late."""
    data = yaml.safe_load(find_robot_file("opencr_five_tendon").read_text(encoding="utf-8"))
    data["hardware"]["tendon_actuators"] |= {"receive_timeout_ms": 1000, "current_mismatch_time_s": 1.0}
    file = tmp_path_factory.mktemp("robot") / "robot.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def context(domain):
    context = Context()
    initialize([], context)
    yield context
    context.try_shutdown()


@pytest.fixture(scope="module")
def simulator(context, file):
    """Boards and strings behind the wires."""
    simulator = SimulatorNode(context=context, overrides={"robot": str(file), "fake_level": "wire"})
    spinner = Spinner([simulator], context)
    spinner.start()
    spinner.run(simulator.trigger_configure)
    assert simulator.state == "inactive", simulator.last_error
    yield simulator
    spinner.stop()
    simulator.destroy_node()


@pytest.fixture(scope="module")
def driver(context, simulator, file, folder):
    """A driver that insists on a homing, and the string encoder, both on simulated wires."""
    own = {"robot": str(file), "fake_level": "wire", "homing": "required", "calibration_folder": str(folder)}
    # Half the rate leaves a busy machine time.
    driver = TendonDriver(context=context, overrides={**own, "rate_hz": 500.0, **PATIENT})
    encoder = StringEncoder(context=context, overrides=own)
    spinner = Spinner([driver, encoder], context)
    spinner.start()
    spinner.run(driver.trigger_configure)
    spinner.run(encoder.trigger_configure)
    assert driver.state == "inactive", driver.last_error
    assert encoder.state == "inactive", encoder.last_error
    yield driver
    spinner.stop()
    for node in (encoder, driver):
        node.destroy_node()


@pytest.fixture(scope="module")
def probe(driver):
    with Probe() as probe:
        yield probe


def slacken(simulator) -> None:
    simulator.simulator.inject("")
    for tendon, slack_m in enumerate(SLACK_M):
        simulator.simulator.inject("slack_tendon", tendon, float(slack_m))


def test_procedures_come_before_the_first_closed_loop(driver, simulator, probe, file, folder):
    # 1. Not homed: the driver is not activated, and says what to do.
    assert not probe.transition("tendon_driver", "activate")
    assert "is not homed" in driver.last_error
    assert "continuum-robot home" in driver.last_error

    # 2. A homing that is cancelled leaves safe tensions, no torque, and no record.
    slacken(simulator)
    goal = Goal(probe, HomeTendons, "home_tendons")
    probe.wait(lambda: any(feedback.progress > 0.05 for feedback in goal.feedback), timeout_s=60.0)
    goal.cancel()
    status, result = goal.result()
    assert status == GoalStatus.STATUS_CANCELED
    assert not result.success
    assert not driver.powered
    assert not list(folder.rglob("*.yaml"))

    # 3. A homing finds the slack, stores it, and the driver may be activated.
    goal = Goal(probe, HomeTendons, "home_tendons")
    status, result = goal.result()
    assert status == GoalStatus.STATUS_SUCCEEDED, result.message
    assert result.success
    np.testing.assert_allclose(result.zero, SLACK_M, atol=1e-3)
    assert len({feedback.phase for feedback in goal.feedback}) >= 3
    progress = [feedback.progress for feedback in goal.feedback]
    assert progress == sorted(progress)
    robot = load_robot(str(file))
    record = load_record(robot, record_path(robot, folder / "simulated"))
    np.testing.assert_array_equal(record.zero, result.zero)
    assert probe.transition("tendon_driver", "activate"), driver.last_error
    assert probe.transition("tendon_driver", "deactivate")

    # 4. Tendons are as the robot file says.
    status, result = Goal(probe, CheckTendons, "check_tendons").result()
    assert status == GoalStatus.STATUS_SUCCEEDED, result.message
    assert list(result.verdicts) == ["ok"] * 5
    assert "turned" in result.message
    assert np.reshape(result.response, (5, 5)).trace() > 5e-3

    # 5. What cannot be is refused in the result, not in silence.
    status, result = Goal(probe, CalibrateTorque, "calibrate_torque", tendon=9, mass=0.5).result()
    assert status == GoalStatus.STATUS_ABORTED
    assert "1 to 5" in result.message
    assert not driver.powered


def test_a_board_that_lost_its_power_is_not_homed(driver, simulator, probe):
    probe.wait(lambda: driver.state == "inactive")
    simulator.simulator.inject("board.reboot", 0)
    probe.wait(lambda: not driver.loop.actuators.aligned)
    assert not probe.transition("tendon_driver", "activate")
    assert "lost its power" in driver.last_error
