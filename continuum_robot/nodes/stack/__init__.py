# SPDX-License-Identifier: Apache-2.0
"""Which nodes a stack has, with which options, and how they are made."""
