# SPDX-License-Identifier: Apache-2.0
"""A robot's tip brought to a target in virtual time, by its policy or by inverse kinematics with feedback."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.control import TipControl
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.policy_controller import HEARD, PolicyController
from continuum_robot.simulation.truth import true_robot
from continuum_robot.testing.virtual_stack import SENSE_EVERY, SlowReference, VirtualStack

Array = NDArray[np.float64]


def tip_trial(robot: Robot, target: ArrayLike, truth: str = "", duration_s: float = 5.0) -> Array:
    """Distance of the true tip from a target after each cycle, shape (cycles,), m.

    The stack is that of the robot: driver, limits, controller, shape estimator. It starts straight. With
    ``control.policy`` the policy has the target; else :class:`TipControl` leads the controller, as the reference source
    does, with the tip that the estimator sees.

    Parameters
    ----------
    robot : a rod, as its controller and estimator believe it
    target : base frame, shape (3,), m
    truth : file of the simulated robot, or name of a shipped truth; empty: that of the robot's file, or the robot
    duration_s : s

    Raises
    ------
    ContinuumRobotError : a fault latched, or the policy failed
    """
    distances, place, estimator = [], np.array(target, float), robot_model(robot).shape_estimator(WatchSettings())
    with VirtualStack(true_robot(robot, truth), believed=robot, estimator=estimator) as one:
        policy = one.controller if isinstance(one.controller, PolicyController) else None
        resting = ClarkeReference.at_rest(np.zeros(robot.coordinate_count))
        period_s = SENSE_EVERY * one.period_s
        way = SlowReference(lambda _time_s: resting, duration_s, resting)
        if policy is None:
            control = TipControl(robot)
            control.set_target(place)

            def led(_time_s: float) -> ClarkeReference:
                tip = None if one.shape is None else one.shape.tip[:3, 3]
                return control.update(tip, one.state.clarke_m, period_s).reference

            way = SlowReference(led, period_s, resting)

        def look(stack: VirtualStack) -> None:
            assert stack.plant is not None
            distances.append(float(np.linalg.norm(stack.plant.pose(robot.length_m)[:3, 3] - place)))
            if policy is not None and stack.shape is not None:
                for name, values in zip(HEARD, (place, stack.shape.tip[:3, 3]), strict=True):
                    policy.hear(name, values, stack.now_s)

        one.activate()
        one.follow(way.at, duration_s, look)
        if policy is not None and policy.failure:
            raise ContinuumRobotError(policy.problem)
    return np.array(distances)
