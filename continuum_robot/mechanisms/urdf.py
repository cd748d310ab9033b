# SPDX-License-Identifier: Apache-2.0
"""A small URDF of a robot's rigid parts, for RobotModel displays and planners: base, tip, and links of a mechanism.

A continuum arm has no joints that a URDF could describe: the frames of its parts are measured and stand on tf. Their
joints are ``floating`` here, which robot_state_publisher leaves to tf and planners take as multi-degree-of-freedom
joints. A fixed joint would make it publish the tip of the straight robot against the measured one.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np

from continuum_robot.mechanisms.rolling_joint.drawing import RollingDrawing
from continuum_robot.robot.description import Robot
from continuum_robot.robot.equilibrium_modulation import EquilibriumModulation
from continuum_robot.robot.rolling_joint import RollingJoint

BASE, TIP = "base", "tip"
# A link lets what is drawn inside of it shine through.
_GREY, _DARK = (0.75, 0.75, 0.78, 0.4), (0.35, 0.35, 0.4, 1.0)
_PLATE_SHARE = 2.0  # of the radius, and its thickness a quarter of the radius
_RIM = 1.2  # of the pitch radius, where nothing says how large the disks are


def robot_description(robot: Robot, prefix: str = "") -> str:
    """The URDF.

    Parameters
    ----------
    robot : any robot
    prefix : in front of the name of every link, as in front of every tf frame

    Returns
    -------
    XML text; its links are ``base`` and ``tip``, and of rolling joints ``link_2`` and so on, all frames on tf
    """
    root = ElementTree.Element("robot", name=robot.name)
    for name, color in (("grey", _GREY), ("dark", _DARK)):
        material = ElementTree.SubElement(root, "material", name=name)
        ElementTree.SubElement(material, "color", rgba=_numbers(color))
    mechanism = robot.mechanism
    if isinstance(mechanism, RollingJoint):
        _add_rolling_links(root, robot, mechanism, prefix)
    else:
        radius, thickness = _tip_disk(robot)
        plate = _PLATE_SHARE * radius, radius / 4
        _add_link(root, f"{prefix}{BASE}", _cylinder(*plate, "dark", (0.0, 0.0, -plate[1] / 2)))
        _add_link(root, f"{prefix}{TIP}", _cylinder(radius, thickness, "grey"))
        _add_joint(root, f"{prefix}{BASE}", f"{prefix}{TIP}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _tip_disk(robot: Robot) -> tuple[float, float]:
    """Radius and thickness of what stands at the tip, m."""
    if isinstance(robot.mechanism, EquilibriumModulation):
        radius = _RIM * robot.mechanism.pitch_radius_m
        return radius, radius / 4
    disks = robot.segments[-1].disks
    return disks.radius_m, disks.thickness_m


def _add_rolling_links(root: ElementTree.Element, robot: Robot, mechanism: RollingJoint, prefix: str) -> None:
    """Every link as the box around its outline; the first is the base itself, the tip lies in the last."""
    drawing = RollingDrawing(robot)
    names = [BASE, *drawing.frame_names]
    boxes: Sequence[ElementTree.Element | None] = [
        _box(shape.min(axis=0), shape.max(axis=0), mechanism.link_width_m) for shape in drawing.link_shapes
    ]
    for name, box in zip(names, [*boxes, None], strict=True):
        _add_link(root, f"{prefix}{name}", box)
        if name != BASE:
            _add_joint(root, f"{prefix}{BASE}", f"{prefix}{name}")


def _box(low: Sequence[float], high: Sequence[float], width_m: float) -> ElementTree.Element:
    """A link of the plane: its x is the frame's x, its y the frame's z."""
    (x, z), (end_x, end_z) = low, high
    visual = _visual((float(x + end_x) / 2, 0.0, float(z + end_z) / 2), "grey")
    size = (float(end_x - x), width_m, float(end_z - z))
    ElementTree.SubElement(visual[1], "box", size=_numbers(size))
    return visual


def _cylinder(
    radius_m: float, length_m: float, material: str, place_m: Sequence[float] = (0.0, 0.0, 0.0)
) -> ElementTree.Element:
    visual = _visual(place_m, material)
    ElementTree.SubElement(visual[1], "cylinder", radius=f"{radius_m:.6g}", length=f"{length_m:.6g}")
    return visual


def _visual(place_m: Sequence[float], material: str) -> ElementTree.Element:
    visual = ElementTree.Element("visual")
    ElementTree.SubElement(visual, "origin", xyz=_numbers(place_m), rpy="0 0 0")
    ElementTree.SubElement(visual, "geometry")
    ElementTree.SubElement(visual, "material", name=material)
    return visual


def _add_link(root: ElementTree.Element, name: str, visual: ElementTree.Element | None) -> None:
    link = ElementTree.SubElement(root, "link", name=name)
    if visual is not None:
        link.append(visual)


def _add_joint(root: ElementTree.Element, parent: str, child: str) -> None:
    joint = ElementTree.SubElement(root, "joint", name=f"{parent}_to_{child}", type="floating")
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=child)
    ElementTree.SubElement(joint, "origin", xyz="0 0 0", rpy="0 0 0")


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.6g}" for value in np.asarray(values, dtype=float))
