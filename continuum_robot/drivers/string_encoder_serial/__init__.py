# SPDX-License-Identifier: Apache-2.0
"""The string-encoder board: frames, host time, readings."""
