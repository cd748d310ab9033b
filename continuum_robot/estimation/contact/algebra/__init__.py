# SPDX-License-Identifier: Apache-2.0
"""Algebra of the contact monitor: filter, error budgets, likelihood of contact locations.

On matrices of 6 to 36 rows NumPy spends its time on calls, not on numbers, so filter and budgets have a compiled form
in the rod's kernel, rod/kernel/observers.hpp; where its library was not built, their NumPy form serves.
"""
