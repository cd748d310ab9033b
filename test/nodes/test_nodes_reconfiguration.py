# SPDX-License-Identifier: Apache-2.0
"""The composed stack on DDS in lock-step: it comes up, and is reconfigured by parameters and by its robot file."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import Shape, StringLengths
from continuum_robot.srv import ManageStack
from rcl_interfaces.msg import Log
from ros_probe import lockstep_stack, patient_robot

from continuum_robot.nodes.tendon_driver import TendonDriver

pytestmark = [pytest.mark.ros]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The robot's file, a test's own: it may be edited."""
    file = tmp_path_factory.mktemp("robot") / "robot.yaml"
    shutil.copy(patient_robot(), file)
    return file


@pytest.fixture(scope="module")
def running(domain, file):
    topics = ((Shape, "shape"), (StringLengths, "string_lengths"))
    with lockstep_stack(str(file), *topics, visualize=True, start_motion=True) as (stack, probe):
        probe.wait_for_message("tendon_states")
        probe.listen(Log, "/rosout")
        yield stack, probe


def test_all_nodes_come_up_and_say_that_they_are_simulated(stack, probe):
    status = stack.status()
    assert status.state == "up"
    assert set(status.node_states) == {"active"}
    assert status.simulated
    assert probe.wait_for_message("tendon_states").simulated
    assert probe.wait_for_message("shape").simulated
    assert probe.wait_for_message("string_lengths").simulated
    probe.wait(lambda: "/tendon_driver: driver" in probe.diagnostics)
    assert all(s.hardware_id == "simulated" for name, s in probe.diagnostics.items() if name.startswith("/tendon"))


def rewrite(file, limits, control):
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    data["limits"] |= limits
    data["control"] |= control
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


def start_anew(probe):
    """Down to unconfigured and up again, each transition of each node."""
    assert probe.manage(ManageStack.Request.SHUTDOWN).success
    response = probe.manage(ManageStack.Request.STARTUP)
    assert response.success, response.message
    probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")


def test_a_lower_limit_in_the_file_holds_after_cleanup_and_configure(stack, probe, file):
    """And so does all else in the file, but for what somebody set; the log reports what wins."""
    probe.bring_up()
    gain = "gains.segment_1.i"
    assert probe.set_parameter("clarke_controller", gain, 100000.0).successful
    rewrite(file, {"maximum_n": 6.0, "total_n": 30.0}, {"pretension_n": 5.0})
    try:
        start_anew(probe)
        assert probe.get_parameter("tendon_driver", "limits.maximum_n") == 6.0
        assert probe.describe("tendon_driver", "limits.maximum_n").read_only
        assert probe.get_parameter("clarke_controller", "pretension_n") == 5.0
        assert probe.get_parameter("clarke_controller", gain) == 100000.0
        for words in (
            f"{gain} = 100000.0 N/(m.s), as it was set",
            "limits.maximum_n = 6.0 N, the robot file's now, holds; it was 20.0 N",
        ):
            probe.wait(lambda words=words: any(words in log.msg for log in probe.received["/rosout"]), what=words)
        # The trajectory wants more than the limit: it is not sent.
        probe.received["tendon_commands"].clear()
        probe.received["tendon_states"].clear()
        probe.wait(lambda: any(max(m.tension) > 6.5 for m in list(probe.received["tendon_commands"])))
        sent = np.array([m.commanded_tension for m in list(probe.received["tendon_states"])])
        assert np.nanmax(sent) <= 6.0
    finally:
        rewrite(file, {"maximum_n": 20.0, "total_n": 60.0}, {"pretension_n": 3.0})
        assert probe.set_parameter("clarke_controller", gain, 150000.0).successful
        start_anew(probe)
    assert probe.get_parameter("tendon_driver", "limits.maximum_n") == 20.0


def test_what_somebody_set_above_the_file_is_refused_when_the_driver_is_configured(context, file):
    overrides = {"robot": str(file), "limits.maximum_n": 9.0}
    driver = TendonDriver(context=context, namespace="alone", overrides=overrides)
    try:
        rewrite(file, {"maximum_n": 6.0}, {})
        driver.trigger_configure()
        for words in ("limits.maximum_n = 9", "at most 6 N, the robot file's", "cleanup and configure"):
            assert words in driver.last_error
    finally:
        rewrite(file, {"maximum_n": 20.0}, {})
        driver.destroy_node()


def test_parameters_are_described_with_unit_and_range(stack, probe):
    descriptor = probe.describe("clarke_controller", "gains.segment_1.p")
    assert "N/m" in descriptor.description
    assert descriptor.floating_point_range[0].from_value == 0.0
    assert not descriptor.read_only
    assert probe.describe("clarke_controller", "robot").read_only
    assert probe.describe("tendon_driver", "limits.maximum_n").read_only


@pytest.mark.parametrize(
    ("node", "name", "value", "words"),
    [
        ("clarke_controller", "gains.segment_1.p", -1.0, ("gains.segment_1.p", "range")),
        ("clarke_controller", "gains.segment_1.p", math.nan, ("gains.segment_1.p",)),
        ("clarke_controller", "gains.segment_1.p", 3000, ("gains.segment_1.p", "3000", "decimal number", "5.0")),
        ("clarke_controller", "gains.segment_1.u_clamp_max", 0.0, ("u_clamp_max",)),
        ("clarke_controller", "robot", "two_segment", ("read-only", "robot")),
        ("clarke_controller", "pretension_n", 19.9 + 0.2, ("pretension_n", "limits", "20")),
        ("tendon_driver", "temperature_warn_c", 72.0, ("temperature_warn_c", "at most 70 degC", "robot file")),
        ("tendon_driver", "temperature_error_c", 150.0, ("temperature_error_c", "at most 85 degC", "robot file")),
        ("tendon_driver", "temperature_error_c", 60.0, ("temperature_warn_c", "temperature_error_c")),
        ("tendon_driver", "loop.missed_warn_percent", 50.0, ("missed_error_percent",)),
        ("reference_source", "reference.kind", "zigzag", ("zigzag", "chirp")),
        ("reference_source", "reference.amplitude_m", [0.5, 0.0], ("amplitude", "0.025")),
        ("reference_source", "reference.amplitude_m", [0.01], ("amplitude_m", "2 values")),
    ],
)
def test_a_bad_parameter_is_refused_in_a_sentence_and_changes_nothing(stack, probe, node, name, value, words):
    before = probe.get_parameter(node, name)
    result = probe.set_parameter(node, name, value)
    assert not result.successful
    for word in words:
        assert word in result.reason
    assert probe.get_parameter(node, name) == before


def test_several_parameters_change_together_or_not_at_all(stack, probe):
    before = probe.get_parameter("clarke_controller", "gains.segment_1.p")
    gains = {"gains.segment_1.p": before / 2, "gains.segment_1.d": -5.0}
    assert not probe.set_together("clarke_controller", gains).successful
    assert probe.get_parameter("clarke_controller", "gains.segment_1.p") == before
    # Warn and error move together, each alone would be refused.
    assert probe.set_together("tendon_driver", {"temperature_warn_c": 50.0, "temperature_error_c": 60.0}).successful
    assert probe.set_together("tendon_driver", {"temperature_warn_c": 70.0, "temperature_error_c": 85.0}).successful


def test_a_second_operation_is_told_to_wait(stack, probe):
    probe.bring_up()
    response = probe.manage(99)
    assert not response.success
    assert "command = 99 -- expected a number in [0, 4]" in response.message
