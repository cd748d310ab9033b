# SPDX-License-Identifier: Apache-2.0
from continuum_robot.app.bench.rod_motion import measure_motion
from continuum_robot.rod.rod import METHODS


def test_both_methods_are_measured():
    lines: list[str] = []
    numbers = measure_motion(0.02, lines.append)
    for method in METHODS:
        assert numbers[f"dynamics_3_segments_{method}_times_real_time"] > 0
        assert 1 < numbers[f"dynamics_3_segments_{method}_iterations_a_step"] < 40
    assert len(lines) == len(METHODS)
