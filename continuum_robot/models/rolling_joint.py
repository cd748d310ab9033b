# SPDX-License-Identifier: Apache-2.0
"""The model of a robot of rolling joints."""

from __future__ import annotations

from collections.abc import Sequence

from continuum_robot.estimation.shape import RollingShapeEstimator
from continuum_robot.mechanisms.rolling_joint.building import rolling_joint_of
from continuum_robot.mechanisms.rolling_joint.feedforward import RollingFeedforward
from continuum_robot.mechanisms.rolling_joint.unloaded_curve import RollingParts
from continuum_robot.models.mechanism_model import MechanismModel
from continuum_robot.models.robot_model import RigidPart, Summary
from continuum_robot.robot.description import Robot

_WIDTH_FRACTION = 0.12  # of a link across its plane, of the robot's length


class RollingJointModel(MechanismModel):
    """Rolling joints; attributes as of :class:`~continuum_robot.models.robot_model.RobotModel`.

    Parameters
    ----------
    robot : a rolling-joint robot
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot, RollingParts, RollingShapeEstimator, RollingFeedforward, plate_fraction=_WIDTH_FRACTION)

    def rigid_parts(self) -> Sequence[RigidPart]:
        """Every link as the box around its outline; the first is the base itself, the tip lies in the last."""
        parts, half_m = RollingParts(self.robot), rolling_joint_of(self.robot).link_width_m / 2
        boxes = []
        for frame, shape in zip(["base", *parts.frame_names], parts.link_shapes, strict=False):
            (x, z), (end_x, end_z) = shape.min(axis=0), shape.max(axis=0)
            boxes.append(RigidPart(frame, (float(x), -half_m, float(z)), (float(end_x), half_m, float(end_z))))
        return [*boxes, RigidPart(parts.frame_names[-1])]

    def summary(self) -> Summary:
        """Links, and how far their joints roll."""
        linkage = RollingParts(self.robot).linkage
        low, high = linkage.limits_m.T * 1e3
        lines = [
            f"Joint {number}: contacts from {left:.4g} to {right:.4g} mm"
            for number, (left, right) in enumerate(zip(low, high, strict=True), start=1)
        ]
        numbers = {
            "links": len(linkage.links),
            "contact_low_m": [float(value) for value in linkage.limits_m[:, 0]],
            "contact_high_m": [float(value) for value in linkage.limits_m[:, 1]],
        }
        return Summary(f"{len(linkage.links)} links that roll on each other", {}, lines, numbers)
