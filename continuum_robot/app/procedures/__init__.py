# SPDX-License-Identifier: Apache-2.0
"""Procedures on a robot: homing, calibration, identification, weighing."""
