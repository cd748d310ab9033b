# SPDX-License-Identifier: Apache-2.0
"""The Cosserat rod with tendons as rucker wrote it, (16) to (20): a two-point boundary-value problem.

An independent check of the strain-basis energy engine: nothing of its kinematics or energies is used here. See
:func:`continuum_robot.rod.cosserat.statics.solve`.
"""
