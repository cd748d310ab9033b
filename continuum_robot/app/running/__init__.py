# SPDX-License-Identifier: Apache-2.0
"""Stacks that are brought up: `demo`, `up`, the processes and their DDS domain."""
