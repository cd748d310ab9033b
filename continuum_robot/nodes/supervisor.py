# SPDX-License-Identifier: Apache-2.0
"""The node that brings the others up in order and down in reverse, watches them, and recovers from faults."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from rclpy.clock import Clock, ClockType
from rclpy.task import Future
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.msg import DriverStatus, StackStatus
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder, values_of
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import BRING_DOWN_S, Spinner, run_node
from continuum_robot.nodes.base.waiting import Waiting
from continuum_robot.nodes.stack.options import GROUPS, MANAGED_NODES, SIMULATOR
from continuum_robot.nodes.supervision import (
    HEARTBEAT_TIMEOUT_S,
    UNKNOWN,
    VANISHED_S,
    Managed,
    ManageService,
    SecondSupervisor,
)
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.driver_status import controller_name, fault_names, stop_name
from continuum_robot.nodes.topics.owned_topic import full_name_of, subscribe_to_owner
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.hang_watch import OwnGap
from continuum_robot.srv import ManageStack

WATCHERS = ("contact_monitor",)
"""Nodes that judge the data of the others, and fall silent before these do."""

ACTORS = ("tendon_driver", "base_stage", "clarke_controller", "reference_source", "tip_approach", "predictive_tip")
"""Nodes that move the robot: activated last and deactivated first, and the stack does not go on without them."""

RUNNING = (StackStatus.UP, StackStatus.FAULT)
TICK_S = 0.02
WATCH_PERIOD_S = 0.5
OWN_GAP_S = 2 * WATCH_PERIOD_S
STATUS_PERIOD_S = 1.0
RESET_AGAIN_S = 2.0
SOURCE = "reference_source"
DRIVER = "tendon_driver"
COMMANDS_PERIOD_S = 0.1
READMIT_AGAIN_S = 5.0

_TOLD = ("state", "controller", "stop_action", "fallback_holds")
"""Fields of ``driver_status`` that are in ``stack_status`` too."""

_COMMANDS = {
    ManageStack.Request.STARTUP: "startup",
    ManageStack.Request.PAUSE: "pause",
    ManageStack.Request.RESUME: "resume",
    ManageStack.Request.RESET: "reset",
    ManageStack.Request.SHUTDOWN: "shutdown",
}


class _AbortedError(DeviceError):
    """The operation made room for a newer one."""


class Supervisor(ManagedNode):
    """Lifecycle of the whole stack on ``~/manage`` and ``manage_stack``, its state on ``stack_status``.

    Everything is asynchronous: no callback blocks, every wait ends. It works with nodes of the same process and of
    others, and beside ``ros2 lifecycle``.
    """

    managed = False
    # Not made where the constructor fails before.
    _manage: ManageService | None = None

    def __init__(self, **node_options: Any) -> None:
        super().__init__("supervisor", activate_at_start=True, **node_options)
        declare = self.parameters.declare
        declare("node_names", list(MANAGED_NODES), "managed nodes in the order of configuration", read_only=True)
        declare("autostart", True, "bring the stack up when the supervisor is activated", read_only=True)
        declare(
            "start_motion",
            False,
            "start the trajectory once the stack is up for the first time; after a fault or a reset it holds anyway",
            read_only=True,
        )
        declare(
            "exit_on_failed_start",
            False,
            "end the program with exit code 1 where the stack does not come up at its start",
            read_only=True,
        )
        declare(
            "await_commands",
            False,
            "bring the tendons under torque only once a program writes tendon_commands",
            read_only=True,
        )
        seconds = Quantity("", "s", gt=0, le=600)
        declare("discovery_timeout_s", 60.0, "how long a node may take to appear", rules=seconds, read_only=True)
        declare(
            "second_supervisor_timeout_s",
            1.0,
            "how long to listen for another supervisor before the first operation",
            rules=Quantity("", "s", ge=0, le=60),
            read_only=True,
        )
        declare("configure_timeout_s", 120.0, "how long a node may take to configure", rules=seconds, read_only=True)
        declare("transition_timeout_s", 30.0, "how long another transition may take", rules=seconds, read_only=True)
        names = list(self.parameters.get("node_names"))
        if len(set(names)) != len(names):
            raise ParameterError("node_names", names, "each node once")
        self._waiting = Waiting(self, TICK_S)
        self._nodes = {name: Managed(self, name, self._waiting, self._publish_status) for name in names}
        self._reset_estop: Any = self.create_client(Trigger, "reset_estop")
        self._restart: Any = self.create_client(Trigger, f"{SOURCE}/restart")
        self._may_start = bool(self.parameters.get("start_motion"))
        self._holding = True
        self._stack_state = StackStatus.DOWN
        self._was_up = False
        self._driver_faults: tuple[str, ...] = ()
        self._driver = DriverStatus()
        self._estop = False
        self._own_faults: dict[str, None] = {}
        self._last_fault = ""
        self._operation = ""
        self._abort = False
        self._message = ""
        self._looking, self._look_s = False, 0.0
        self._awaits_commands = False
        self._ramp_s = math.nan
        self._status = self.create_publisher(StackStatus, "stack_status", qos.latched())
        self._gap = OwnGap(OWN_GAP_S)
        self._heard_itself_s = time.monotonic()
        self._second_supervisor = SecondSupervisor(self, self._waiting, self._timeout("second_supervisor"))
        subscribe_to_owner(self, DriverStatus, "driver_status", self._on_driver_status)
        subscribe_to_owner(self, Bool, "reference_holding", self._on_holding)
        subscribe_to_owner(self, DiagnosticArray, "/diagnostics", self._on_diagnostics, self._reporter, qos.events())
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(WATCH_PERIOD_S, self._watch, clock=steady)
        self.create_timer(STATUS_PERIOD_S, self._publish_status, clock=steady)
        self.diagnostics.add_task("stack", self._diagnose)
        self._publish_status()
        # Its callbacks come in threads of its own, all others in the executor's.
        self._manage = ManageService(self, ("~/manage", "manage_stack"), self._asked)

    # Lifecycle of the supervisor itself

    def activate(self) -> None:
        """Bring the stack up, where ``autostart`` is set."""
        if self.parameters.get("autostart"):
            self._spawn(self._operate("startup"))

    def check(self) -> None:
        """Nothing: the robot file is the business of the nodes."""

    def before_exit(self, spinner: Spinner) -> None:
        """Bring the stack down before the program ends, as far as its nodes are still there."""
        if (
            self._stack_state == StackStatus.DOWN
            or self._second_supervisor.present
            or all(node.state == UNKNOWN for node in self._nodes.values())
        ):
            return
        done: Future[Any] = Future()

        async def bring_down() -> None:
            await self._operate("shutdown")
            done.set_result(None)

        spinner.executor.create_task(bring_down())
        end_s = time.monotonic() + BRING_DOWN_S + self._longest_ramp_s()
        while not done.done() and time.monotonic() < end_s:
            time.sleep(TICK_S)

    def destroy_node(self) -> None:
        """End what serves the requests, then destroy the node."""
        if self._manage is not None:
            self._manage.close()
        super().destroy_node()

    # What others ask

    @property
    def stack_state(self) -> str:
        """One of the states of StackStatus."""
        return self._stack_state

    @property
    def message(self) -> str:
        """What the last operation came to, a sentence."""
        return self._message

    @property
    def reason(self) -> str:
        """What is known of a fault beside its name: the operation that failed, or the driver's defect; else empty."""
        if any(name.endswith("_failed") for name in self._own_faults):
            return self._message
        return str(self._driver.defect)

    @property
    def startup_failed(self) -> bool:
        """Whether the stack did not come up at its first start."""
        return "startup_failed" in self._own_faults

    @property
    def awaits_commands(self) -> bool:
        """Whether the start goes on with the first command of another program."""
        return self._awaits_commands

    def status(self) -> StackStatus:
        """The status as it is published on ``stack_status``."""
        obeys = self._driver.state == DriverStatus.ACTIVE
        message = StackStatus(
            state=self._stack_state,
            simulated=self.simulated,
            estop=self._estop,
            holding=self._stack_state == StackStatus.UP and SOURCE in self._nodes and self._holding,
            node_names=list(self._nodes),
            node_states=[node.state for node in self._nodes.values()],
            faults=[*self._driver_faults, *self._own_faults],
            last_fault=self._last_fault,
            controller=controller_name(self._driver) if obeys else "",
            stop_action=stop_name(self._driver),
            fallback=self._driver.fallback_holds,
        )
        message.header.stamp = self.get_clock().now().to_msg()
        return message

    async def _asked(self, command: int) -> tuple[bool, str]:
        succeeded = await self._operate(_COMMANDS[command])
        return succeeded, self._message

    # Operations. Each is a coroutine that the executor advances; they never block it.

    async def _operate(self, name: str) -> bool:
        if self._operation not in ("", "readmission") and name in ("startup", "resume"):
            self._message = f"refused: {self._operation} is under way"
            return False
        self._abort = bool(self._operation)
        while self._operation:
            await self._waiting.sleep(TICK_S)
        self._abort = False
        self._operation = name
        operations: dict[str, Callable[[], Awaitable[None]]] = {
            "startup": self._startup,
            "pause": self._pause,
            "resume": self._resume,
            "reset": self._reset,
            "shutdown": self._shutdown,
            "readmission": self._readmission,
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
            self._set_state(StackStatus.FAULT)
            if name == "startup" and not self._was_up and self.parameters.get("exit_on_failed_start"):
                self.ended, self.exit_code = True, 1
            return False
        except Exception as error:  # as of _reported
            self.on_defect(error)
            self._message = f"{name} failed: {error!r}"
            self._own_faults[f"{name}_failed"] = None
            self._set_state(StackStatus.FAULT)
            return False
        finally:
            self._operation, self._may_start = "", False
        self._was_up = self._was_up or self._stack_state == StackStatus.UP
        self._message = f"{name}: done"
        self.get_logger().info(f"{name}: the stack is {self._stack_state}")
        return True

    async def _startup(self) -> None:
        await self._second_supervisor.refuse_after_discovery()
        self._holding = True
        self._ramp_s = math.nan  # the file may be another now
        self._set_state(StackStatus.STARTING)
        self._own_faults.clear()
        try:
            for node in self._nodes.values():
                await node.appear(self._timeout("discovery"), self._check_abort)
            await self._configure_all()
            await self._activate_all()
            await self._start_motion()
        except DeviceError:
            await self._noted(self._down(cleanup=True))
            raise
        self._set_state(StackStatus.UP)

    async def _start_motion(self) -> None:
        """What was asked for with the start of the program: the first bring-up, and no later one, begins to move."""
        if self._operation != "startup" or not self._may_start or SOURCE not in self._nodes:
            return
        if self._driver.controller in (DriverStatus.CONTROLLER_HOLD_TENSION, DriverStatus.CONTROLLER_TIP):
            return  # nothing would follow the trajectory
        deadline_s = time.monotonic() + self._timeout("transition")
        while not self._restart.service_is_ready() and time.monotonic() < deadline_s:
            await self._waiting.sleep(TICK_S)
        response = await self._waiting.call(
            self._restart, Trigger.Request(), self._timeout("transition"), RESET_AGAIN_S
        )
        if response is None or not response.success:
            reason = "does not answer" if response is None else str(response.message).rstrip(".")
            raise DeviceError(SOURCE, f"did not start its trajectory: {reason}", "See its log")
        self._holding = False

    async def _configure_all(self) -> None:
        """The simulated robot first, which the drivers connect to; then the groups side by side, each in its order."""
        names = [name for name, node in self._nodes.items() if node.state == "unconfigured"]
        if SIMULATOR in names:
            await self._configure([SIMULATOR])
            names.remove(SIMULATOR)
        known = {name for members in GROUPS.values() for name in members}
        groups = (*GROUPS.values(), set(names) - known)
        tasks = [self._spawn(self._failure_of(self._configure([n for n in names if n in group]))) for group in groups]
        # All have ended before the first failure counts: what is still being configured cannot be cleaned up.
        failures = [await task for task in tasks]
        for failure in failures:
            if failure is not None:
                raise failure

    async def _configure(self, names: Sequence[str]) -> None:
        for name in names:
            await self._change(self._nodes[name], Transition.TRANSITION_CONFIGURE, "inactive")

    async def _failure_of(self, operation: Awaitable[None]) -> DeviceError | None:
        try:
            await operation
        except DeviceError as error:
            return error
        return None

    async def _activate_all(self) -> None:
        nodes = self._nodes.values()
        for node in [*(n for n in nodes if n.name not in ACTORS), *(n for n in nodes if n.name in ACTORS)]:
            if node.state == "inactive":
                if node.name == DRIVER and self.parameters.get("await_commands"):
                    await self._commands_come(node)
                await self._change(node, Transition.TRANSITION_ACTIVATE, "active")

    async def _commands_come(self, driver: Managed) -> None:
        """Another program commands the tendons: without it they would have torque, and soon time out."""
        if not self._driver.commanded:
            self.get_logger().info(
                "waiting for tendon_commands: start your controller. The tendons have no torque until it answers"
                " tendon_states"
            )
        self._awaits_commands = True
        try:
            while not self._driver.commanded:
                self._check_abort()
                if await driver.refresh(VANISHED_S) and driver.state != "inactive":
                    raise DeviceError(driver.name, f"is {driver.state} instead of inactive", "See its log, then reset")
                await self._waiting.sleep(COMMANDS_PERIOD_S)
        finally:
            self._awaits_commands = False

    async def _pause(self) -> None:
        await self._second_supervisor.refuse_after_discovery()
        self._set_state(StackStatus.STOPPING)
        await self._down(cleanup=False)
        self._set_state(StackStatus.DOWN)

    async def _resume(self) -> None:
        await self._second_supervisor.refuse_after_discovery()
        self._holding = True
        self._set_state(StackStatus.STARTING)
        self._own_faults.clear()
        try:
            for node in self._nodes.values():
                await node.appear(self._timeout("discovery"), self._check_abort)
            await self._activate_all()
        except DeviceError:
            await self._noted(self._down(cleanup=False))
            raise
        self._set_state(StackStatus.UP)

    async def _shutdown(self) -> None:
        await self._second_supervisor.refuse_after_discovery()
        self._set_state(StackStatus.STOPPING)
        await self._down(cleanup=True)
        self._set_state(StackStatus.DOWN)

    async def _reset(self) -> None:
        await self._second_supervisor.refuse_after_discovery()
        self._set_state(StackStatus.STOPPING)
        await self._down(cleanup=True)
        await self._clear_faults()
        await self._startup()

    async def _clear_faults(self) -> None:
        if not self._reset_estop.service_is_ready():
            return
        response = await self._waiting.call(
            self._reset_estop, Trigger.Request(), self._timeout("transition"), RESET_AGAIN_S
        )
        if response is None:
            raise DeviceError("tendon_driver", "does not answer reset_estop", "Look at its process")
        if not response.success:
            raise DeviceError("tendon_driver", response.message, "Remove the cause, then reset again")
        # The driver announces the cleared faults on driver_status.
        deadline_s = time.monotonic() + 1.0
        while self._driver_faults and time.monotonic() < deadline_s:
            await self._waiting.sleep(TICK_S)

    async def _down(self, *, cleanup: bool) -> None:
        """Deactivate all in reverse, the driver first; failures are noted and do not stop the rest."""
        reverse = list(reversed(self._nodes.values()))
        # A watcher would take the silence of the others for a fault, and the driver that of its controller, where a
        # busy machine is late with the next transition.
        ranks = dict.fromkeys(ACTORS, 2) | {DRIVER: 1} | dict.fromkeys(WATCHERS, 0)
        ordered = sorted(reverse, key=lambda node: ranks.get(node.name, 3))
        silent = await self._deactivate(ordered)
        for node in reverse if cleanup else ():
            if node.state == "inactive":
                await self._try_change(node, Transition.TRANSITION_CLEANUP, "unconfigured")
        if silent:
            names = ", ".join(node.name for node in silent)
            raise DeviceError(names, "does not answer: it may be active still", "End its process, then reset")

    async def _deactivate(self, nodes: Sequence[Managed]) -> list[Managed]:
        """Deactivate in this order; which of those that move the robot gave no answer, or are between two states.

        One that has no time to say that it is active moves the robot still: it is asked again.
        """
        end_s = time.monotonic() + self._timeout("transition")
        while True:
            silent = []
            for node in nodes:
                answered = await node.refresh()
                if node.state == "active":
                    await self._try_change(node, Transition.TRANSITION_DEACTIVATE, "inactive")
                elif node.name in ACTORS and not (answered and (node.settled or node.state == UNKNOWN)):
                    silent.append(node)
            if not silent or time.monotonic() > end_s:
                return silent
            await self._waiting.sleep(TICK_S)
            nodes = silent

    async def _noted(self, operation: Awaitable[None]) -> None:
        """What it fails of is in the log."""
        try:
            await operation
        except DeviceError as error:
            self.get_logger().error(str(error))

    async def _change(self, node: Managed, transition: int, desired: str) -> None:
        self._check_abort()
        self._second_supervisor.refuse()
        kind = "configure" if transition == Transition.TRANSITION_CONFIGURE else "transition"
        await node.change(transition, desired, self._timeout(kind))

    async def _try_change(self, node: Managed, transition: int, desired: str) -> None:
        abort, self._abort = self._abort, False
        try:
            await self._noted(self._change(node, transition, desired))
        finally:
            self._abort = abort

    def _check_abort(self) -> None:
        if self._abort:
            raise _AbortedError("supervisor", f"{self._operation} was interrupted", "A newer request takes over")

    def _timeout(self, kind: str) -> float:
        timeout_s = float(self.parameters.get(f"{kind}_timeout_s"))
        # A deactivation has to have time for the ramp.
        return timeout_s + self._longest_ramp_s() if kind == "transition" else timeout_s

    def _longest_ramp_s(self) -> float:
        if math.isnan(self._ramp_s):
            with contextlib.suppress(ContinuumRobotError):  # the nodes say what is wrong with it
                self.load_robot()
            self._ramp_s = self.longest_ramp_s
        return self._ramp_s

    def _spawn(self, coroutine: Any) -> Any:
        executor: Any = self.executor
        if executor is None:
            raise DeviceError("supervisor", "is not being spun", "Add it to an executor first")
        return executor.create_task(self._reported(coroutine))

    async def _reported(self, coroutine: Awaitable[Any]) -> Any:
        """What a coroutine gives; None where it fails. The EventsExecutor of rclpy 9.1.2 ends the process with a
        segmentation fault where a task of its only node raises.
        """
        try:
            return await coroutine
        except Exception as error:
            self.on_defect(error)
            return None

    # Timers and topics

    def _watch(self) -> None:
        """Notice nodes that are gone; without one that moves the robot the stack is paused."""
        away = self._gap.look(time.monotonic())
        if self._stack_state not in RUNNING or self._operation:
            return
        if away or self._deaf:
            self.get_logger().warning(
                "the supervisor stood still: it judges no node by what it did not hear meanwhile",
                throttle_duration_sec=10.0,
            )
            for node in self._nodes.values():
                node.forgive()
            return
        for node in self._nodes.values():
            if node.seems_gone():
                self._spawn(self._judge(node))
        failed = [node.name for node in self._nodes.values() if node.state == "active" and node.defect]
        for name in failed:
            self._fault(f"node_failed: {name}")
        lost = any(node.lost for node in self._nodes.values())
        if self._stack_state == StackStatus.UP and (self._driver_faults or failed or lost):
            self._set_state(StackStatus.FAULT)
        if lost:
            self._spawn(self._look_for_lost())

    @property
    def _deaf(self) -> bool:
        """Whether this node does not hear even what it reports itself: the machine, or DDS, has no time for it."""
        longest_s = max(HEARTBEAT_TIMEOUT_S, 2.0 / self.parameters.get("diagnostics.rate_hz"))
        return time.monotonic() - self._heard_itself_s > longest_s

    async def _judge(self, node: Managed) -> None:
        """Ask a node that seems to be gone; without an answer it is, and without one that moves the robot all pause."""
        if await node.answers() or self._operation or self._stack_state not in RUNNING:
            return
        if self._deaf or self._second_supervisor.present:
            node.forgive()
            return
        node.lose()
        self._fault(f"node_lost: {node.name}")
        self._set_state(StackStatus.FAULT)
        if node.name in ACTORS and node.name != DRIVER:
            self.get_logger().error(f"{node.name} is gone: the stack is paused, the tendons are released")
            await self._after_loss()

    async def _look_for_lost(self) -> None:
        """Configure nodes that were lost and are there again; nothing is activated before somebody resets the stack."""
        if self._looking or self._operation or time.monotonic() < self._look_s:
            return
        self._looking = True
        try:
            # Of those that do not answer the state is unknown again at once.
            for node in self._nodes.values():
                if node.lost:
                    await node.refresh()
            there = any(node.lost and node.state == "unconfigured" for node in self._nodes.values())
            if there and not self._operation and not await self._operate("readmission"):
                self._look_s = time.monotonic() + READMIT_AGAIN_S
        finally:
            self._looking = False

    async def _readmission(self) -> None:
        for node in self._nodes.values():
            if node.lost and node.state == "unconfigured":
                await self._change(node, Transition.TRANSITION_CONFIGURE, "inactive")
                node.back()
                self.get_logger().info(f"{node.name} is there again and configured: reset the stack to go on")
        self._own_faults.pop("readmission_failed", None)

    async def _after_loss(self) -> None:
        if self._operation:
            return
        await self._operate("pause")
        self._set_state(StackStatus.FAULT)

    def _on_driver_status(self, message: DriverStatus) -> None:
        faults = fault_names(message)
        self._estop = message.estop
        before, self._driver = self._driver, message
        if any(getattr(message, name) != getattr(before, name) for name in _TOLD):
            self._publish_status()
        if faults != self._driver_faults:
            self._driver_faults = faults
            if faults:
                self._last_fault = faults[-1]
                if self._stack_state == StackStatus.UP:
                    self._set_state(StackStatus.FAULT)
            self._publish_status()

    def _on_holding(self, message: Bool) -> None:
        if message.data != self._holding:
            self._holding = message.data
            self._publish_status()

    def _reporter(self, message: DiagnosticArray) -> str:
        """The node of this stack that alone may report these; "" where they are of none."""
        own = (status.name.partition(": ")[0] for status in message.status)
        names = {full_name_of(self, name) for name in (self.get_name(), *self._nodes)}
        return next((name for name in own if name in names), "")

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            full_name, _, task = status.name.partition(": ")
            namespace, _, name = full_name.rpartition("/")
            node = self._nodes.get(name)
            if task != "lifecycle" or (namespace or "/") != self.get_namespace():
                continue
            if name == self.get_name():
                self._heard_itself_s = time.monotonic()
            if node is None:
                continue
            problem = status.message if status.level != DiagnosticStatus.OK else ""
            values = values_of(status)
            state = "" if self._second_supervisor.present else values.get("lifecycle_state", "")
            node.heard(problem, state, values.get("defect", ""))

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
        self._second_supervisor.own(message)
        self._status.publish(message)

    def _diagnose(self, status: StatusBuilder) -> None:
        faults = [*self._driver_faults, *self._own_faults]
        if faults:
            status.summary(Level.ERROR, ", ".join(faults))
        status.summary(Level.OK, self._stack_state)
        status.add("state", self._stack_state)
        status.add("estop", self._estop)
        status.add("holding", self.status().holding)
        status.add("faults", faults)
        status.add("last_fault", self._last_fault)
        for node in self._nodes.values():
            status.add(node.name, node.state)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(Supervisor)


if __name__ == "__main__":
    sys.exit(main())
