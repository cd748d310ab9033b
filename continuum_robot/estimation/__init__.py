# SPDX-License-Identifier: Apache-2.0
"""Estimation: differentiation filters and the shape of the backbone."""
