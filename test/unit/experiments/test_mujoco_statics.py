# SPDX-License-Identifier: Apache-2.0
"""The chain beside the rod and SoRoSim: the differences fall with the number of links."""

from __future__ import annotations

import pytest
from pictures import shows_something
from reference_data import reference_file

from continuum_robot.experiments.experiment import experiments

pytest.importorskip("mujoco", reason="mujoco is not installed: the extra mujoco")


def test_the_chain_under_tendons_approaches_a_row_of_beam_columns(tmp_path):
    experiment = experiments()["mujoco.statics"]
    result = experiment.run({"most_links": 40})
    assert result["chain_of_40_from_beam_columns_mm"] < 2
    assert result["chain_of_20_from_beam_columns_mm"] > 3 * result["chain_of_40_from_beam_columns_mm"]
    assert result["chain_of_40_from_rod_mm"] > 10, "our rod takes the tendons to run in a channel"
    (figure,) = experiment.draw(result, tmp_path)
    assert shows_something(figure)


def test_the_chain_approaches_sorosim():
    shapes = reference_file("sorosim", "steel_statics_200.csv")
    result = experiments()["mujoco.statics"].run({"data": str(shapes), "shapes": 4, "most_links": 40})
    assert result["chain_of_40_converged"] == 4
    few, many = (result[f"chain_of_{links}_median_worst_station_mm"] for links in (5, 40))
    assert many < 0.2 * few
    assert many < 2.0, "of a rod of 600 mm"
