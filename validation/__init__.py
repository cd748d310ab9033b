# SPDX-License-Identifier: Apache-2.0
"""Validations beyond the five papers: what no paper gives numbers for, measured in simulation.

Not part of the package. In a checkout ``continuum-robot experiment`` finds and runs them as it does the papers'
experiments.
"""
