# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a rolling joint, each an error of its own."""

from __future__ import annotations

from continuum_robot.errors import ContinuumRobotError, ParameterError


class SurfaceError(ParameterError):
    """A contact surface that cannot be used; ``name`` is its name."""


class IntersectingSurfacesError(SurfaceError):
    """Two surfaces that would cut into each other, or lie flat on each other, where they touch."""


class OffSurfaceError(ParameterError):
    """An arc length that is not on the surface."""


class NoEquilibriumError(ContinuumRobotError, ArithmeticError):
    """No equilibrium was found within the surfaces: the links roll to the end of one."""

    def __init__(self, joint: int, arc_length_m: float, starts: int) -> None:
        self.joint, self.arc_length_m, self.starts = joint, arc_length_m, starts
        super().__init__(
            f"no equilibrium found within the surfaces (starts tried: {starts}): joint {joint} rolls to the end of its"
            f" surface, s = {arc_length_m * 1e3:.4g} mm. Lower the load, raise the tensions, or make the surface longer"
        )
