# SPDX-License-Identifier: Apache-2.0
"""What the rod's kernel does: many robots in one call."""
