# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation that are made from the code: ``make pages`` writes them all."""
