# SPDX-License-Identifier: Apache-2.0
"""Continuum robot equilibrium modulation: Wang, Del Giudice, Simaan (wang), macro and micro motion of one segment."""
