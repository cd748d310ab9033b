# SPDX-License-Identifier: Apache-2.0
"""What breaks on a robot, and whether it ends safe: ``make faults``, ``make soak``."""
