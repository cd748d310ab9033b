# SPDX-License-Identifier: Apache-2.0
"""The model of a robot that is a segment with equilibrium modulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from continuum_robot.estimation.shape import ModulationShapeEstimator
from continuum_robot.mechanisms.equilibrium_modulation.drawing import ModulationParts
from continuum_robot.mechanisms.equilibrium_modulation.kinematics import ModulationForce, jacobians
from continuum_robot.mechanisms.equilibrium_modulation.segment import (
    STRAIGHT_RAD,
    make_moment_error,
    make_segment,
    modulation_of,
)
from continuum_robot.mechanisms.equilibrium_modulation.turning_point import turning_point
from continuum_robot.models.mechanism_model import MechanismModel
from continuum_robot.models.robot_model import RigidPart, Summary, plate_and_tip
from continuum_robot.robot.description import Robot

_RIM = 1.2  # of the pitch radius, where the size of the disks is unknown
_PLATE_FRACTION = 0.012  # thickness of the disks as they are drawn, of the robot's length
_SHOWN_BEND_RAD = math.pi / 4  # a bend at which the micro motion is given
_SHOWN_DEPTHS = 200


class ModulationModel(MechanismModel):
    """Equilibrium modulation; attributes as of :class:`~continuum_robot.models.robot_model.RobotModel`.

    Parameters
    ----------
    robot : with equilibrium modulation
    """

    def __init__(self, robot: Robot) -> None:
        made = (ModulationParts, ModulationShapeEstimator, ModulationForce)
        super().__init__(robot, *made, plate_fraction=_PLATE_FRACTION)

    def rigid_parts(self) -> Sequence[RigidPart]:
        """A plate that it stands on, and the disk at its tip."""
        radius_m = _RIM * modulation_of(self.robot).pitch_radius_m
        return plate_and_tip(radius_m, radius_m / 4)

    def summary(self) -> Summary:
        """Stiffness, and the micro motion of the bent segment."""
        mechanism = modulation_of(self.robot)
        segment, error = make_segment(mechanism), make_moment_error(mechanism)
        theta = STRAIGHT_RAD - _SHOWN_BEND_RAD
        turn = turning_point(segment, theta, error, stroke_m=mechanism.stroke_m)
        depths_m = np.linspace(0.0, mechanism.stroke_m, _SHOWN_DEPTHS)
        tips = jacobians(segment, theta, 0.0, depths_m, error).pose[:, :3, 3]
        way_um = 1e6 * float(np.linalg.norm(np.diff(tips, axis=0), axis=1).sum())
        where = "does not turn back" if turn is None else f"turns back at {1e3 * turn:.3g} mm"
        lines = [
            f"Bending stiffness {segment.bending_stiffness_nm2:.4g} N.m^2, to which insertion adds "
            f"{segment.modulation_stiffness_nm2 / segment.bending_stiffness_nm2:.2%}",
            f"Bent by {math.degrees(_SHOWN_BEND_RAD):.3g} degrees, {1e3 * mechanism.stroke_m:.4g} mm of insertion move "
            f"the tip over {way_um:.3g} um; it {where}",
        ]
        numbers = {
            "backbones": segment.count,
            "bending_stiffness_nm2": segment.bending_stiffness_nm2,
            "modulation_stiffness_nm2": segment.modulation_stiffness_nm2,
            "stroke_m": mechanism.stroke_m,
            "micro_motion_um": way_um,
            "turning_point_m": math.nan if turn is None else turn,
        }
        parts = f"{segment.count} backbones around a central one, and equilibrium modulation"
        return Summary(parts, {}, lines, numbers)
