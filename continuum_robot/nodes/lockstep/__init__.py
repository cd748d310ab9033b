# SPDX-License-Identifier: Apache-2.0
"""Turns of the nodes in lock-step, and the flow of messages in it and in real time."""
