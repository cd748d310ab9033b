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

from continuum_robot.models.robot_model import RigidPart, RobotModel

# A link lets what is drawn inside of it shine through.
_GREY, _DARK = (0.75, 0.75, 0.78, 0.4), (0.35, 0.35, 0.4, 1.0)


def robot_description(model: RobotModel, prefix: str = "") -> str:
    """The URDF.

    Parameters
    ----------
    model : of any robot
    prefix : in front of the name of every link, as in front of every tf frame

    Returns
    -------
    XML text; its links are ``base`` and ``tip``, and of rolling joints ``link_2`` and so on, all frames on tf
    """
    root = ElementTree.Element("robot", name=model.robot.name)
    for name, color in (("grey", _GREY), ("dark", _DARK)):
        material = ElementTree.SubElement(root, "material", name=name)
        ElementTree.SubElement(material, "color", rgba=_numbers(color))
    base, *others = model.rigid_parts()
    _add_link(root, prefix, base)
    for part in others:
        _add_link(root, prefix, part)
        _add_joint(root, f"{prefix}{base.frame}", f"{prefix}{part.frame}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _add_link(root: ElementTree.Element, prefix: str, part: RigidPart) -> None:
    link = ElementTree.SubElement(root, "link", name=f"{prefix}{part.frame}")
    material = "dark" if part.dark else "grey"
    if part.low_m is not None and part.high_m is not None:
        low, high = np.array(part.low_m), np.array(part.high_m)
        visual = _visual(tuple((low + high) / 2), material)
        ElementTree.SubElement(visual[1], "box", size=_numbers(tuple(high - low)))
        link.append(visual)
    elif part.radius_m > 0:
        visual = _visual((0.0, 0.0, part.centre_m), material)
        size = {"radius": f"{part.radius_m:.6g}", "length": f"{part.thickness_m:.6g}"}
        ElementTree.SubElement(visual[1], "cylinder", size)
        link.append(visual)


def _visual(place_m: Sequence[float], material: str) -> ElementTree.Element:
    visual = ElementTree.Element("visual")
    ElementTree.SubElement(visual, "origin", xyz=_numbers(place_m), rpy="0 0 0")
    ElementTree.SubElement(visual, "geometry")
    ElementTree.SubElement(visual, "material", name=material)
    return visual


def _add_joint(root: ElementTree.Element, parent: str, child: str) -> None:
    joint = ElementTree.SubElement(root, "joint", name=f"{parent}_to_{child}", type="floating")
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=child)
    ElementTree.SubElement(joint, "origin", xyz="0 0 0", rpy="0 0 0")


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.6g}" for value in np.asarray(values, dtype=float))
