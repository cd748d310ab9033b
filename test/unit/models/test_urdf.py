# SPDX-License-Identifier: Apache-2.0
"""The URDF of robots: XML that holds together, with the links that stand on tf."""

from xml.etree import ElementTree

import numpy as np
import pytest

from continuum_robot.models.making import robot_model
from continuum_robot.models.urdf import robot_description, tendon_ends
from continuum_robot.robot.file.shipped_files import shipped_robots
from continuum_robot.robot.loading import load_robot


@pytest.mark.parametrize("name", sorted(shipped_robots()))
@pytest.mark.parametrize("prefix", ["", "left_"])
def test_a_tree_of_floating_links_from_the_base(name, prefix):
    robot = load_robot(name)
    model = robot_model(robot)
    root = ElementTree.fromstring(robot_description(model, tendon_ends(model, model.drawing()), prefix))
    assert (root.tag, root.get("name")) == ("robot", robot.name)
    links = [link.get("name") for link in root.iter("link")]
    assert len(set(links)) == len(links)
    assert {f"{prefix}base", f"{prefix}tip"} <= set(links)
    children = []
    tendons = [f"{prefix}{name}" for name in robot.tendon_names]
    for joint in root.iter("joint"):
        # A fixed tip would stand on tf twice, straight and as measured.
        assert joint.get("type") == ("prismatic" if joint.get("name") in tendons else "floating")
        assert joint.find("parent").get("link") == f"{prefix}base"
        children.append(joint.find("child").get("link"))
    assert sorted([f"{prefix}base", *children]) == sorted(links)
    assert [joint.get("name") for joint in root.iter("joint") if joint.get("type") == "prismatic"] == tendons
    for joint in root.findall("joint[@type='prismatic']"):
        assert joint.find("axis").get("xyz") == "0 0 -1"  # pulled in is positive, and leaves the base
        assert float(joint.find("limit").get("upper")) == -float(joint.find("limit").get("lower")) > 0
    materials = {material.get("name") for material in root.findall("material")}
    assert {material.get("name") for material in root.iter("material")} == materials


def test_links_of_rolling_joints_have_boxes_around_their_outlines():
    robot = load_robot("rolling_five_link")
    model = robot_model(robot)
    drawing = model.drawing()
    root = ElementTree.fromstring(robot_description(model, tendon_ends(model, drawing)))
    links = {link.get("name"): link for link in root.iter("link")}
    assert links.keys() == {"base", *drawing.frame_names, *robot.tendon_names}
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
