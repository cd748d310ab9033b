# SPDX-License-Identifier: Apache-2.0
"""The coordinates that the tendons of a rod control: Clarke coordinates, or the modes of its tendons' compliance.

Derived here: what stands for muhmann (13) where tendons are not parallel, and its shape of least elastic energy.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.geometry.tendon_modes import TendonModes
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot
from continuum_robot.rod.rod import Rod

Vector = NDArray[np.float64]
EXTENSION = 5
"""Row of the strain."""


def limiting_manifold(robot: Robot) -> ClarkeManifold:
    """The manifold on which a robot's tensions are limited: the controlled one, else every tendon by itself."""
    try:
        return controlled_manifold(robot)
    except ParameterError:
        return UnrelatedTendons(robot.tendon_count)


@lru_cache(maxsize=16)
def controlled_manifold(robot: Robot) -> ClarkeManifold:
    """Maps between all tendons and the coordinates that a controller has, two a segment.

    Those of a robot with parallel tendons follow from geometry alone. Others are those displacements to which the rod
    is most compliant, see :class:`~continuum_robot.geometry.tendon_modes.TendonModes`.

    Parameters
    ----------
    robot : with tendons on any path, or a mechanism

    Raises
    ------
    ParameterError : tendons that cannot force the rod both ways in two directions a segment; names those it can
    """
    if not robot.traits.without_clarke:
        return clarke_manifold(robot)
    rod = Rod(robot)
    straight = np.zeros(rod.n)
    gradient = rod.displacement_gradient(straight)
    compliant = np.linalg.solve(rod.arrays.stiffness, gradient.T)
    tip = rod.moved(straight)[1][:2]
    try:
        return TendonModes(gradient @ compliant, tip @ compliant, robot.coordinate_count)
    except ParameterError as error:
        raise ParameterError(f"tendons of {robot.name}", error.value, error.expected) from error


def coefficients_from_clarke(robot: Robot) -> Vector:
    """Matrix from the coordinates of the tendons to the coefficients of least elastic energy, (n, 2m), 1/m per m.

    For a constant basis that is the only shape with these coordinates. Parallel tendons alone bend a segment by a
    constant curvature, so other bases give the same shape. For general tendons it holds near the straight rod.

    Parameters
    ----------
    robot : a rod
    """
    rod = Rod(robot)
    onto = controlled_manifold(robot).clarke_matrix @ rod.displacement_gradient(np.zeros(rod.n))
    compliant = np.linalg.solve(rod.arrays.stiffness, onto.T)
    return np.asarray(np.linalg.solve(onto @ compliant, compliant.T).T)


def pressed_by_pretension(robot: Robot) -> Vector:
    """Coefficients by which a straight rod that can shorten is shorter under the robot's pretension, (n,).

    Parameters
    ----------
    robot : a rod
    """
    rod, pretension_n = Rod(robot), 0.0 if robot.control is None else robot.control.pretension_n
    along = np.flatnonzero(rod.arrays.rows == EXTENSION)
    pull = rod.displacement_gradient(np.zeros(rod.n)).sum(axis=0)[along] * pretension_n
    found = np.zeros(rod.n)
    found[along] = np.linalg.solve(rod.arrays.stiffness[np.ix_(along, along)], pull)
    return found
