# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: plant, motors, sensor channels, faults, and devices that stand behind the driver protocols."""
