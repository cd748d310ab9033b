# SPDX-License-Identifier: Apache-2.0
"""A second plant, made of MuJoCo: the robot as a chain of rigid links, in a world with obstacles."""
