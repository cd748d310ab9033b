# SPDX-License-Identifier: Apache-2.0
"""The driver's and the controller's cycle, the threads and clocks that run them, and their timing. No ROS in here."""
