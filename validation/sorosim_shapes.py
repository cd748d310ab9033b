# SPDX-License-Identifier: Apache-2.0
"""Static shapes of a clamped rod that SoRoSim solved, and that rod here: files of opencr-mujoco's format.

Two header rows (labels; normalised arc lengths of the stations, each half of the rod from 0 to 1), then six rows for
each shape: EulX, EulY, EulZ in rad, Px, Py, Pz in m. The columns gravity, mid_wrench and tip_wrench of these six rows
hold the loads' components: moment x, y, z (N.m), then force x, y, z (N), in the base frame; of gravity the last three
(m/s^2). SoRoSim's x is along the rod: its (x, y, z) are our (z, -y, x).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RecordingError
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.description import RodDescription, RodSegment
from continuum_robot.rod.loads import PointWrench

Vector = NDArray[np.float64]

_LOAD_COLUMNS = ("gravity", "mid_wrench", "tip_wrench")
_ROWS = 6
OURS = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
"""From SoRoSim's axes to ours."""


@dataclass(frozen=True, kw_only=True)
class SteelRod:
    """A file of shapes, and its rod; the default values are those of the steel file."""

    data: str = quantity("file of shapes, CSV")
    length: float = quantity("length of the rod", "m", default=0.6, gt=0, le=100)
    radius: float = quantity("radius of its cross-section", "m", default=0.8e-3, gt=0, le=1)
    youngs_modulus: float = quantity("Young's modulus", "Pa", default=200e9, ge=1e3, le=1e13)
    poisson_ratio: float = quantity("Poisson's ratio", "", default=0.33, gt=-1, le=0.5)
    density: float = quantity("density", "kg/m^3", default=7870.0, ge=0, le=25000)


@dataclass(frozen=True, slots=True)
class Shapes:
    """A file of shapes, in our axes."""

    stations: Vector
    position_m: Vector
    gravity_m_per_s2: Vector
    mid_wrench: Vector
    tip_wrench: Vector


def read_shapes(path: Path | str) -> Shapes:
    """Read a file of static shapes."""
    file = Path(path).expanduser()
    remedy = "Give a CSV file of static shapes as in opencr-mujoco: two header rows, then six rows a shape."
    try:
        rows = [row for row in csv.reader(file.read_text(encoding="utf-8-sig").splitlines()) if row]
        labels, body = rows[0], np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise RecordingError(file, str(error), remedy) from error
    count = body.shape[1] - 3 if body.ndim == 2 else 0
    if (
        tuple(label.strip() for label in labels[1:4]) != _LOAD_COLUMNS
        or count < 2
        or count % 2
        or len(body) < 1 + _ROWS
        or (len(body) - 1) % _ROWS
    ):
        raise RecordingError(file, f"{len(rows)} rows with the columns {', '.join(labels[:5])}", remedy)
    if not np.isfinite(body).all():
        raise RecordingError(file, "a value that is not a number", remedy)
    halves = np.repeat([0.0, 0.5], count // 2)
    values = body[1:].reshape(-1, _ROWS, 3 + count)
    loads = np.concatenate([values[:, 3:, :3], values[:, :3, :3]], axis=1)  # force first
    wrench = np.concatenate(
        [np.einsum("ij,sjl->sil", OURS, loads[:, :3]), np.einsum("ij,sjl->sil", OURS, loads[:, 3:])], axis=1
    )
    return Shapes(
        halves + body[0, 3:] / 2,
        np.einsum("ij,sjk->ski", OURS, values[:, 3:, 3:]),
        wrench[:, :3, 0],
        wrench[:, :, 1],
        wrench[:, :, 2],
    )


def round_rod(settings: SteelRod, order: int, kind: str = "chebyshev") -> RodDescription:
    """The rod, weightless, in two halves with strains of an order: the load in the middle makes them jump there."""
    area = math.pi * settings.radius**2
    second_moment = math.pi / 4 * settings.radius**4
    shear_modulus = settings.youngs_modulus / (2 * (1 + settings.poisson_ratio))
    bending, shear = settings.youngs_modulus * second_moment, shear_modulus * area
    rotary = settings.density * second_moment
    half = RodSegment(
        length_m=settings.length / 2,
        basis=Basis(kind=kind, bending_order=order, torsion_order=order, shear_order=order, extension_order=order),
        stiffness=(bending, bending, 2 * shear_modulus * second_moment, shear, shear, settings.youngs_modulus * area),
        linear_density_kg_per_m=settings.density * area,
        rotary_inertia_kg_m=(rotary, rotary, 2 * rotary),
        name="half",
    )
    return RodDescription(segments=(half, half), name="rod")


def wrenches(settings: SteelRod, mid: Vector, tip: Vector) -> tuple[PointWrench, ...]:
    """The loads of a shape: wrenches (force, moment) in the base frame at half the length and at the tip."""
    return tuple(
        PointWrench(s_m=s, force_n=tuple(wrench[:3].tolist()), moment_nm=tuple(wrench[3:].tolist()))
        for s, wrench in ((settings.length / 2, mid), (settings.length, tip))
    )
