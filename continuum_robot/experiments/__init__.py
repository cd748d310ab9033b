# SPDX-License-Identifier: Apache-2.0
"""The experiments of the papers, one file a paper: numbers, and the figures drawn from them."""
