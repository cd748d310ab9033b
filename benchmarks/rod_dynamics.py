# SPDX-License-Identifier: Apache-2.0
"""Calls of the rod's kernel for one, two and three segments: prints JSON."""

import json
import sys

from continuum_robot.app.bench.rod_dynamics import measure_dynamics

if __name__ == "__main__":
    json.dump(measure_dynamics(), sys.stdout, indent=2)
    print()
