# SPDX-License-Identifier: Apache-2.0
"""Motors and elastic tendons of the chain over a step: the model of simulation/motors.py, at the end of the step."""

from __future__ import annotations

from typing import Any

import casadi as ca

from continuum_robot.robot.description import Robot
from continuum_robot.simulation.motors import MotorModel


def spool_step(robot: Robot, motor: MotorModel) -> ca.Function:
    """What spools and their tendons contribute to a step h, as rows of compliant_rows.py.

    Inputs are matrices with a column a tendon: spooled length (m), speed (m/s), current (A), desired current (A),
    displacement of the chain (m), load that capstans add (N), tension before (N); then offset (m), stiffness fraction,
    motor free, and anchors of the dry friction's elements (m); then h (s). The result has the rows: current, level and
    slope of the tendon, compliance of the spool (m/(N.s)), its speed without tension. The motor's friction is linear
    about the speed at the end of the step.

    Parameters
    ----------
    robot : with the tendons' stiffness and damping
    motor : of its tendons
    """
    count, h = robot.tendon_count, ca.SX.sym("h")
    state = ca.SX.sym("state", 7, count)
    given = ca.SX.sym("given", 3 + motor.anchor_count(count) // count, count)
    spooled, speed, current, desired, displacement, load, tension = ca.vertsplit(state)
    offset, fraction, free = ca.vertsplit(given[:3, :])
    anchors = ca.vec(given[3:, :].T)
    # The lag of the current is integrated exactly; what accelerates the rotor is its mean over the step.
    lag = h / motor.current_time_constant_s
    mean_current = desired + (current - desired) * (1 - ca.exp(-lag)) / lag
    current = desired + (current - desired) * ca.exp(-lag)

    def linear(about: Any, pull: Any) -> tuple[Any, Any]:
        """Speed at the end of the step with the friction's tangent at a speed, and how much the tangent slows it."""
        end_m = spooled + h * about
        value = motor.acceleration(spooled.T, about.T, mean_current.T, load.T + pull.T, anchors, end_m.T).T
        tangent = ca.horzcat(*(ca.gradient(value[k], about[k]) for k in range(count)))
        return (speed + h * (value - tangent * about)) / (1 - h * tangent), 1 - h * tangent

    # Three Newton steps to the end speed under the tension of before: dry friction turns within one step.
    about = ca.SX.sym("about", 1, count)
    step = ca.Function("speed", [about, state, given, h], [linear(about, tension)[0]])
    end = speed
    for _ in range(3):
        end = step(end, state, given, h)
    tangential = ca.Function("tangential", [about, state, given, h], list(linear(about, ca.SX.zeros(1, count))))
    loose, slower = tangential(end, state, given, h)
    loose = free * loose
    yielding = free * h / (motor.mass_kg * slower)
    # Tension at the end of the step, where the stretch is greater by h times its rate.
    pull = robot.simulation.tendon_stiffness_n_per_m, robot.simulation.tendon_damping_ns_per_m
    slope = fraction * (pull[0] * h + pull[1])
    level = fraction * pull[0] * (spooled - displacement - offset) + slope * loose
    outputs = ca.densify(ca.vertcat(current, level, slope, yielding, loose))
    return ca.Function("spool_step", [state, given, h], [outputs])
