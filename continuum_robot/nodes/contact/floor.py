# SPDX-License-Identifier: Apache-2.0
"""The floor of the contact monitor's residual: learnt from free motion by action, service or at the start, stored."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.action.server import ServerGoalHandle

from continuum_robot.action import LearnFloor
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.estimation.contact.floor_learning import (
    LEAST_DURATION_S,
    LONGEST_DURATION_S,
    FloorLearning,
    MotionRange,
)
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.states import CLEAR, ContactEstimate
from continuum_robot.identification.procedures.record import (
    floor_path,
    load_floor,
    make_floor_record,
)
from continuum_robot.nodes.base.diagnostics import StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.recordings.records import RecordFolder, record_folder
from continuum_robot.nodes.stack.choices import (
    AT_START,
    AUTO,
    FLOOR_POLICIES,
    IF_MISSING,
    OFF,
    SIMULATION_LEVELS,
    STORED,
)
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]

CANCELLED = "cancelled"
FEEDBACK_PERIOD_S = 0.1
# A motion that is clear for a third of its time is worth waiting for.
_PATIENCE, _PATIENCE_S = 3.0, 10.0


@dataclass
class _Learning:
    """One learning, until it is known how it ended and, if so, stored."""

    session: FloorLearning
    stored: bool
    until_s: float
    file: str = ""
    message: str = ""
    succeeded: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, kw_only=True)
class FloorParameters(RecordFolder):
    """Of the floor."""

    free_motion: str = quantity(
        "which floor of the residual is used. stored: what was learnt and stored; auto: the same on hardware, none"
        " in simulation; if_missing: stored, else learnt from the first motion; at_start: learnt from the first"
        " motion; off: none but what is learnt by request",
        default=AUTO,
        choices=FLOOR_POLICIES,
    )
    learn_s: float = quantity(
        "how long the service learn, and the first motion, are learnt from",
        "s",
        default=10.0,
        ge=LEAST_DURATION_S,
        le=LONGEST_DURATION_S,
        live=True,
    )
    simulation_level: str = quantity(
        "of the simulated devices: what is learnt of one robot is not used for another",
        default="dynamics",
        choices=SIMULATION_LEVELS,
    )


class ContactFloor:
    """Learns the floor of the residual from free motion, stores it, and reads what was stored.

    ``idle`` says why nothing can be learnt now; ``lock`` is held while the monitor works.
    """

    def __init__(
        self,
        host: ManagedNode,
        parameters: Callable[[], FloorParameters],
        monitor: Callable[[], ContactMonitor],
        lock: threading.RLock,
        idle: Callable[[], DeviceError | None],
    ) -> None:
        self._host, self._parameters, self._monitor, self._lock, self._idle = host, parameters, monitor, lock, idle
        self.missing = self.newest_report = ""
        self._learning: _Learning | None = None
        self._awaits_motion = False
        self._range = MotionRange()
        self.read()

    @property
    def running(self) -> bool:
        learning = self._learning
        return learning is not None and not learning.ended.is_set()

    @property
    def _policy(self) -> str:
        policy = self._parameters().free_motion
        return policy if policy != AUTO else OFF if self._host.simulated else STORED

    @property
    def _devices(self) -> str:
        """What a floor belongs to; each seed is another simulated robot, and each payload another motion."""
        get = self._host.parameters.get
        devices = "hardware"
        if self._host.simulated:
            devices = f"{self._parameters().simulation_level}, seed {get('seed')}"
        return f"{devices}, payload {get('payload_kg'):g} kg" if get("payload_kg") >= 0 else devices

    def read(self) -> None:
        """Use what was stored for the monitor's settings, or note why there is nothing."""
        monitor = self._monitor()
        self.missing = ""
        if self._policy not in (STORED, IF_MISSING):
            return
        try:
            path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._host))
            record = load_floor(monitor.robot, monitor.settings, self._devices, path)
            with self._lock:
                monitor.use_floor(record.floor)
            self._host.get_logger().info(f"uses what the contact monitor learnt on {record.date}: {path}")
        except ContinuumRobotError as error:
            self.missing = str(error)
            if self._policy == STORED:
                self._host.get_logger().warning(self.missing)

    def replace(self) -> None:
        """The observers' settings changed: another floor belongs to them."""
        self.stop("the settings of the observers were changed meanwhile")
        with self._lock:
            self._monitor().use_floor(None)
        self.read()

    def begin(self) -> None:
        """The monitor begins to watch: its first motion is learnt from, where the parameter asks for it."""
        policy = self._policy
        self._awaits_motion = policy == AT_START or (policy == IF_MISSING and self._monitor().floor is None)
        self._range = MotionRange()

    def take(self, estimate: ContactEstimate, displacement_m: Vector, dt: float) -> None:
        """The monitor's output, with the lock held and the tendons driven."""
        learning = self._learning
        if learning is None or learning.ended.is_set():
            if not self._awaits_motion or estimate.state != CLEAR:
                return
            self._range.take(displacement_m)
            if self._range.enough:
                # What was learnt by itself in simulation is not kept: the next run is another robot's.
                self._start(self._parameters().learn_s, stored=not self._host.simulated)
            return
        session = learning.session
        if not session.running:  # it is being stored
            return
        session.take(estimate, displacement_m, dt)
        if session.running and self._host.clock.monotonic_s() > learning.until_s:
            session.abort(
                f"the robot was clear of contacts for {100 * session.progress:.0f} % of the time that is desired, state"
                f" {estimate.state}. Free it, and learn again"
            )
        if not session.running:
            self._end(learning)

    def stop(self, problem: str) -> None:
        with self._lock:
            learning = self._learning
            if learning is not None and learning.session.running:
                learning.session.abort(problem)
                self._end(learning)

    def diagnose(self, status: StatusBuilder) -> None:
        """Say what is used and what is being learnt."""
        learning = self._learning
        status.add("floor_in_use", self._monitor().floor is not None)
        status.add("floor", self.newest_report or self.missing)
        if learning is not None and learning.session.running:
            status.add("floor_learning_progress", learning.session.progress)

    # The learning

    def _start(self, duration_s: float, *, stored: bool) -> _Learning:
        idle = self._idle()
        if idle is not None:
            raise idle
        if self.running:
            raise DeviceError("contact_monitor", "learns already", "Wait for its end, or cancel it")
        until_s = self._host.clock.monotonic_s() + _PATIENCE * duration_s + _PATIENCE_S
        learning = _Learning(FloorLearning(self._monitor(), duration_s), stored, until_s)
        self._learning, self._awaits_motion = learning, False
        self._host.get_logger().info(f"learns {duration_s:g} s of free motion: nothing may touch the robot")
        return learning

    def _end(self, learning: _Learning) -> None:
        """Tell how it ended; what was learnt is stored in a thread, since a disk may take longer than a cycle."""
        session, monitor = learning.session, self._monitor()
        if session.learnt is None:
            self._tell(learning, session.problem, succeeded=False)
        elif not learning.stored:
            self._tell(learning, session.learnt.sentence(), succeeded=True)
        else:
            threading.Thread(target=self._store, args=(learning, monitor), name="floor", daemon=True).start()

    def _store(self, learning: _Learning, monitor: ContactMonitor) -> None:
        learnt = learning.session.learnt
        if learnt is None:
            return
        try:
            record = make_floor_record(monitor.robot, monitor.settings, self._devices, learnt)
            path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._host))
            record.store(path)
        except ContinuumRobotError as error:
            self._tell(learning, f"{learnt.sentence()}; in use until this program ends, not stored: {error}", False)
            return
        learning.file = str(path)
        self._tell(learning, f"{learnt.sentence()}; stored in {path}", succeeded=True)

    def _tell(self, learning: _Learning, message: str, succeeded: bool) -> None:
        learning.message, learning.succeeded = message, succeeded
        self.newest_report = message
        if succeeded:
            self._host.get_logger().info(message)
        else:
            self._host.get_logger().warning(f"learnt no floor: {message}")
        learning.ended.set()

    # Action and services, in the executor's thread

    async def serve(self, goal: ServerGoalHandle, waiting: Waiting) -> Any:
        result = LearnFloor.Result(least_tip_force=math.nan, least_tip_force_before=math.nan)
        try:
            asked = check_request("LearnFloor", goal.request)
            if asked.only_if_missing and self._monitor().floor is not None:
                result.success, result.message = True, "a floor is in use already"
                goal.succeed()
                return result
            with self._lock:
                learning = self._start(asked.duration, stored=True)
        except ContinuumRobotError as error:
            result.message = f"refused: {error}"
            self._host.get_logger().error(result.message)
            goal.abort()
            return result
        feedback = LearnFloor.Feedback()
        while not learning.ended.is_set():
            await waiting.sleep(0.0)
            if goal.is_cancel_requested:
                self.stop(CANCELLED)
            feedback.progress = learning.session.progress
            feedback.state, feedback.ratio = learning.session.newest_state, learning.session.newest_ratio
            goal.publish_feedback(feedback)
        result.success, result.message, result.file = learning.succeeded, learning.message, learning.file
        learnt = learning.session.learnt
        if learnt is not None:
            result.least_tip_force, result.least_tip_force_before = learnt.least_tip_force_n, learnt.before_n
        if learning.succeeded:
            goal.succeed()
        elif goal.is_cancel_requested and learning.message == CANCELLED:
            goal.canceled()
        else:
            goal.abort()
        return result

    def learn(self) -> str:
        duration_s = self._parameters().learn_s
        with self._lock:
            self._start(duration_s, stored=True)
        return f"learns {duration_s:g} s of free motion; /diagnostics shows how it goes and ends"

    def forget(self) -> str:
        if self.running:
            raise ContinuumRobotError("it learns; cancel that first")
        monitor = self._monitor()
        path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._host))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ContinuumRobotError(f"{path}: {error}") from error
        with self._lock:
            monitor.use_floor(None)
        self.newest_report = ""
        return "the floor of free motion is forgotten, and its record gone"
