# SPDX-License-Identifier: Apache-2.0
"""The general rod: strains of any basis, numerically, its statics and its motion."""
