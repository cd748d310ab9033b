# SPDX-License-Identifier: Apache-2.0
"""Hours of random faults and resets against a stack in processes: is anything unsafe, lost for good, or growing?"""
