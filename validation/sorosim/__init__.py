# SPDX-License-Identifier: Apache-2.0
"""Shapes and motions that another solver computed."""
