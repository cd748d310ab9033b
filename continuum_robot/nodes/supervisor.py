# SPDX-License-Identifier: Apache-2.0
"""The node that brings the others up in order and down in reverse, watches them, and recovers from faults."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import State, Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.task import Future
from std_srvs.srv import Trigger

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes import qos
from continuum_robot.nodes.diagnostics import Level, StatusBuilder, values_of
from continuum_robot.nodes.lifecycle import ManagedNode
from continuum_robot.nodes.spinning import Spinner, run_node
from continuum_robot.robot.schema import Quantity
from continuum_robot.srv import ManageStack

MANAGED_NODES = (
    "tendon_driver",
    "string_encoder",
    "force_sensor",
    "shape_estimator",
    "tip_tracker",
    "contact_monitor",
    "clarke_controller",
    "reference_source",
    "tip_approach",
    "robot_visualizer",
    "recorder",
)
"""All nodes in the order in which they are configured."""

WATCHERS = ("contact_monitor",)
"""Nodes that judge the data of the others, and fall silent before these do."""

ACTORS = ("tendon_driver", "clarke_controller", "reference_source", "tip_approach")
"""Nodes that move the robot: activated last and deactivated first, and the stack does not go on without them."""

TICK_S = 0.02
WATCH_PERIOD_S = 0.5
HEARTBEAT_TIMEOUT_S = 4.0
VANISHED_S = 1.2
STATUS_PERIOD_S = 1.0
EXIT_TIMEOUT_S = 4.0
DISCOVERY_S = 1.0
RIVAL_S = 3.0

_COMMANDS = {
    ManageStack.Request.STARTUP: "startup",
    ManageStack.Request.PAUSE: "pause",
    ManageStack.Request.RESUME: "resume",
    ManageStack.Request.RESET: "reset",
    ManageStack.Request.SHUTDOWN: "shutdown",
}
_LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


@dataclass
class _Managed:
    """What the supervisor knows of one node."""

    name: str
    change: Client[Any, Any, Any]
    get: Client[Any, Any, Any]
    state: str = "unknown"
    problem: str = ""
    heard_s: float = 0.0
    unseen_since_s: float = math.inf
    lost: bool = False


@dataclass
class _Waiting:
    """A future that ends by itself at a deadline."""

    deadline_s: float
    future: Future[Any] = field(default_factory=Future)


class _AbortedError(DeviceError):
    """The operation made room for a newer one."""


class Supervisor(ManagedNode):
    """Lifecycle of the whole stack on ``~/manage`` and ``manage_stack``, its state on ``stack_status``.

    Everything is asynchronous: no callback blocks, every wait ends. It works with nodes of the same process and of
    others, and beside ``ros2 lifecycle``.

    Raises
    ------
    ParameterError : a node is named twice
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("supervisor", activate_at_start=True, **node_options)
        declare = self.parameters.declare
        declare("node_names", list(MANAGED_NODES), "managed nodes in the order of configuration", read_only=True)
        declare("autostart", True, "bring the stack up when the supervisor is activated", read_only=True)
        declare(
            "exit_on_failed_start",
            False,
            "end the program with exit code 1 where the stack does not come up at its start",
            read_only=True,
        )
        seconds = Quantity("", "s", gt=0, le=600)
        declare("discovery_timeout_s", 10.0, "how long a node may take to appear", rules=seconds, read_only=True)
        declare("configure_timeout_s", 120.0, "how long a node may take to configure", rules=seconds, read_only=True)
        declare("transition_timeout_s", 10.0, "how long another transition may take", rules=seconds, read_only=True)
        names = list(self.parameters.get("node_names"))
        if len(set(names)) != len(names):
            raise ParameterError("node_names", names, "each node once")
        self._nodes: dict[str, _Managed] = {}
        for name in names:
            self._nodes[name] = _Managed(
                name,
                self.create_client(ChangeState, f"{name}/change_state"),
                self.create_client(GetState, f"{name}/get_state"),
            )
            self.create_subscription(
                TransitionEvent, f"{name}/transition_event", self._transition_listener(name), qos.events()
            )
        self._reset_estop = self.create_client(Trigger, "reset_estop")
        self._stack_state = "down"
        self._was_up = False
        self._driver_faults: tuple[str, ...] = ()
        self._estop = False
        self._own_faults: dict[str, None] = {}
        self._last_fault = ""
        self._waiting: list[_Waiting] = []
        self._operation = ""
        self._abort = False
        self._message = ""
        self._own_stamps: deque[tuple[int, int]] = deque(maxlen=50)
        self._foreign_s = -math.inf
        self._listened = False
        self._status = self.create_publisher(StackStatus, "stack_status", qos.latched())
        self.create_subscription(StackStatus, "stack_status", self._on_stack_status, qos.latched())
        self.create_subscription(DiagnosticStatus, "driver_status", self._on_driver_status, qos.latched())
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.events())
        for service in ("~/manage", "manage_stack"):
            self.create_service(ManageStack, service, self._serve_manage)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(TICK_S, self._tick, clock=steady)
        self.create_timer(WATCH_PERIOD_S, self._watch, clock=steady)
        self.create_timer(STATUS_PERIOD_S, self._publish_status, clock=steady)
        self.diagnostics.add_task("stack", self._diagnose)
        self._publish_status()

    # Lifecycle of the supervisor itself

    def activate(self) -> None:
        """Bring the stack up, where ``autostart`` says so."""
        if self.parameters.get("autostart"):
            self._spawn(self._operate("startup"))

    def check(self) -> None:
        """Nothing: the robot file is the business of the nodes."""

    def before_exit(self, spinner: Spinner) -> None:
        """Bring the stack down before the program ends, as far as its nodes are still there."""
        if self._stack_state == "down" or self.rival or all(node.state == "unknown" for node in self._nodes.values()):
            return
        done: Future[Any] = Future()

        async def bring_down() -> None:
            await self._operate("shutdown")
            done.set_result(None)

        spinner.executor.create_task(bring_down())
        end_s = time.monotonic() + EXIT_TIMEOUT_S
        while not done.done() and time.monotonic() < end_s:
            time.sleep(TICK_S)

    # What others ask

    @property
    def stack_state(self) -> str:
        """``down``, ``starting``, ``up``, ``stopping`` or ``fault``."""
        return self._stack_state

    @property
    def message(self) -> str:
        """What the last operation came to, a sentence."""
        return self._message

    @property
    def startup_failed(self) -> bool:
        """Whether the stack did not come up at its first start."""
        return "startup_failed" in self._own_faults

    def status(self) -> StackStatus:
        """The status as it is published on ``stack_status``."""
        message = StackStatus(
            state=self._stack_state,
            simulated=self.simulated,
            estop=self._estop,
            node_names=list(self._nodes),
            node_states=[node.state for node in self._nodes.values()],
            faults=[*self._driver_faults, *self._own_faults],
            last_fault=self._last_fault,
        )
        message.header.stamp = self.get_clock().now().to_msg()
        return message

    async def _serve_manage(self, request: ManageStack.Request, response: ManageStack.Response) -> ManageStack.Response:
        name = _COMMANDS.get(request.command)
        if name is None:
            response.message = f"command = {request.command} -- expected 0 to 4, see ManageStack.srv"
            return response
        response.success = await self._operate(name)
        response.message = self._message
        return response

    # Operations. Each is a coroutine that the executor advances; they never block it.

    async def _operate(self, name: str) -> bool:
        if self._operation and name in ("startup", "resume"):
            self._message = f"refused: {self._operation} is under way"
            return False
        self._abort = bool(self._operation)
        while self._operation:
            await self._sleep(TICK_S)
        self._abort = False
        self._operation = name
        operations: dict[str, Callable[[], Awaitable[None]]] = {
            "startup": self._startup,
            "pause": self._pause,
            "resume": self._resume,
            "reset": self._reset,
            "shutdown": self._shutdown,
        }
        try:
            await operations[name]()
        except _AbortedError as error:
            self._message = str(error)
            return False
        except DeviceError as error:
            self._message = f"{name} failed: {error}"
            self.get_logger().error(self._message)
            self._last_fault = str(error)
            self._own_faults[f"{name}_failed"] = None
            self._set_state("fault")
            if name == "startup" and not self._was_up and self.parameters.get("exit_on_failed_start"):
                self.ended, self.exit_code = True, 1
            return False
        finally:
            self._operation = ""
        self._was_up = self._was_up or self._stack_state == "up"
        self._message = f"{name}: done"
        self.get_logger().info(f"{name}: the stack is {self._stack_state}")
        return True

    @property
    def rival(self) -> bool:
        """Whether another supervisor speaks in this namespace: its nodes have the same names as ours."""
        return time.monotonic() - self._foreign_s < RIVAL_S

    async def _check_alone(self) -> None:
        if not self._listened:
            # The status of another supervisor is latched: it comes as soon as it is discovered.
            await self._sleep(DISCOVERY_S)
            self._listened = True
        self._refuse_rival()

    def _refuse_rival(self) -> None:
        """Two stacks of one name: a request would reach the nodes of both."""
        if self.rival:
            raise DeviceError(
                "supervisor",
                f"another one manages the namespace {self.get_namespace()} in this DDS domain",
                "Stop that stack, or give this one another namespace or ROS_DOMAIN_ID",
            )

    async def _startup(self) -> None:
        await self._check_alone()
        self._set_state("starting")
        self._own_faults.clear()
        try:
            for node in self._nodes.values():
                await self._appear(node)
            for node in self._nodes.values():
                if node.state == "unconfigured":
                    await self._change(node, Transition.TRANSITION_CONFIGURE, "inactive")
            await self._activate_all()
        except DeviceError:
            await self._down(cleanup=True)
            raise
        self._set_state("up")

    async def _activate_all(self) -> None:
        nodes = self._nodes.values()
        for node in [*(n for n in nodes if n.name not in ACTORS), *(n for n in nodes if n.name in ACTORS)]:
            if node.state == "inactive":
                await self._change(node, Transition.TRANSITION_ACTIVATE, "active")

    async def _pause(self) -> None:
        await self._check_alone()
        self._set_state("stopping")
        await self._down(cleanup=False)
        self._set_state("down")

    async def _resume(self) -> None:
        await self._check_alone()
        self._set_state("starting")
        self._own_faults.clear()
        try:
            for node in self._nodes.values():
                await self._appear(node)
            await self._activate_all()
        except DeviceError:
            await self._down(cleanup=False)
            raise
        self._set_state("up")

    async def _shutdown(self) -> None:
        await self._check_alone()
        self._set_state("stopping")
        await self._down(cleanup=True)
        self._set_state("down")

    async def _reset(self) -> None:
        await self._check_alone()
        self._set_state("stopping")
        await self._down(cleanup=True)
        await self._clear_faults()
        await self._startup()

    async def _clear_faults(self) -> None:
        if not self._reset_estop.service_is_ready():
            return
        response = await self._call(self._reset_estop, Trigger.Request(), self._timeout("transition"))
        if response is None:
            raise DeviceError("tendon_driver", "does not answer reset_estop", "Look at its process")
        if not response.success:
            raise DeviceError("tendon_driver", response.message, "Remove the cause, then reset again")
        # The driver announces the cleared faults on driver_status.
        deadline_s = time.monotonic() + 1.0
        while self._driver_faults and time.monotonic() < deadline_s:
            await self._sleep(TICK_S)

    async def _down(self, *, cleanup: bool) -> None:
        """Deactivate all in reverse, what moves the robot first; failures are noted and do not stop the rest."""
        reverse = list(reversed(self._nodes.values()))
        # A watcher would take the silence of the others for a fault.
        ranks = dict.fromkeys(ACTORS, 1) | dict.fromkeys(WATCHERS, 0)
        ordered = sorted(reverse, key=lambda node: ranks.get(node.name, 2))
        for node in ordered:
            await self._refresh(node)
            if node.state == "active":
                await self._try_change(node, Transition.TRANSITION_DEACTIVATE, "inactive")
        if not cleanup:
            return
        for node in reverse:
            if node.state == "inactive":
                await self._try_change(node, Transition.TRANSITION_CLEANUP, "unconfigured")

    async def _appear(self, node: _Managed) -> None:
        deadline_s = time.monotonic() + self._timeout("discovery")
        while True:
            await self._refresh(node)
            if node.state != "unknown":
                break
            self._check_abort()
            if time.monotonic() > deadline_s:
                raise DeviceError(node.name, "does not appear", "Start it, or leave it out of node_names")
            await self._sleep(0.1)
        if node.state == "finalized":
            raise DeviceError(node.name, "is finalized", "Start its program again")
        node.lost = False

    async def _refresh(self, node: _Managed) -> None:
        """Ask a node for its state; "unknown" when it does not answer."""
        if not node.get.service_is_ready():
            node.state = "unknown"
            return
        response = await self._call(node.get, GetState.Request(), 2.0)
        node.state = "unknown" if response is None else str(response.current_state.label)
        if response is not None:
            node.heard_s = time.monotonic()  # it may die before its first word on /diagnostics

    async def _change(self, node: _Managed, transition: int, wanted: str) -> None:
        self._check_abort()
        self._refuse_rival()
        timeout_s = self._timeout("configure" if transition == Transition.TRANSITION_CONFIGURE else "transition")
        request = ChangeState.Request()
        request.transition.id = transition
        node.problem = ""
        response = await self._call(node.change, request, timeout_s)
        if response is None:
            raise DeviceError(node.name, f"did not become {wanted} within {timeout_s:g} s", "Look at its log")
        await self._refresh(node)
        self._publish_status()
        if node.state != wanted:
            await self._sleep(0.1)  # its diagnostics with the reason are under way
            reason = node.problem or f"is {node.state} instead of {wanted}"
            raise DeviceError(node.name, reason.rstrip("."), "Remove the cause, then bring the stack up again")

    async def _try_change(self, node: _Managed, transition: int, wanted: str) -> None:
        abort, self._abort = self._abort, False
        try:
            await self._change(node, transition, wanted)
        except DeviceError as error:
            self.get_logger().error(str(error))
        finally:
            self._abort = abort

    async def _call(self, client: Client[Any, Any, Any], request: Any, timeout_s: float) -> Any:
        """The response, None when there was none in time."""
        waiting = _Waiting(time.monotonic() + timeout_s)
        self._waiting.append(waiting)
        call = client.call_async(request)

        def finish(done: Future[Any]) -> None:
            if not waiting.future.done():
                waiting.future.set_result(None if done.cancelled() else done.result())

        call.add_done_callback(finish)
        response = await waiting.future
        if not call.done():
            client.remove_pending_request(call)
        return response

    async def _sleep(self, duration_s: float) -> None:
        waiting = _Waiting(time.monotonic() + duration_s)
        self._waiting.append(waiting)
        await waiting.future

    def _check_abort(self) -> None:
        if self._abort:
            raise _AbortedError("supervisor", f"{self._operation} was interrupted", "A newer request takes over")

    def _timeout(self, kind: str) -> float:
        return float(self.parameters.get(f"{kind}_timeout_s"))

    def _spawn(self, coroutine: Any) -> None:
        if self.executor is None:
            raise DeviceError("supervisor", "is not being spun", "Add it to an executor first")
        self.executor.create_task(coroutine)

    # Timers and topics

    def _tick(self) -> None:
        if not self._waiting:
            return
        now_s = time.monotonic()
        expired = [waiting for waiting in self._waiting if waiting.deadline_s <= now_s or waiting.future.done()]
        if expired:
            self._waiting = [waiting for waiting in self._waiting if waiting not in expired]
        for waiting in expired:
            if not waiting.future.done():
                waiting.future.set_result(None)

    def _watch(self) -> None:
        """Notice nodes that are gone: their services vanished, or they say nothing on /diagnostics any more."""
        if self._stack_state not in ("up", "fault") or self._operation:
            return
        now_s = time.monotonic()
        for node in self._nodes.values():
            # While another stack of this name leaves, the middleware counts its requests and responses unequal and
            # calls our own services not ready for a moment.
            node.unseen_since_s = math.inf if node.change.service_is_ready() else min(node.unseen_since_s, now_s)
            silent = node.heard_s > 0 and now_s - node.heard_s > HEARTBEAT_TIMEOUT_S
            if node.lost or not (silent or now_s - node.unseen_since_s > VANISHED_S):
                continue
            node.lost, node.state, node.heard_s = True, "unknown", 0.0
            self._fault(f"node_lost: {node.name}")
            if node.name in ACTORS and node.name != "tendon_driver":
                self.get_logger().error(f"{node.name} is gone: the stack is paused, the tendons are released")
                self._spawn(self._after_loss())
        if self._stack_state == "up" and (self._driver_faults or any(n.lost for n in self._nodes.values())):
            self._set_state("fault")

    async def _after_loss(self) -> None:
        if self._operation:
            return
        await self._operate("pause")
        self._set_state("fault")

    def _on_stack_status(self, message: StackStatus) -> None:
        stamp = message.header.stamp
        if (stamp.sec, stamp.nanosec) not in self._own_stamps:
            self._foreign_s = time.monotonic()

    def _on_driver_status(self, message: DiagnosticStatus) -> None:
        values = values_of(message)
        faults = tuple(name for name in values.get("faults", "").split(", ") if name)
        self._estop = values.get("estop") == "true"
        if faults != self._driver_faults:
            self._driver_faults = faults
            if faults:
                self._last_fault = faults[-1]
                if self._stack_state == "up":
                    self._set_state("fault")
            self._publish_status()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            full_name, _, task = status.name.partition(": ")
            namespace, _, name = full_name.rpartition("/")
            node = self._nodes.get(name)
            if node is None or task != "lifecycle" or (namespace or "/") != self.get_namespace():
                continue
            node.heard_s = time.monotonic()
            node.problem = status.message if status.level != DiagnosticStatus.OK else ""

    def _transition_listener(self, name: str) -> Callable[[TransitionEvent], None]:
        def listen(event: TransitionEvent) -> None:
            label = _LABELS.get(event.goal_state.id)
            if label is not None:
                self._nodes[name].state = label
                self._publish_status()

        return listen

    def _fault(self, name: str) -> None:
        if name not in self._own_faults:
            self._own_faults[name] = None
            self._last_fault = name
            self.get_logger().error(f"fault {name}")
            self._publish_status()

    def _set_state(self, state: str) -> None:
        self._stack_state = state
        self._publish_status()

    def _publish_status(self) -> None:
        message = self.status()
        self._own_stamps.append((message.header.stamp.sec, message.header.stamp.nanosec))
        self._status.publish(message)

    def _diagnose(self, status: StatusBuilder) -> None:
        faults = [*self._driver_faults, *self._own_faults]
        if faults:
            status.summary(Level.ERROR, ", ".join(faults))
        status.summary(Level.OK, self._stack_state)
        status.add("state", self._stack_state)
        status.add("estop", self._estop)
        status.add("faults", faults)
        status.add("last_fault", self._last_fault)
        for node in self._nodes.values():
            status.add(node.name, node.state)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(Supervisor)


if __name__ == "__main__":
    sys.exit(main())
