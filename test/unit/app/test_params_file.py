# SPDX-License-Identifier: Apache-2.0
"""Files of ROS parameters: sections of nodes, nested names, namespaces, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.nodes.base.params_file import ParamsFile

NODES = ("tendon_driver", "contact_monitor")
OWN = Path(__file__).resolve().parents[3] / "examples" / "own_estimators" / "own.yaml"
TEXT = """
/**:
  ros__parameters: {diagnostics: {period_s: 0.5}}
/**/contact_monitor:
  ros__parameters: {method: jfd, kind: {slide_m: 0.01}}
tendon_driver:
  ros__parameters: {rate_hz: 500.0, diagnostics: {period_s: 2.0}}
/left/tendon_driver:
  ros__parameters:
    rate_hz: 250.0
/*/contact_monitor:
  ros__parameters: {kind.slide_m: 0.02}
"""


def written(folder: Path, text: str = TEXT) -> ParamsFile:
    file = folder / "params.yaml"
    file.write_text(text)
    return ParamsFile(file)


@pytest.mark.parametrize(
    ("node", "namespace", "expected"),
    [
        ("tendon_driver", "", {"diagnostics.period_s": 2.0, "rate_hz": 500.0}),
        ("tendon_driver", "/left", {"diagnostics.period_s": 0.5, "rate_hz": 250.0}),
        ("tendon_driver", "right/", {"diagnostics.period_s": 0.5}),
        ("contact_monitor", "", {"diagnostics.period_s": 0.5, "method": "jfd", "kind.slide_m": 0.01}),
        ("contact_monitor", "left", {"diagnostics.period_s": 0.5, "method": "jfd", "kind.slide_m": 0.02}),
        ("contact_monitor", "a/b", {"diagnostics.period_s": 0.5, "method": "jfd", "kind.slide_m": 0.01}),
    ],
)
def test_sections_hold_for_the_nodes_that_they_name(
    node: str, namespace: str, expected: dict[str, object], tmp_path: Path
) -> None:
    file = written(tmp_path)
    file.check_sections(NODES)
    assert file.of(node, namespace) == expected


def test_the_example_is_read() -> None:
    file = ParamsFile(OWN)
    assert file.of("shape_estimator") == {"estimator": "least_squares", "least_squares.tendon_sigma_m": 0.0005}
    assert file.of("contact_monitor") == {"method": "at_rest", "at_rest.smoothing_s": 0.05}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "sections of nodes"),
        ("tendon_drivr: {ros__parameters: {a: 1}}", r"params.yaml:1: tendon_drivr: .*; did you mean tendon_driver"),
        ("\ntendon_driver: {a: 1}", r"params.yaml:2: tendon_driver: .* a mapping ros__parameters"),
        ("tendon_driver: [", "params.yaml"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RobotFileError, match=words):
        written(tmp_path, text).check_sections(NODES)


def test_a_name_that_its_node_does_not_have_is_refused_with_its_line(tmp_path: Path) -> None:
    file, known = written(tmp_path), ("rate_hz", "diagnostics.period_s")
    file.check_names("tendon_driver", "/left", known)
    with pytest.raises(RobotFileError, match=r"params\.yaml:10: /left/tendon_driver.*250.*did you mean rate_mhz"):
        file.check_names("tendon_driver", "/left", ("rate_mhz",))
    file.check_names("tendon_driver", "/right", ())  # what is meant for all nodes, not every node has


def test_a_refused_value_is_found_in_the_last_section_that_sets_it(tmp_path: Path) -> None:
    file, error = written(tmp_path), ParameterError("diagnostics.period_s", 2.0, "less")
    assert "params.yaml:7: tendon_driver.ros__parameters.diagnostics.period_s: 2.0 -- expected less" in str(
        file.located(error, "tendon_driver", "/")
    )
    assert "params.yaml:3: /**." in str(file.located(error, "tendon_driver", "/left"))
    other = ParameterError("rate_hz", 1.0, "more")
    assert file.located(other, "contact_monitor", "/") is other


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RobotFileError, match=r"gone\.yaml"):
        ParamsFile(tmp_path / "gone.yaml")
