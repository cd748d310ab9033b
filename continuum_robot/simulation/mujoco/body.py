# SPDX-License-Identifier: Apache-2.0
"""The robot as MuJoCo moves it, in a world or alone: a chain of rigid links with tendons and motors.

In each step MuJoCo gives inertia, gravity, springs and dampers of the hinges, lengths of the tendons and, in a world,
contacts. Tendons, spools and the contacts of a contact file are solved together at the end of the step (rows.py) and
applied as generalised forces, before MuJoCo solves its own contacts and integrates. At rest, :func:`at_rest`, the chain
is found by Newton's method with load steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.errors import ContinuumRobotError, ConvergenceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.rod.friction.capstan_friction import CapstanFriction
from continuum_robot.rod.friction.capstans import capstan_jacobian, tension_from_torque
from continuum_robot.rod.friction.hysteresis import RodHysteresis
from continuum_robot.rod.friction.resistance import PathFriction
from continuum_robot.rod.loads import PointWrench
from continuum_robot.simulation.bodies.rod_body import Drive, diverged
from continuum_robot.simulation.contact import FRICTION_SPEED_M_PER_S as SLIP_SPEED
from continuum_robot.simulation.contact import Contact, ContactLoad, Kinematics, PlantContacts
from continuum_robot.simulation.faults import MUJOCO
from continuum_robot.simulation.motors import MotorModel
from continuum_robot.simulation.mujoco.chain import Chain
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.mjcf import (
    ChainKinematics,
    compile_chain,
    geometry_triangles,
    refuse_overlap,
    world_loads,
)
from continuum_robot.simulation.mujoco.rows import ChainRubbing, Rows, joined, solve_rows, spool_step
from continuum_robot.simulation.mujoco.world import PlacedWorld
from continuum_robot.simulation.plant import Plant

Vector = NDArray[np.float64]

SUBSTEP_S = 5e-4


@dataclass(frozen=True)
class Energy:
    """Energy of the chain: of the links alone, without the motors and without the inertia that the hinges are given."""

    kinetic_j: float
    elastic_j: float
    gravity_j: float

    @property
    def total_j(self) -> float:
        """Their sum, J."""
        return self.kinetic_j + self.elastic_j + self.gravity_j


class ChainBody:
    """The chain, its tendons and its motors."""

    def __init__(
        self,
        robot: Robot,
        motor: MotorModel | None,
        contacts: Sequence[Contact] = (),
        *,
        links: int | Sequence[int] | None = None,
        world: PlacedWorld | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if robot.transmission is not None:
            expected = "none with MuJoCo's chain, where each motor pulls one tendon"
            raise ParameterError("transmission", robot.name, expected)
        self._mujoco = mujoco_library()
        self.robot, self._motor, self._world = robot, motor, world
        self.chain = Chain(robot, links)
        self.substep_s = min(SUBSTEP_S, robot.simulation.substep_s)
        friction = PathFriction(robot)
        made = compile_chain(self.chain, world, self.substep_s, given_tensions=motor is None, in_pieces=friction.acts)
        self.mujoco_model, self.xml, self._obstacle_of = made.model, made.xml, made.obstacle_of
        self.data = self._mujoco.MjData(self.mujoco_model)
        self._tendons, self._dof = robot.tendon_count, self.mujoco_model.nv
        self._measured = self._tendons + len(robot.strings)
        self.rubbing = ChainRubbing(robot, friction, self.mujoco_model) if friction.acts else None
        self.kinematics: Kinematics = ChainKinematics(self.chain, made, self.data)
        self.contacts = PlantContacts(robot, contacts, size=self._dof)
        self._fit = self.chain.strain_fit
        self._curvature = self.chain.grating_curvature
        self._no_load = np.zeros(robot.tendon_count)
        self._friction = CapstanFriction(robot)
        self._capstans = self._friction.capstan_count > 0
        if self._capstans:
            self._load_of_torque = tension_from_torque(robot)
            self._per_rate = capstan_jacobian(robot)
        self.push: tuple[float, Vector] | None = None
        self.world_loads: tuple[ContactLoad, ...] = ()
        self._mujoco.mj_forward(self.mujoco_model, self.data)
        self._rows_of_lengths = np.repeat(np.arange(self.mujoco_model.ntendon), self.mujoco_model.ten_J_rownnz)
        self.straight_lengths_m = self.data.ten_length.copy()
        if world is not None:
            refuse_overlap(made, self.data, self.chain, world)
        self._rest_angles = at_rest(self.mujoco_model, self.data, robot)
        self._rest = self._fit @ self._rest_angles
        self._hysteresis = RodHysteresis(robot)
        self.reset(self._rest)
        if progress is not None:
            progress(f"MuJoCo simulates {robot.name} as {sum(self.chain.links_per_segment)} links")

    # --- moving it

    @property
    def rest(self) -> Vector:
        """Equilibrium without tension, (n,), in the units of the coefficients."""
        return self._rest

    def set_gravity(self, gravity_m_per_s2: Vector) -> None:
        """Go on in another gravity in the base frame, (3,), m/s^2; the rest stays that of the one before."""
        self.mujoco_model.opt.gravity[:] = gravity_m_per_s2

    def reset(self, c: Vector) -> None:
        """Be at rest at coefficients ``c`` (n,), in their units, without tension and current, no tendon slack."""
        self._mujoco.mj_resetData(self.mujoco_model, self.data)
        resting = np.array_equal(c, self._rest)
        self.data.qpos[:] = self._rest_angles if resting else self.chain.angles(c)
        self._mujoco.mj_forward(self.mujoco_model, self.data)
        self._mujoco.mj_step1(self.mujoco_model, self.data)
        none = np.zeros(self._tendons)
        self._spooled, self._speed, self._current, self._tension = self.rod_displacement, none, none, none
        self._resisting = np.zeros(self._friction.capstan_count)
        self._slip = None if self._motor is None else self._motor.slip(self._spooled)
        self._hysteresis.reset(self.c)
        if self.rubbing is not None:
            self.rubbing.reset()
        self.world_loads = ()

    def advance(self, drive: Drive, duration_s: float) -> None:
        """Integrate for a duration of more than 0 s; raises ContinuumRobotError where it diverges."""
        steps = max(1, math.ceil(duration_s / self.substep_s * (1 - 1e-9)))
        h = duration_s / steps
        self.mujoco_model.opt.timestep = h
        given = self._fit.T @ drive.force
        model, data = self.mujoco_model, self.data
        for k in range(steps):
            try:
                self._prepare(drive, given, h, drive.time_s + k * h - drive.contacts_from_s)
            except (ConvergenceError, np.linalg.LinAlgError) as error:
                raise self._diverged(drive.time_s) from error
            self._mujoco.mj_step2(model, data)
            if self._world is not None and k == steps - 1:
                self.world_loads = world_loads(model, data, self._obstacle_of, self.chain, self._world)
            self._mujoco.mj_step1(model, data)
        if not math.isfinite(float(data.qpos.sum() + data.qvel.sum() + self._speed.sum())):
            raise self._diverged(drive.time_s)

    def _diverged(self, time_s: float) -> ContinuumRobotError:
        return diverged(self.robot, time_s, "reduce the gains")

    def _prepare(self, drive: Drive, given: Vector, h: float, contact_time_s: float) -> None:
        """Generalised force of tendons, motors, contacts and hands for the next step."""
        data, rows = self.data, Rows()
        force = given.copy()
        if self._hysteresis.acts:
            force -= self._fit.T @ self._hysteresis.move(self.c)
        if self.push is not None:
            force += self._pushed(*self.push)
        if self.contacts.size:
            force += self._touch(rows, contact_time_s, h)
        pulls = -self._lengths_jacobian()
        given_n = drive.stiffness_fraction * np.maximum(drive.desired, 0.0) if self._motor is None else self._tension
        if self.rubbing is not None:
            self.rubbing.add(rows, data, pulls[self._measured :], given_n, h)
        if self._motor is None:
            tension = given_n
            force += pulls[: self._tendons].T @ tension
            if self._capstans:
                speed = self._per_rate @ (self._fit @ data.qvel)
                self._resisting = self._resistance(speed, tension)
                force -= self._fit.T @ (self._per_rate.T @ self._resisting)  # johnston (38), (41)
            self._tension = tension
            self._apply(rows, force, h)
            return
        load = self._no_load
        if self._capstans:
            self._resisting = self._resistance(self._load_of_torque.T @ self._speed, self._tension)
            load = self._load_of_torque @ self._resisting
        state = self._spooled, self._speed, self._current, drive.desired, self.rod_displacement, load, self._tension
        faults = drive.offset_m, drive.stiffness_fraction, drive.motor_free, drive.current_limit_a
        anchors = np.zeros((0, self._tendons))
        if self._slip is not None:
            self._slip.move(self._spooled)
            anchors = self._slip.anchors
        self._current, level, slope, yielding, loose_speed = spool_step(
            self.robot, self._motor, state, faults, anchors, h
        )
        rows.add(pulls[: self._tendons], level, slope, yielding)
        self._tension = self._apply(rows, force, h)[-self._tendons :]
        self._speed = loose_speed - yielding * self._tension
        self._spooled = self._spooled + h * self._speed

    def _apply(self, rows: Rows, force: Vector, h: float) -> Vector:
        """Solve the rows, hand all forces to MuJoCo; magnitudes of the rows."""
        data = self.data
        found = np.zeros(0)
        if rows.directions:
            directions = joined(rows.directions)
            answers = np.empty_like(directions)
            # What a unit of each row and all other forces do to the velocities; contacts with the world as before.
            self._mujoco.mj_solveM(self.mujoco_model, data, answers, directions)
            other = data.qfrc_passive - data.qfrc_bias + force
            if self._world is not None:
                other += data.qfrc_constraint
            free_rate = directions @ data.qvel + h * (answers @ other)
            found = solve_rows(
                joined(rows.levels),
                joined(rows.slopes),
                joined(rows.compliances),
                joined(rows.one_sided),
                free_rate,
                h * (answers @ directions.T),
            )
            force = force + found @ directions
        data.qfrc_applied[:] = force
        return found

    def _pushed(self, arc_length_m: float, force_n: Vector) -> Vector:
        rotation = self.kinematics.poses(self.data.qpos, [arc_length_m])[0, :3, :3]
        jacobian = self.kinematics.body_jacobian(self.data.qpos, arc_length_m)
        return np.asarray(jacobian[:3].T @ (rotation.T @ force_n))

    def _touch(self, rows: Rows, time_s: float, h: float) -> Vector:
        """Add the walls and spheres of the contact file to the rows; the generalised force of its pushes."""
        data = self.data
        values, pushed = self.contacts.parameters(self.kinematics, data.qpos, data.qvel, time_s)
        for gap, law, gradient, slip in self.contacts.surfaces(values):
            stiffness, dissipation, friction = law
            if stiffness == 0:
                continue
            depth = max(-gap, 0.0)
            slope = stiffness * (h + dissipation * depth)  # contact_force, linear in the rate at the end of the step
            rows.add(gradient[None], np.array([-stiffness * gap]), np.array([slope]))
            along = slip @ data.qvel
            viscous = friction * stiffness * depth / math.sqrt(along @ along + SLIP_SPEED**2)
            if viscous > 0:
                rows.add(slip, np.zeros(2), np.full(2, viscous), one_sided=False)
        return pushed

    def _resistance(self, capstan_speed_rad_per_s: Vector, tension_n: Vector) -> Vector:
        """Friction torque on the capstans, (capstans,), N.m; johnston (37) at the fitted coefficients."""
        value = self._friction.resistance(self.c, capstan_speed_rad_per_s, tension_n)
        return np.array(value, dtype=float).reshape(-1)

    @property
    def tendon_count(self) -> int:
        """N."""
        return self._tendons

    def pull_directions(self) -> Vector:
        """Generalised force of a newton in each tendon, (N, dof), m: its length's gradient, negative."""
        return -self._lengths_jacobian()[: self._tendons]

    def _lengths_jacobian(self) -> Vector:
        """Gradient of the length of every tendon, string and piece, (..., dof), m; MuJoCo holds it row by row."""
        dense = np.zeros((self.mujoco_model.ntendon, self._dof))
        dense[self._rows_of_lengths, self.mujoco_model.ten_J_colind] = self.data.ten_J
        return dense

    # --- what can be seen

    @property
    def c(self) -> Vector:
        """Strain coefficients that fit the hinge angles best, (n,), 1/m for curvatures."""
        return np.asarray(self._fit @ self.data.qpos)

    @property
    def c_rate(self) -> Vector:
        """Their rates, (n,)."""
        return np.asarray(self._fit @ self.data.qvel)

    @property
    def spools(self) -> Vector:
        """Tendon spooled on each spool (m), its rate (m/s) and the motor's current (A), (3, N); with motors."""
        return np.array([self._spooled, self._speed, self._current])

    @property
    def rod_displacement(self) -> Vector:
        """Displacement of the tendons at the chain: their shortening, (N,), m."""
        return np.asarray((self.straight_lengths_m - self.data.ten_length)[: self._tendons])

    @property
    def rod_velocity(self) -> Vector:
        """Its rate, (N,), m/s."""
        return np.asarray(self.pull_directions() @ self.data.qvel)

    @property
    def string_extension(self) -> Vector:
        """Extension of every string: shortening of its path, (strings,), m."""
        return np.asarray((self.straight_lengths_m - self.data.ten_length)[self._tendons : self._measured])

    @property
    def fiber_curvature(self) -> Vector:
        """Curvature about x and y at every grating of the robot's fibre, (2 g,), 1/m: angles over their pieces."""
        return np.asarray(self._curvature @ self.data.qpos)

    def tension(self, drive: Drive) -> Vector:
        """Tensions at the end of the latest step, (N,), N; of what is given, fractions of the tendons count."""
        if self._motor is None:
            return np.asarray(drive.stiffness_fraction * np.maximum(drive.desired, 0.0))
        return np.array(self._tension)

    def friction_torque(self, _tension_n: Vector, _velocity: Vector) -> Vector:
        """Friction that resisted each capstan in the latest step, (capstans,), N.m."""
        return np.array(self._resisting)

    def reach(self) -> Kinematics:
        """Kinematics of the chain as it is now."""
        return self.kinematics

    def energy(self) -> Energy:
        """Energy now."""
        data, mass = self.data, np.zeros((self._dof, self._dof))
        self._mujoco.mj_fullM(self.mujoco_model, data, mass)
        mass -= np.diag(self.mujoco_model.dof_armature)
        stiffness = np.concatenate([joint.stiffness_nm[list(joint.order)] for joint in self.chain.joints])
        weight_n = self.mujoco_model.body_mass[:, None] * self.mujoco_model.opt.gravity
        return Energy(
            0.5 * float(data.qvel @ mass @ data.qvel),
            0.5 * float(stiffness @ data.qpos**2),
            -float((weight_n * data.xipos).sum()),
        )

    def obstacle_triangles(self) -> Iterator[tuple[str, Vector]]:
        """Name of every obstacle and its triangles in the base frame, (k, 3, 3), m."""
        for index, obstacle in enumerate(() if self._world is None else self._world.obstacles):
            own = np.flatnonzero(self._obstacle_of == index)
            parts = [geometry_triangles(self.mujoco_model, self.data, int(geometry)) for geometry in own]
            yield obstacle.name, np.concatenate(parts)

    def contact_loads(self, time_s: float) -> tuple[ContactLoad, ...]:
        """The truth about the contacts of the contact file at their own time (s), then about those with the world."""
        of_file = self.contacts.loads(self.kinematics, self.data.qpos, self.data.qvel, time_s)
        return (*of_file, *self.world_loads)


def chain_equilibrium(body: ChainBody, tension_n: ArrayLike = (), wrenches: Sequence[PointWrench] = ()) -> Vector:
    """Hinge angles at rest, (dof,), rad; the chain is left there, so that ``body.kinematics`` gives its poses."""
    tension = np.zeros(body.tendon_count) if np.size(tension_n) == 0 else np.asarray(tension_n, dtype=float)

    def force(fraction: float) -> Vector:
        total = tension @ body.pull_directions()
        for wrench in wrenches:
            to_body = np.eye(3)
            if wrench.frame == "base":
                to_body = body.kinematics.poses((), [wrench.s_m])[0, :3, :3].T
            force_n, moment_nm = to_body @ wrench.force_n, to_body @ wrench.moment_nm
            jacobian = body.kinematics.body_jacobian((), wrench.s_m)
            total += jacobian[:3].T @ force_n + jacobian[3:].T @ (moment_nm + np.cross(wrench.offset_m, force_n))
        return np.asarray(fraction * total)

    return at_rest(body.mujoco_model, body.data, body.robot, force)


_STEP_RAD = 1e-6
_TOLERANCE_RAD = 1e-10
_ITERATIONS, _LOAD_STEPS = 30, 8
_LARGEST_CHANGE_RAD = 0.2
_SLOPE_KEPT = 0.1
_STRAIGHT_NM = 1e-12


def at_rest(
    model: Any,
    data: Any,
    robot: Robot,
    force: Callable[[float], Vector] | None = None,
) -> Vector:
    """Hinge angles at which the chain rests without contacts, (dof,), rad.

    Straight where gravity allows it, standing or hanging. ``data`` is left at the rest.
    """
    mujoco = mujoco_library()
    gravity = np.array(model.opt.gravity)
    flags = int(model.opt.disableflags)
    model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_CONTACT)

    def residual(angles: Vector, fraction: float) -> Vector:
        model.opt.gravity[:] = fraction * gravity
        data.qpos[:], data.qvel[:] = angles, 0.0
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        given = 0.0 if force is None else force(fraction)
        return np.asarray(data.qfrc_passive - data.qfrc_bias + given)

    try:
        angles = np.zeros(model.nv)
        if np.abs(residual(angles, 1.0)).max() < _STRAIGHT_NM:
            return angles
        try:
            return _newton(partial(residual, fraction=1.0), angles, robot)
        except ConvergenceError:
            for step in range(1, _LOAD_STEPS + 1):
                angles = _newton(partial(residual, fraction=step / _LOAD_STEPS), angles, robot)
            return angles
    finally:
        model.opt.gravity[:] = gravity
        model.opt.disableflags = flags


def _newton(residual: Callable[[Vector], Vector], angles: Vector, robot: Robot) -> Vector:
    change, before, slope = np.zeros(0), 0.0, np.zeros((0, 0))
    for _ in range(_ITERATIONS):
        here = residual(angles)
        largest = float(np.abs(here).max())
        if not largest < _SLOPE_KEPT * before:  # the slope of an earlier iteration does not serve any more
            columns = [residual(angles + _STEP_RAD * unit) for unit in np.eye(angles.size)]
            slope = (np.array(columns).T - here[:, None]) / _STEP_RAD
        before = largest
        change = np.asarray(np.linalg.solve(slope, -here))
        largest = float(np.abs(change).max())
        if not np.isfinite(largest):
            break
        angles = angles + change * min(1.0, _LARGEST_CHANGE_RAD / max(largest, 1e-300))
        if largest < _TOLERANCE_RAD:
            return angles
    raise ConvergenceError(
        f"the rest of {robot.name} as a chain", float(np.abs(change).max()), _TOLERANCE_RAD, _ITERATIONS
    )


class MujocoPlant(Plant):
    """As :class:`~continuum_robot.simulation.plant.Plant`, with a chain of rigid links for the rod.

    Its strain coefficients are those that fit the hinge angles best; pushes and contacts act where they are on the
    chain, and ``contact_loads`` holds those with the world too.
    """

    LEVEL = MUJOCO
    _body: ChainBody

    def __init__(
        self,
        robot: Robot,
        *,
        actuation: str = "motors",
        rng: np.random.Generator | None = None,
        progress: Callable[[str], None] | None = None,
        contacts: Sequence[Contact] = (),
        links: int | Sequence[int] | None = None,
        world: PlacedWorld | None = None,
    ) -> None:
        self._links, self._world = links, world
        super().__init__(robot, actuation=actuation, rng=rng, progress=progress, contacts=contacts)

    def _make_body(self, progress: Callable[[str], None] | None) -> ChainBody:
        return ChainBody(
            self.robot, self.motor, self._contacts.contacts, links=self._links, world=self._world, progress=progress
        )

    @property
    def chain(self) -> ChainBody:
        """The chain: its MuJoCo model, energy and links."""
        return self._body

    def obstacle_triangles(self) -> Iterator[tuple[str, Vector]]:
        """Name of every obstacle and its triangles in the base frame, (k, 3, 3), m."""
        return self._body.obstacle_triangles()

    def _pushed(self) -> Vector:
        # A hand acts on the chain itself, not on the coefficients that fit it.
        return np.zeros(self._size)

    def advance(self, command: ArrayLike, duration_s: float, generalized_force: ArrayLike | None = None) -> None:
        """As of :class:`Plant`; a generalised force does its work on the fitted coefficients."""
        self._body.push = self._push
        super().advance(command, duration_s, generalized_force)

    @property
    def contact_loads(self) -> tuple[ContactLoad, ...]:
        """The truth about every contact of the contact file, then about those with the world that act now."""
        return self._body.contact_loads(self._time_s - self.contacts_from_s)
