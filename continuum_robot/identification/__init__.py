# SPDX-License-Identifier: Apache-2.0
"""From recorded data to the robot description: strict reading, fits with uncertainty, replay against a tracker."""
