# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot sweep``: many runs in virtual time, each with other values of keys, in one table."""
