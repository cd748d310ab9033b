# SPDX-License-Identifier: Apache-2.0
"""What the strain basis of a rod cannot represent of an equilibrium, as an error of its tip; derived here."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from continuum_robot.geometry import se3
from continuum_robot.rod.path_lengths import turn_cuts
from continuum_robot.rod.step import GAUSS_RATIOS, GAUSS_WEIGHTS
from continuum_robot.rod.strain.kinematics import MagnusChain, hat
from continuum_robot.rod.strain.problem import StaticProblem
from continuum_robot.rod.strain.rod import StrainRod

Vector = NDArray[np.float64]

_STEP_RAD = math.pi / 6  # of a tendon about the backbone


def defect(problem: StaticProblem, c: Vector, tension: Vector) -> tuple[float, float]:
    """What the basis cannot represent: displacement (m) and rotation (rad) of the tip by the strain that it lacks.

    At every cross-section the wrench beyond it, less what the tendons bear, over the stiffness is the strain that
    equilibrium asks for; its difference from the basis' strain moves the tip by the geometric Jacobian.
    """
    loaded, count = problem.loaded, len(GAUSS_RATIOS)
    chain = _chain_of_turns(problem) if tension.any() else loaded.chain
    frames = chain.frames(c)
    wrench = np.zeros((len(loaded.chain.s_m), 6)) if loaded.empty else loaded.terms(c, stiffness=False).wrench
    outward = np.cumsum(wrench[::-1], axis=0)[::-1]
    beyond = np.tile(outward[np.searchsorted(loaded.chain.s_m, chain.s_m[1:])], (count, 1))
    # All Gauss nodes of every step in one batch, all first ones before all second ones.
    into_m = np.concatenate([fraction * chain.step_m for fraction in GAUSS_RATIOS])
    places_m = np.tile(chain.s_m[:-1], count) + into_m
    strain = frames.strain.reshape(-1, count, 6)
    own = np.concatenate(list((frames.strain - chain.rest).reshape(-1, count, 6).swapaxes(0, 1)))
    mean = np.tile(np.tensordot(GAUSS_WEIGHTS, strain, axes=(0, 1)), (count, 1))
    part = se3.exp(into_m[:, None] * np.roll(mean, 3, axis=1))  # se3 has the linear part first
    before = np.tile(frames.rotation[:-1], (count, 1, 1))
    rotation = before @ part[:, :3, :3]
    position = np.tile(frames.position[:-1], (count, 1)) + (before @ part[:, :3, 3:])[..., 0]
    moment = beyond[:, :3] - (hat(position) @ beyond[:, 3:, None])[..., 0]
    stress = np.concatenate([(moment[:, None] @ rotation)[:, 0], (beyond[:, None, 3:] @ rotation)[:, 0]], axis=1)
    if tension.any():
        stress -= _tendon_stress(problem.rod, places_m, np.concatenate(list(strain.swapaxes(0, 1))), tension)
    index = np.searchsorted(problem.rod.starts_m, places_m, side="right") - 1
    stiffness = np.array([segment.stiffness for segment in problem.rod.segments])[index]
    missing = (stress / stiffness - own) * np.concatenate([weight * chain.step_m for weight in GAUSS_WEIGHTS])[:, None]
    turn = (rotation @ missing[:, :3, None])[..., 0]
    move = (rotation @ missing[:, 3:, None])[..., 0] - (hat(frames.position[-1] - position) @ turn[..., None])[..., 0]
    return float(np.linalg.norm(move.sum(axis=0))), float(np.linalg.norm(turn.sum(axis=0)))


def _chain_of_turns(problem: StaticProblem) -> MagnusChain:
    """The loads' chain with steps so short that no tendon begins, ends, bends off or turns far within one."""
    rod = problem.rod
    paths = rod.tendon_paths
    places = {0.0, rod.length_m, *(place for path in paths for place in (path.start_m, path.end_m, *path.kinks_m))}
    cuts = [turn_cuts(low, high, paths, _STEP_RAD)[0][1:-1] for low, high in pairwise(sorted(places))]
    finer = np.concatenate([problem.loaded.chain.s_m, sorted(places), *cuts])
    return rod.chain([place for place in finer.tolist() if 0 < place < rod.length_m])


def _tendon_stress(rod: StrainRod, places_m: Vector, strain: Vector, tension: Vector) -> Vector:
    """Moment and force of all tendons across the cross-sections at (k,) arc lengths with strains (k, 6): (k, 6)."""
    stress = np.zeros((len(places_m), 6))
    for path, pull in zip(rod.tendon_paths, tension, strict=True):
        if pull:
            x, y, x_slope, y_slope = path.at(places_m)
            zero = np.zeros_like(x)
            arm = np.stack([x, y, zero], axis=1)
            tangent = strain[:, 3:] + np.cross(strain[:, :3], arm) + np.stack([x_slope, y_slope, zero], axis=1)
            runs = (path.start_m < places_m) & (places_m < path.end_m)
            unit = runs[:, None] * tangent / np.linalg.norm(tangent, axis=1)[:, None]
            stress += pull * np.concatenate([np.cross(arm, unit), unit], axis=1)
    return stress
