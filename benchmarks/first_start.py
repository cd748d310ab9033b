# SPDX-License-Identifier: Apache-2.0
"""Prints how long a robot's model takes to make: python benchmarks/first_start.py.

What the nodes of `continuum-robot up` make of a robot's file, one after the other in a process of its own: plant, shape
estimator, feed-forward and, for a rod, contact monitor. Nothing of it is compiled or kept, so a first start is as any
other; imports are not counted, and the control cycle, which `make` compiles, is no part of it. Without arguments every
shipped robot that has actuators.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.models.making import robot_model
from continuum_robot.models.rod import RodRobotModel
from continuum_robot.robot.loading import load_robot, shipped_robots
from continuum_robot.simulation.bodies.mechanisms import mechanism_body
from continuum_robot.simulation.plant import Plant


def made_s(name: str) -> dict[str, float]:
    """Time that each part of a robot takes to make, s."""
    times_s, begun_s = {}, time.perf_counter()

    def made(part: str) -> None:
        nonlocal begun_s
        now_s = time.perf_counter()
        times_s[part], begun_s = now_s - begun_s, now_s

    robot = load_robot(name)
    model = robot_model(robot)
    made("file")
    if mechanism_body(robot) is None:
        Plant(robot, rng=np.random.default_rng(0))
    made("plant")
    model.shape_estimator(WatchSettings())
    made("shape")
    model.feedforward()
    made("feed-forward")
    if isinstance(model, RodRobotModel):
        ContactMonitor(robot, motors=True)
        made("contacts")
    return times_s


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", help="shipped robots or files; without, all shipped ones with actuators")
    parser.add_argument("--here", action="store_true", help="make one model in this process")
    arguments = parser.parse_args()
    if arguments.here:
        (name,) = arguments.robots
        times_s = made_s(name)
        parts = ", ".join(f"{part} {time_s:.2f}" for part, time_s in times_s.items())
        print(f"{name:24s}{sum(times_s.values()):7.2f} s: {parts}")
        return
    print(f"on {len(os.sched_getaffinity(0))} cores", flush=True)
    for name in arguments.robots or [name for name in shipped_robots() if load_robot(name).actuators is not None]:
        subprocess.run([sys.executable, __file__, "--here", name], check=True)


if __name__ == "__main__":
    main()
