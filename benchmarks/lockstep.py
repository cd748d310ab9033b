# SPDX-License-Identifier: Apache-2.0
"""How fast lock-step and the virtual stack are: python benchmarks/lockstep.py --robot opencr_five_tendon --duration 10.

Simulated seconds to seconds of processor, of all threads of this process, so that other work on the machine changes
little: the nodes of a stack at level dynamics with contact monitor, then ``continuum_robot.testing.VirtualStack``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.loading import load_robot
from continuum_robot.testing import SteadyReference, VirtualStack


def nodes_ratio(robot: str, duration_s: float) -> float:
    """Of all nodes in lock-step, while the reference moves."""
    options = StackOptions(
        robot=robot,
        clock="lockstep",
        simulation_level="dynamics",
        run_s=duration_s,
        contact=True,
        start_motion=True,
        visualize=False,
    )
    with claimed_domain(""), ComposedStack(options) as stack:
        stack.wait_until_up()
        clock, begin_s = stack.driver.clock, time.process_time()
        begin_ns = clock.monotonic_ns()
        wait_for(lambda: stack.time_is_over, 60.0 * duration_s)
        return (clock.monotonic_ns() - begin_ns) * 1e-9 / (time.process_time() - begin_s)


def virtual_ratio(robot: str, duration_s: float) -> float:
    """Of driver and controller alone."""
    loaded = load_robot(robot)
    count = loaded.coordinate_count
    with VirtualStack(loaded) as stack:
        stack.activate()
        begin_s = time.process_time()
        stack.follow(SteadyReference(np.full(count, 0.002), np.zeros(count)), duration_s)
        return duration_s / (time.process_time() - begin_s)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="opencr_five_tendon")
    parser.add_argument("--duration", type=float, default=10.0, help="simulated time of each, s")
    given = parser.parse_args()
    for name, measure in (("nodes in lock-step", nodes_ratio), ("virtual stack", virtual_ratio)):
        print(f"{name}: {measure(given.robot, given.duration):.1f} times real time a processor")


if __name__ == "__main__":
    main()
