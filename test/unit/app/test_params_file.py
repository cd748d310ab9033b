# SPDX-License-Identifier: Apache-2.0
"""Files of ROS parameters for `up`: sections of nodes, nested names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from continuum_robot.app.running.up import read_params_file
from continuum_robot.errors import RobotFileError

NODES = ("tendon_driver", "contact_monitor")
OWN = Path(__file__).resolve().parents[3] / "examples" / "own_estimators" / "own.yaml"


def written(folder, text):
    file = folder / "params.yaml"
    file.write_text(text)
    return file


def test_sections_of_nodes_and_of_all(tmp_path):
    text = """
/**:
  ros__parameters: {diagnostics: {period_s: 0.5}}
/**/contact_monitor:
  ros__parameters: {method: jfd, kind: {slide_m: 0.01}}
tendon_driver:
  ros__parameters: {rate_hz: 500.0, diagnostics: {period_s: 2.0}}
"""
    assert read_params_file(written(tmp_path, text), NODES) == {
        "tendon_driver": {"diagnostics.period_s": 2.0, "rate_hz": 500.0},
        "contact_monitor": {"diagnostics.period_s": 0.5, "method": "jfd", "kind.slide_m": 0.01},
    }


def test_the_example_is_read():
    found = read_params_file(OWN, ("shape_estimator", "contact_monitor"))
    assert found["shape_estimator"] == {"estimator": "least_squares", "least_squares.tendon_sigma_m": 0.0005}
    assert found["contact_monitor"] == {"method": "at_rest", "at_rest.smoothing_s": 0.05}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "sections of nodes"),
        ("tendon: {ros__parameters: {a: 1}}", r"params.yaml:1: tendon: .* one of tendon_driver, contact_monitor"),
        ("\ntendon_driver: {a: 1}", r"params.yaml:2: tendon_driver: .* a mapping ros__parameters"),
        ("tendon_driver: [", "params.yaml"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, text, words):
    with pytest.raises(RobotFileError, match=words):
        read_params_file(written(tmp_path, text), NODES)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RobotFileError, match=r"gone\.yaml"):
        read_params_file(tmp_path / "gone.yaml", NODES)
