# SPDX-License-Identifier: Apache-2.0
"""What stops a robot: watches over commands, readings, time and heat, and the faults that follow."""
