# SPDX-License-Identifier: Apache-2.0
"""Environments for learning, beyond the papers."""
