# SPDX-License-Identifier: Apache-2.0
"""The driver's cycle with the controller in it, interpreted and compiled."""
