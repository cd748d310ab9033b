# SPDX-License-Identifier: Apache-2.0
"""Drives that are known: cogging of the motors, and the dynamics of a robot from chirps."""
