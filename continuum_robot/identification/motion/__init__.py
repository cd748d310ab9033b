# SPDX-License-Identifier: Apache-2.0
"""Masses, stiffness, damping and friction of a robot with a motor on every tendon, from how it moved in chirps."""
