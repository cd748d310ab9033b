# SPDX-License-Identifier: Apache-2.0
"""Executor, signals and exit codes: how every program of this package runs its nodes, and in which order programs end.

The EventsExecutor takes a third of the processor time of the single-threaded one. Without a finite timeout it hangs in
the PyPI wheels (their C++ library overflows a deadline of "never"), so it is always spun with one. It runs in a thread
of its own; the main thread waits for signals, which Python only handles there.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from continuum_robot.errors import MISCONFIGURED, ContinuumRobotError, DeviceError, ParameterError, RobotFileError
from continuum_robot.msg import StackStatus
from continuum_robot.nodes.base.dds_environment import set_dds_environment
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics.owned_topic import subscribe_to_owner
from continuum_robot.runtime.periodic import ask_for_short_slices, give_way, use_exact_timers

STACK_STATUS = "stack_status"
BRING_DOWN_S = 10.0
"""The supervisor may take this long to bring all nodes down, beside the ramp."""
PATIENCE_S = 2.0
"""The driver releases its tendons by itself where the supervisor has not begun to stop after this time; the others end
as long after its ramp.
"""
_INTERVAL_S = 0.02
_STOPPING = (StackStatus.STOPPING, StackStatus.DOWN)
_DOWN = ("unconfigured", "finalized")


class StopOrder:
    """Waits until the supervisor has brought nodes down that it manages, where there is one.

    Ctrl-C in a terminal, launch, systemd and the end of a parent signal all programs at once. A simulator or a
    controller that ended before the driver's ramp would be a fault.
    """

    def __init__(self, nodes: Sequence[ManagedNode]) -> None:
        self._nodes = [node for node in nodes if node.managed]
        self._status: StackStatus | None = None
        if self._nodes:
            subscribe_to_owner(self._nodes[0], StackStatus, STACK_STATUS, self._on_status)

    def wait(self) -> None:
        """Return when the nodes are down, the supervisor has gone or does not stop, or after a bounded time."""
        if not self._nodes:
            return
        begun_s, ramp_s = time.monotonic(), max(node.longest_ramp_s for node in self._nodes)
        end_s = begun_s + BRING_DOWN_S + ramp_s
        first = any(node.ends_first for node in self._nodes)
        alone_s = begun_s + (PATIENCE_S if first else 2 * PATIENCE_S + ramp_s)
        while self._managed() and time.monotonic() < (end_s if self._stopping else alone_s):
            time.sleep(_INTERVAL_S)

    def _managed(self) -> bool:
        node, status = self._nodes[0], self._status
        if status is None or all(one.state in _DOWN for one in self._nodes):
            return False
        names = {one.get_name() for one in self._nodes}
        return not names.isdisjoint(status.node_names) and node.count_publishers(STACK_STATUS) > 0

    @property
    def _stopping(self) -> bool:
        return self._status is not None and self._status.state in _STOPPING

    def _on_status(self, message: StackStatus) -> None:
        self._status = message


SPIN_TIMEOUT_S = 30.0
LARGEST_DOMAIN = 232
JOIN_TIMEOUT_S = 5.0
EXIT_LIMIT_S = 15.0
"""Time for a program to end once its stack is down, beside the ramp, s; then it logs where it hangs, and ends all the
same.
"""
# A thread that wakes up waits this long for Python's interpreter lock. Shorter ones: threads take it from each other
# in the middle of their work: a loop in one process ran at 398 to 532 Hz with 50 us, at 708 to 784 with 0.5 to 5 ms.
SWITCH_INTERVAL_S = 0.0005
_joined = threading.Event()


def initialize(args: Sequence[str] | None = None, context: Context | None = None) -> None:
    """``rclpy.init`` without its signal handlers, errors as one sentence."""
    set_dds_environment(os.environ)
    _check_domain()
    try:
        given = None if args is None else list(args)
        rclpy.init(args=given, context=context, signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:
        raise dds_error(error) from error
    _joined.set()


def has_joined_dds() -> bool:
    """Whether this process ever initialized rclpy here.

    Fast DDS then keeps threads and locks for good, whatever is shut down: a process forked from this one would wait for
    them where it joins, for ever.
    """
    return _joined.is_set()


def _check_domain() -> None:
    """DDS itself ends the program, without a sentence, for a domain whose port numbers do not exist."""
    domain = os.environ.get("ROS_DOMAIN_ID", "").strip()
    if domain and not (domain.isdecimal() and int(domain) <= LARGEST_DOMAIN):
        raise ParameterError("ROS_DOMAIN_ID", domain, f"a whole number from 0 to {LARGEST_DOMAIN}")


def dds_error(error: BaseException) -> DeviceError:
    """The sentence for a middleware that does not start."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    reason = str(error).split(", at ", maxsplit=1)[0].strip() or repr(error)
    return DeviceError(
        f"DDS domain {domain}",
        f"cannot be joined ({reason})",
        "Set ROS_DOMAIN_ID to another number from 0 to 232, and end other programs that crowd this domain",
    )


def run_in_executor(executor: Any, function: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Run ``function`` in the thread that spins an executor, from another thread, and wait for its result."""
    done = threading.Event()
    result: list[Any] = []

    def task() -> None:
        try:
            result.append((True, function()))
        except Exception as error:
            result.append((False, error))
        done.set()

    executor.create_task(task)
    if not done.wait(timeout_s):
        raise DeviceError("executor", f"a task did not return within {timeout_s:g} s", "See the log for what hangs")
    succeeded, value = result[0]
    if not succeeded:
        raise value
    return value


def _events_executor(context: Context) -> Any:
    """An executor, also where the standard error is no file, as in a notebook: rclpy enables faulthandler on it."""
    shown = sys.stderr
    try:
        shown.fileno()
    except (OSError, AttributeError):
        sys.stderr = sys.__stderr__
    try:
        return EventsExecutor(context=context)
    finally:
        sys.stderr = shown


class Spinner:
    """Spins nodes on one executor in a thread.

    Managed nodes guard their callbacks themselves (:meth:`ManagedNode.guarded`), so that it is known whose defect it
    is. An exception of anything else, a task, an action or a callback of a plain node, is a defect of the program: it
    is reported, the nodes stay, and :attr:`failed` is set.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        context: Context | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.failed = False
        self._context = context or rclpy.get_default_context()
        self._on_failure = on_failure
        self.executor = _events_executor(self._context)
        for node in nodes:
            self.executor.add_node(node)
        self._nodes = list(nodes)
        self._stop: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)

    def start(self) -> None:
        """Start spinning."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        # rclpy's logger looks its caller up among all modules. The first time takes 50 ms and more, in which a robot
        # that is active already would miss its commands.
        inspect.getframeinfo(sys._getframe())
        self._thread.start()

    def stop(self) -> bool:
        """Stop spinning and join the thread; False when a callback did not return within 5 s."""
        if not self._stop.done():
            self._stop.set_result(None)
        self.executor.wake()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)
        ended = not self._thread.is_alive()
        if ended:
            for node in self._nodes:
                self.executor.remove_node(node)
                node.executor = None  # type: ignore[assignment]
            # It holds the callbacks, through them the nodes, and through those the owner of this spinner: in C++, where
            # Python finds no cycle. Without it no participant that was spun would ever leave DDS.
            self.executor.shutdown(JOIN_TIMEOUT_S)
        return ended

    def add_node(self, node: Node) -> None:
        """Spin a further node."""
        self._nodes.append(node)
        self.executor.add_node(node)

    def run(self, function: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Run ``function`` in the executor's thread and wait for its result, as :func:`run_in_executor`."""
        if threading.current_thread() is self._thread:
            return function()
        return run_in_executor(self.executor, function, timeout_s)

    def _run(self) -> None:
        while self._context.ok() and not self._stop.done():
            try:
                self.executor.spin_until_future_complete(self._stop, timeout_sec=SPIN_TIMEOUT_S)
            except Exception as error:
                self.failed = True
                sys.stderr.write("".join(traceback.format_exception(error)))
                if self._on_failure is not None:
                    self._on_failure(error)


class StopRequest:
    """SIGINT, SIGTERM and SIGHUP as something to wait for. Use as a context manager in the main thread."""

    def __init__(self, *, last: bool = False) -> None:
        self.signal_name = ""
        self._last = last
        self._asked = False
        self._pipe: tuple[int, int] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup lets programs outlive their terminal.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_exception: object) -> None:
        ignored = self._last and self.signal_name
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if ignored else handler)
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)

    def wait(self, timeout_s: float) -> bool:
        """Whether a stop was asked for, waiting at most ``timeout_s``."""
        if not self._asked and self._pipe is not None:
            select.select([self._pipe[0]], [], [], max(0.0, timeout_s))
        return self._asked

    def ask(self) -> None:
        """Ask for a stop from the program itself; safe from any thread and from a signal's handler."""
        # No lock here: a handler that interrupts wait() would wait for its own thread.
        self._asked = True
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipe[1], b"\0")

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        # Stopping takes a bounded time and releases the tendons: a second signal must not cut it short.
        self.signal_name = self.signal_name or signal.Signals(number).name
        self.ask()


@contextlib.contextmanager
def shut_down_at_end(context: Context | None = None) -> Iterator[None]:
    """Shut rclpy down when the block is left, however that happens."""
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            rclpy.try_shutdown(context=context)


def run_node(
    factory: Callable[[], ManagedNode],
    args: Sequence[str] | None = None,
    *,
    background: bool = False,
    prompt: bool = False,
) -> int:
    """The ``main`` of a node: run it until SIGINT or SIGTERM; arguments and result as :func:`run_nodes`."""
    return run_nodes(lambda: [factory()], args, background=background, prompt=prompt)


def run_nodes(
    factory: Callable[[], Sequence[ManagedNode]],
    args: Sequence[str] | None = None,
    *,
    background: bool = False,
    prompt: bool = False,
) -> int:
    """The ``main`` of a program of one or more nodes: run them until SIGINT or SIGTERM."""
    if prompt:
        ask_for_short_slices()
        use_exact_timers()
    try:
        initialize(args)
    except ContinuumRobotError as error:
        return fail(error)
    with shut_down_at_end(), StopRequest(last=True) as stop:
        try:
            nodes = list(factory())
        except ContinuumRobotError as error:
            return fail(error)
        except Exception as error:
            return fail(dds_error(error) if type(error).__name__ == "RCLError" else error)
        if background and not any(node.clock.stepped for node in nodes):
            give_way()

        def on_failure(error: BaseException) -> None:
            for node in nodes:
                node.on_defect(error)

        spinner = Spinner(nodes, on_failure=on_failure)
        try:
            # A file that is not there now will hardly appear while the program runs.
            for node in nodes:
                node.check()
            order = StopOrder(nodes)
            spinner.start()
            if not all(_bring_up(node, spinner) for node in nodes):
                return 1
            while not (stop.wait(1.0) or any(node.ended for node in nodes)):
                pass
            if stop.signal_name:
                order.wait()
            for node in reversed(nodes):
                node.before_exit(spinner)
        except ContinuumRobotError as error:
            return fail(error)
        finally:
            # The middleware was seen to hang here. Nothing cancels it but the end of the process, since that hangs in
            # the last destructors too. It comes before whoever started the program loses patience, and after the ramp;
            # boards that are no longer talked to let go.
            ramp_s = max(node.longest_ramp_s for node in nodes)
            faulthandler.dump_traceback_later(EXIT_LIMIT_S + ramp_s, exit=True)
            spinner.stop()
            for node in reversed(nodes):
                node.destroy_node()
        if spinner.failed or any(node.defect for node in nodes):
            return 1
        return max(node.exit_code for node in nodes)


def _bring_up(node: ManagedNode, spinner: Spinner) -> bool:
    activate = bool(node.parameters.get("activate"))
    if not (activate or node.parameters.get("configure")):
        return True
    spinner.run(node.trigger_configure)
    if node.state == "inactive" and activate:
        if node.changes_beside:
            node.trigger_activate()
        else:
            spinner.run(node.trigger_activate)
    return node.state == ("active" if activate else "inactive")


def fail(error: BaseException) -> int:
    """Say what went wrong on stderr, one sentence for an error of this project; gives the exit code."""
    if not isinstance(error, ContinuumRobotError):
        sys.stderr.write("".join(traceback.format_exception(error)))
    sys.stderr.write(f"error: {error}\n")
    return MISCONFIGURED if isinstance(error, (ParameterError, RobotFileError)) else 1


def wait_for(condition: Callable[[], bool], timeout_s: float, interval_s: float = 0.02) -> bool:
    """Whether ``condition`` became true within ``timeout_s``."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(interval_s)
    return True
