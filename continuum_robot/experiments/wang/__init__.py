# SPDX-License-Identifier: Apache-2.0
"""wang: equilibrium modulation."""
