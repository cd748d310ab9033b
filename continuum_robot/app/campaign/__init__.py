# SPDX-License-Identifier: Apache-2.0
"""The fault campaign: faults of devices and processes, and what the stack did about them."""
