# SPDX-License-Identifier: Apache-2.0
"""The model of a robot that is a rod, of any basis and any routing, and its drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ConvergenceError
from continuum_robot.estimation.sensor_watch import WatchSettings
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.models.drawing import Geometry
from continuum_robot.models.robot_model import Feedforward, RigidPart, Summary, plate_and_tip
from continuum_robot.robot.description import Robot
from continuum_robot.robot.segments.routing import RoutedPath, turn_cuts
from continuum_robot.robot.segments.segment import Segment
from continuum_robot.rod.friction.capstans import actuator_mass_matrix
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.rod import Rod
from continuum_robot.rod.tendons import coefficients_from_clarke

Array = NDArray[np.float64]

STATIONS = 41
_TURN_RAD = np.pi / 6  # of a tendon about the backbone between two points of its drawing
_PLANAR = (
    "Two tendons a segment bend it in their plane alone: one coordinate each. Across the plane it is not controlled;"
    " only its stiffness holds it there."
)
FRAMES_PER_SEGMENT = 4


class RodDrawing:
    """A rod; attributes as of :class:`~continuum_robot.models.drawing.Drawing`.

    Parameters
    ----------
    robot : a rod
    """

    def __init__(self, robot: Robot) -> None:
        self._robot, self._rod = robot, Rod(robot)
        self.size, self.length_m = self._rod.n, robot.length_m
        # A rod of a millimetre would be a hair on the screen.
        self.tube_radius_m = max(robot.segments[0].backbone.outer_diameter_m / 2, 0.006 * robot.length_m)
        disks = [segment.disks for segment in robot.segments]
        counts = [disk.disk_count for disk in disks]
        self.disk_radii_m = np.repeat([disk.radius_m for disk in disks], counts)
        self.disk_thickness_m = np.repeat([disk.thickness_m for disk in disks], counts)
        self.plate_thickness_m = 0.0
        turning = [
            turn_cuts(path.start_m, path.end_m, [path], _TURN_RAD)
            for path in robot.tendon_paths
            if not self._from_disks(path)
        ]
        even = np.linspace(0.0, robot.length_m, STATIONS)
        self._places = np.concatenate([even, robot.disk_arc_lengths_m, *turning])
        self._tracks = [self._track(path) for path in robot.tendon_paths]
        self._from_clarke = coefficients_from_clarke(robot)
        parts = range(1, FRAMES_PER_SEGMENT + 1)
        names = [f"seg{index + 1}_{k}" for index in range(len(robot.segments)) for k in parts]
        self.frame_names = (*names, "tip")
        places = [
            start + segment.length_m * k / FRAMES_PER_SEGMENT
            for start, segment in zip(robot.segment_starts_m, robot.segments, strict=True)
            for k in parts
        ]
        self._frame_places = np.minimum([*places, robot.length_m], robot.length_m)

    def frames(self, coefficients: Array) -> Array:
        """Four a segment, and the tip's, at ``coefficients`` (size,); (frames, 4, 4)."""
        return np.asarray(self._rod.poses(coefficients, self._frame_places))

    def geometry(self, coefficients: Array) -> Geometry:
        """Where all lies at ``coefficients`` (size,); parallel tendons run straight from disk to disk."""
        poses = self._rod.poses(coefficients, self._places)
        backbone, disks = poses[:STATIONS], poses[STATIONS : STATIONS + len(self._robot.disk_arc_lengths_m)]
        tendons = tuple(poses[used, :3, 3] + np.einsum("kij,kj->ki", poses[used, :3, :2], offset)
                        for used, offset in self._tracks)  # fmt: skip
        return Geometry(backbone, disks, tendons, backbone[-1])

    def coefficients(self, clarke: Array) -> Array:
        """The shape of least elastic energy."""
        return np.asarray(self._from_clarke @ clarke)

    def pose(self, coefficients: Array, arc_length_m: float) -> Array:
        """Frame of the backbone at ``coefficients`` (size,) and ``arc_length_m``, (4, 4)."""
        place = min(max(arc_length_m, 0.0), self.length_m)
        return np.array(self._rod.poses(coefficients, np.array([place]))[0])

    def _track(self, path: RoutedPath) -> tuple[NDArray[np.intp], Array]:
        """Which frames a tendon passes, and where in their cross-sections, shape (frames, 2), m."""
        disks = np.arange(STATIONS, STATIONS + len(self._robot.disk_arc_lengths_m))
        on = np.append(disks, 0) if self._from_disks(path) else np.delete(np.arange(len(self._places)), disks)
        on = on[np.unique(self._places[on].round(9), return_index=True)[1]]
        used = on[(self._places[on] >= path.start_m - 1e-9) & (self._places[on] <= path.end_m + 1e-9)]
        x, y, _, _ = path.at(self._places[used])
        return used, np.stack([x, y], axis=1)

    def _from_disks(self, path: RoutedPath) -> bool:
        """Whether a tendon runs straight from disk to disk: parallel ones do, if there are disks everywhere."""
        return path.parallel and all(segment.disks.disk_count for segment in self._robot.segments)


Vector = NDArray[np.float64]

_TENSION_FRACTION = 0.5
_TIP_DEFLECTION = 1.0  # of its length, that the largest push would give a robot with slack tendons


class RodRobotModel:
    """A rod; attributes as of :class:`~continuum_robot.models.robot_model.RobotModel`.

    Parameters
    ----------
    robot : a rod
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot

    @property
    def largest_push_n(self) -> float:
        """A force at the tip that the robot can be felt to resist, N, rounded up to 1, 2 or 5 times a power of ten.

        With slack tendons it would bend the robot by its length in linear theory; with taut ones it takes at least half
        of a tendon's largest tension.
        """
        stiffness = float(np.mean([segment.backbone.bending_stiffness_nm2 for segment in self.robot.segments]))
        force = 3.0 * stiffness * _TIP_DEFLECTION / self.robot.length_m**2
        if self.robot.limits is not None:
            radius_m = max(segment.disks.radius_m for segment in self.robot.segments)
            held = (
                _TENSION_FRACTION
                * self.robot.limits.largest("maximum_n", self.robot.tendon_count)
                * radius_m
                / self.robot.length_m
            )
            force = max(force, held)
        decade = 10.0 ** math.floor(math.log10(force))
        return next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= force)

    def shape_estimator(self, watch: WatchSettings) -> ShapeEstimator:
        """From tendons, and strings where the tendons alone do not show the shape; ``watch`` is over these sensors."""
        return ShapeEstimator(self.robot, watch=watch)

    def feedforward(self) -> Feedforward:
        """Elasticity and gravity, muhmann (25)."""
        return clarke_feedforward(self.robot)

    def drawing(self) -> RodDrawing:
        """Backbone, disks and tendons."""
        return RodDrawing(self.robot)

    def rigid_parts(self) -> Sequence[RigidPart]:
        """A plate that it stands on, and the disk at its tip."""
        disks = self.robot.segments[-1].disks
        return plate_and_tip(disks.radius_m, disks.thickness_m)

    def summary(self) -> Summary:
        """Segments with their masses, and natural frequencies without tension."""
        robot = self.robot
        frequencies_hz = natural_frequencies_hz(robot)
        masses = np.array([masses_kg(segment) for segment in robot.segments])
        return Summary(
            f"{len(robot.segments)} segments",
            {segment.name: _column(segment) for segment in robot.segments},
            [_frequency_line(frequencies_hz), *([_PLANAR] if robot.coordinate_count == len(robot.segments) else [])],
            {
                "segments": len(robot.segments),
                "strings": len(robot.strings),
                "mass_kg": float(masses.sum()),
                "backbone_mass_kg": float(masses[:, 0].sum()),
                "disk_mass_kg": float(masses[:, 1].sum()),
                "tendon_mass_kg": float(masses[:, 2].sum()),
                "bending_stiffness_nm2": [part.backbone.bending_stiffnesses_nm2[0] for part in robot.segments],
                "bending_stiffness_y_nm2": [part.backbone.bending_stiffnesses_nm2[1] for part in robot.segments],
                "natural_frequencies_hz": [float(value) for value in frequencies_hz],
            },
        )


def natural_frequencies_hz(robot: Robot) -> Vector:
    """Undamped natural frequencies about the equilibrium without tension."""
    rod = Rod(robot)
    try:
        state = rod.equilibrium(settle=False)
    except ConvergenceError:
        return np.full(robot.coefficient_count, np.nan)
    mass = rod.terms(state.c, np.zeros(rod.n)).mass + actuator_mass_matrix(robot)
    stiffness = state.hessian
    root = np.linalg.cholesky(mass)
    # M v'' = -K v; with M = L L' the squares of the angular frequencies are the eigenvalues of L^-1 K L^-T.
    half = np.linalg.solve(root, stiffness)
    squares = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
    return np.array([math.sqrt(square) / (2 * math.pi) if square >= 0 else math.nan for square in squares])


def masses_kg(segment: Segment) -> tuple[float, float, float]:
    """Mass of a segment's backbone, disks and own tendons along it, kg."""
    backbone = segment.backbone.mass_kg(segment.length_m)
    disks = float(segment.disks.masses_kg.sum())
    tendons = segment.tendons.mass_per_length_kg_per_m * segment.length_m * segment.tendons.count
    return backbone, disks, tendons


def _column(segment: Segment) -> dict[str, str]:
    backbone, disks, tendons = masses_kg(segment)
    x, y = segment.backbone.bending_stiffnesses_nm2
    shown = segment.tendons.angles_rad[: 1 if segment.tendons.even else None]
    return {
        "length": f"{segment.length_m * 1e3:.4g} mm",
        "bending stiffness E I": f"{x:.4g} N·m²" if x == y else f"{x:.4g}, {y:.4g} N·m²",
        "bending damping": f"{segment.bending_damping_nms:.4g} N·m·s",
        "disks": f"{len(segment.disks.positions_m(segment.length_m))}",
        "mass of the backbone": f"{backbone * 1e3:.3g} g",
        "mass of the disks": f"{disks * 1e3:.3g} g",
        "mass of the tendons": f"{tendons * 1e3:.3g} g",
        "tendons": str(segment.tendons.count),
        "pitch radius": f"{segment.tendons.pitch_radius_m * 1e3:.4g} mm",
        "angle of tendon 1": ", ".join(f"{math.degrees(angle):.4g}°" for angle in shown),
        "strain basis": segment.basis.kind,
        "coefficients": str(segment.basis.coefficient_count),
    }


def _frequency_line(frequencies_hz: Vector) -> str:
    if np.isnan(frequencies_hz).any():
        return (
            "[yellow]Natural frequencies: the robot does not stand by itself without tension "
            "(buckles or finds no equilibrium)[/yellow]\n"
        )
    values = ", ".join(f"{value:.3g}" for value in frequencies_hz)
    return f"Natural frequencies without tension: {values} Hz\n"
