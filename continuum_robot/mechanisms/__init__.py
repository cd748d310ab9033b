# SPDX-License-Identifier: Apache-2.0
"""Tendon-driven mechanisms that are no rods: rolling-contact joints, equilibrium modulation."""
