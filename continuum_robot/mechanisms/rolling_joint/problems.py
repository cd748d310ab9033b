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
    """The links roll beyond the end of a surface: no equilibrium within the surfaces.

    Attributes
    ----------
    joint : the joint that rolls off, counted from 1 at the base
    arc_length_m : the end of the surface that it reaches, m
    proved : whether every pose within the surfaces was excluded; False: none was found
    """

    def __init__(self, joint: int, arc_length_m: float, *, proved: bool) -> None:
        self.joint, self.arc_length_m, self.proved = joint, arc_length_m, proved
        certainty = "no equilibrium within the surfaces" if proved else "no equilibrium found within the surfaces"
        super().__init__(
            f"{certainty}: joint {joint} rolls to the end of its surface, s = {arc_length_m * 1e3:.4g} mm."
            " Lower the load, raise the tensions, or make the surface longer"
        )
