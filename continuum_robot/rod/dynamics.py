# SPDX-License-Identifier: Apache-2.0
"""The numeric rod model of a robot, callable at kHz."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.bases import basis_matrix
from continuum_robot.rod.code.generation import FastFunction, compile_functions
from continuum_robot.rod.inertia import PARTS
from continuum_robot.rod.model import RodModel
from continuum_robot.rod.moving_chain import longest_step, step_reach_rad
from continuum_robot.rod.tendons import coefficient_slices

Vector = NDArray[np.float64]

_COMPILED = ("forward_dynamics", "gravity_force", "pose", "body_jacobian")  # what runs in every cycle of some loop


@dataclass(frozen=True, slots=True)
class Energies:
    """Energies of a robot in J; parts that the model leaves out are 0.

    Attributes
    ----------
    translational, rotational, gravity_by_part : J, by the keys "backbone", "tendons", "disks"; muhmann (10), (11),
        (14), (16)-(18)
    tendon_axial : sliding of the tendons, J, muhmann (12)
    elastic : bending of backbone and tendons, J, muhmann (19)
    actuators : rotation of capstans, J, johnston (23)
    """

    translational: dict[str, float]
    rotational: dict[str, float]
    gravity_by_part: dict[str, float]
    tendon_axial: float
    elastic: float
    actuators: float = 0.0

    @property
    def kinetic_translational(self) -> float:
        """Translational kinetic energy of all parts, J."""
        return sum(self.translational.values()) + self.tendon_axial

    @property
    def kinetic_rotational(self) -> float:
        """Rotational kinetic energy of all parts, J."""
        return sum(self.rotational.values())

    @property
    def kinetic(self) -> float:
        """T of muhmann (9), with the actuators of johnston (12), J."""
        return self.kinetic_translational + self.kinetic_rotational + self.actuators

    @property
    def gravity(self) -> float:
        """Potential energy in gravity, 0 for masses at the base, J."""
        return sum(self.gravity_by_part.values())

    @property
    def potential(self) -> float:
        """U of muhmann (15), J."""
        return self.gravity + self.elastic

    @property
    def total(self) -> float:
        """T + U, J."""
        return self.kinetic + self.potential


class RodDynamics:
    """Kinematics, energies and dynamics of a robot on arrays.

    c has shape (n,) in 1/m, c_rate in 1/(m.s), c_acceleration in 1/(m.s^2); generalised forces (n,) are work per
    coefficient, N.m^2. Not for use by two threads at once.

    Parameters
    ----------
    robot : the robot
    rotational_energy, tendon_inertia, actuator_inertia : terms of the kinetic energy, see
        :class:`~continuum_robot.rod.model.RodModel`
    compile : "auto", "always" or "never", see :func:`~continuum_robot.rod.code.generation.compile_functions`
    progress : receives a line where the first use has to compile

    Forward dynamics, gravity, poses and body Jacobians are compiled; what is called more rarely runs in CasADi's
    virtual machine and is derived when first called.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        rotational_energy: bool | None = None,
        tendon_inertia: bool = False,
        actuator_inertia: bool = True,
        compile: str = "auto",
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.robot = robot
        self.symbolic = RodModel(
            robot,
            rotational_energy=rotational_energy,
            tendon_inertia=tendon_inertia,
            actuator_inertia=actuator_inertia,
        )
        self.size = self.symbolic.size
        self._no_force = np.zeros(self.size)
        self._functions: dict[str, FastFunction] = {}
        if compile != "never":
            self._functions = compile_functions(
                [getattr(self.symbolic, name) for name in _COMPILED],
                f"the rod model of {robot.name}",
                compile=compile,
                progress=progress,
            )

    @property
    def compiled(self) -> bool:
        """Whether the forward dynamics run as machine code."""
        return self._forward.compiled

    def _fast(self, name: str) -> FastFunction:
        """A compiled function, else one in CasADi's virtual machine that is made when first called."""
        if name not in self._functions:
            self._functions[name] = FastFunction(getattr(self.symbolic, name))
        return self._functions[name]

    @cached_property
    def _forward(self) -> FastFunction:
        return self._fast("forward_dynamics")

    # --- equations of motion

    def forward_dynamics(
        self, c: ArrayLike, c_rate: ArrayLike, tension: ArrayLike, generalized_force: ArrayLike | None = None
    ) -> Vector:
        """Acceleration of the coefficients, muhmann (25).

        Parameters
        ----------
        c, c_rate : (n,) state
        tension : (N,) tension of every tendon, N
        generalized_force : (n,) other loads, N.m^2

        Returns
        -------
        (n,) c_acceleration
        """
        force = self._no_force if generalized_force is None else generalized_force
        return self._forward(c, c_rate, tension, force)

    def inverse_dynamics(self, c: ArrayLike, c_rate: ArrayLike, c_acceleration: ArrayLike) -> Vector:
        """Generalised force (n,), tendons' included, that gives ``c_acceleration``: M c'' + C c' + g + K c + D c'."""
        return self._fast("inverse_dynamics")(c, c_rate, c_acceleration)

    def mass_matrix(self, c: ArrayLike) -> Vector:
        """M, shape (n, n), symmetric positive definite."""
        return self._fast("mass_matrix")(c)

    def coriolis_matrix(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """C in Christoffel symbols, shape (n, n): M' - 2 C is skew."""
        return self._fast("coriolis_matrix")(c, c_rate)

    def coriolis_force(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """C(c, c_rate) c_rate, shape (n,)."""
        return self._fast("coriolis_force")(c, c_rate)

    def gravity_force(self, c: ArrayLike) -> Vector:
        """Gradient of the potential energy in gravity, shape (n,)."""
        return self._fast("gravity_force")(c)

    def elastic_force(self, c: ArrayLike) -> Vector:
        """K c, shape (n,)."""
        return self.symbolic.stiffness @ np.asarray(c, dtype=float)

    def damping_force(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """D c_rate, shape (n,); the same at every c, as muhmann's D_M."""
        del c
        return self.symbolic.damping @ np.asarray(c_rate, dtype=float)

    def momentum(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """dL/dc_rate = M c_rate, shape (n,)."""
        return self._fast("momentum")(c, c_rate)

    def lagrangian_gradient(self, c: ArrayLike, c_rate: ArrayLike) -> Vector:
        """dL/dc = dT/dc - dV/dc, shape (n,)."""
        return self._fast("lagrangian_gradient")(c, c_rate)

    def potential(self, c: ArrayLike) -> tuple[float, Vector, Vector]:
        """Potential energy V (J), its gradient (n,) and its Hessian (n, n)."""
        value, gradient, hessian = self._fast("potential")(c)
        return float(value[0]), gradient, hessian

    def energies(self, c: ArrayLike, c_rate: ArrayLike) -> Energies:
        """Energies by part, muhmann (9)-(19), johnston (23)."""
        rate = np.asarray(c_rate, dtype=float)
        translational, rotational, gravity, axial, elastic = self._fast("energies")(c, c_rate)
        return Energies(
            translational=dict(zip(PARTS, map(float, translational), strict=True)),
            rotational=dict(zip(PARTS, map(float, rotational), strict=True)),
            gravity_by_part=dict(zip(PARTS, map(float, gravity), strict=True)),
            tendon_axial=float(axial[0]),
            elastic=float(elastic[0]),
            actuators=float(rate @ self.symbolic.actuator_mass @ rate / 2),
        )

    # --- tendons and kinematics

    def tendon_displacement(self, c: ArrayLike) -> Vector:
        """Displacement of every tendon, pulled in positive, shape (N,), m."""
        return self.symbolic.tendon_matrix @ np.asarray(c, dtype=float)

    def displacement_jacobian(self, c: ArrayLike | None = None) -> Vector:
        """dq/dc, shape (N, n), m per (1/m); the same at every c, as all tendons are parallel to the backbone."""
        del c
        return self.symbolic.tendon_matrix.copy()

    def string_extension(self, c: ArrayLike) -> Vector:
        """Extension of every string, shape (strings,), m; positive when it left the body."""
        return self.symbolic.string_matrix @ np.asarray(c, dtype=float)

    def poses(self, c: ArrayLike, s: ArrayLike) -> Vector:
        """Frames of the backbone.

        Parameters
        ----------
        c : (n,) coefficients
        s : (k,) arc lengths from the base, m, in [0, length]

        Returns
        -------
        (k, 4, 4) homogeneous matrices in the base frame
        """
        pose = self._fast("pose")
        return np.array([pose(c, place) for place in self._arc_lengths(s)]).reshape(-1, 4, 4)

    def body_jacobian(self, c: ArrayLike, s: float) -> Vector:
        """Jacobian of the twist (linear, angular) of the frame at arc length ``s`` (m), in its own axes, (6, n)."""
        return self._fast("body_jacobian")(c, self._arc_lengths(s)[0])

    def _arc_lengths(self, s: ArrayLike) -> Vector:
        places = np.atleast_1d(np.asarray(s, dtype=float))
        length_m = self.robot.length_m
        if not np.all((places >= 0) & (places <= length_m * (1 + 1e-9))):
            raise ParameterError("s", s, f"arc lengths in [0, {length_m:g}] m")
        return places

    def check_reach(self, c: ArrayLike) -> None:
        """Raise ParameterError where ``c`` bends a segment beyond what the kinematics resolve to double precision."""
        coefficients = np.asarray(c, dtype=float)
        for segment, place in zip(self.robot.segments, coefficient_slices(self.robot), strict=True):
            step, reach_rad = longest_step(segment.basis), step_reach_rad(segment.basis, 1.0)
            rows = [basis_matrix(segment.basis, float(ratio))[:3] for ratio in np.linspace(0, 1, 1 + round(4 / step))]
            curvature = np.linalg.norm(np.array(rows) @ coefficients[place], axis=1).max()
            angle = float(curvature * segment.length_m)
            if not angle * step <= reach_rad:
                raise ParameterError(
                    f"bending angle of {segment.name}", angle, f"finite and at most {reach_rad / step:.3g} rad"
                )

    @cached_property
    def state_derivative(self) -> ca.Function:
        """(x = (c, c_rate), tension, generalized_force) -> x', for integrators."""
        x = ca.MX.sym("x", 2 * self.size)
        tension = ca.MX.sym("tension", self.robot.tendon_count)
        force = ca.MX.sym("generalized_force", self.size)
        acceleration: Any = self.symbolic.forward_dynamics(x[: self.size], x[self.size :], tension, force)
        return ca.Function("state_derivative", [x, tension, force], [ca.vertcat(x[self.size :], acceleration)])
