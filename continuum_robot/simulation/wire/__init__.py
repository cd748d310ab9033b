# SPDX-License-Identifier: Apache-2.0
"""Simulated devices that speak the bytes of the real ones, so that the shipped drivers run against them."""
