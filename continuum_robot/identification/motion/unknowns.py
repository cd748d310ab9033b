# SPDX-License-Identifier: Apache-2.0
"""What a fit of a motion looks for, what is expected of it before the data, and how the data are weighed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.identification.motion.parameters import Parameters
from continuum_robot.identification.procedures.procedure import driven_parts
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.robot.segments.segment import Segment

MODEL_ERROR = 0.01
"""Fraction of the forces to which the model is trusted, of either sign in each block of time."""

LAG_S = 1e-3
"""Unit of the lag."""

TRIM_S = 1.0
"""What is left out at both ends, where filters begin, s."""

Vector = NDArray[np.float64]

_LEAST_BLOCKS = 8
_NONE = 1e-6  # deviation of what is known not to be there


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionFitSettings:
    """How the samples are used."""

    bandwidth_hz: float = quantity(
        "of the forces on the coordinates; noise in them stretches tendons and passes for motion of the rod", "Hz",
        default=8.0, gt=0.5, le=200,
    )  # fmt: skip
    stretching_hz: float = quantity(
        "of the forces across the coordinates, and of all tensions of routed tendons", "Hz", default=16.0, gt=0.5,
        le=200,
    )  # fmt: skip
    step_s: float = quantity(
        "of the motion of a rod under routed tendons; twice as long for rolling joints",
        "s",
        default=2e-3,
        gt=0,
        le=0.02,
    )
    samples_hz: float = quantity("how many samples of it count", "Hz", default=50.0, gt=5, le=1000)
    block_s: float = quantity("of the blocks that are left out one at a time", "s", default=2.0, gt=0.1, le=100)
    prior: float = quantity("deviation of the file's values before the data, relative to them", "", default=1.0, gt=0)
    iterations: int = quantity("largest number of steps", "", default=20, ge=1, le=1000)


def chord_per_m(segment: Segment) -> float:
    """Beta of tendons that run straight between the disks of a bent segment, 1/m.

    A gap l = L / n between disks that bends by angle a is l (1 - a^2 / 24) straight: in all L theta^2 / (24 n^2), and
    theta = q / r, muhmann (7).

    Parameters
    ----------
    segment : with disks
    """
    gaps = max(1, segment.disks.disk_count)
    return segment.length_m / (24 * gaps**2 * segment.tendons.pitch_radius_m**2)


@dataclass(frozen=True, slots=True)
class Unknowns:
    """The parameters over their usual sizes, then of each motor sine, cosine and constant (N), the lag over LAG_S, of
    each segment beta (1/m), where tendons run straight between disks, and how a rod swings at the start.

    Attributes
    ----------
    parameters : of the robot
    expected, precision : before the data, and how well they are expected, shape (U,)
    sine, cosine, constant, lag, chords, swing : where these stand
    """

    parameters: Parameters
    expected: Vector
    precision: Vector
    sine: slice
    cosine: slice
    constant: slice
    lag: int
    chords: slice
    swing: slice

    @classmethod
    def of(
        cls,
        robot: Robot,
        usual_n: float,
        prior: float,
        *,
        chords: bool = False,
        swings: int = 0,
        swinging: bool = True,
    ) -> Unknowns:
        """Those of a robot.

        Parameters
        ----------
        robot : with a motor on every tendon
        usual_n : mean force of a motor, N
        prior : deviation of the file's values before the data, relative to them
        chords : whether beta of every segment is among them
        swings : number of modes of a rod, twice: in shape and in motion
        swinging : whether it may swing in them at the start; else it does not
        """
        parameters, motors = Parameters.of(robot), robot.tendon_count
        actuators, _ = driven_parts(robot)
        betas = np.array([chord_per_m(segment) for segment in robot.segments] if chords else [])
        nuisances = np.concatenate(
            [
                np.full(2 * motors, max(2 * actuators.cogging_n, 0.05 * usual_n)),
                np.full(motors, 2 * usual_n),
                [1.0],
                betas,
                np.full(swings, 1.0 if swinging else _NONE),
            ]
        )
        count = parameters.count
        sine, cosine, constant = (slice(count + k * motors, count + (k + 1) * motors) for k in range(3))
        return cls(
            parameters=parameters,
            expected=np.concatenate([parameters.before / parameters.scales, np.zeros(len(nuisances))]),
            precision=np.concatenate([np.full(count, prior**-2), nuisances**-2.0]),
            sine=sine,
            cosine=cosine,
            constant=constant,
            lag=constant.stop,
            chords=slice(constant.stop + 1, constant.stop + 1 + len(betas)),
            swing=slice(constant.stop + 1 + len(betas), constant.stop + 1 + len(betas) + swings),
        )

    @property
    def count(self) -> int:
        """U."""
        return len(self.expected)


class ForceEquations(Protocol):
    """The forces of the samples, filtered, and what a model makes of them.

    Attributes
    ----------
    unknowns : what it depends on
    forces : measured ones less their means, on the coordinates and across them, shape (T, N), N
    pulled : on the coordinates as they are, shape (T, 2m), N
    time_s : shape (T,), s
    """

    unknowns: Unknowns
    forces: Vector
    pulled: Vector
    time_s: Vector

    def linearised(self, unknowns: Vector) -> tuple[Vector, Vector, Vector]:
        """What is left of the forces (T, N), its slopes (T, N, U) and weights (N,), 1/N.

        Parameters
        ----------
        unknowns : shape (U,)
        """

    def fraction(self, unknowns: Vector, step: Vector) -> float:
        """How much of a step may be taken at once, in (0, 1].

        Parameters
        ----------
        unknowns : before it, shape (U,)
        step : to take, shape (U,)
        """


def weights(rows: Vector, forces: Vector) -> Vector:
    """Weight of each of N forces, shape (N,), 1/N: by what is left of it, and by how far the model is trusted.

    Parameters
    ----------
    rows : what is left, shape (T, N), N
    forces : measured, less their means, shape (T, N), N
    """
    return np.asarray(1 / np.sqrt(np.mean(rows**2, axis=0) + (MODEL_ERROR * forces.std(axis=0)) ** 2))


def blocks(time_s: Vector, block_s: float) -> Vector:
    """Number of the block of time of each sample, shape (T,).

    Parameters
    ----------
    time_s : of the samples, shape (T,), s
    block_s : length of a block, s
    """
    count = max(_LEAST_BLOCKS, int((time_s[-1] - time_s[0]) / block_s))
    return np.asarray(np.minimum(np.arange(len(time_s)) * count // len(time_s), count - 1))
