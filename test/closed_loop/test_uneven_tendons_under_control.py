# SPDX-License-Identifier: Apache-2.0
"""Tendons at angles of their own under the shipped cycle: Clarke coordinates, limits, gains stay those of the file."""

import dataclasses

import pytest
from virtual_loop import VirtualLoop, rmse

from continuum_robot.robot.loading import load_robot


@pytest.mark.parametrize("strategy", ["shift", "least_sum"])
def test_a_segment_with_uneven_tendons_tracks_its_reference(strategy):
    robot = load_robot("opencr_five_tendon")
    (segment,) = robot.segments
    tendons = dataclasses.replace(
        segment.tendons, angle_offset_rad=0.0, uneven_angles_rad=(0.1, 1.0, 2.6, 4.1, 5.0)
    )
    loop = VirtualLoop(
        robot.changed(
            segments=(dataclasses.replace(segment, tendons=tendons),),
            control=dataclasses.replace(robot.control, tendon_forces=strategy),
        ),
        seed=1,
    )
    loop.activate(2 * loop.robot.limits.safe_n)
    record = loop.run(2.5)
    loop.close()
    assert loop.faults == []
    assert record["clarke"].shape[1] == 2
    assert rmse(record, after_s=1.0).max() < 300e-6
    assert record["tension"][record["time_s"] > 1.0].min() > 0
