# SPDX-License-Identifier: Apache-2.0
"""How long the statics of the general rod take."""

from __future__ import annotations

import statistics
import time

import numpy as np

from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.routing import HelicalRouting, RoutedPath
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import PointWrench
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Balance, equilibrium

_LENGTH_M = 0.242


def prototype() -> RodDescription:
    """Rucker's prototype (section V) with bending and torsion of order 3: tendons 1 to 5 of table I, its weight."""
    modulus_pa, poisson_ratio, radius_m = 229.6e9, 0.3125, 0.4e-3
    shear_pa = modulus_pa / (2 * (1 + poisson_ratio))
    area_m2, second_moment_m4 = np.pi * radius_m**2, np.pi / 4 * radius_m**4
    bending, shear = modulus_pa * second_moment_m4, shear_pa * area_m2
    segment = RodSegment(
        length_m=_LENGTH_M,
        basis=Basis(kind="chebyshev", bending_order=3, torsion_order=3),
        stiffness=(bending, bending, 2 * shear_pa * second_moment_m4, shear, shear, modulus_pa * area_m2),
        linear_density_kg_per_m=0.47 / 9.81,
    )
    tendons = [
        RoutedPath(name=f"straight_{k + 1}", start_m=0, end_m=_LENGTH_M, pitch_radius_m=0.008, angle_rad=k * np.pi / 2)
        for k in range(4)
    ]
    helix = RoutedPath(
        name="helical", start_m=0, end_m=_LENGTH_M, pitch_radius_m=0.008, routing=HelicalRouting(turns=1.0)
    )
    return RodDescription(
        segments=(segment,), tendon_paths=(*tendons, helix), gravity_m_per_s2=(-9.81, 0.0, 0.0), name="prototype"
    )


def measure_statics(repeats: int = 300) -> dict[str, float]:
    """Time of a static solution of one segment with bending and torsion of order 3, Python's part included.

    Parameters
    ----------
    repeats : solutions of each kind

    Returns
    -------
    flat: ``static_solve_warm_ms`` from the last solution while the tensions change by up to 10 %,
    ``static_solve_cold_ms`` of rucker's case of high tension from the rod at rest,
    ``static_solve_cold_with_continuation_ms`` with the load put on in steps, medians
    """
    rod = Rod(prototype(), loads=[PointWrench(s_m=_LENGTH_M, force_n=(-0.196, 0.0, 0.0))])
    balance = Balance(rod)
    tension = np.array([0.0, 0.0, 0.0, 2.0, 1.0])
    high = np.array([0.0, 0.0, 0.0, 6.38, 0.0])
    c = equilibrium(rod, tension, balance=balance).c
    times: dict[str, list[float]] = {"warm": [], "cold": [], "cold_with_continuation": []}
    for k in range(repeats):
        start = time.perf_counter()
        c = equilibrium(rod, tension * (1 + 0.1 * np.sin(0.1 * k)), c, balance=balance).c
        times["warm"].append(time.perf_counter() - start)
        for key, continuation in (("cold", "auto"), ("cold_with_continuation", "always")):
            start = time.perf_counter()
            equilibrium(rod, high, continuation=continuation, balance=balance)
            times[key].append(time.perf_counter() - start)
    return {f"static_solve_{key}_ms": 1e3 * statistics.median(values) for key, values in times.items()}
