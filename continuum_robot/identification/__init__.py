# SPDX-License-Identifier: Apache-2.0
"""From recorded data to a robot's description: strict reading, fits with their uncertainty, comparison with a tracker."""
