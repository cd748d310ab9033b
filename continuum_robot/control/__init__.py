# SPDX-License-Identifier: Apache-2.0
"""Control on the Clarke manifold: PID, tendon forces, limits, references."""
