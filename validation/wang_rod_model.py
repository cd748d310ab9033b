# SPDX-License-Identifier: Apache-2.0
"""Modulation backbones at different depths, as a rod with a stiffness piece by piece.

The one depth of wang's model, section 6.3, keeps the micro motion in the plane of bending. Here each secondary backbone
has a modulation backbone of its own. A wire that slides in its lumen at the place r_i has the curvature
|k| / (1 + D_i) on 1 + D_i of the length, D_i = y_i k_x - x_i k_y, hence the energy E_s I_s |k|^2 / (2 (1 + D_i)) per
length of the central backbone. Its gradient has a part across the plane of bending. The rod engine takes it at the
nominal curvature k_0, as the rest strain u* with K (k_0 - u*) = gradient; what the curvature moves from there is a
percent of it. Depths count along the central backbone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.segment import STRAIGHT_RAD, ModulatedSegment
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.rod import Rod

Array = NDArray[Any]

_NO_STRAIN = 1e6  # N.m^2 and N: torsion and shear have no basis functions
_PRETENSION = 3.0  # of the largest tension, on the backbone that is not held
_SHORTEST_FRACTION = 1e-9  # of the length: no piece of rod is shorter


class ModulatedRod:
    """Tips of a bent segment by the rod engine."""

    def __init__(
        self, segment: ModulatedSegment, theta_rad: float, delta_rad: float = 0.0, *, offsets: bool = True
    ) -> None:
        if not theta_rad < STRAIGHT_RAD:
            raise ParameterError("theta_rad", theta_rad, "less than pi / 2: a bend")
        self.segment, self._offsets = segment, offsets
        self.displacement_m = segment.backbone_displacement_m(theta_rad, delta_rad)
        angles = segment.backbone_angles_rad(0.0)
        self._places = segment.pitch_radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        curvature = (STRAIGHT_RAD - theta_rad) / segment.length_m
        # Bending towards phi = -delta: k = curvature (-sin phi, cos phi).
        self.nominal = curvature * np.array([np.sin(delta_rad), np.cos(delta_rad)])
        self._paths = [
            RoutedPath(
                name=f"backbone_{number}",
                start_m=0.0,
                end_m=segment.length_m,
                pitch_radius_m=segment.pitch_radius_m,
                angle_rad=float(angle),
            )
            for number, angle in enumerate(angles, start=1)
        ]
        straight = self._rod(np.zeros(segment.count))
        D = straight.displacement_gradient(np.zeros(straight.n))
        force = segment.bending_stiffness_nm2 * segment.length_m * self.nominal
        tension = np.linalg.lstsq(D.T, force, rcond=None)[0]
        self.tension_n = tension - tension.min()

    def tip(self, depths_m: ArrayLike) -> Array:
        """Tip with the backbones' forces as they were without insertion, wang (7), (3,), m."""
        rod = self._rod(self._checked(depths_m))
        return self._end(rod, rod.equilibrium(self.tension_n, self._start(rod)).c)

    def tip_held(self, depths_m: ArrayLike) -> Array:
        """Tip with the backbones locked at their nominal lengths, which do not stretch, (3,), m.

        Two of them hold the angle of the end disk in both directions; the others are then held too.
        """
        rod = self._rod(self._checked(depths_m))
        # The engine counts displacements from the rod at rest, which the wires' rest strain bends a little.
        at_rest = rod.displacement_gradient(np.zeros(rod.n)) @ self._rest(rod)
        desired = np.full(self.segment.count, np.nan)
        desired[:2] = (self.displacement_m - at_rest)[:2]
        tension = np.where(np.isnan(desired), _PRETENSION * self.tension_n.max(), 0.0)
        return self._end(rod, rod.equilibrium(tension, self._start(rod), stiffness=np.inf, spooled=desired).c)

    def _checked(self, depths_m: ArrayLike) -> Array:
        depths = np.asarray(depths_m, dtype=float)
        if depths.shape != (self.segment.count,):
            raise ParameterError("depths_m", depths.shape, f"{self.segment.count} depths")
        if not ((depths >= 0) & (depths <= self.segment.length_m)).all():
            raise ParameterError("depths_m", depths.tolist(), f"depths in [0, {self.segment.length_m:g}] m")
        return depths

    def _rod(self, depths: Array) -> Rod:
        """Pieces between the ends of the wires."""
        length = self.segment.length_m
        ends = np.unique(np.append(depths[depths > _SHORTEST_FRACTION * length], length))
        if len(ends) > 1 and ends[-1] - ends[-2] < _SHORTEST_FRACTION * length:
            ends = np.delete(ends, -2)
        pieces = [
            self._piece(end - start, depths >= end - _SHORTEST_FRACTION * length)
            for start, end in zip([0.0, *ends[:-1]], ends, strict=True)
        ]
        return Rod(RodDescription(segments=tuple(pieces), tendon_paths=tuple(self._paths), name="modulated segment"))

    def _piece(self, length_m: float, inserted: Array) -> RodSegment:
        wire = self.segment.modulation_stiffness_nm2
        stiffness = self.segment.bending_stiffness_nm2 + wire * inserted.sum()
        rest = np.zeros(2)
        if self._offsets:
            k = self.nominal
            by = np.stack([self._places[:, 1], -self._places[:, 0]], axis=-1)  # D_i = by_i . k
            fractions = 1 + by @ k
            gradient = wire * (k / fractions[:, None] - 0.5 * (k @ k) * by / fractions[:, None] ** 2)
            rest = (wire * inserted.sum() * k - gradient[inserted].sum(axis=0)) / stiffness
        return RodSegment(
            length_m=float(length_m),
            basis=Basis(),
            stiffness=(stiffness, stiffness, _NO_STRAIN, _NO_STRAIN, _NO_STRAIN, _NO_STRAIN),
            rest_strain=(float(rest[0]), float(rest[1]), 0.0, 0.0, 0.0, 1.0),
        )

    def _start(self, rod: Rod) -> Array:
        return np.tile(self.nominal, len(rod.description.segments)) - self._rest(rod)

    @staticmethod
    def _rest(rod: Rod) -> Array:
        return np.concatenate([piece.rest_strain[:2] for piece in rod.description.segments])

    def _end(self, rod: Rod, c: Array) -> Array:
        return rod.moved(c)[0][:3, 3]
