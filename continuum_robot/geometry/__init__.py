# SPDX-License-Identifier: Apache-2.0
"""SO(3), SE(3), the Clarke transform and constant-curvature arcs, in numpy alone."""
