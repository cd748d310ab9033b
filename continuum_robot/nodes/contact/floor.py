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
from std_srvs.srv import Trigger

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
from continuum_robot.identification.procedures.floor_record import (
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
from continuum_robot.robot.schema import Quantity

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


class ContactFloor:
    """Serves ``learn_floor``, ``learn`` and ``forget_floor`` of the contact monitor, and reads what was stored."""

    def __init__(
        self,
        node: ManagedNode,
        monitor: Callable[[], ContactMonitor | None],
        lock: threading.RLock,
        idle: Callable[[], DeviceError | None],
    ) -> None:
        self._node, self._monitor, self._lock, self._idle = node, monitor, lock, idle
        declare = node.parameters.declare
        declare(
            "free_motion",
            AUTO,
            "which floor of the residual is used. stored: what was learnt and stored; auto: the same on hardware, none"
            " in simulation; if_missing: stored, else learnt from the first motion; at_start: learnt from the first"
            " motion; off: none but what is learnt by request",
            rules=Quantity("", choices=FLOOR_POLICIES),
            read_only=True,
        )
        declare(
            "learn_s",
            10.0,
            "how long the service learn, and the first motion, are learnt from",
            rules=Quantity("", "s", ge=LEAST_DURATION_S, le=LONGEST_DURATION_S),
        )
        declare(
            "simulation_level",
            "dynamics",
            "of the simulated devices: what is learnt of one robot is not used for another",
            rules=Quantity("", choices=SIMULATION_LEVELS),
            read_only=True,
        )
        node.parameters.declare_settings("", RecordFolder(), quiet=True)
        self.missing = ""
        self._learning: _Learning | None = None
        self._awaits_motion = False
        self._range = MotionRange()
        self._newest_report = ""
        self._waiting = Waiting(node, FEEDBACK_PERIOD_S)
        self._server: Any = node.create_action(LearnFloor, "~/learn_floor", self._serve)
        node.create_service(Trigger, "~/learn", self._serve_learn)
        node.create_service(Trigger, "~/forget_floor", self._serve_forget)

    def close(self) -> None:
        """End the action server, before the node is destroyed."""
        server, self._server = self._server, None
        if server is not None:
            server.destroy()

    # Of the node

    @property
    def running(self) -> bool:
        """Whether a learning is under way."""
        learning = self._learning
        return learning is not None and not learning.ended.is_set()

    @property
    def _policy(self) -> str:
        policy = str(self._node.parameters.get("free_motion"))
        if policy == AUTO:
            return OFF if self._node.simulated else STORED
        return policy

    @property
    def _devices(self) -> str:
        """What a floor belongs to; each seed is another simulated robot, and each payload another motion."""
        get = self._node.parameters.get
        devices = f"{get('simulation_level')}, seed {get('seed')}" if self._node.simulated else "hardware"
        return f"{devices}, payload {get('payload_kg'):g} kg" if get("payload_kg") >= 0 else devices

    def read(self) -> None:
        """Use what was stored for the monitor's settings, or note why there is nothing."""
        monitor = self._monitor()
        self.missing = ""
        if monitor is None or self._policy not in (STORED, IF_MISSING):
            return
        try:
            path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._node))
            record = load_floor(monitor.robot, monitor.settings, self._devices, path)
            with self._lock:
                monitor.use_floor(record.floor)
            self._node.get_logger().info(f"uses what the contact monitor learnt on {record.date}: {path}")
        except ContinuumRobotError as error:
            self.missing = str(error)
            if self._policy == STORED:
                self._node.get_logger().warning(self.missing)

    def replace(self) -> None:
        """The observers' settings changed: another floor belongs to them."""
        self.stop("the settings of the observers were changed meanwhile")
        monitor = self._monitor()
        if monitor is not None:
            with self._lock:
                monitor.use_floor(None)
            self.read()

    def begin(self) -> None:
        """The monitor begins to watch: its first motion is learnt from, where the parameter asks for it."""
        monitor, policy = self._monitor(), self._policy
        missing = monitor is not None and monitor.floor is None
        self._awaits_motion = policy == AT_START or (policy == IF_MISSING and missing)
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
                self._start(float(self._node.parameters.get("learn_s")), stored=not self._node.simulated)
            return
        session = learning.session
        if not session.running:  # it is being stored
            return
        session.take(estimate, displacement_m, dt)
        if session.running and self._node.clock.monotonic_s() > learning.until_s:
            session.abort(
                f"the robot was clear of contacts for {100 * session.progress:.0f} % of the time that is desired, state"
                f" {estimate.state}. Free it, and learn again"
            )
        if not session.running:
            self._end(learning)

    def stop(self, problem: str) -> None:
        """End a learning that is under way without a floor."""
        with self._lock:
            learning = self._learning
            if learning is not None and learning.session.running:
                learning.session.abort(problem)
                self._end(learning)

    def diagnose(self, status: StatusBuilder) -> None:
        """Say what is used and what is being learnt."""
        learning, monitor = self._learning, self._monitor()
        status.add("floor_in_use", monitor is not None and monitor.floor is not None)
        status.add("floor", self._newest_report or self.missing)
        if learning is not None and learning.session.running:
            status.add("floor_learning_progress", learning.session.progress)

    # The learning

    def _start(self, duration_s: float, *, stored: bool) -> _Learning:
        """Begin, with the lock held."""
        monitor, idle = self._monitor(), self._idle()
        if idle is not None:
            raise idle
        if monitor is None:
            raise DeviceError("contact_monitor", "is not configured", "Configure it")
        if self.running:
            raise DeviceError("contact_monitor", "learns already", "Wait for its end, or cancel it")
        until_s = self._node.clock.monotonic_s() + _PATIENCE * duration_s + _PATIENCE_S
        learning = _Learning(FloorLearning(monitor, duration_s), stored, until_s)
        self._learning, self._awaits_motion = learning, False
        self._node.get_logger().info(f"learns {duration_s:g} s of free motion: nothing may touch the robot")
        return learning

    def _end(self, learning: _Learning) -> None:
        """Tell how it ended; what was learnt is stored in a thread, since a disk may take longer than a cycle."""
        session, monitor = learning.session, self._monitor()
        if session.learnt is None or monitor is None:
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
            path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._node))
            record.store(path)
        except ContinuumRobotError as error:
            self._tell(learning, f"{learnt.sentence()}; in use until this program ends, not stored: {error}", False)
            return
        learning.file = str(path)
        self._tell(learning, f"{learnt.sentence()}; stored in {path}", succeeded=True)

    def _tell(self, learning: _Learning, message: str, succeeded: bool) -> None:
        learning.message, learning.succeeded = message, succeeded
        self._newest_report = message
        if succeeded:
            self._node.get_logger().info(message)
        else:
            self._node.get_logger().warning(f"learnt no floor: {message}")
        learning.ended.set()

    # Action and services, in the executor's thread

    async def _serve(self, goal: ServerGoalHandle) -> Any:
        result = LearnFloor.Result(least_tip_force=math.nan, least_tip_force_before=math.nan)
        try:
            asked = check_request("LearnFloor", goal.request)
            monitor = self._monitor()
            if asked.only_if_missing and monitor is not None and monitor.floor is not None:
                result.success, result.message = True, "a floor is in use already"
                goal.succeed()
                return result
            with self._lock:
                learning = self._start(asked.duration, stored=True)
        except ContinuumRobotError as error:
            result.message = f"refused: {error}"
            self._node.get_logger().error(result.message)
            goal.abort()
            return result
        feedback = LearnFloor.Feedback()
        while not learning.ended.is_set():
            await self._waiting.sleep(0.0)
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

    def _serve_learn(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        duration_s = float(self._node.parameters.get("learn_s"))
        try:
            with self._lock:
                self._start(duration_s, stored=True)
        except ContinuumRobotError as error:
            response.message = f"refused: {error}"
            return response
        response.success = True
        response.message = f"learns {duration_s:g} s of free motion; /diagnostics shows how it goes and ends"
        return response

    def _serve_forget(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        monitor = self._monitor()
        if monitor is None:
            response.message = "refused: configure the contact monitor first"
            return response
        if self.running:
            response.message = "refused: it learns; cancel that first"
            return response
        path = floor_path(monitor.robot, monitor.settings.method, record_folder(self._node))
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            response.message = f"refused: {path}: {error}"
            return response
        with self._lock:
            monitor.use_floor(None)
        self._newest_report = ""
        response.success, response.message = True, "the floor of free motion is forgotten, and its record gone"
        return response
