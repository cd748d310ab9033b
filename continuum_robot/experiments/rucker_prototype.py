# SPDX-License-Identifier: Apache-2.0
"""The prototype of rucker's section V: its rod, tendon routings (Table I, (28)), tensions and tip loads (Table II).

It lies horizontally with tendon 1, at +x, on its top, so weight acts along -x. It is taken as leaving its base exactly
horizontally: the calibrated Euler angles of Table III belong to measurements that are not published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from continuum_robot.robot.description import Basis
from continuum_robot.robot.routing import HelicalRouting, PolynomialRouting, RoutedPath, Routing, StraightRouting
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench
from continuum_robot.rod.strain_rod import RodSegment, StrainRod

LENGTH_M = 0.242
RADIUS_M = 0.4e-3
PITCH_RADIUS_M = 0.008
POISSON_RATIO = 0.3125
WEIGHT_N_PER_M = 0.47
NOMINAL_MODULUS_PA = 210e9
CALIBRATED_MODULUS_PA = 229.6e9
"""Table III, of the coupled model; 227.9 GPa for the point-moment model."""
MEASURED_SAG_M = 0.044

_ROUTINGS: dict[int, tuple[float, Routing]] = {
    1: (0.0, StraightRouting()),
    2: (math.pi / 2, StraightRouting()),
    3: (math.pi, StraightRouting()),
    4: (-math.pi / 2, StraightRouting()),
    5: (0.0, HelicalRouting(turns=1.0)),
    6: (0.0, PolynomialRouting(angle_coefficients=(6.0, 320.0, -2849.0, 5887.0))),  # rucker (28)
}

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
        """Weight and tip load."""
        return (DistributedLoad(force_n_per_m=(-WEIGHT_N_PER_M, 0.0, 0.0)), *tip_force((-self.tip_load_n, 0.0, 0.0)))


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


def prototype(tendon: int, order: int, modulus_pa: float = CALIBRATED_MODULUS_PA) -> StrainRod:
    """The backbone with one of its tendons.

    Parameters
    ----------
    tendon : 1 to 6, Table I
    order : of bending, torsion, shear and extension, for the energy engine
    modulus_pa : Young's modulus, Pa

    Returns
    -------
    the rod; its weight is one of the loads of a case, as it is not the backbone's alone
    """
    area, second_moment = math.pi * RADIUS_M**2, math.pi / 4 * RADIUS_M**4
    shear_modulus_pa = modulus_pa / (2 * (1 + POISSON_RATIO))
    angle_rad, routing = _ROUTINGS[tendon]
    segment = RodSegment(
        length_m=LENGTH_M,
        basis=Basis(
            kind="chebyshev", bending_order=order, torsion_order=order, shear_order=order, extension_order=order
        ),
        stiffness=(
            modulus_pa * second_moment,
            modulus_pa * second_moment,
            2 * shear_modulus_pa * second_moment,  # G J; rucker prints E I_zz in K_bt
            shear_modulus_pa * area,
            shear_modulus_pa * area,
            modulus_pa * area,
        ),
    )
    path = RoutedPath(
        name=f"tendon {tendon}",
        start_m=0.0,
        end_m=LENGTH_M,
        pitch_radius_m=PITCH_RADIUS_M,
        angle_rad=angle_rad,
        routing=routing,
    )
    return StrainRod([segment], [path], name="rucker's prototype")


def tip_force(force_n: tuple[float, float, float]) -> tuple[Load, ...]:
    """A dead force on the tip as loads; none for zero."""
    return (PointWrench(s_m=LENGTH_M, force_n=force_n),) if any(force_n) else ()
