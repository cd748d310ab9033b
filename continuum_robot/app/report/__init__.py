# SPDX-License-Identifier: Apache-2.0
"""The report of a run: numbers and plots from its recording."""
