# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: what a driver or a node finds in the place of a real one."""
