# SPDX-License-Identifier: Apache-2.0
"""Statics and motions of a rod as functions of torch tensors that torch can differentiate.

torch is no dependency of this package: it is imported with the first call. The kernel computes in double precision on
the processor; tensors of other types and devices are converted there and back. First derivatives only.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import MissingPackageError, ParameterError
from continuum_robot.rod.rod import NotConvergedError, Rod
from continuum_robot.rod.trajectory import Motion

Vector = NDArray[np.float64]


def equilibrium(rod: Rod, tension: Any, stiffness: Any = None, start: Vector | None = None) -> Any:
    """Coefficients at rest, (robots, n), of many robots in one call of the kernel.

    Parameters
    ----------
    tension : given tensions, tensor (robots, N), N
    stiffness : in place of ``rod.arrays.stiffness``, tensor (n, n) for all or (robots, n, n); None: that of the rod
    start : where the search begins, (n,) or (robots, n); None: straight

    Raises
    ------
    ParameterError : shapes that do not fit
    NotConvergedError : of which robots
    MissingPackageError : torch is not installed
    """
    torch = _torch()
    if stiffness is None:
        stiffness = torch.as_tensor(rod.arrays.stiffness, dtype=tension.dtype, device=tension.device)
    return _functions().Equilibrium.apply(rod, start, tension, stiffness)


def tip_position(rod: Rod, c: Any) -> Any:
    """Position of the tip in the base frame at coefficients (robots, n): (robots, 3), m."""
    return _functions().TipPosition.apply(rod, c)


def motion(rod: Rod, c: Any, v: Any, tension: Any, step_s: float, *, every: int = 1) -> tuple[Any, Any]:
    """States of one robot's motion, as of :class:`~continuum_robot.rod.trajectory.Motion`, each (K + 1, n).

    Parameters
    ----------
    c, v : where it begins, tensors (n,)
    tension : constant in each step, tensor (steps, N), N
    step_s : length of a step, s
    every : steps between two states

    Raises
    ------
    NotConvergedError : a step that Newton's method does not find
    MissingPackageError : torch is not installed
    """
    states = _functions().Motion.apply(rod, step_s, every, c, v, tension)
    return states[0], states[1]


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415  # of those alone who call
    except ModuleNotFoundError:
        raise MissingPackageError(
            "torch is not installed, and only these functions need it: pip install torch"
        ) from None
    return torch


@lru_cache(maxsize=1)
def _functions() -> SimpleNamespace:
    torch = _torch()
    base: Any = torch.autograd.Function

    def array(tensor: Any) -> Vector:
        return np.array(tensor.detach().cpu().numpy(), dtype=float)

    def like(values: Vector, tensor: Any) -> Any:
        return torch.as_tensor(values, dtype=tensor.dtype, device=tensor.device)

    class Equilibrium(base):
        @staticmethod
        def forward(ctx: Any, rod: Rod, start: Vector | None, tension: Any, stiffness: Any) -> Any:
            if tension.ndim != 2:
                raise ParameterError("tension", tuple(tension.shape), f"the shape (robots, {rod.tendon_count})")
            given = array(stiffness)
            found = rod.equilibria(array(tension), start, numbers={"stiffness": given})
            if not found.converged.all():
                lost = np.flatnonzero(~found.converged).tolist()
                raise NotConvergedError(
                    f"no equilibrium found for robots {lost}: take smaller tensions, or a nearer start"
                )
            ctx.rod, ctx.found, ctx.shared = rod, found, given.ndim == 2
            ctx.save_for_backward(tension, stiffness)
            return like(found.c, tension)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, by_c: Any) -> tuple[Any, ...]:
            tension, stiffness = ctx.saved_tensors
            # H dc = -l_c^T dT - dK c
            weight = np.linalg.solve(ctx.found.hessian.transpose(0, 2, 1), array(by_c)[..., None])[..., 0]
            gradient = np.array([ctx.rod.lengths(c).gradient for c in ctx.found.c])
            by_tension = -np.einsum("rjn,rn->rj", gradient, weight)
            by_stiffness = -np.einsum("ri,rj->rij", weight, ctx.found.c)
            if ctx.shared:
                by_stiffness = by_stiffness.sum(axis=0)
            return None, None, like(by_tension, tension), like(by_stiffness, stiffness)

    class TipPosition(base):
        @staticmethod
        def forward(ctx: Any, rod: Rod, c: Any) -> Any:
            moved = [rod.moved(one) for one in array(c)]
            ctx.jacobian = np.array([pose[:3, :3] @ body[:3] for pose, body in moved])
            return like(np.array([pose[:3, 3] for pose, _ in moved]), c)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, by_tip: Any) -> tuple[Any, ...]:
            return None, like(np.einsum("rxn,rx->rn", ctx.jacobian, array(by_tip)), by_tip)

    class KeptMotion(base):
        @staticmethod
        def forward(ctx: Any, rod: Rod, step_s: float, every: int, c: Any, v: Any, tension: Any) -> Any:
            ctx.motion = Motion(rod, array(c), array(v), array(tension), step_s, every=every)
            ctx.save_for_backward(c, v, tension)
            return like(np.stack([ctx.motion.c, ctx.motion.v]), tension)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, by_states: Any) -> tuple[Any, ...]:
            found = ctx.motion.gradient(*array(by_states))
            parts = (found.by_c, found.by_v, found.by_tension)
            return None, None, None, *(like(one, tensor) for one, tensor in zip(parts, ctx.saved_tensors, strict=True))

    return SimpleNamespace(Equilibrium=Equilibrium, TipPosition=TipPosition, Motion=KeptMotion)
