# SPDX-License-Identifier: Apache-2.0
"""Launch files: their arguments, and the plan of programs that they start."""
