# SPDX-License-Identifier: Apache-2.0
"""Devices: a protocol for each kind, and the safety logic of the tendon driver."""
