# SPDX-License-Identifier: Apache-2.0
"""Fits of a robot's description to recorded data."""
