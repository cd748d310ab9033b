# SPDX-License-Identifier: Apache-2.0
"""The general rod's motion in a second form: products of whole Jacobians in NumPy, and adaptive explicit steps.

A station with spatial inertia I, twist J c_rate in the base frame and momentum P there adds J^T P to the generalised
momentum p = M(c) c_rate, and the derivative of J^T P by c at constant P, called C(P) in sum, gives both the force that
speed causes and its fraction of the momentum's rate:

    p' = C(P) c_rate - dV/dc - D c_rate + Q,   dT/dc = C(P) c_rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.integrate

from continuum_robot.rod.strain.dynamics import HeldTendons, StrainDynamics
from continuum_robot.rod.strain.kinematics import Frames, hat


@dataclass(frozen=True)
class MotionTerms:
    """Momentum, its rate, tensions, M, and minus the derivative of the force by c at rest."""

    momentum: np.ndarray
    force: np.ndarray
    tension: np.ndarray
    mass: np.ndarray
    stiffness: np.ndarray


def spatial_inertia(frames: Frames, inertia: np.ndarray) -> np.ndarray:
    """Inertia (k, 6, 6) of the stations about the base's origin in base axes."""
    back = frames.rotation.swapaxes(1, 2)
    to_body = np.zeros_like(inertia)
    to_body[:, :3, :3] = to_body[:, 3:, 3:] = back
    to_body[:, 3:, :3] = -back @ hat(frames.position)
    return to_body.swapaxes(1, 2) @ inertia @ to_body


def mass_matrix(dynamics: StrainDynamics, c) -> np.ndarray:
    """M(c), (n, n)."""
    frames = dynamics.chain.frames(np.asarray(c, dtype=float))
    spatial = spatial_inertia(frames, dynamics.mass.inertia)
    return np.einsum("kia,kij,kjb->ab", frames.jacobian, spatial, frames.jacobian)


def motion_terms(dynamics: StrainDynamics, c, c_rate, pull=None, force=None) -> MotionTerms:
    """What moves the rod under tensions (N,) or held tendons, and more generalised force."""
    rod, chain, frames = dynamics.rod, dynamics.chain, dynamics.chain.frames(c)
    loads = dynamics.loaded.terms(c)
    spatial = spatial_inertia(frames, dynamics.mass.inertia)
    wrench = (spatial @ (frames.jacobian @ c_rate)[..., None])[..., 0]
    tension, springs = np.zeros(rod.tendon_count), np.zeros(rod.tendon_count)
    if isinstance(pull, HeldTendons):
        stretch = pull.displacement_m - rod.tendon_displacement(c)
        tension = np.maximum(pull.stiffness_n_per_m * stretch, 0.0)
        springs = np.where(tension > 0, pull.stiffness_n_per_m, 0.0)
    elif pull is not None:
        tension = np.asarray(pull, dtype=float)
    _, jacobian, pulled, curve = rod.tendons.weighted(c, tension)
    total = chain.contraction(frames, wrench) @ c_rate + loads.force - rod.stiffness @ c - dynamics.damping @ c_rate
    return MotionTerms(
        momentum=chain.generalized(frames, wrench),
        force=total - pulled + (0.0 if force is None else force),
        tension=tension,
        mass=mass_matrix(dynamics, c),
        stiffness=rod.stiffness + loads.stiffness + curve + (jacobian.T * springs) @ jacobian,
    )


def simulate_explicitly(dynamics: StrainDynamics, time_s, pull=None, tolerance: float = 1e-10):
    """Coefficients and rates (k, n) at times from rest without strain, by Dormand and Prince of eighth order."""
    n = dynamics.size

    def rate(c, momentum):
        return np.linalg.solve(mass_matrix(dynamics, c), momentum)

    def derivative(_, y):
        c_rate = rate(y[:n], y[n:])
        return np.concatenate([c_rate, motion_terms(dynamics, y[:n], c_rate, pull).force])

    near = tolerance / dynamics.rod.strain_scale
    heavy = np.diag(mass_matrix(dynamics, np.zeros(n)))
    result = scipy.integrate.solve_ivp(
        derivative,
        (time_s[0], time_s[-1]),
        np.zeros(2 * n),
        method="DOP853",
        t_eval=time_s,
        rtol=tolerance,
        atol=np.concatenate([near, heavy * near]),
    )
    assert result.success, result.message
    positions = result.y[:n].T.copy()
    return positions, np.array([rate(*pair) for pair in zip(positions, result.y[n:].T, strict=True)])
