# SPDX-License-Identifier: Apache-2.0
"""Detection, size and location of contacts from momentum or tip forces."""
