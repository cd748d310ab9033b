# SPDX-License-Identifier: Apache-2.0
"""A defect of the controller leaves the tendons to the driver's fallback; a defect of the driver e-stops."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.srv import ManageStack
from robot_files import robot_file
from ros_probe import lockstep_stack
from std_msgs.msg import Float64

from continuum_robot.robot import doors
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
STOP = {"stop": {"commands": "hold_tension", "hold_s": 3600.0}}


class Law:
    """A controller of another package, which pulls with 3 N, and raises once it is told to."""

    broken = False

    def __init__(self, robot):
        self.count = robot.tendon_count

    def reset(self, reading, tension, reference):
        pass

    def update(self, reading, reference, dt):
        if Law.broken:
            raise ValueError("a defect of the law")
        return np.full(self.count, 3.0)


def raising(*_arguments, **_named):
    raise ValueError("a defect of a callback")


@pytest.fixture(params=["clarke", pytest.param("topic", marks=pytest.mark.long)])
def setting(request, domain, tmp_path, monkeypatch):
    """A stack whose controller is of another package, in the driver's cycle and over topics."""
    offered = {doors.CONTROLLERS: [SimpleNamespace(name="own", value="", load=lambda: Law)]}
    monkeypatch.setattr(doors, "entry_points", lambda *, group: offered.get(group, []))
    monkeypatch.setattr(Law, "broken", False)
    file = robot_file(tmp_path, {**STOP, "control.law": "own"})
    with lockstep_stack(file, controller=request.param) as (stack, probe):
        probe.pause(0.2)
        yield stack, probe


def check_held_and_healed(stack, probe):
    controller = stack.nodes["clarke_controller"]
    probe.wait(lambda: "command_timeout" in probe.faults(), 2.0)
    probe.wait_real(lambda: probe.newest("stack_status").fallback, what="the fallback does not hold")
    assert "internal_error" not in probe.faults()
    assert "a defect" in controller.defect
    assert probe.newest("driver_status").powered
    probe.wait_real(lambda: "node_failed: clarke_controller" in probe.newest("stack_status").faults)
    begin = len(probe.received["tendon_states"])
    probe.pause(0.2)
    held = np.array([message.commanded_tension for message in probe.received["tendon_states"][begin:]])
    assert np.ptp(held, axis=0).max() < 1e-9
    assert not probe.transition("clarke_controller", "activate")
    Law.broken = False
    assert probe.manage(ManageStack.Request.RESET).success
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active", 60.0)
    probe.pause(0.2)
    assert controller.defect == ""
    assert probe.faults() == []
    np.testing.assert_allclose(probe.newest("tendon_states").commanded_tension, 3.0)


def test_the_fallback_holds_after_a_defect_of_the_law(setting):
    stack, probe = setting
    Law.broken = True
    check_held_and_healed(stack, probe)


def test_the_fallback_holds_after_a_defect_of_the_controllers_node(setting, monkeypatch):
    stack, probe = setting
    with monkeypatch.context() as patch:
        patch.setattr(stack.nodes["clarke_controller"], "_check_settings", raising)
        probe.publish(Float64, "tension_reference", Float64(data=3.0))
        probe.wait_real(lambda: stack.nodes["clarke_controller"].defect)
    check_held_and_healed(stack, probe)


def test_a_defect_of_the_driver_latches_the_estop(setting, monkeypatch):
    stack, probe = setting
    driver = stack.nodes["tendon_driver"]
    with monkeypatch.context() as patch:
        patch.setattr(driver.parameters, "_check_changes", raising)
        assert "a defect" in probe.set_parameter("tendon_driver", "loop.missed_warn_percent", 0.5).reason
    probe.wait(lambda: "internal_error" in probe.faults(), 2.0)
    assert stack.nodes["clarke_controller"].defect == ""
    probe.pause(0.5 + ROBOT.limits.longest_ramp_s)
    released = probe.newest("tendon_states").commanded_tension
    np.testing.assert_allclose(np.nan_to_num(released), np.isfinite(released) * ROBOT.limits.safe_n, atol=1e-9)
