# SPDX-License-Identifier: Apache-2.0
"""A frame that moves with the rod, and its position between two ends of steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import casadi as ca

from continuum_robot.robot.description import Robot
from continuum_robot.rod.code.shared import Code, sparse
from continuum_robot.rod.exponential import bracket
from continuum_robot.rod.moving_chain import SegmentSteps, StepMotion
from continuum_robot.rod.step import (
    carried,
    moved_jacobian,
)
from continuum_robot.rod.tendons import coefficient_slices


@dataclass(frozen=True, slots=True)
class MovingFrame:
    """A frame of the backbone, and its motion in its own axes, angular part first.

    Attributes
    ----------
    rotation, position : (3, 3) and (3,) in the base frame
    jacobian : (6, n) of its twist; johnston (7) to (9)
    twist : (6,)
    acceleration : (6,) derivative of the twist's components for c'' = 0
    """

    rotation: Any
    position: Any
    jacobian: Any
    twist: Any
    acceleration: Any

    def moved(self, step: StepMotion, place: slice) -> MovingFrame:
        """The frame at the end of a step that starts here.

        Parameters
        ----------
        step : from here
        place : of its segment's coefficients among all
        """
        frame = placed(step.code, self.rotation, self.position, (step.rotation, step.position))
        here = (self.jacobian, self.twist, self.acceleration)
        change = (step.rotation, step.position, step.by_strain, step.nodal, step.rate, step.drift)
        return MovingFrame(*frame, *step.code(f"moved_{place.start}", partial(_moved, place), *here, *change))


def placed(code: Code, rotation: Any, position: Any, change: tuple[Any, Any]) -> tuple[Any, Any]:
    """Rotation and position of a frame that stands at ``change`` from another.

    Parameters
    ----------
    code : how that is written
    rotation, position : (3, 3) and (3,) of the other
    change : (3, 3) and (3,) rotation and position in that
    """
    there = code("placed", _placed, rotation, position, *change)
    return there[0], there[1]


def _placed(rotation: Any, position: Any, turn: Any, shift: Any) -> tuple[Any, Any]:
    """The frame at a step's end."""
    return rotation @ turn, position + rotation @ shift


def _moved(
    place: slice,
    jacobian: Any,
    twist: Any,
    acceleration: Any,
    turn: Any,
    shift: Any,
    by_strain: Any,
    nodal: Any,
    rate: Any,
    drift: Any,
) -> tuple[Any, Any, Any]:
    """Its motion, from that of the step's start."""
    own = by_strain @ nodal
    moving, twist = moved_jacobian(turn, shift, jacobian, place, own), carried(turn, shift, twist)
    relative = own @ rate
    changing = carried(turn, shift, acceleration) + drift + bracket(twist, relative)
    return moving, twist + relative, changing


def frame_at(robot: Robot, c: Any, s_m: Any) -> tuple[Any, Any]:
    """Frame of the backbone at a symbolic arc length (m), in the base frame.

    Parameters
    ----------
    c : (n,) coefficients

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    rotation, position = ca.SX.eye(3), ca.SX.zeros(3)
    for segment, base_m, place in zip(robot.segments, robot.segment_starts_m, coefficient_slices(robot), strict=True):
        for turn, shift in SegmentSteps(segment, c[place]).frames_to(s_m - float(base_m)):
            rotation, position = rotation @ turn, position + rotation @ shift
    return ca.densify(rotation), ca.densify(position)


def moving_frame_at(robot: Robot, c: Any, s_m: Any) -> MovingFrame:
    """Motion of the frame of the backbone at a symbolic arc length (m); of rest.

    Parameters
    ----------
    c : (n,) coefficients
    """
    frame = base_frame(robot.coefficient_count)
    for segment, base_m, place in zip(robot.segments, robot.segment_starts_m, coefficient_slices(robot), strict=True):
        for step in SegmentSteps(segment, c[place]).motions_to(s_m - float(base_m)):
            frame = frame.moved(step, place)
    return frame


def base_frame(size: int, gravity_m_per_s2: Any = None, kind: type[ca.SX | ca.MX] = ca.SX) -> MovingFrame:
    """The base, which does not move; accelerated against gravity, all on it feels its weight.

    Parameters
    ----------
    size : number n of coefficients
    gravity_m_per_s2 : (3,); None: none
    kind : of the expressions
    """
    acceleration = ca.DM(6, 1)
    if gravity_m_per_s2 is not None:
        acceleration = ca.vertcat(ca.DM(3, 1), -sparse(gravity_m_per_s2))
    zero, start = kind(6, 1), (kind(ca.DM.eye(3)), kind(ca.DM.zeros(3)))
    return MovingFrame(*start, kind(6, size), zero, kind(acceleration))
