# SPDX-License-Identifier: Apache-2.0
"""A robot under its shipped stack that feels contacts and answers them, in virtual time, on any plant."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.control.contact_reaction import FOLLOWING, ContactReaction, ContactSense
from continuum_robot.control.references import ClarkeReference, Reference
from continuum_robot.estimation.contact.free_motion import Floor
from continuum_robot.estimation.contact.kind import SEVERAL, ContactKinds
from continuum_robot.estimation.contact.location import PairEstimate
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.states import INVALID, ContactEstimate
from continuum_robot.estimation.screw_deviation import ScrewDeviation, ScrewDeviations
from continuum_robot.estimation.sensor_watch import STACK_WATCH
from continuum_robot.models.making import robot_model
from continuum_robot.robot.control_settings import ReactionSettings
from continuum_robot.robot.description import Robot
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.plants import PLANTS
from continuum_robot.testing.virtual_stack import SlowReference, VirtualStack

Array = NDArray[np.float64]

STEP_S, SETTLE_S, _AFTER_S = 0.01, 1.5, 1.5


def wall_at(
    robot: Robot, arc_length_m: float, touch_m: ArrayLike, beyond_m: ArrayLike, stiffness_n_per_m: float
) -> Contact:
    """A wall across the path that a point of the backbone takes, where the model has it at the touch."""
    drawing = robot_model(robot).drawing()
    touch, beyond = (
        np.asarray(drawing.pose(drawing.coefficients(np.asarray(clarke)), arc_length_m)[:3, 3])
        for clarke in (touch_m, beyond_m)
    )
    way = beyond - touch
    return Contact(
        name="wall",
        kind="wall",
        arc_length_m=arc_length_m,
        point_m=tuple(float(value) for value in touch),
        normal=tuple(float(value) for value in -way / np.linalg.norm(way)),
        stiffness_n_per_m=stiffness_n_per_m,
    )


@dataclass(frozen=True)
class Felt:
    """What is felt in an update."""

    estimate: ContactEstimate
    kind: str
    pair: PairEstimate | None
    screw: ScrewDeviation


@dataclass(frozen=True)
class Run:
    """What came of a case."""

    peak_n: float
    falling_s: float
    detected_s: float
    given_up_m: float
    time_s: Array
    force_n: Array
    felt_s: Array = field(default_factory=lambda: np.zeros(0))
    felt: tuple[Felt, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of the contact in each update."""
        return tuple(one.kind for one in self.felt)

    @property
    def pairs(self) -> tuple[PairEstimate, ...]:
        """Where two contacts are, in each update in which there were several."""
        return tuple(one.pair for one in self.felt if one.pair is not None)


class Sensing:
    """What the stack estimates a hundred times a second: the shape, and contacts."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.monitor = ContactMonitor(robot, motors=True)
        pose = self.monitor.functions.backbone_pose()
        self._kinds, self._screws = ContactKinds(robot, pose), ScrewDeviations(robot, pose)
        self._shape = robot_model(robot).shape_estimator(STACK_WATCH)
        self._stack: VirtualStack | None = None
        self._strings: SimulatedStringEncoders | None = None

    def begin(self, stack: VirtualStack, floor: Floor | None, seed: int) -> None:
        """Feel another robot."""
        self._stack = stack
        self._shape.reset()
        self.monitor.reset()
        self._kinds.reset()
        self._screws.reset()
        if floor is not None:
            self.monitor.use_floor(floor)
        if self.robot.strings:
            source, rng = stack.actuators.string_source, np.random.default_rng([seed, 1])
            self._strings = SimulatedStringEncoders(self.robot, source, rng=rng)
            self._strings.open()

    def feel(self) -> Felt | None:
        """A turn; None while there is no reading."""
        stack = self._stack
        reading = None if stack is None else stack.loop.reading
        if stack is None or reading is None:
            return None
        extension = None if self._strings is None else self._strings.read(stack.now_s).extension_m
        shape = self._shape.update(
            reading.displacement_m, reading.velocity_m_per_s, extension, STEP_S, reading.tension_n
        )
        size = self.robot.coefficient_count
        rates = slice(size, 2 * size)
        estimate = self.monitor.update(
            shape.coefficients,
            shape.coefficient_rates,
            shape.covariance,
            STEP_S,
            tension=reading.tension_n,
            tendon_displacement=reading.displacement_m,
            c_rate_covariance=None if shape.motion is None else shape.motion.covariance[rates, rates],
        )
        kind = self._kinds.update(estimate, shape.coefficients, reading.displacement_m, STEP_S).name
        pair = self.monitor.pair(estimate, kind == SEVERAL, STEP_S)
        return Felt(estimate, kind, pair, self._screws.update(shape.coefficients, reading.displacement_m, STEP_S))


class TouchedRobot:
    """A robot with what feels it and answers; one motion after the other, each on a plant of its own.

    ``true`` is what moves, if not ``robot``, which the stack knows.
    """

    def __init__(self, robot: Robot, plant: str, seed: int, true: Robot | None = None) -> None:
        self.robot, self._true, self._kind, self._seed = robot, true or robot, plant, seed
        self._sensing = Sensing(robot)
        self.monitor = self._sensing.monitor
        self._manifold = controlled_manifold(robot)
        self._floor: Floor | None = None

    def learn(self, motions: Sequence[Reference]) -> None:
        """Learn the floor of free motion."""
        monitor, self._floor = self.monitor, None
        monitor.use_floor(None)
        monitor.learn_floor(True)
        for motion in motions:
            self.move(motion)
        monitor.learn_floor(False)
        self._floor = monitor.floor

    def at_rest(self) -> Array:
        """Coordinates of the robot at rest before its motors pull, (n,), m."""
        plant = PLANTS[self._kind](self._true, actuation="motors", rng=np.random.default_rng(self._seed))
        return self._manifold.clarke(plant.rod_displacement)

    def move(self, motion: Reference, answer: ReactionSettings | None = None, **touched_by: Any) -> Run:
        """A motion, from rest, and a while after it; ``touched_by``: contacts or world of the plant."""
        rng = np.random.default_rng(self._seed)
        plant = PLANTS[self._kind](self._true, actuation="motors", rng=rng, **touched_by)
        stack = VirtualStack(self.robot, plant, seed=self._seed)
        self._sensing.begin(stack, self._floor, self._seed)
        reaction = ContactReaction(self.robot, answer or ReactionSettings())
        current, detected_s, given_up_m = motion.at(0.0), np.nan, 0.0
        rows: list[tuple[float, float]] = []
        felt: list[tuple[float, Felt]] = []

        def react(time_s: float) -> ClarkeReference:
            nonlocal current, detected_s, given_up_m
            asked, newest, reading = motion.at(time_s - SETTLE_S), self._sensing.feel(), stack.loop.reading
            if newest is not None and reading is not None and time_s > SETTLE_S / 2:
                felt.append((stack.now_s - began_s, newest))
                estimate = newest.estimate
                if estimate.in_contact and not np.isfinite(detected_s):
                    detected_s = time_s
                invalid = estimate.reason if estimate.state == INVALID else ""
                sense = ContactSense(estimate.in_contact, reaction.force_of(estimate.residual), invalid)
                clarke = self._manifold.clarke(reading.displacement_m)
                current = reaction.update(asked, sense, clarke, STEP_S).reference
                given_up_m = max(given_up_m, float(np.linalg.norm(current.position - asked.position)))
            return current

        reacting = SlowReference(react, STEP_S, current)

        def desired(time_s: float) -> ClarkeReference:
            reference = reacting.at(time_s)
            return motion.at(time_s - SETTLE_S) if reaction.state == FOLLOWING else reference

        def look(running: VirtualStack) -> None:
            force_n = sum(float(np.linalg.norm(load.force_in_base_n)) for load in plant.contact_loads)
            rows.append((running.now_s - began_s, force_n))

        with stack:
            stack.activate()
            began_s = stack.now_s
            stack.follow(desired, SETTLE_S + motion.duration_s + _AFTER_S, look)
        time_s, force_n = np.array(rows).T
        judged = _judge(time_s, force_n, detected_s, given_up_m)
        touch_s = time_s[0] - judged.time_s[0]
        return dataclasses.replace(
            judged,
            felt_s=np.array([at_s for at_s, _ in felt]) - touch_s,
            felt=tuple(one for _, one in felt),
        )


def _judge(time_s: Array, force_n: Array, detected_s: float, given_up_m: float) -> Run:
    touched = np.flatnonzero(force_n > 0)
    if touched.size == 0:
        return Run(0.0, np.nan, np.nan, given_up_m, time_s, force_n)
    touch_s, top = float(time_s[touched[0]]), int(force_n.argmax())
    fallen = np.flatnonzero(force_n[top:] < 0.9 * force_n[top])
    falling_s = float(time_s[top + fallen[0]]) - touch_s if fallen.size else np.nan
    return Run(float(force_n[top]), falling_s, detected_s - touch_s, given_up_m, time_s - touch_s, force_n)
