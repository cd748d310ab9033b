# SPDX-License-Identifier: Apache-2.0
"""Rods: strain bases, kinematics, tendons, Lagrangian dynamics, statics, code generation."""
