# SPDX-License-Identifier: Apache-2.0
"""Recordings: read, repaired, and played into the nodes again."""
