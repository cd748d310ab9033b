# SPDX-License-Identifier: Apache-2.0
"""What is fitted in which step, how far it may be from its start, and where it stands in the vector of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification import fit
from continuum_robot.identification.fit import Parameters
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]
# Parameters by name, each counted from the robot that the fit starts from: zeros are the start.
Values = dict[str, Array]

STEPS = ("constant_curvature", "statics", "friction", "tendons")


@dataclass(frozen=True, slots=True)
class Kind:
    """Parameters of one kind.

    Attributes
    ----------
    step : of :data:`STEPS`, that fits it first
    deviation : standard deviation of its prior, what a robot that fits its file may differ by; in the unit of its name
    each : what has one of its own: "segment", "tendon", the axes "xyz" or "xy", or "robot"
    title : of one in the list of results, with a place for the name of the segment, tendon or axis
    """

    step: str
    deviation: float
    each: str
    title: str

    def of(self, robot: Robot) -> fit.Parameter:
        """All of them on a robot."""
        names = {
            "segment": [segment.name for segment in robot.segments],
            "tendon": robot.tendon_names,
            "robot": [""],
        }
        titles = tuple(self.title.format(name) for name in names.get(self.each, self.each))
        return fit.Parameter(titles, 0.0, self.deviation)


PARAMETERS = {
    "angle_rad": Kind("constant_curvature", 0.3, "segment", "angle_offset_{}_rad"),
    "marker_m": Kind("constant_curvature", 0.01, "xyz", "marker_in_tip_{}_m"),
    "base_m": Kind("constant_curvature", 0.002, "xyz", "base_in_tracker_{}_m"),
    "tilt_rad": Kind("constant_curvature", 0.03, "xy", "base_rotation_in_tracker_{}_rad"),
    "spiral_rad_per_m": Kind("constant_curvature", 3.0, "robot", "tendon_spiral_rad_per_m"),
    "log_bending_stiffness": Kind("statics", 2.0, "robot", "log_bending_stiffness_segment_1"),
    "log_tendon_stiffness": Kind("statics", 1.5, "robot", "log_tendon_over_bending_stiffness"),
    "log_compliance": Kind("statics", 2.0, "robot", "log_compliance_over_rod"),
    "log_straight_over": Kind("statics", 0.5, "robot", "log_straight_over_disk_distance"),
    "zero_m": Kind("statics", 0.002, "segment", "tendon_zero_{}_m"),
    "gravity_turn_rad": Kind("statics", 1.5, "xy", "gravity_turn_{}_rad"),
    "log_friction": Kind("friction", 2.0, "robot", "log_friction_fraction"),
    "log_tendon_stiffness_of_segment": Kind("tendons", 0.3, "segment", "log_tendon_stiffness_{}"),
    "zero_of_tendon_m": Kind("tendons", 0.0005, "tendon", "tendon_zero_{}_m"),
    "gain_of_tendon": Kind("tendons", 0.05, "tendon", "gain_{}"),
}
_OF_WEIGHT = ("gravity_turn_rad", "log_bending_stiffness")


def free(robot: Robot, steps: Sequence[str]) -> Parameters:
    """The parameters of steps, without those that only the robot's weight would identify where it has none.

    Parameters
    ----------
    robot : with segments
    steps : of :data:`STEPS`
    """
    kinds = {
        name: kind.of(robot)
        for name, kind in PARAMETERS.items()
        if kind.step in steps and (any(robot.gravity_m_per_s2) or name not in _OF_WEIGHT)
    }
    return fit.Parameters(kinds)


def vector_of(parameters: Parameters, values: Values) -> Array:
    """The vector (p,) of values; what they lack is at its start, 0."""
    x = np.zeros(len(parameters))
    for name, place in parameters.at.items():
        if name in values:
            x[place] = values[name]
    return x


def values_of(parameters: Parameters, x: Array) -> Values:
    """The values in a vector ``x`` (p,), in their units, as copies."""
    return {name: x[place].copy() for name, place in parameters.at.items()}
