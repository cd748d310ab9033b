# SPDX-License-Identifier: Apache-2.0
"""Bota Rokubi force-torque sensors: frames, set-up, readings."""
