# SPDX-License-Identifier: Apache-2.0
"""Speed of the models and codecs on this machine, as JSON: python benchmarks/models.py [PART ...].

Parts: kernel (calls of the rod's kernel for one, two and three segments, and the same in NumPy), statics, motion,
joints (rolling joints from a pose near by), monitor (updates of the contact monitor), codecs (a frame); all by default.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from codecs_of_drivers import measure_codecs
from contact_monitor import measure_contact_monitor
from kernel_calls import measure_dynamics
from rod_motion import measure_motion
from rod_statics import measure_statics

from continuum_robot.experiments.ha.robustness import time_solutions


def measure_joints() -> dict[str, float]:
    """Time of a solution of five rolling joints."""
    median_s, least_s = time_solutions((5,), 1000)[5]
    return {"rolling_joint_5_links_median_us": 1e6 * median_s, "rolling_joint_5_links_least_us": 1e6 * least_s}


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "kernel": measure_dynamics,
    "statics": measure_statics,
    "motion": measure_motion,
    "joints": measure_joints,
    "monitor": measure_contact_monitor,
    "codecs": measure_codecs,
}


def main() -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parts = parser.parse_args().parts
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    numbers: dict[str, float] = {}
    for name in parts or PARTS:
        print(f"{name} ...", file=sys.stderr)
        numbers |= PARTS[name]()
    json.dump(numbers, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
