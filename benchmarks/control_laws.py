# SPDX-License-Identifier: Apache-2.0
"""Prints how long an answer of each control law takes, interpreted and compiled: python benchmarks/control_laws.py.

A robot that follows a circle, its states as they would be without error; with friction that acts at once, and with
friction and a backbone that remember their way. Called from Python, so a compiled answer has that call in it.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from continuum_robot.control.inverse_dynamics import under_inverse_dynamics
from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.segments.backbone import Hysteresis
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.runtime.cycle.foreign_controller import controller_of
from continuum_robot.runtime.cycle.forms import Form, compiled_form, interpreted_form

ANSWERS, PERIOD_S = 5000, 1e-3


def remembering(robot: Robot) -> Robot:
    """The robot with friction that builds up over 0.2 mm, and a backbone that lags."""
    lag = Hysteresis(moment_nm=2e-3, curvature_per_m=1.0)
    segments = tuple(dataclasses.replace(one, hysteresis=lag) for one in robot.segments)
    return robot.changed(segments=segments, actuators=dataclasses.replace(robot.actuators, friction_travel_m=2e-4))


def measure(robot: Robot, form: Form) -> tuple[float, float]:
    """Median and 99th percentile of the time of an answer, us."""
    parts: Any = form.parts
    controller = controller_of(robot, parts, robot_model(robot).feedforward)
    reference = parts.ReferenceInput(robot.coordinate_count, 0.0)
    cycle = parts.ControllerCycle(controller, reference, 0.02, PERIOD_S)
    buffer = parts.ReadingBuffer(robot.tendon_count)
    manifold, size, count = controlled_manifold(robot), robot.coordinate_count, robot.tendon_count
    nothing, tension, taken_us = np.zeros(count), np.full(count, 3.0), []
    for k in range(ANSWERS):
        time_s = 10.0 + k * PERIOD_S
        turn = 2 * np.pi * time_s + np.arange(size)
        place, rate = 5e-3 * np.sin(turn), 0.0314 * np.cos(turn)
        reference.receive(ClarkeReference(place, rate, -0.197 * np.sin(turn)), time_s)
        displacement, velocity = manifold.displacement(place), manifold.displacement(rate)
        buffer.set(TendonReading(time_s, displacement, velocity, tension, nothing, nothing, nothing, ()))
        begun_ns = time.perf_counter_ns()
        cycle.answer_state(buffer, tension, True, time_s, k)
        taken_us.append((time.perf_counter_ns() - begun_ns) / 1e3)
    if cycle.answered != ANSWERS:
        raise SystemExit(f"{ANSWERS - cycle.answered} states of {robot.name} got no answer")
    return float(np.median(taken_us)), float(np.percentile(taken_us, 99))


def main() -> None:
    """Print the table."""
    forms = (interpreted_form("asked for"), compiled_form(lambda line: print(line, flush=True)))
    print(f"{'robot':20} {'friction':12} {'law':18} {'interpreted us':>16} {'compiled us':>16}   (median / p99)")
    for name in ("opencr_five_tendon", "two_segment"):
        plain = load_robot(name)
        for friction, robot in (("at once", plain), ("with a past", remembering(plain))):
            control = dataclasses.replace(robot.control, feedforward_friction=1.0)
            laws = {
                "pid": robot,
                "pid with friction": robot.changed(control=control),
                "inverse_dynamics": under_inverse_dynamics(robot),
            }
            for law, own in laws.items():
                times = " ".join("{:8.1f} /{:6.1f}".format(*measure(own, form)) for form in forms)
                print(f"{name:20} {friction:12} {law:18} {times}", flush=True)


if __name__ == "__main__":
    main()
