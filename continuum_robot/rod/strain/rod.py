# SPDX-License-Identifier: Apache-2.0
"""A rod that bends, twists, shears and stretches under tendons on any path: strain xi_i(s) = xi*_i + B_i(s) c_i.

Elastic energy and tendon lengths depend on the local strain alone; gravity and other loads need the pose. All parts
have exact gradients and Hessians. Coefficients: curvature and torsion in 1/m, shear and extension dimensionless, in the
order of :attr:`continuum_robot.robot.basis.Basis.groups`, segment by segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError, ReachError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.lumped_masses import LumpedMass, lumped_masses
from continuum_robot.robot.segments.routing import RoutedPath
from continuum_robot.rod.bases import REFERENCE_STRAIN, STRAIN_COUNT, basis_matrix, strain_matrix
from continuum_robot.rod.inertia import section_stiffness
from continuum_robot.rod.loads import DistributedLoad, Load, PointWrench
from continuum_robot.rod.path_lengths import PathLengths
from continuum_robot.rod.step import REACH_RAD
from continuum_robot.rod.strain.kinematics import MagnusChain, Stretch, hat
from continuum_robot.rod.strain.mass import ChainMass

Vector = NDArray[np.float64]

_CHAINS_KEPT = 32
_REACH_RAD = 2 * REACH_RAD  # of a step: there its rotation is orthogonal to 1e-11, and the error grows fast


@dataclass(frozen=True, kw_only=True)
class RodSegment:
    """A length of rod with one cross-section and one basis.

    Attributes
    ----------
    length_m : m
    basis : which strains it has
    stiffness : (6,) E I_x, E I_y, G J (N.m^2), G A, G A, E A (N); rucker prints E I_zz where G J is meant in K_bt
    linear_density_kg_per_m : mass per length that gravity acts on, kg/m
    rotary_inertia_kg_m : moments of inertia per length about x, y and z, kg.m
    rest_strain : xi* = (u*, v*), (6,), 1/m and dimensionless
    name : for messages
    """

    length_m: float
    basis: Basis
    stiffness: tuple[float, ...]
    linear_density_kg_per_m: float = 0.0
    rotary_inertia_kg_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rest_strain: tuple[float, ...] = REFERENCE_STRAIN
    name: str = "segment"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.length_m) and self.length_m > 0):
            raise ParameterError(f"length_m of {self.name}", self.length_m, "a positive length in m")
        values = np.asarray(self.stiffness, dtype=float)
        if values.shape != (6,) or not np.isfinite(values).all() or (values <= 0).any():
            raise ParameterError(f"stiffness of {self.name}", self.stiffness, "six positive numbers")


class StrainRod:
    """Kinematics, tendon lengths and energies of a rod. Not changed by use, but for what it remembers.

    Parameters
    ----------
    segments : from the base to the tip
    tendons, strings : their paths
    masses : bodies fixed to it
    gravity_m_per_s2 : (3,) in the base frame
    name : for messages
    magnus_steps : least number of steps on each segment; None chooses by the basis

    Attributes
    ----------
    size : number n of coefficients
    stiffness : (n, n) of the coefficients, block by segment: elastic energy c^T K c / 2
    tendons, strings : :class:`PathLengths` of both

    Raises
    ------
    ParameterError : no segment, or a tendon, string or mass that is not on the rod
    """

    def __init__(
        self,
        segments: Sequence[RodSegment],
        tendons: Sequence[RoutedPath] = (),
        strings: Sequence[RoutedPath] = (),
        masses: Sequence[LumpedMass] = (),
        gravity_m_per_s2: ArrayLike = (0.0, 0.0, 0.0),
        *,
        name: str = "rod",
        magnus_steps: int | None = None,
    ) -> None:
        if not segments:
            raise ParameterError("segments", segments, "one segment or more")
        self.name = name
        self.segments, self.masses = tuple(segments), tuple(masses)
        self.tendon_paths, self.string_paths = tuple(tendons), tuple(strings)
        self.gravity_m_per_s2 = np.asarray(gravity_m_per_s2, dtype=float)
        self.length_m = float(sum(segment.length_m for segment in segments))
        self.starts_m = np.concatenate([[0.0], np.cumsum([segment.length_m for segment in segments])[:-1]])
        for path in (*tendons, *strings):
            if not 0 <= path.start_m < path.end_m <= self.length_m * (1 + 1e-12):
                raise ParameterError(path.name, (path.start_m, path.end_m), f"ends in [0, {self.length_m:g}] m")
        self.stretches = tuple(
            Stretch(
                segment.length_m,
                segment.basis,
                segment.rest_strain,
                magnus_steps or 4 + segment.basis.highest_order,
            )
            for segment in segments
        )
        counts = [segment.basis.coefficient_count for segment in segments]
        ends = np.cumsum(counts)
        self.size = int(ends[-1])
        self.columns = tuple(slice(int(end) - count, int(end)) for end, count in zip(ends, counts, strict=True))
        self.tendons = PathLengths(self.stretches, self.tendon_paths)
        self.strings = PathLengths(self.stretches, self.string_paths)
        self.stiffness = strain_matrix((segment.basis, segment.length_m, segment.stiffness) for segment in segments)
        self.strain_scale = np.ones(self.size)
        for segment, place in zip(segments, self.columns, strict=True):
            turning = np.array(segment.basis.rows) < 3
            self.strain_scale[place] = np.where(turning, segment.length_m, 1.0)
        self._chains: dict[tuple[float, ...], MagnusChain] = {}

    @classmethod
    def from_robot(cls, robot: Robot, *, magnus_steps: int | None = None) -> StrainRod:
        """The rod of a robot file: backbone, disks, payload, tendons, strings, gravity.

        Tendons bend with the backbone, as in :func:`continuum_robot.rod.inertia.section_stiffness`; their mass is
        neglected. Tendons are in the order of :attr:`Robot.tendon_paths`.
        """
        segments: list[RodSegment] = []
        masses: list[LumpedMass] = []
        for index, (segment, start_m) in enumerate(zip(robot.segments, robot.segment_starts_m, strict=True)):
            rod = segment.backbone
            if rod.taper:
                raise ParameterError("backbone.taper", segment.name, "none here: rod.Rod has tapered segments")
            rotary = rod.rotary_inertia_kg_m
            segments.append(
                RodSegment(
                    length_m=segment.length_m,
                    basis=segment.basis,
                    stiffness=tuple(float(value) for value in section_stiffness(robot, index)),
                    linear_density_kg_per_m=rod.linear_density_kg_per_m,
                    rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
                    rest_strain=rod.rest_strain,
                    name=segment.name,
                )
            )
            masses += [replace(body, s_m=float(start_m) + body.s_m) for body in lumped_masses(robot, index)]
        return cls(
            segments,
            robot.tendon_paths,
            [string.path for string in robot.strings],
            masses,
            robot.gravity_m_per_s2,
            name=robot.name,
            magnus_steps=magnus_steps,
        )

    def with_gravity(self, gravity_m_per_s2: ArrayLike) -> StrainRod:
        """The same rod in another gravity (3,), m/s^2; it shares what this one remembers."""
        _ = self.stiffness_root  # once for both
        other = copy(self)
        other.gravity_m_per_s2 = np.asarray(gravity_m_per_s2, dtype=float)
        other.__dict__.pop("weight", None)
        return other

    # --- kinematics

    def chain(self, stations_m: Sequence[float] = ()) -> MagnusChain:
        """The chain of frames with stations at the given arc lengths; the latest ones are kept.

        Parameters
        ----------
        stations_m : arc lengths from the base, m

        Raises
        ------
        ParameterError : an arc length that is not on the rod
        """
        key = tuple(sorted(set(map(float, stations_m))))
        if key not in self._chains:
            places = np.asarray(key)
            if not np.all((places >= 0) & (places <= self.length_m * (1 + 1e-9))):
                raise ParameterError("arc length", key, f"arc lengths in [0, {self.length_m:g}] m")
            while len(self._chains) >= _CHAINS_KEPT:
                del self._chains[next(iter(self._chains))]
            self._chains[key] = MagnusChain(self.stretches, key)
        return self._chains[key]

    def coefficients(self, c: ArrayLike) -> Vector:
        """Check coefficients (n,): finite and of the right number.

        Raises
        ------
        ParameterError : another number of them, or one that is not finite
        """
        array = np.asarray(c, dtype=float)
        if array.shape != (self.size,) or not np.isfinite(array).all():
            raise ParameterError("c", c, f"{self.size} finite coefficients")
        return array

    def check_reach(self, c: ArrayLike) -> None:
        """Refuse coefficients (n,) that turn a step of the chain further than its functions hold.

        Raises
        ------
        ReachError : names the segment, and how far it turns
        """
        chain = self._own_chain
        strain = (chain.rest + (chain.nodal @ self.coefficients(c))).reshape(len(chain.rest), -1, STRAIN_COUNT)
        turn_rad = np.linalg.norm(strain[..., :3], axis=2).max(axis=1) * chain.step_m
        worst = int(turn_rad.argmax())
        if not turn_rad[worst] <= _REACH_RAD:
            index = int(np.searchsorted(self.starts_m, chain.s_m[worst], side="right")) - 1
            per_segment = self.segments[index].length_m / chain.step_m[worst]
            raise ReachError(
                f"bending and torsion of segment {index + 1}",
                float(turn_rad[worst] * per_segment),
                f"at most {_REACH_RAD * per_segment:.3g} rad, to which the rod's frames hold: unload it, or describe"
                " it by more segments",
            )

    @cached_property
    def _own_chain(self) -> MagnusChain:
        return MagnusChain(self.stretches)

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Frames of the backbone.

        Parameters
        ----------
        c : (n,) coefficients
        s : (k,) arc lengths from the base, m

        Returns
        -------
        (k, 4, 4) homogeneous matrices in the base frame
        """
        self.check_reach(c)
        places = np.atleast_1d(np.asarray(s, dtype=float))
        chain = self.chain(places.tolist())
        frames = chain.frames(self.coefficients(c))
        picked = chain.indices(places.tolist())
        poses = np.zeros((len(places), 4, 4))
        poses[:, :3, :3], poses[:, :3, 3], poses[:, 3, 3] = frames.rotation[picked], frames.position[picked], 1
        return poses

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        """Jacobian of the twist (linear, angular) of the frame at arc length ``s`` (m), in its own axes, (6, n)."""
        return self.moved(c, s)[1]

    def moved(self, c: ArrayLike, s: float) -> tuple[Vector, Vector]:
        """Pose (4, 4) and :meth:`body_jacobian` (6, n) at an arc length (m), together.

        Parameters
        ----------
        c : (n,) coefficients
        s : from the base, m
        """
        self.check_reach(c)
        chain = self.chain([float(s)])
        frames = chain.frames(self.coefficients(c))
        (k,) = chain.indices([float(s)])
        rotation, turning = frames.rotation[k], frames.jacobian[k, :3]
        velocity = frames.jacobian[k, 3:] - hat(frames.position[k]) @ turning
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = rotation, frames.position[k]
        return pose, np.concatenate([rotation.T @ velocity, rotation.T @ turning])

    def strain(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Strain (u, v) at arc lengths (k,), m: (k, 6), 1/m and dimensionless; at a segment's end that before it."""
        coefficients = self.coefficients(c)
        rows = []
        for place in np.atleast_1d(np.asarray(s, dtype=float)):
            index = max(0, int(np.searchsorted(self.starts_m, place, side="left")) - 1)
            segment, own = self.segments[index], self.columns[index]
            ratio = (place - self.starts_m[index]) / segment.length_m
            rows.append(np.array(segment.rest_strain) + basis_matrix(segment.basis, ratio) @ coefficients[own])
        return np.array(rows)

    def kinematic_error_m(self, c: ArrayLike) -> float:
        """How far the tip moves when every Magnus step is halved, m: about what the chain of frames errs by."""
        coefficients = self.coefficients(c)
        twice = [replace(stretch, steps=2 * stretch.steps) for stretch in self.stretches]
        fine = MagnusChain(twice).frames(coefficients).position[-1]
        return float(np.linalg.norm(self.chain().frames(coefficients).position[-1] - fine))

    # --- tendons and strings

    @property
    def tendon_count(self) -> int:
        """Number of tendons N."""
        return len(self.tendon_paths)

    def tendon_lengths(self, c: ArrayLike) -> Vector:
        """Length of every tendon in the body, (N,), m."""
        return np.asarray(self.tendons.lengths(self.coefficients(c)))

    def tendon_displacement(self, c: ArrayLike) -> Vector:
        """Displacement of every tendon against c = 0, pulled in positive, (N,), m."""
        return self.tendons.shortening(self.coefficients(c))

    def displacement_jacobian(self, c: ArrayLike) -> Vector:
        """dq/dc, (N, n)."""
        return -np.asarray(self.tendons.jacobian(self.coefficients(c)))

    def string_extension(self, c: ArrayLike) -> Vector:
        """Extension of every string against c = 0, positive when it left the body, (strings,), m."""
        return self.strings.shortening(self.coefficients(c))

    def string_jacobian(self, c: ArrayLike) -> Vector:
        """Derivative of the strings' extensions, (strings, n)."""
        return -np.asarray(self.strings.jacobian(self.coefficients(c)))

    # --- energies

    @cached_property
    def stiffness_root(self) -> tuple[Vector, Vector]:
        """Lower triangular L with K = L L^T, and its inverse, (n, n) each."""
        root: Vector = np.linalg.cholesky(self.stiffness).astype(np.float64)
        return root, np.tril(np.linalg.inv(root)).astype(np.float64)

    @cached_property
    def weight(self) -> tuple[Load, ...]:
        """Gravity as loads on the rod and on the bodies fixed to it."""
        if not self.gravity_m_per_s2.any():
            return ()
        g = self.gravity_m_per_s2
        loads: list[Load] = [
            DistributedLoad(
                force_n_per_m=_triple(segment.linear_density_kg_per_m * g),
                start_m=float(start_m),
                end_m=float(start_m) + segment.length_m,
            )
            for segment, start_m in zip(self.segments, self.starts_m, strict=True)
            if segment.linear_density_kg_per_m > 0
        ]
        loads += [
            PointWrench(s_m=mass.s_m, force_n=_triple(mass.mass_kg * g), offset_m=mass.center_of_mass_m)
            for mass in self.masses
            if mass.mass_kg > 0
        ]
        return tuple(loads)

    def _station_inertia(self, chain: MagnusChain) -> Vector:
        """Inertia (k, 6, 6) that the stations of a chain bear, each about itself in its own axes, angular part first.

        The rod's by Gauss-Lobatto quadrature on the chain's own nodes.
        """
        inertia = np.zeros((len(chain.s_m), 6, 6))
        for start_m, segment, stretch in zip(self.starts_m, self.segments, self.stretches, strict=True):
            section = np.diag([*segment.rotary_inertia_kg_m, *[segment.linear_density_kg_per_m] * 3])
            nodes, weights = stretch.lobatto
            own = chain.indices((start_m + nodes * stretch.length_m).tolist())
            inertia[own] += (weights * stretch.length_m)[:, None, None] * section
        for mass, k in zip(self.masses, chain.indices([mass.s_m for mass in self.masses]), strict=True):
            arm, place = hat(np.array(mass.center_of_mass_m)), inertia[k]
            place[:3, :3] += mass.inertia_kg_m2 - mass.mass_kg * arm @ arm
            place[:3, 3:] += mass.mass_kg * arm
            place[3:, :3] -= mass.mass_kg * arm
            place[3:, 3:] += mass.mass_kg * np.eye(3)
        return inertia

    def mass_on(self, chain: MagnusChain) -> ChainMass:
        """The rod's mass, that of its sections' rotation, and of the bodies on it.

        Parameters
        ----------
        chain : with a station at every body
        """
        return ChainMass(chain, self._station_inertia(chain))

    @cached_property
    def _mass(self) -> ChainMass:
        return self.mass_on(self.chain([mass.s_m for mass in self.masses]))

    def mass_matrix(self, c: ArrayLike) -> Vector:
        """M of the kinetic energy c_rate^T M c_rate / 2, (n, n)."""
        self.check_reach(c)
        return self._mass.matrix(self.coefficients(c))


def _triple(vector: Any) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
