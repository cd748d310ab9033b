# SPDX-License-Identifier: Apache-2.0
"""The base of every node: a managed node whose transitions say what went wrong.

Physical meaning of the states: unconfigured, no communication with the device; inactive, readings are published and
the power is off; active, the power is on and commands are accepted. ``configure`` opens the device, ``activate``
switches the torque on without a jump, ``deactivate`` releases to the safe tension and switches it off, ``cleanup``
closes the device.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.context import Context
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.task import Future

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.nodes.base.diagnostics import Diagnostics, Level, StatusBuilder
from continuum_robot.nodes.base.parameters import ParameterServer
from continuum_robot.nodes.base.params_file import ParamsFile
from continuum_robot.nodes.lockstep.bus import BusFlow, LockstepBus
from continuum_robot.nodes.lockstep.flow import Flow, RealFlow
from continuum_robot.nodes.stack.choices import CLOCKS
from continuum_robot.nodes.topics.owned_topic import PublisherCallback, PublisherNode
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.clock import Clock, RealClock, SteppedClock

if TYPE_CHECKING:
    from continuum_robot.nodes.base.spinning import Spinner

SUCCESS, FAILURE, ERROR = (
    TransitionCallbackReturn.SUCCESS,
    TransitionCallbackReturn.FAILURE,
    TransitionCallbackReturn.ERROR,
)

ONE_PROCESS = (
    "real in a program of its own: in lock-step the nodes of a stack run in one process (continuum-robot up, or a"
    " launch file with clock:=lockstep)"
)


LOGGED_AGAIN_S = 10.0
JOIN_TIMEOUT_S = 5.0
_BESIDE = (Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE)


class ManagedNode(PublisherNode, LifecycleNode):
    """A lifecycle node. Subclasses implement ``configure``, ``activate``, ``deactivate``, ``cleanup``.

    They raise on failure. An error of this project is logged as one sentence and fails the transition; any other
    exception is a defect: it is logged with its traceback, and the node goes through error processing to unconfigured.
    """

    default_robot = "opencr_five_tendon"
    managed = True
    """A supervisor may bring it up and down."""
    follows_payload = False
    """``payload_kg`` may be changed while it runs: :meth:`carry` takes it."""
    ends_first = False
    """Where nobody brings it down, it ends before the other nodes."""
    waits_for_devices = False
    """Its activation and deactivation take seconds: they run in a thread, and its other callbacks go on."""
    longest_ramp_s = 0.0
    """Time of the driver's ramp to the safe tension, by the robot file that was loaded last, s."""
    _ever_configured = False
    _robot_of_file: Robot | None = None
    _beside: threading.Thread | None = None
    _transition_end: Future[None] | None = None

    def __init__(
        self,
        name: str,
        *,
        context: Context | None = None,
        namespace: str | None = None,
        activate_at_start: bool = False,
        overrides: dict[str, Any] | None = None,
        cli_args: Sequence[str] | None = None,
        bus: LockstepBus | None = None,
    ) -> None:
        # Of a node that is destroyed half made, too.
        self._servers: list[ActionServer] = []
        self._flow: Flow | None = None
        super().__init__(
            name,
            context=context,
            namespace=namespace,
            cli_args=list(cli_args) if cli_args is not None else None,
            parameter_overrides=[Parameter(key, value=value) for key, value in (overrides or {}).items()],
        )
        self.last_error = ""
        self.defect = ""
        self.problems: dict[object, str] = {}
        """Of callbacks, each until it succeeds."""
        self._logged: dict[object, tuple[str, float]] = {}
        self.ended = False
        self.exit_code = 0
        self._params_file: ParamsFile | None = None
        self.parameters = ParameterServer(self, guarded=self.guarded, located=self._located)
        file = str(self.parameters.declare("params_file", "", "file that start-up values came from", read_only=True))
        self._params_file = ParamsFile(file) if file else None
        self.parameters.declare(
            "robot", self.default_robot, "robot file, or the name of a shipped robot", read_only=True
        )
        self.parameters.declare(
            "use_fake_hardware", True, "true: the wires end in a simulator, false: real devices", read_only=True
        )
        self.parameters.declare("use_mock_hardware", "", "the same as use_fake_hardware", read_only=True, any_type=True)
        self.parameters.declare("configure", False, "configure when the program starts", read_only=True)
        self.parameters.declare(
            "activate", activate_at_start, "configure and activate when the program starts", read_only=True
        )
        self.parameters.declare(
            "clock",
            "real",
            "lockstep: time comes from the simulated robot; so it does with use_sim_time",
            rules=Quantity("", choices=CLOCKS),
            read_only=True,
        )
        self.parameters.declare(
            "seed",
            -1,
            "of everything that is drawn at random in a simulation; -1: the robot file's",
            rules=Quantity("", ge=-1, le=2**31 - 1),
            read_only=True,
        )
        self.parameters.declare(
            "payload_kg",
            -1.0,
            "mass of what the tip carries; negative: the robot file's",
            rules=Quantity("", "kg", ge=-1, le=100),
            read_only=not self.follows_payload,
            take=self._take_payload,
        )
        stepped = self.parameters.get("clock") == "lockstep" or bool(self.get_parameter("use_sim_time").value)
        self.bus = bus if stepped else None
        self.clock: Clock = RealClock() if not stepped else SteppedClock() if bus is None else bus.clock
        self.simulated = self._is_simulated()
        self.diagnostics = Diagnostics(self, "simulated" if self.simulated else "hardware")
        self.diagnostics.add_task("lifecycle", self._diagnose_lifecycle)
        self._change_state = self._service_change_state.callback
        # In lock-step time passes in the executor's thread.
        self.changes_beside = self.waits_for_devices and not self.clock.stepped
        if self.changes_beside:
            self._service_change_state.callback = self._serve_change_state

    # What a subclass implements. The names of the transitions are theirs, the on_ methods below are rclpy's.
    def configure(self) -> None:
        """Open communication and make the algorithm. Raises on failure."""

    def activate(self) -> None:
        """Start to act, without a jump. Raises on failure."""

    def deactivate(self) -> None:
        """Stop to act, releasing what is held."""

    def cleanup(self) -> None:
        """Close communication. Safe to call in any state."""

    @property
    def flow(self) -> Flow:
        """What the node does in the flow of time; asking for it makes a node in lock-step take part."""
        if self._flow is None:
            if self.clock.stepped and self.bus is None:
                raise ParameterError("clock", "lockstep", ONE_PROCESS)
            self._flow = RealFlow(self) if self.bus is None else self.bus.flow(self)
        return self._flow

    @property
    def state(self) -> str:
        """Label of the lifecycle state: unconfigured, inactive, active, finalized, or a transition's."""
        return str(self._state_machine.current_state[1])

    @property
    def full_name(self) -> str:
        return self.get_fully_qualified_name()

    # Callbacks: what one raises ends neither the executor nor the other nodes of the process.

    def guarded(
        self, callback: Callable[..., Any], refused: Callable[[Exception], Any] | None = None
    ) -> Callable[..., Any]:
        """A callback, or a coroutine, that raises nothing.

        An error of this project is a problem until the callback succeeds, or, where somebody is told, what ``refused``
        returns. Anything else is a defect of this node.
        """

        def failed(error: Exception) -> Any:
            if not isinstance(error, ContinuumRobotError):
                self.on_defect(error)
            elif refused is None:
                self.take_problem(callback, str(error))
            return None if refused is None else refused(error)

        def succeeded(result: Any) -> Any:
            if self.problems:
                self.problems.pop(callback, None)
            return result

        @functools.wraps(callback)
        def call(*arguments: Any) -> Any:
            try:
                return succeeded(callback(*arguments))
            except Exception as error:
                return failed(error)

        @functools.wraps(callback)
        async def call_async(*arguments: Any) -> Any:
            try:
                return succeeded(await callback(*arguments))
            except Exception as error:
                return failed(error)

        return call_async if inspect.iscoroutinefunction(callback) else call

    def create_subscription(
        self, msg_type: Any, topic: str, callback: Callable[..., Any], *more: Any, **options: Any
    ) -> Any:
        """As of rclpy, with a guarded callback."""
        return super().create_subscription(msg_type, topic, self.guarded(callback), *more, **options)

    def subscribe_with_publisher(
        self, kind: Any, topic: str, callback: PublisherCallback, profile: QoSProfile, *, raw: bool = False
    ) -> None:
        super().subscribe_with_publisher(kind, topic, self.guarded(callback), profile, raw=raw)

    def create_timer(
        self, timer_period_sec: float, callback: Callable[..., Any] | None = None, *more: Any, **options: Any
    ) -> Any:
        guarded = None if callback is None else self.guarded(callback)
        return super().create_timer(timer_period_sec, guarded, *more, **options)

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Callable[..., Any], *more: Any, **options: Any
    ) -> Any:
        """As of rclpy; where the callback raises, the caller gets the sentence."""

        def refused(error: Exception) -> Any:
            response = srv_type.Response()
            if hasattr(response, "message"):
                response.message = f"refused: {error if isinstance(error, ContinuumRobotError) else repr(error)}"
            return response

        return super().create_service(srv_type, srv_name, self.guarded(callback, refused), *more, **options)

    def create_action(self, kind: Any, name: str, execute: Callable[[ServerGoalHandle], Any]) -> ActionServer:
        """A server of an action, a coroutine, that can be cancelled; where it raises, the goal is aborted."""
        execute = self.guarded(execute, lambda _error: kind.Result())
        server = ActionServer(self, kind, name, execute, cancel_callback=lambda _goal: CancelResponse.ACCEPT)
        self._servers.append(server)
        return server

    def end_actions(self) -> None:
        """Destroy the servers of actions, which rclpy leaves in the executor."""
        while self._servers:
            self._servers.pop().destroy()

    def take_problem(self, key: object, problem: str) -> None:
        """Report a problem of a callback until it succeeds; in the log when it is another, or after a while."""
        self.problems[key] = problem
        before, logged_s = self._logged.get(key, ("", 0.0))
        if problem != before or time.monotonic() - logged_s > LOGGED_AGAIN_S:
            self._logged[key] = problem, time.monotonic()
            self.get_logger().error(problem)

    def check(self) -> None:
        """Whether the node can work at all, before it spins. Raises :class:`ContinuumRobotError`."""
        self.load_robot()

    def before_exit(self, spinner: Spinner) -> None:
        """What is left to do while the node still spins, before its program ends."""

    def on_defect(self, error: BaseException) -> None:
        """A callback or a thread of this node raised: a defect of the program. Nodes that hold a device make it safe.

        It is shown until the node is configured again, and logged once.
        """
        if repr(error) == self.defect:
            return
        self.defect = repr(error)
        self.get_logger().error(f"a callback failed: {error!r}\n" + "".join(traceback.format_exception(error)))
        self.diagnostics.publish()

    def carry(self, payload_kg: float) -> None:
        """Go on with another payload, kg, in any state but unconfigured; what it raises refuses the change."""

    def _take_payload(self, payload_kg: float) -> None:
        of_file = self._robot_of_file
        if of_file is None or self.state == "unconfigured":
            return
        self.carry(of_file.carrying(payload_kg).payload_kg if payload_kg >= 0 else of_file.payload_kg)

    def load_robot(self) -> Robot:
        """The robot of the parameter ``robot``, with ``payload_kg`` and ``seed``. Raises :class:`RobotFileError`."""
        robot = load_robot(str(self.get_parameter("robot").value))
        self.longest_ramp_s = 0.0 if robot.limits is None else robot.limits.longest_ramp_s
        self._robot_of_file = robot
        payload_kg = float(self.parameters.get("payload_kg"))
        if payload_kg >= 0:
            robot = robot.carrying(payload_kg)
        seed = int(self.parameters.get("seed"))
        if seed < 0:
            return robot
        return robot.changed(simulation=dataclasses.replace(robot.simulation, seed=seed))

    def own_settings(self, name: str, defaults: Any) -> Any:
        """Settings of what another package adds, as parameters under its name."""
        return self.parameters.declare_settings(name, defaults).value

    def say(self, text: str) -> None:
        """Log a line, such as the progress of something that takes long."""
        self.get_logger().info(text)

    def report_error(self, what: str, error: BaseException) -> None:
        """Log an exception: one sentence for an error of this project, a traceback for a defect."""
        self.last_error = f"{what}: {error}" if isinstance(error, ContinuumRobotError) else f"{what}: {error!r}"
        self.get_logger().error(self.last_error)
        if not isinstance(error, ContinuumRobotError):
            self.get_logger().error("".join(traceback.format_exception(error)))
        # Now, not with the next period: the caller of the transition shows the reason.
        self.diagnostics.publish()

    def warn_of_all(self, sentences: Sequence[str]) -> None:
        """Log what a loop was refused by the system, a warning each."""
        for sentence in sentences:
            self.get_logger().warning(sentence)

    def release(self) -> None:
        """Make everything safe and close it, from any state and after any failure. Never raises."""
        if not self._ever_configured:
            return  # nothing was opened; a node whose constructor failed has nothing to close it with either
        if self._beside is not None and self._beside is not threading.current_thread():
            self._beside.join(JOIN_TIMEOUT_S + self.longest_ramp_s)
        if self.state in ("active", "deactivating", "errorprocessing", "shuttingdown", "activating"):
            self._attempt("deactivate", self.deactivate)
        self._attempt("cleanup", self.cleanup)

    def set_parameters_atomically(self, parameter_list: list[Parameter[Any]]) -> SetParametersResult:
        """Set parameters, all or none; a wrong type, or a read-only one, is refused in a sentence."""
        refusal = self.parameters.refuse(parameter_list, limited=not self.clock.stepped)
        if refusal:
            return SetParametersResult(successful=False, reason=refusal)
        try:
            return super().set_parameters_atomically(parameter_list)
        except Exception as error:
            self.on_defect(error)
            return SetParametersResult(successful=False, reason=f"refused: {error!r}")

    def destroy_node(self) -> None:
        self.end_actions()
        self.release()
        if isinstance(self._flow, BusFlow):
            self._flow.bus.leave(self._flow)
        super().destroy_node()
        # rclpy leaves it, and with it the node and its participant, to the garbage collector: others see a node there
        # that answers nobody, and wait for its services in vain.
        self._state_machine.destroy_when_not_in_use()

    async def _serve_change_state(
        self, request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        """Make a transition, one at a time; beside the executor where that waits for devices."""
        while self._transition_end is not None and not self._transition_end.done():
            await self._transition_end
        wanted = request.transition
        executor: Any = self.executor
        if executor is None or (wanted.id not in _BESIDE and wanted.label not in ("activate", "deactivate")):
            return self._change_state(request, response)
        changed = self._transition_end = Future[None]()

        def change() -> None:
            try:
                self._change_state(request, response)
            except Exception as error:
                self.on_defect(error)
            finally:
                executor.create_task(lambda: changed.set_result(None))

        self._beside = threading.Thread(target=change, name="transition", daemon=True)
        self._beside.start()
        await changed
        return response

    def on_configure(self, _state: LifecycleState) -> TransitionCallbackReturn:
        self._ever_configured = True
        result = self._transition("configure", self._configure_and_check)
        if result != SUCCESS:
            self._attempt("cleanup", self.cleanup)
        return result

    def on_activate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        result = self._transition("activate", self.activate)
        if result != SUCCESS:
            self._attempt("deactivate", self.deactivate)
        return result

    def on_deactivate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        result = self._transition("deactivate", self.deactivate)
        # A failed deactivation would leave the node active; going through error processing closes the device instead.
        return SUCCESS if result == SUCCESS else ERROR

    def on_cleanup(self, _state: LifecycleState) -> TransitionCallbackReturn:
        result = self._transition("cleanup", self.cleanup)
        return SUCCESS if result == SUCCESS else ERROR

    def on_shutdown(self, _state: LifecycleState) -> TransitionCallbackReturn:
        self.release()
        return SUCCESS

    def on_error(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Rclpy's error processing: everything is released, the node is unconfigured and can be configured again."""
        self.release()
        return SUCCESS

    def _configure_and_check(self) -> None:
        self.configure()
        if self._params_file is not None:  # now all parameters are declared
            known = self.list_parameters([], 0).names
            self._params_file.check_names(self.get_name(), self.get_namespace(), known)

    def _located(self, error: ParameterError) -> ContinuumRobotError:
        file = self._params_file
        return error if file is None else file.located(error, self.get_name(), self.get_namespace())

    def _transition(self, name: str, action: Callable[[], None]) -> TransitionCallbackReturn:
        healed = name == "configure" and bool(self.defect or self.problems)
        if healed:  # everything is made anew
            self.defect = ""
            self.problems.clear()
        # rclpy swallows exceptions of transitions without a word.
        try:
            action()
        except ContinuumRobotError as error:
            self.report_error(f"{name} failed", error)
            return FAILURE
        except Exception as error:
            self.report_error(f"{name} failed", error)
            return ERROR
        if name in ("activate", "cleanup"):
            self.last_error = ""
        if healed:
            self.diagnostics.publish()
        return SUCCESS

    def _attempt(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.get_logger().error(f"{name} failed: {error!r}")

    def _diagnose_lifecycle(self, status: StatusBuilder) -> None:
        problem = self.defect or self.last_error
        status.summary(Level.ERROR if problem else Level.OK, problem or self.state)
        self.diagnose_problems(status)
        status.add("lifecycle_state", self.state)
        status.add("defect", self.defect)
        status.add("simulated", self.simulated)

    def diagnose_problems(self, status: StatusBuilder) -> None:
        for problem in tuple(self.problems.values()):  # other threads may change them
            status.summary(Level.WARN, problem)

    def _is_simulated(self) -> bool:
        alias = str(self.get_parameter("use_mock_hardware").value).strip().lower()
        if alias in ("true", "false"):
            return alias == "true"
        return bool(self.get_parameter("use_fake_hardware").value)
