# SPDX-License-Identifier: Apache-2.0
"""Procedures as actions of the driver, against simulated boards; homing decides whether a robot may be driven."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from action_msgs.msg import GoalStatus
from continuum_robot.action import CalibrateTorque, CheckTendons, HomeTendons
from continuum_robot.srv import InjectFault
from ros_goal import Goal
from ros_probe import Probe

from continuum_robot.identification.procedures.record import load_record, record_path
from continuum_robot.nodes.base.spinning import Spinner
from continuum_robot.nodes.lockstep.bus import LockstepBus
from continuum_robot.nodes.simulator import SimulatorNode
from continuum_robot.nodes.string_encoder import StringEncoder
from continuum_robot.nodes.tendon_driver import TendonDriver
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = "opencr_five_tendon"
# In lock-step: how the robot sways does not depend on the machine.
OWN = {"robot": ROBOT, "simulation_level": "wire", "clock": "lockstep", "seed": 1}
SLACK_M = np.array([0.004, 0.001, 0.008, 0.002, 0.005])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibration")


@pytest.fixture(scope="module")
def bus():
    return LockstepBus()


@pytest.fixture(scope="module")
def simulator(context, bus):
    """Boards and strings behind the wires."""
    simulator = SimulatorNode(context=context, overrides=OWN, bus=bus)
    spinner = Spinner([simulator], context)
    spinner.start()
    spinner.run(simulator.trigger_configure)
    assert simulator.state == "inactive", simulator.last_error
    yield simulator
    spinner.stop()
    simulator.destroy_node()


@pytest.fixture(scope="module")
def driver(context, bus, simulator, folder):
    """A driver that insists on a homing, and the string encoder, both on simulated wires."""
    own = {**OWN, "homing": "required", "calibration_folder": str(folder)}
    driver = TendonDriver(context=context, overrides=own, bus=bus)
    encoder = StringEncoder(context=context, overrides=own, bus=bus)
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


def test_procedures_come_before_the_first_closed_loop(driver, simulator, probe, folder):
    # 1. Not homed: the driver is not activated, and reports what to do.
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
    # Neither another procedure nor an activation disturbs it, whatever it has switched on yet.
    second, third = Goal(probe, CheckTendons, "check_tendons"), Goal(probe, HomeTendons, "home_tendons")
    assert not probe.transition("tendon_driver", "activate")
    assert "is under way" in driver.last_error
    for other in (second, third):
        status, result = other.result()
        assert status == GoalStatus.STATUS_ABORTED
        assert "home_tendons is under way" in result.message
    status, result = goal.result()
    assert status == GoalStatus.STATUS_SUCCEEDED, result.message
    assert result.success
    np.testing.assert_allclose(result.zero, SLACK_M, atol=4e-4)
    assert len({feedback.phase for feedback in goal.feedback}) >= 3
    progress = [feedback.progress for feedback in goal.feedback]
    assert progress == sorted(progress)
    robot = load_robot(ROBOT)
    record = load_record(robot, record_path(robot, folder / "simulated"))
    np.testing.assert_array_equal(record.zero, result.zero)
    assert probe.transition("tendon_driver", "activate"), driver.last_error
    assert probe.transition("tendon_driver", "deactivate")

    # 4. Tendons are as the robot file states.
    status, result = Goal(probe, CheckTendons, "check_tendons").result()
    assert status == GoalStatus.STATUS_SUCCEEDED, result.message
    assert list(result.verdicts) == ["ok"] * 5
    assert "turned" in result.message
    assert np.reshape(result.response, (5, 5)).trace() > 5e-3


HOSTILE = [
    (HomeTendons, "home_tendons", {"tension": float("nan")}, "tension = nan -- expected a number in [0, 10000] N"),
    (HomeTendons, "home_tendons", {"tension": -1.0}, "tension = -1.0 -- expected a number in [0, 10000] N"),
    (HomeTendons, "home_tendons", {"tension": 19.0}, "half of what every tendon may carry"),
    (CheckTendons, "check_tendons", {"pull": float("nan")}, "pull = nan -- expected a number in [0, 10000] N"),
    (CheckTendons, "check_tendons", {"pull": -1.0}, "pull = -1.0 -- expected a number in [0, 10000] N"),
    (CheckTendons, "check_tendons", {"pull": 1e9}, "pull = 1000000000.0 -- expected a number in [0, 10000] N"),
    (CheckTendons, "check_tendons", {"pull": 30.0}, "by the limits"),
    (CalibrateTorque, "calibrate_torque", {"tendon": 0, "mass": 0.5}, "tendon = 0 -- expected a number in [1, 64]"),
    (CalibrateTorque, "calibrate_torque", {"tendon": 9, "mass": 0.5}, "1 to 5"),
    (CalibrateTorque, "calibrate_torque", {"tendon": 1, "mass": float("nan")}, "mass = nan -- expected"),
    (CalibrateTorque, "calibrate_torque", {"tendon": 1, "mass": -1.0}, "mass = -1.0 -- expected"),
]


def test_impossible_goals_and_requests_are_refused_before_anything_is_switched_on(driver, simulator, probe):
    energised = []
    switch_on, driver.loop.switch_on = driver.loop.switch_on, lambda: energised.append(1)
    try:
        for kind, name, fields, says in HOSTILE:
            status, result = Goal(probe, kind, name, **fields).result()
            assert status == GoalStatus.STATUS_ABORTED, (name, fields)
            assert not result.success
            assert says in result.message
    finally:
        driver.loop.switch_on = switch_on
    assert not energised
    assert not driver.powered

    for magnitude, duration_s, says in ((float("nan"), 0.0, "magnitude = nan"), (0.0, -1.0, "duration_s = -1.0")):
        request = InjectFault.Request(fault="stuck_motor", tendon=0, magnitude=magnitude, duration_s=duration_s)
        answer = probe.call(InjectFault, "inject_fault", request)
        assert not answer.success
        assert says in answer.message


def start_again(probe) -> None:
    """What a driver knows of its boards and of the homing it reads from them and from the file as a new one does."""
    assert probe.transition("tendon_driver", "cleanup")
    assert probe.transition("tendon_driver", "configure")


def test_a_driver_that_starts_again_is_homed_where_the_boards_kept_their_power(driver, probe):
    probe.wait(lambda: driver.state == "inactive")
    before = driver.loop
    start_again(probe)
    assert driver.loop is not before
    assert driver.loop.pace.wait(lambda: driver.loop.actuators.aligned, 5.0)
    assert probe.transition("tendon_driver", "activate"), driver.last_error
    assert probe.transition("tendon_driver", "deactivate")


def test_a_driver_that_is_brought_down_ends_the_procedure_that_drives_it(driver, probe):
    goal = Goal(probe, CheckTendons, "check_tendons")
    probe.wait(lambda: driver.loop.procedure is not None)
    assert probe.transition("tendon_driver", "cleanup")
    status, result = goal.result()
    assert status == GoalStatus.STATUS_ABORTED
    assert not result.success
    assert not driver.powered
    assert probe.transition("tendon_driver", "configure")


def test_a_board_that_lost_its_power_is_not_homed(driver, simulator, probe):
    probe.wait(lambda: driver.state == "inactive")
    simulator.simulator.inject("board.reboot", 0)
    assert driver.loop.pace.wait(lambda: not driver.loop.actuators.aligned, 5.0)
    assert not probe.transition("tendon_driver", "activate")
    assert "lost its power" in driver.last_error

    # Nor does one that starts again take the homing from it.
    start_again(probe)
    assert not probe.transition("tendon_driver", "activate")
    assert "lost its power" in driver.last_error
    assert not driver.powered
