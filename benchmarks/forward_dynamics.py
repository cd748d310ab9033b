# SPDX-License-Identifier: Apache-2.0
"""Forward dynamics of one, two and three segments, compiled and in CasADi's virtual machine: prints JSON."""

import json
import sys

from continuum_robot.app.bench.rod_dynamics import measure_forward_dynamics

if __name__ == "__main__":
    json.dump(measure_forward_dynamics(progress=lambda line: print(line, file=sys.stderr)), sys.stdout, indent=2)
    print()
