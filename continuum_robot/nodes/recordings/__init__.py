# SPDX-License-Identifier: Apache-2.0
"""Recordings: MCAP files, what goes into them, records of procedures."""
