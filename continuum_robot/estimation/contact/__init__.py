# SPDX-License-Identifier: Apache-2.0
"""Detection, size and place of contacts from momentum or tip forces."""
