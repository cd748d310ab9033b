# SPDX-License-Identifier: Apache-2.0
"""Frames of the backbone with their derivatives in CasADi: one exponential, and any arc length of the robot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca

from continuum_robot.robot.description import Robot
from continuum_robot.robot.segment import Segment
from continuum_robot.rod.exponential import Frozen, hat
from continuum_robot.rod.kinematics import magnus_step_count, stretch_frame
from continuum_robot.rod.tendons import coefficient_slices


def spin_jacobian(rotation: Any, c: Any) -> Any:
    """Jacobian of the angular velocity (in the axes in which ``rotation`` is given) per c_rate, shape (3, k)."""
    derivative = ca.jacobian(ca.vec(rotation), c)
    columns = []
    for k in range(c.shape[0]):
        turn = ca.reshape(derivative[:, k], 3, 3) @ rotation.T  # hat of the angular velocity
        columns.append(ca.vertcat(turn[2, 1], turn[0, 2], turn[1, 0]))
    return ca.horzcat(*columns)


def differentiated_frame(frame: tuple[Any, Any], own: Any, own_rate: Any, *, turning: bool) -> list[Any]:
    """A frame that depends on the coefficients ``own``, with its motion for the rates ``own_rate``.

    Returns
    -------
    rotation, position; velocity Jacobian (3, k), velocity, acceleration for own'' = 0; where ``turning`` also the spin
    Jacobian (3, k), spin, angular acceleration for own'' = 0; all in the axes in which the frame is given
    """
    rotation, position = frame
    jacobian = ca.jacobian(position, own)
    velocity = jacobian @ own_rate
    values = [rotation, position, jacobian, velocity, ca.jtimes(velocity, own, own_rate)]
    if turning:
        spin = spin_jacobian(rotation, own)
        values += [spin, spin @ own_rate, ca.jtimes(spin @ own_rate, own, own_rate)]
    return values


@dataclass(frozen=True, slots=True)
class StepFunctions:
    """One exponential of a segment as CasADi functions; for several Magnus steps their code exists once.

    Attributes
    ----------
    frame : (own, start_m, step_m) -> rotation, position
    place : (own, start_m, step_m) -> rotation, position, velocity Jacobian (3, k), spin Jacobian (3, k)
    drift : (own, own_rate, start_m, step_m) -> acceleration and angular acceleration for own'' = 0
    """

    frame: ca.Function
    place: ca.Function
    drift: ca.Function


@lru_cache(maxsize=64)
def step_functions(segment: Segment) -> StepFunctions:
    """The functions of a segment; start_m and step_m in m, from the segment's start."""
    count = segment.basis.coefficient_count
    own, own_rate = ca.SX.sym("own", count), ca.SX.sym("own_rate", count)
    start_m, step_m = ca.SX.sym("start"), ca.SX.sym("step")
    frozen = Frozen()
    frame = stretch_frame(segment, own, start_m, step_m, frozen)
    values = frozen.thaw(differentiated_frame(frame, own, own_rate, turning=True))
    rotation, position, jacobian, _, bias, spin, _, spin_bias = (ca.densify(value) for value in values)
    options = {"cse": True, "never_inline": segment.basis.order > 0}
    # CasADi takes letters, digits and single underscores.
    name = "_".join(re.findall("[A-Za-z0-9]+", f"of {segment.name}"))
    step = [own, start_m, step_m]
    return StepFunctions(
        ca.Function(f"frame_{name}", step, [rotation, position], options),
        ca.Function(f"place_{name}", step, [rotation, position, jacobian, spin], options),
        ca.Function(f"drift_{name}", [own, own_rate, start_m, step_m], [bias, spin_bias], options),
    )


def frame_at(robot: Robot, c: Any, s_m: Any) -> tuple[Any, Any]:
    """Frame of the backbone at a symbolic arc length in [0, length_m], in the base frame.

    Returns
    -------
    rotation (3, 3) and position (3,)
    """
    rotation, position = ca.SX.eye(3), ca.SX.zeros(3)
    for segment, own, start_m, step_m in _steps(robot, c, s_m):
        step_rotation, step_position = step_functions(segment).frame(own, start_m, step_m)
        position = position + rotation @ step_position
        rotation = rotation @ step_rotation
    return ca.densify(rotation), ca.densify(position)


def body_jacobian_at(robot: Robot, c: Any, s_m: Any) -> Any:
    """Jacobian of the twist (linear, angular) of the frame at a symbolic arc length, in its own axes, shape (6, n).

    johnston (7) to (9), with the linear part first.
    """
    linear, angular = ca.SX(3, robot.coefficient_count), ca.SX(3, robot.coefficient_count)
    places = dict(zip(robot.segments, coefficient_slices(robot), strict=True))
    for segment, own, start_m, step_m in _steps(robot, c, s_m):
        rotation, position, jacobian, spin = step_functions(segment).place(own, start_m, step_m)
        linear = linear - hat(position) @ angular
        linear[:, places[segment]] += jacobian
        angular[:, places[segment]] += spin
        linear, angular = rotation.T @ linear, rotation.T @ angular
    return ca.densify(ca.vertcat(linear, angular))


def _steps(robot: Robot, c: Any, s_m: Any) -> list[tuple[Segment, Any, Any, Any]]:
    """Exponentials from the base to an arc length: segment, its coefficients, start and step (empty beyond it)."""
    steps = []
    for segment, place, base_m in zip(robot.segments, coefficient_slices(robot), robot.segment_starts_m, strict=True):
        covered_m = ca.fmin(ca.fmax(s_m - float(base_m), 0), segment.length_m)
        count = magnus_step_count(segment.basis)
        steps += [(segment, c[place], k * covered_m / count, covered_m / count) for k in range(count)]
    return steps
