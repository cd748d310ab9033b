# SPDX-License-Identifier: Apache-2.0
"""Contacts beyond the papers: what they are taken for, and what is done about them."""
