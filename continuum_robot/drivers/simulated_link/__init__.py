# SPDX-License-Identifier: Apache-2.0
"""Tendon actuators of a simulated robot without motor boards: datagrams on a socket in place of a bus."""
