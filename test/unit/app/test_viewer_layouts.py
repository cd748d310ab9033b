# SPDX-License-Identifier: Apache-2.0
"""Layouts for rviz, PlotJuggler and Foxglove name topics that exist, with fields that their messages have."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from continuum_robot.app.launching.plan import scaled_configuration, write_scaled
from continuum_robot.errors import ParameterError
from continuum_robot.robot.loading import load_robot

ROOT = Path(__file__).parents[3]
RVIZ = ROOT / "config" / "rviz" / "continuum_robot.rviz"
PLOTJUGGLER = ROOT / "config" / "plotjuggler" / "continuum_robot.xml"
FOXGLOVE = ROOT / "config" / "foxglove" / "continuum_robot.json"

RVIZ_TYPES = {"RobotModel": "std_msgs/String", "MarkerArray": "visualization_msgs/MarkerArray", "Path": "nav_msgs/Path"}


def topic_types() -> dict[str, str]:
    """The table of docs/reference/topics.md."""
    text = (ROOT / "docs" / "reference" / "topics.md").read_text(encoding="utf-8")
    table = text[: text.index("## Quality of service")]
    return {name.lstrip("/"): kind for name, kind in re.findall(r"^\| `([\w/<>]+)` \| ([\w/]+) \|", table, re.M)}


def message_class(kind: str) -> Any:
    package, _, name = kind.rpartition("/")
    package = package or "continuum_robot"
    module = pytest.importorskip(f"{package}.msg", reason="the ROS messages are not installed")
    return getattr(module, name)


def check_field(kind: str, path: list[str]) -> None:
    """Every step of a path is a field; an index belongs to an array."""
    for step in path:
        field, index = re.fullmatch(r"(\w+)(\[\d+\])?", step).groups()
        fields = message_class(kind).get_fields_and_field_types()
        assert field in fields, f"{kind} has no field {field}"
        kind = fields[field]
        assert kind.startswith("sequence<") == (index is not None), f"{step}: {kind}"
    assert "/" not in kind, f"{path} is a message, no number"


def foxglove_panels() -> dict[str, dict[str, Any]]:
    return json.loads(FOXGLOVE.read_text(encoding="utf-8"))["configById"]


def foxglove_paths() -> Iterator[str]:
    for config in foxglove_panels().values():
        for path in config.get("paths", []):
            yield path["value"]


def placed(layout: Any) -> Iterator[str]:
    if isinstance(layout, str):
        yield layout
    else:
        yield from placed(layout["first"])
        yield from placed(layout["second"])


def test_curves_of_plotjuggler_exist():
    curves = [curve.get("name") for curve in ElementTree.parse(PLOTJUGGLER).iter("curve")]
    assert len(curves) > 30
    types = topic_types()
    for curve in curves:
        topic, *path = curve.lstrip("/").split("/")
        check_field(types[topic], path)


def test_paths_of_foxglove_exist():
    paths = list(foxglove_paths())
    assert len(paths) > 30
    types = topic_types()
    for path in paths:
        topic, *fields = path.lstrip("/").split(".")
        check_field(types[topic], fields)


def test_panels_of_foxglove_are_placed_and_listen_to_topics_that_exist():
    whole = json.loads(FOXGLOVE.read_text(encoding="utf-8"))
    panels, types = whole["configById"], topic_types()
    tabs = [tab["layout"] for config in panels.values() for tab in config.get("tabs", [])]
    everywhere = [name for layout in (whole["layout"], *tabs) for name in placed(layout)]
    assert sorted(everywhere) == sorted(panels)
    for config in panels.values():
        for topic in (
            *config.get("topics", {}),
            *(config[key] for key in ("topicPath", "topicToRender") if key in config),
        ):
            assert topic.lstrip("/") in types
    (scene,) = (config for name, config in panels.items() if name.startswith("3D!"))
    assert types[scene["publish"]["pointTopic"].lstrip("/")] == "geometry_msgs/PointStamped"
    (service,) = (config["serviceName"] for config in panels.values() if "serviceName" in config)
    assert service.lstrip("/") == "estop"


def test_displays_of_rviz_listen_to_topics_of_their_type():
    displays = yaml.safe_load(RVIZ.read_text(encoding="utf-8"))["Visualization Manager"]["Displays"]
    types, found = topic_types(), {}
    for display in displays:
        topic = display.get("Topic") or display.get("Description Topic")
        if topic:
            found[display["Class"].rpartition("/")[2]] = types[topic["Value"]]
    assert found == RVIZ_TYPES


@pytest.mark.parametrize("name", ["crem_segment", "opencr_five_tendon", "rolling_five_link"])
def test_the_view_of_rviz_has_the_robots_size(name, tmp_path):
    robot = load_robot(name)
    file = write_scaled(RVIZ, robot)
    manager = yaml.safe_load(file.read_text(encoding="utf-8"))["Visualization Manager"]
    view = manager["Views"]["Current"]
    assert 2.5 * robot.length_m < view["Distance"] < 5 * robot.length_m
    assert 0 < view["Focal Point"]["Z"] < robot.length_m
    file.unlink()
    file.parent.rmdir()


def test_what_is_no_rviz_configuration_is_refused():
    with pytest.raises(ParameterError, match="rviz configuration"):
        scaled_configuration({"Panels": []}, 0.1)


def test_modules_of_the_messages_are_those_of_the_table():
    for kind in topic_types().values():
        package = kind.rpartition("/")[0] or "continuum_robot"
        pytest.importorskip(f"{package}.msg", reason="the ROS messages are not installed")
        assert hasattr(importlib.import_module(f"{package}.msg"), kind.rpartition("/")[2])
