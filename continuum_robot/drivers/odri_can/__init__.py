# SPDX-License-Identifier: Apache-2.0
"""Motor boards with the ODRI dual-motor CAN firmware: frames, transport, one board's state, a robot's actuators."""
