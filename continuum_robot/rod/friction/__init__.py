# SPDX-License-Identifier: Apache-2.0
"""Friction and inertia of what drives a rod's tendons."""
