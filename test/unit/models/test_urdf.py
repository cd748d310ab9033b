# SPDX-License-Identifier: Apache-2.0
"""The URDF of robots: XML that holds together, with the links that stand on tf."""

from xml.etree import ElementTree

import numpy as np
import pytest

from continuum_robot.models.making import robot_model
from continuum_robot.models.urdf import robot_description
from continuum_robot.robot.loading import load_robot, shipped_robots


@pytest.mark.parametrize("name", sorted(shipped_robots()))
@pytest.mark.parametrize("prefix", ["", "left_"])
def test_a_tree_of_floating_links_from_the_base(name, prefix):
    robot = load_robot(name)
    root = ElementTree.fromstring(robot_description(robot_model(robot), prefix))
    assert (root.tag, root.get("name")) == ("robot", robot.name)
    links = [link.get("name") for link in root.iter("link")]
    assert len(set(links)) == len(links)
    assert {f"{prefix}base", f"{prefix}tip"} <= set(links)
    children = []
    for joint in root.iter("joint"):
        # A fixed tip would stand on tf twice, straight and as measured.
        assert joint.get("type") == "floating"
        assert joint.find("parent").get("link") == f"{prefix}base"
        children.append(joint.find("child").get("link"))
    assert sorted([f"{prefix}base", *children]) == sorted(links)
    materials = {material.get("name") for material in root.findall("material")}
    assert {material.get("name") for material in root.iter("material")} == materials


def test_links_of_rolling_joints_have_boxes_around_their_outlines():
    robot = load_robot("rolling_five_link")
    root = ElementTree.fromstring(robot_description(robot_model(robot)))
    drawing = robot_model(robot).drawing()
    links = {link.get("name"): link for link in root.iter("link")}
    assert links.keys() == {"base", *drawing.frame_names}
    straight = np.zeros(drawing.size)
    frames = [np.eye(4), *drawing.frames(straight)]
    for name, frame, outline in zip(
        ["base", *drawing.frame_names], frames, drawing.geometry(straight).outlines, strict=False
    ):
        visual = links[name].find("visual")
        middle = np.array(visual.find("origin").get("xyz").split(), dtype=float)
        half = np.array(visual.find("geometry/box").get("size").split(), dtype=float) / 2
        own = (outline - frame[:3, 3]) @ frame[:3, :3]
        np.testing.assert_allclose((own - middle).max(axis=0)[[0, 2]], half[[0, 2]], atol=1e-6)
        np.testing.assert_allclose((own - middle).min(axis=0)[[0, 2]], -half[[0, 2]], atol=1e-6)
