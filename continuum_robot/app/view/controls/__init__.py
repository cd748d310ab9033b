# SPDX-License-Identifier: Apache-2.0
"""The controls of the page, a file for each subject."""
