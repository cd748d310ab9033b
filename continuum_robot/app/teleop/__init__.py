# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot teleop``: a person steers a running robot with keys, a gamepad or a Joy topic."""
