# SPDX-License-Identifier: Apache-2.0
"""Prints how long a robot's model takes to make without a cache, and again: python benchmarks/first_start.py.

What `continuum-robot up` makes before its first node starts, plant and contact monitor, in a process of its own with an
empty cache of compiled code, then in another with what the first left there. The compiled control cycle is not part of
it: `make` compiles that. Without arguments every shipped robot that has actuators.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from continuum_robot.models.making import robot_model
from continuum_robot.robot.loading import load_robot, shipped_robots

_CACHE = "CONTINUUM_ROBOT_CACHE"


def made_s(name: str, cache: str) -> float:
    """Time in which a process of its own makes the model of a robot, s."""
    command = [sys.executable, __file__, "--here", name]
    done = subprocess.run(command, env={**os.environ, _CACHE: cache}, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", help="shipped robots or files; without, all shipped ones with actuators")
    parser.add_argument("--here", action="store_true", help="make one model in this process and print the time")
    arguments = parser.parse_args()
    if arguments.here:
        begun_s = time.perf_counter()
        robot_model(load_robot(arguments.robots[0])).prepare(np.random.default_rng(0), lambda _line: None)
        print(f"{time.perf_counter() - begun_s:.2f}")
        return
    names = arguments.robots or [name for name in shipped_robots() if load_robot(name).actuators is not None]
    print(f"{'robot':24s}{'first start':>14s}{'again':>10s}   s, on {len(os.sched_getaffinity(0))} cores")
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            first_s, again_s = made_s(name, cache), made_s(name, cache)
        print(f"{name:24s}{first_s:14.2f}{again_s:10.2f}", flush=True)


if __name__ == "__main__":
    main()
