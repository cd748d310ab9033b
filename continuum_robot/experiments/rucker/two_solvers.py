# SPDX-License-Identifier: Apache-2.0
"""One static problem solved twice: as rucker's boundary-value problem, and by the energy of a strain basis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.rod.cosserat.description import cosserat_rod
from continuum_robot.rod.cosserat.statics import CosseratSolution, solve
from continuum_robot.rod.description import RodDescription
from continuum_robot.rod.loads import Load
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.statics import Equilibrium

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Results of both; None where one did not converge."""

    rod: Rod
    cosserat: CosseratSolution | None
    energy: Equilibrium | None
    problems: tuple[str, ...]

    @property
    def converged(self) -> bool:
        """Whether both did."""
        return self.cosserat is not None and self.energy is not None

    @property
    def stable(self) -> bool:
        """Whether neither found, nor left open, that the shape would snap."""
        return (
            self.cosserat is not None and self.energy is not None and bool(self.cosserat.stable) and self.energy.stable
        )

    @property
    def cosserat_tip_m(self) -> Array:
        """Tip by the boundary-value problem, (3,), m; NaN where it did not converge."""
        return np.full(3, np.nan) if self.cosserat is None else self.cosserat.tip_m

    @property
    def energy_tip_m(self) -> Array:
        """Tip by the energy, (3,), m; NaN where it did not converge."""
        return self.energy_backbone_m([self.rod.length_m])[0]

    def energy_backbone_m(self, s_m: ArrayLike) -> Array:
        """Backbone by the energy at arc lengths (k,), shape (k, 3), m."""
        places = np.asarray(s_m, dtype=float)
        if self.energy is None:
            return np.full((len(places), 3), np.nan)
        return self.rod.poses(self.energy.c, places)[:, :3, 3]

    @property
    def difference_m(self) -> float:
        """Distance of the two tips, m; NaN where one is missing."""
        return float(np.linalg.norm(self.cosserat_tip_m - self.energy_tip_m))


def solve_both(rod: RodDescription, tension_n: ArrayLike, loads: Sequence[Load] = ()) -> Answers:
    """Static shape by both solvers."""
    problems, own = [], Rod(rod, loads=loads)
    cosserat = energy = None
    try:
        cosserat = solve(cosserat_rod(rod), tension_n, loads)
    except ConvergenceError as error:
        problems.append(f"boundary-value problem: {error}")
    try:
        energy = own.equilibrium(tension_n)
    except ConvergenceError as error:
        problems.append(f"energy: {error}")
    return Answers(own, cosserat, energy, tuple(problems))
