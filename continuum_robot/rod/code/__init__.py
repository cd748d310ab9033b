# SPDX-License-Identifier: Apache-2.0
"""Machine code from symbolic functions: written, compiled, kept."""
