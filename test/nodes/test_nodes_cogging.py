# SPDX-License-Identifier: Apache-2.0
"""The driver feeds the stored cogging of its motors forward where its parameter is on, and reports that."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from rclpy.parameter import Parameter

from continuum_robot.identification.cogging_fit import CoggingFit
from continuum_robot.identification.procedures.record import cogging_path, make_cogging_record
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.loading import load_robot

pytestmark = [pytest.mark.ros]

ROBOT = load_robot("opencr_five_tendon")
FORCE_N = 0.6


def store(folder):
    """A constant table: what the motors get more does not depend on where they stand."""
    fit = CoggingFit(np.full((5, 100), FORCE_N), np.full((5, 100), 0.02), np.full(5, 0.2), ((),) * 5)
    path = cogging_path(ROBOT, folder / "simulated")
    path.parent.mkdir(parents=True, exist_ok=True)
    make_cogging_record(ROBOT, fit).store(path)


def stack_with(folder, cogging):
    own = {"calibration_folder": str(folder), "cogging": cogging}
    return ComposedStack(
        StackOptions(
            robot=ROBOT.name,
            simulation_level="dynamics",
            clock="lockstep",
            seed=1,
            run_s=60.0,
            start_motion=False,
            visualize=False,
            parameters={"tendon_driver": own},
        )
    )


def switched(driver, value):
    return driver.set_parameters([Parameter("cogging", value=value)])[0]


def status(driver):
    return {entry.key: entry.value for entry in driver.diagnostics.status("driver").values}


def test_the_stored_table_is_fed_forward_and_switched_by_the_parameter(domain, tmp_path):
    store(tmp_path)
    with stack_with(tmp_path, "on") as running:
        running.wait_until_up(120.0)
        driver = running.driver
        assert driver.loop.pace.wait(lambda: min(driver.loop.cycle.cogging.forces()) > 0.999 * FORCE_N, 60.0)
        assert status(driver)["cogging_compensation"] == "true"
        assert status(driver)["cogging_measured"].startswith("20")
        reading = driver.loop.reading
        measured = reading.current_a * ROBOT.newton_per_ampere
        np.testing.assert_allclose(measured - reading.tension_n, FORCE_N, atol=0.02)
        assert switched(driver, "off").successful
        assert status(driver)["cogging_compensation"] == "false"
        assert not driver.faults


def test_without_a_table_it_cannot_be_switched_on(domain, tmp_path):
    with stack_with(tmp_path, "auto") as running:
        running.wait_until_up(120.0)
        refused = switched(running.driver, "on")
        assert not refused.successful
        assert "calibrate-cogging" in refused.reason
        assert status(running.driver)["cogging_compensation"] == "false"
