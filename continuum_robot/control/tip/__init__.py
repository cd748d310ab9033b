# SPDX-License-Identifier: Apache-2.0
"""The tip to a target, along a path, and in micrometres."""
