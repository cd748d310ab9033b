# SPDX-License-Identifier: Apache-2.0
"""What every node is made of: lifecycle, parameters, diagnostics, executor, calls."""
