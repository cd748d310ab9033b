# SPDX-License-Identifier: Apache-2.0
"""SoRoSim's static shapes and releases of a steel rod, against the rod here; reading, axes and bases."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pictures import shows_something
from reference_data import reference_file

from continuum_robot.errors import ParameterError, RecordingError
from continuum_robot.experiments.experiment import experiments
from continuum_robot.geometry import so3
from continuum_robot.robot.basis import SHIPPED
from continuum_robot.rod.rod import Rod
from validation.sorosim_shapes import SteelRod, read_shapes, round_rod, wrenches
from validation.sorosim_statics import station_errors

STATIONS = np.array([0.0, 0.25, 0.5, 1.0])
SETTINGS = SteelRod(data="", length=0.5, radius=2e-3, youngs_modulus=3e9, poisson_ratio=0.4, density=1200.0)
FROM_OURS = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).T
LABELS = "rowLabel,gravity,mid_wrench,tip_wrench," + ",".join(f"seg{i}_s{k}" for i in (1, 2) for k in range(4))


def made_file(folder: Path, shapes: int = 3) -> Path:
    """A file in the format, with shapes of a rod of our own of high order."""
    rows = [LABELS, "arclength,0,0,0," + ",".join(f"{s:g}" for s in (*STATIONS, *STATIONS))]
    generator = np.random.default_rng(1)
    for index in range(shapes):
        gravity, mid, tip = (
            generator.normal(size=3) * 5,
            generator.normal(size=6) * 0.02,
            generator.normal(size=6) * 0.02,
        )
        rod = Rod(round_rod(SETTINGS, 6)).with_gravity(gravity)
        c = rod.loaded(wrenches(SETTINGS, mid, tip)).equilibrium().c
        places = 0.5 * np.concatenate([STATIONS / 2, 0.5 + STATIONS / 2])
        poses = rod.poses(c, places)
        angles = so3.log(poses[:, :3, :3])  # orientations are not read
        table = np.concatenate([angles.T, FROM_OURS @ poses[:, :3, 3].T])
        columns = [
            np.concatenate([np.zeros(3), FROM_OURS @ gravity]),
            *(np.concatenate([FROM_OURS @ wrench[3:], FROM_OURS @ wrench[:3]]) for wrench in (mid, tip)),
        ]
        for row, label in enumerate(("EulX", "EulY", "EulZ", "Px", "Py", "Pz")):
            cells = [*(column[row] for column in columns), *table[row]]
            rows.append(f"{label}_s{index + 1:03d}," + ",".join(f"{cell:.12g}" for cell in cells))
    file = folder / "shapes.csv"
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def options(file: Path) -> dict[str, str | float]:
    return {
        "data": str(file),
        "length": 0.5,
        "radius": 2e-3,
        "youngs_modulus": 3e9,
        "poisson_ratio": 0.4,
        "density": 1200.0,
    }


def test_the_error_falls_with_the_number_of_functions_of_each_family(tmp_path: Path) -> None:
    result = experiments()["sorosim.basis"].run(options(made_file(tmp_path)))
    assert (result["n_shapes"], result["n_found_by_all"]) == (3, 3)
    for kind in SHIPPED:
        gaps = [result[f"tip_gap_percent_{kind}_{count}"] for count in (1, 2, 3, 4, 5)]
        assert all(fewer > more for fewer, more in pairwise(gaps)), (kind, gaps)
        # Up to the cubic the splines are the polynomials.
        assert gaps[3] == pytest.approx(result["tip_gap_percent_chebyshev_4"], rel=1e-3) or kind == "piecewise_constant"
    # The file is of a rod of ours with polynomials of order 6.
    assert result["tip_error_percent_legendre_7"] < 1e-6
    # Constant pieces: with the square of their number.
    four, nine = (result[f"tip_gap_percent_piecewise_constant_{count}"] for count in (4, 9))
    assert four / nine == pytest.approx((9 / 4) ** 2, rel=0.1)
    assert shows_something(experiments()["sorosim.basis"].draw(result, tmp_path)[0])


def test_another_rod_is_solved_from_its_file_and_a_wrong_modulus_is_seen(tmp_path: Path) -> None:
    steel = dataclasses.replace(SETTINGS, data=str(made_file(tmp_path)))
    assert station_errors(steel, 2)[0].max() < 1e-3
    assert station_errors(steel, 6)[0].max() < 5e-9
    assert station_errors(dataclasses.replace(steel, youngs_modulus=4e9), 6)[0].mean() > 2.5e-3


def test_axes_and_order_of_the_columns(tmp_path: Path) -> None:
    shapes = read_shapes(made_file(tmp_path, 1))
    generator = np.random.default_rng(1)
    np.testing.assert_allclose(shapes.gravity_m_per_s2[0], generator.normal(size=3) * 5, rtol=1e-9)
    np.testing.assert_allclose(shapes.mid_wrench[0], generator.normal(size=6) * 0.02, rtol=1e-9)
    np.testing.assert_allclose(shapes.tip_wrench[0], generator.normal(size=6) * 0.02, rtol=1e-9)
    np.testing.assert_allclose(shapes.stations, [0, 0.125, 0.25, 0.5, 0.5, 0.625, 0.75, 1.0])
    np.testing.assert_allclose(shapes.position_m[0, 0], 0, atol=1e-15)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text.replace("gravity", "g"),
        lambda text: "\n".join(text.splitlines()[:-1]),
        lambda text: "\n".join(text.splitlines()[:2]),
        lambda text: text.replace("Px_s001,", "Px_s001,x"),
        lambda text: re.sub("Px_s001,[^,]*", "Px_s001,nan", text),
        lambda text: "\n".join(line.rsplit(",", 1)[0] for line in text.splitlines()),
        lambda text: text + "1,2\n",
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change) -> None:
    file = made_file(tmp_path, 2)
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError):
        read_shapes(file)


def test_missing_files_and_options_are_named(tmp_path: Path) -> None:
    basis = experiments()["sorosim.basis"]
    with pytest.raises(RecordingError, match="no_such"):
        basis.run({"data": str(tmp_path / "no_such.csv")})
    with pytest.raises(ParameterError, match="data"):
        basis.run({})
    with pytest.raises(ParameterError, match="radius"):
        basis.run({"data": "x", "radius": -1})


def test_the_steel_rod_of_the_reference_data() -> None:
    found = experiments()["sorosim.statics"].run({"data": str(reference_file("sorosim", "steel_statics_200.csv"))})
    assert (found["shapes"], found["unstable"]) == (200, 0)
    assert found["mean_percent_of_length"] < 0.03
    assert found["largest_percent_of_length"] < 0.11


def test_the_steel_rod_let_go_moves_as_recorded() -> None:
    found = experiments()["sorosim.releases"].run(
        {"data": str(reference_file("sorosim", "steel_release_1.txt").with_name("steel_release_*.txt"))}
    )
    assert found["releases"] == 3
    assert found["largest_rms_percent_of_length"] < 0.25
