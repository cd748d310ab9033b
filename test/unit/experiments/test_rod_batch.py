# SPDX-License-Identifier: Apache-2.0
"""Batches of rods as an experiment: what it reports, not how fast this machine is."""

import json
import math

import pytest
from rich.console import Console

from continuum_robot.app.experiment import run_experiment
from continuum_robot.rod import Rod
from continuum_robot.rod.kernel import library as kernel
from validation.rod_batch import SOFT_COLUMN, soft_column

needs_library = pytest.mark.skipif(kernel.load(kernel.NAME) is None, reason="the kernel's library was not built")


def test_the_soft_column_is_damped_in_one_time():
    arrays = Rod(soft_column()).arrays
    assert arrays.n == 16
    assert arrays.damping == pytest.approx(0.02 * arrays.stiffness)


@needs_library
def test_a_batch_reports_each_robot_and_draws(tmp_path):
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    file = tmp_path / "numbers.json"
    run_experiment("rod.batch", {"robots": "20", "steps": "4", "threads": "3"}, file, tmp_path, console)
    numbers = json.loads(file.read_text())
    assert (numbers["robots"], numbers["threads"]) == (20, 3)
    robots = {"opencr_five_tendon", "two_segment", "vanderbilt_two_segment", SOFT_COLUMN}
    for key in ("robot_steps_per_cpu_second", "real_time_factor_total", "equilibria_per_cpu_second"):
        assert numbers[key].keys() == robots
        assert all(math.isfinite(value) and value > 0 for value in numbers[key].values())
    assert set(numbers["same_bits_on_one_thread"].values()) == {True}
    assert (tmp_path / "rod_batch.png").stat().st_size > 5000
    assert "robot_steps_per_cpu_second: soft_column" in console.export_text()
