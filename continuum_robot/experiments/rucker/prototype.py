# SPDX-License-Identifier: Apache-2.0
"""The prototype of rucker's section V, robot ``rucker``: tensions and tip loads of Table II.

It lies horizontally with tendon 1, at +x, on its top, so weight acts along -x. It is taken as leaving its base exactly
horizontally: the calibrated Euler angles of Table III belong to measurements that are not published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.inertia import Parts
from continuum_robot.rod.loads import Load, PointWrench

NOMINAL_MODULUS_PA = 210e9
"""Table III; the robot has the modulus that was calibrated for the coupled model. 227.9 GPa for the other model."""
MEASURED_SAG_M = 0.044

_STRAIGHT = ((0.98, 0.0), (1.96, 0.0), (2.94, 0.0), (2.94, 0.098), (2.94, 0.196), (4.91, 0.0))
_HELICAL = ((0.98, 0.0), (1.96, 0.0), (2.94, 0.0), (4.91, 0.0), (4.91, 0.098), (4.91, 0.196), (6.87, 0.0))
_POLYNOMIAL = ((1.50, 0.0), (2.46, 0.0), (3.66, 0.0), (4.91, 0.0), (4.91, 0.0196))


@dataclass(frozen=True)
class Case:
    """One experiment: which tendon is tensioned, and what hangs from the tip."""

    tendon: int
    tension_n: float
    tip_load_n: float = 0.0

    @property
    def name(self) -> str:
        """E.g. ``tendon_5_4.91_n_tip_0.196_n``."""
        return f"tendon_{self.tendon}_{self.tension_n:g}_n_tip_{self.tip_load_n:g}_n"

    @property
    def loads(self) -> tuple[Load, ...]:
        """The tip load; weight is the rod's own."""
        return tip_force((-self.tip_load_n, 0.0, 0.0))


TABLE_II = (
    Case(1, 0.0),
    *(Case(tendon, *row) for tendon in (1, 2, 3, 4) for row in _STRAIGHT),
    *(Case(5, *row) for row in _HELICAL),
    *(Case(6, *row) for row in _POLYNOMIAL),
)
"""The 37 cases: 25 straight, that without tension counted once, 7 helical, 5 polynomial."""

PROBABLE_MISPRINT = Case(6, 4.91, 0.196)
"""The last polynomial case with the load that hangs in all the others; Table II prints 0.0196."""

HIGH_TENSION = Case(4, 6.38, 0.196)
"""Section V-E, fig. 11."""


@lru_cache(maxsize=1)
def prototype_robot() -> Robot:
    """The robot as its file describes it."""
    return load_robot("rucker")


def prototype(tendon: int, order: int, modulus_pa: float | None = None, *, weighs: bool = True) -> RodDescription:
    """The backbone with one of its tendons."""
    robot = prototype_robot()
    rod = RodDescription.of_robot(robot, Parts(rotational_energy=True, tendon_inertia=False))
    (segment,), fraction = rod.segments, 1.0
    if modulus_pa is not None:
        fraction = modulus_pa / robot.segments[0].backbone.youngs_modulus_pa
    basis = Basis(kind="chebyshev", bending_order=order, torsion_order=order, shear_order=order, extension_order=order)
    segment = replace(segment, basis=basis, stiffness=tuple(fraction * value for value in segment.stiffness))
    gravity = robot.gravity_m_per_s2 if weighs else (0.0, 0.0, 0.0)
    return RodDescription(
        segments=(segment,),
        tendon_paths=(rod.tendon_paths[tendon - 1],),
        gravity_m_per_s2=gravity,
        name=robot.name,
    )


def tip_force(force_n: tuple[float, float, float]) -> tuple[Load, ...]:
    """A dead force on the tip as loads; none for zero."""
    return (PointWrench(s_m=prototype_robot().length_m, force_n=force_n),) if any(force_n) else ()
