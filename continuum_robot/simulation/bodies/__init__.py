# SPDX-License-Identifier: Apache-2.0
"""The simulated rod with tendons and motors, in implicit steps."""
