# SPDX-License-Identifier: Apache-2.0
"""A segment with two tendons and no disks under the shipped cycle: its one coordinate is tracked."""

from pathlib import Path

import numpy as np
from virtual_loop import VirtualLoop, rmse

from continuum_robot.robot.loading import load_robot

FILE = Path(__file__).parents[1] / "unit" / "robot" / "planar_pair.yaml"


def test_a_pair_of_tendons_tracks_its_reference_in_its_plane():
    loop = VirtualLoop(load_robot(str(FILE)), seed=1)
    loop.activate(2 * loop.robot.limits.safe_n)
    record = loop.run(2.0)
    loop.close()
    assert loop.faults == []
    assert record["clarke"].shape[1] == 1
    assert rmse(record, after_s=1.0).max() < 100e-6
    assert np.ptp(record["clarke"][:, 0]) > 0.009
    assert record["tension"][record["time_s"] > 1.0].min() > 1.0
