# SPDX-License-Identifier: Apache-2.0
"""The flow of messages, timers and loops of the nodes: in real time, and on one bus in lock-step."""
