# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation that are made from the code: ``make pages`` writes them all."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "test"))  # the package faults, whose table is shown
