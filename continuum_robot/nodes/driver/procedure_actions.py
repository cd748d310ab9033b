# SPDX-License-Identifier: Apache-2.0
"""The tendon driver's actions: procedures in its cycle, with progress, cancelled in good order."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from rclpy.action.server import ServerGoalHandle
from std_srvs.srv import Trigger

from continuum_robot.action import CalibrateTorque, CheckTendons, HomeTendons
from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.identification.procedures.homing import HomingSettings, homing_of
from continuum_robot.identification.procedures.hung_weight import HungWeight
from continuum_robot.identification.procedures.procedure import CANCELLED, Found, Procedure, ProcedureRun
from continuum_robot.identification.procedures.record import make_record, record_path
from continuum_robot.identification.procedures.tendon_check import TendonCheckSettings, tendon_check_of
from continuum_robot.msg import StringLengths
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.stored import StoredHoming
from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.driver_loop import DriverLoop
from continuum_robot.runtime.periodic import FrozenGarbage

FEEDBACK_PERIOD_S = 0.1
PROCEDURE_TIMEOUT_S = 600.0
ACTIVATION = "an activation"
SERVICE_TIMEOUT_S = 3.0


class ProcedureDrive:
    """Runs one procedure at a time, in the thread of who asks for it, and none beside an activation."""

    def __init__(self, context: DriverContext) -> None:
        self._context, self._node = context, context.node
        self.owner = ""
        self.gravity = TurnedGravity(self._node, lambda _gravity: None)
        self._lock = threading.Lock()

    def reserve(self, owner: str) -> contextlib.ExitStack:
        """Before anything is zeroed or switched on, which takes a while: nobody else begins meanwhile."""
        with self._lock:
            if self.owner:
                raise DeviceError("tendon_driver", f"{self.owner} is under way", "Wait for its end, or cancel it")
            self.owner = owner
        reservation = contextlib.ExitStack()
        reservation.callback(self.free)
        return reservation

    def free(self) -> None:
        """Let others begin. Safe to call twice."""
        self.owner = ""

    @property
    def robot(self) -> Robot:
        """The robot as configured. Raises :class:`DeviceError` where it is not."""
        return self.gravity.turned(self._context.configured.robot)

    def begin(self, procedure: Procedure[Any]) -> ProcedureRun:
        """Switch the torque on and let a procedure drive the tendons, once reserved; not in the executor's thread."""
        loop = self._context.configured
        if self._node.state != "inactive":
            raise DeviceError(
                "tendon_driver", f"is {self._node.state}", "Procedures need it inactive: deactivate it first"
            )
        loop.safety.refuse_faults()
        run = ProcedureRun(procedure, loop.safety)
        self._zero = loop.cycle.zero
        FrozenGarbage.hold()
        try:
            loop.switch_on()
            loop.begin_procedure(run)
        except BaseException:
            FrozenGarbage.release()
            loop.call(loop.power_off)
            raise
        self._context.publish_status()
        return run

    def finish(self, run: ProcedureRun, cancelled: threading.Event) -> None:
        """Wait until a procedure has ended and let go of the tendons; not in the executor's thread."""
        loop = self._context.configured

        def over() -> bool:
            return run.finished or loop.procedure is not run

        try:
            loop.pace.wait(lambda: over() or cancelled.is_set(), PROCEDURE_TIMEOUT_S)
            if loop.running and not over():
                loop.call(run.cancel)
                loop.pace.wait(over, PROCEDURE_TIMEOUT_S)
        finally:
            loop.end_procedure(run, self._zero)
            FrozenGarbage.release()
            if not run.succeeded and not run.problem:
                run.problem = "the driver's loop ended"
            self._context.publish_status()

    def end(self, loop: DriverLoop | None) -> None:
        """The node is brought down meanwhile: ramp to the safe tension and let go."""
        if loop is None or loop.procedure is None:
            return
        if loop.running and not loop.hangs:
            loop.ramp_down(self._node.get_logger().warning)
        loop.procedure = None


class _Work:
    """A procedure in a thread of its own, so that the executor never waits for it."""

    def __init__(self, work: Callable[[_Work], None]) -> None:
        self.run: ProcedureRun | None = None
        self.cancelled = threading.Event()
        self.problem = ""
        self._work = work
        self._thread = threading.Thread(target=self._main, name="procedure", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _main(self) -> None:
        try:
            self._work(self)
        except ContinuumRobotError as error:
            self.problem = str(error)
        except Exception as error:
            self.problem = f"a defect of the program: {error!r}"


MakeWork = Callable[[Any, Any], Callable[[_Work], None]]
"""Of what was asked, and the result to fill. Raises :class:`ContinuumRobotError` where it cannot be."""


class ProcedureActions:
    """Serves ``home_tendons``, ``check_tendons`` and ``calibrate_torque`` for the driver node."""

    def __init__(self, context: DriverContext, drive: ProcedureDrive, homing: StoredHoming) -> None:
        node = context.node
        self._context, self._log = context, node.get_logger()
        self._drive, self._stored = drive, homing
        self._waiting = Waiting(node, FEEDBACK_PERIOD_S)
        self._procedure: Procedure[Any] | None = None
        for kind, name, work in (
            (HomeTendons, "home_tendons", self._home),
            (CheckTendons, "check_tendons", self._check),
            (CalibrateTorque, "calibrate_torque", self._calibrate),
        ):
            node.create_action(kind, name, functools.partial(self._serve, kind, name, work))
        subscribe_to_stream(node, StringLengths, "string_lengths", self._on_strings, lazy=True)
        self._zero_strings: Any = node.create_client(Trigger, "string_encoder/zero")
        self._apply_homing: Any = node.create_client(Trigger, "string_encoder/apply_homing")

    async def _serve(self, kind: Any, name: str, make_work: MakeWork, goal: ServerGoalHandle) -> Any:
        result, homes = kind.Result(), kind is HomeTendons
        try:
            work = make_work(goal.request, result)
            reservation = self._drive.reserve(name)
        except ContinuumRobotError as error:  # nothing was switched on, zeroed or stored yet
            result.message = f"refused: {error}"
            self._log.error(result.message)
            goal.abort()
            return result
        with reservation:
            outcome = await self._call(self._zero_strings) if homes else ""
            await self._follow(goal, _Work(work), kind.Feedback(), result)
            if homes and result.success:
                outcome = await self._call(self._apply_homing) or outcome
                result.message += f" ({outcome})" if outcome else ""
        return result

    # The actions: what each does in its thread, by what was asked

    def _home(self, request: Any, result: Any) -> Callable[[_Work], None]:
        asked = check_request("HomeTendons", request)
        robot = self._drive.robot
        procedure = homing_of(robot, HomingSettings(tension_n=asked.tension))

        def work(job: _Work) -> None:
            path = record_path(robot, self._context.folder)
            homed = self._run(job, procedure)
            if homed is None:
                return
            record = make_record(robot, homed)
            record.store(path)
            self._stored.take(record)
            result.file = str(path)
            result.zero, result.slack = homed.zero_m.tolist(), homed.slack_m.tolist()
            known = f"{len(homed.string_zero_m)} of {len(robot.strings)} strings"
            result.message = f"homed at {homed.tension_n:g} N, stored in {path}; {known}"

        return work

    def _check(self, request: Any, result: Any) -> Callable[[_Work], None]:
        asked = check_request("CheckTendons", request)
        robot = self._drive.robot

        def work(job: _Work) -> None:
            # Made here, since its model takes a while; before anything is switched on.
            verdicts = self._run(job, tendon_check_of(robot, TendonCheckSettings(pull_n=asked.pull)))
            if verdicts is None:
                return
            result.verdicts, result.response = list(verdicts.verdicts), verdicts.response_m.ravel().tolist()
            named = zip(robot.tendon_names, verdicts.verdicts, strict=True)
            wrong = [f"{name} {verdict}" for name, verdict in named if verdict != "ok"]
            right = f"all tendons are as the robot file states (misfit {verdicts.misfit:.2f})"
            result.message = f"{'; '.join(wrong) or right}; {verdicts.orientation}"
            if wrong:
                job.problem = result.message

        return work

    def _calibrate(self, request: Any, result: Any) -> Callable[[_Work], None]:
        asked = check_request("CalibrateTorque", request)
        procedure = HungWeight(self._drive.robot, asked.tendon - 1, asked.mass)

        def work(job: _Work) -> None:
            found = self._run(job, procedure)
            if found is None:
                return
            result.torque_constant, result.newton_per_ampere = found.torque_constant_nm_per_a, found.newton_per_ampere
            result.friction, result.current_up = found.friction_n, found.current_up_a
            result.current_down = found.current_down_a
            result.message = f"{found.torque_constant_nm_per_a:.4g} N.m/A, friction {found.friction_n:.2g} N"

        return work

    # What they share

    def _run(self, job: _Work, procedure: Procedure[Found]) -> Found | None:
        """What a procedure found; None: it failed, and the job says why."""
        self._procedure = procedure
        try:
            job.run = self._drive.begin(procedure)
            self._drive.finish(job.run, job.cancelled)
        finally:
            self._procedure = None
        found: Found | None = job.run.conclude()
        job.problem = job.run.problem
        return found

    async def _follow(self, goal: ServerGoalHandle, job: _Work, feedback: Any, result: Any) -> None:
        """Publish progress until the work has ended, then say how it ended."""
        while job.running:
            await self._waiting.sleep(0.0)
            if goal.is_cancel_requested:
                job.cancelled.set()
            step, loop = None if job.run is None else job.run.step, self._context.loop
            reading = None if loop is None else loop.reading
            feedback.phase = "switching the torque on" if step is None else step.phase
            feedback.progress = 0.0 if step is None else step.progress
            if reading is not None:
                feedback.displacement = reading.displacement_m.tolist()
                feedback.tension = reading.tension_n.tolist()
            goal.publish_feedback(feedback)
        result.success = not job.problem
        result.message = job.problem or result.message
        if job.problem and not job.problem.startswith(CANCELLED):
            self._log.error(job.problem)
        if goal.is_cancel_requested and job.problem == CANCELLED:
            goal.canceled()
        elif job.problem:
            goal.abort()
        else:
            goal.succeed()

    def _on_strings(self, message: StringLengths) -> None:
        procedure = self._procedure
        if procedure is not None:
            procedure.take_strings(conversions.vector(message.extension))

    async def _call(self, client: Any) -> str:
        """Ask the string encoder for something; "" when it did it or is not there, else its error."""
        if not client.service_is_ready():
            return ""
        response = await self._waiting.call(client, Trigger.Request(), SERVICE_TIMEOUT_S)
        if response is None:
            return f"{client.srv_name} did not answer"
        return "" if response.success else str(response.message)
