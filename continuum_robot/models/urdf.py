# SPDX-License-Identifier: Apache-2.0
"""A small URDF of a robot's rigid parts, for RobotModel displays and planners: base, tip, and links of a mechanism.

A continuum arm has no joints that a URDF could describe: the frames of its parts are measured and stand on tf. Their
joints are ``floating`` here, which robot_state_publisher leaves to tf and planners take as multi-degree-of-freedom
joints. A fixed joint would make it publish the tip of the straight robot against the measured one.

What moves in a straight line, and has a place in ``joint_states``, is the driven end of each tendon: a prismatic joint,
positive where the tendon is pulled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from continuum_robot.models.drawing import Drawing
from continuum_robot.models.robot_model import RigidPart, RobotModel
from continuum_robot.robot.actuation import Limits

Array = NDArray[np.float64]

TENDON_DIRECTION = (0.0, 0.0, -1.0)
"""In which the driven end of a tendon moves where it is pulled in, base frame: out of the base."""
_UNLIMITED = 1e3
# A link lets what is drawn inside of it shine through.
_GREY, _DARK = (0.75, 0.75, 0.78, 0.4), (0.35, 0.35, 0.4, 1.0)


def tendon_ends(model: RobotModel, drawing: Drawing) -> dict[str, Array]:
    """Where each tendon enters the base."""
    paths = drawing.geometry(np.zeros(drawing.size)).tendons
    return {name: path[0] for name, path in zip(model.robot.tendon_names, paths, strict=True)}


def robot_description(model: RobotModel, tendons: Mapping[str, Array], prefix: str = "") -> str:
    """The URDF."""
    root = ElementTree.Element("robot", name=model.robot.name)
    for name, color in (("grey", _GREY), ("dark", _DARK)):
        material = ElementTree.SubElement(root, "material", name=name)
        ElementTree.SubElement(material, "color", rgba=_numbers(color))
    base, *others = model.rigid_parts()
    _add_link(root, prefix, base)
    for part in others:
        _add_link(root, prefix, part)
        _add_joint(root, f"{prefix}{base.frame}", f"{prefix}{part.frame}")
    limits = model.robot.limits
    for number, (tendon, place_m) in enumerate(tendons.items(), start=1):
        own = None if limits is None else limits.of(number)
        _add_tendon(root, f"{prefix}{base.frame}", f"{prefix}{tendon}", place_m, own)
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


def _add_tendon(root: ElementTree.Element, parent: str, name: str, place_m: Array, limits: Limits | None) -> None:
    ElementTree.SubElement(root, "link", name=name)
    joint = ElementTree.SubElement(root, "joint", name=name, type="prismatic")
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=name)
    ElementTree.SubElement(joint, "origin", xyz=_numbers(place_m), rpy="0 0 0")
    ElementTree.SubElement(joint, "axis", xyz=_numbers(TENDON_DIRECTION))
    stroke_m = _UNLIMITED if limits is None else limits.maximum_displacement_m
    effort_n = _UNLIMITED if limits is None else limits.maximum_n
    bounds = {"lower": -stroke_m, "upper": stroke_m, "effort": effort_n, "velocity": _UNLIMITED}
    ElementTree.SubElement(joint, "limit", {key: f"{value:.6g}" for key, value in bounds.items()})


def _numbers(values: Sequence[float] | Array) -> str:
    return " ".join(f"{value:.6g}" for value in np.asarray(values, dtype=float))
