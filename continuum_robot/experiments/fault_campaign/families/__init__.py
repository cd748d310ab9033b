# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults by what breaks."""
