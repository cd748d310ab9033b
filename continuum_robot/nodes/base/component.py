# SPDX-License-Identifier: Apache-2.0
"""A node as an object that is made at configure and dropped at cleanup, with a table of what it hears, serves and says.

:class:`ComponentNode` runs it on rclpy. What the object opens it gives ``host.closing``; nothing has to be reset. An
error of this project is a problem of the line that raised it, reported until that succeeds. Anything else is a defect:
the component is deaf and mute until it is made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, overload

from rclpy.qos import QoSProfile

from continuum_robot.errors import ContinuumRobotError, DeviceError
from continuum_robot.nodes.base.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.lockstep.flow import FlowLoop, FlowPublisher, FlowTimer
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.description import Robot

Port = TypeVar("Port")
Method = TypeVar("Method", bound=Callable[..., Any])
Call = Callable[..., Any]


SKIPPED = object()
"""What a method returns that left its message out: what was wrong with the one before is still reported."""


class NothingToDoError(Exception):
    """Raised by a component's constructor: why this robot does not need it."""


class Line(Generic[Port]):
    """A line of a component's table, used as a decorator of the method that it calls.

    ``make(node, call)`` is called once with the node, before there is a component; what it returns is the value of the
    line in a component's methods. ``call`` does nothing while there is no component.
    """

    def __init__(
        self, make: Callable[[ComponentNode, Call], Port], *, active: bool = False, answers: bool = False
    ) -> None:
        """``active``: called only then; what a method raises that ``answers`` is for who asks, and no problem."""
        self.make, self.active, self.answers = make, active, answers
        self.name = self.method = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def __call__(self, method: Method) -> Method:
        self.method = method.__name__
        return method

    @overload
    def __get__(self, component: None, owner: type) -> Line[Port]: ...
    @overload
    def __get__(self, component: Component, owner: type) -> Port: ...
    def __get__(self, component: Component | None, owner: type) -> Any:
        """The line of the class; in a component, what was made for it."""
        return self if component is None else component.host.ports[self.name]


def output(kind: Any, topic: str, profile: QoSProfile | None = None, *, of_flow: bool = True) -> Line[FlowPublisher]:
    """A topic that is published; one that is not ``of_flow`` takes no part in lock-step."""
    chosen = profile or qos.state_publisher()

    def make(node: ComponentNode, _call: Call) -> FlowPublisher:
        publisher: FlowPublisher = (node.flow if of_flow else node).create_publisher(kind, topic, chosen)
        return publisher

    return Line(make)


def heard(
    kind: Any, topic: str, via: Callable[..., None] = subscribe_to_stream, *, active: bool = False, **options: Any
) -> Line[None]:
    """A topic that is heard ``via`` a function, with its ``options``; ``active``: only then."""
    return Line(lambda node, call: via(node, kind, topic, call, **options), active=active)


def plain(node: ManagedNode, kind: Any, topic: str, callback: Call, *, profile: QoSProfile) -> None:
    """Hear whoever publishes, outside of lock-step: ``via`` of :func:`heard`."""
    node.create_subscription(kind, topic, callback, profile)


def in_flow(
    node: ManagedNode,
    kind: Any,
    topic: str,
    callback: Call,
    *,
    profile: QoSProfile,
    raw: bool = False,
    lazy: bool = False,
) -> None:
    """Hear whoever publishes, in lock-step too: ``via`` of :func:`heard`."""
    node.flow.create_subscription(kind, topic, callback, profile, raw=raw, lazy=lazy)


def service(kind: Any, name: str, unconfigured: str = "") -> Line[None]:
    """A service whose response has ``success`` and ``message``.

    The method takes the request, and returns a sentence, None, or the whole response. What it raises is the refusal;
    ``unconfigured`` is that of a node without a component.
    """

    def make(node: ComponentNode, call: Call) -> None:
        def answer(request: Any, response: Any) -> Any:
            if node.deaf:
                raise DeviceError(node.get_name(), f"has a defect: {node.defect}", "Clean up and configure it")
            if node.component is None:
                raise ContinuumRobotError(unconfigured or f"configure the {node.get_name().replace('_', ' ')} first")
            answered = call(request)
            if isinstance(answered, type(response)):
                return answered
            response.success, response.message = True, answered or ""
            return response

        node.create_service(kind, name, answer)

    return Line(make, answers=True)


def action(kind: Any, name: str) -> Line[None]:
    """An action whose result has a ``message``; the method is a coroutine that takes the goal."""

    def make(node: ComponentNode, call: Call) -> None:
        async def execute(goal: Any) -> Any:
            if node.component is None or node.deaf:
                goal.abort()
                what = node.defect or "it is not configured"
                return kind.Result(message=f"refused: {what}")
            return await call(goal)

        node.create_action(kind, name, execute)

    return Line(make, answers=True)


def timer(*, active: bool = False) -> Line[FlowTimer]:
    """A timer, stopped."""
    # Without arguments: rclpy hands its timer to a callback that takes one.
    return Line(lambda node, call: node.flow.create_timer(lambda: call()), active=active)  # noqa: PLW0108


class Loop(Line[FlowLoop]):
    """A cycle at the rate of a parameter, in a thread of its own; the method takes the time and that since the last, s.

    It runs from configure to cleanup, and its timing is judged; or, ``while_active``, as long as that.
    """

    def __init__(self, rate: str, *, while_active: bool = False) -> None:
        super().__init__(self._unmade)
        self.rate, self.while_active = rate, while_active

    @staticmethod
    def _unmade(_node: ComponentNode, _call: Call) -> Any:
        return None


class Component:
    """A node, by a class attribute a line of the table. Methods that a subclass does not need do nothing."""

    name: ClassVar[str]
    about: ClassVar[str]
    """Name of its status in diagnostics."""
    problem_level: ClassVar[Level] = Level.WARN
    parameters: Any
    """A dataclass of quantities: on the class the defaults, in a component the newest values."""
    goes_on: ClassVar[bool] = False
    """It deals with its defects itself, and is not deaf and mute by one."""
    default_robot: ClassVar[str] = ManagedNode.default_robot
    activate_at_start: ClassVar[bool] = False

    def __init__(self, host: ComponentNode, robot: Robot) -> None:
        self.host, self.robot, self.parameters = host, robot, host.own.value

    @classmethod
    def table(cls) -> list[Line[Any]]:
        lines = {name: line for base in reversed(cls.__mro__) for name, line in vars(base).items()}
        return [line for line in lines.values() if isinstance(line, Line)]

    def activate(self) -> None:
        """Begin to act. Raises on failure."""

    def deactivate(self) -> None:
        """Stop to act, in whatever state."""

    def parameters_changed(self, names: Collection[str] = ()) -> None:
        """:attr:`parameters`, or others of the node, have other values than before."""

    def carry(self, payload_kg: float) -> None:
        """Go on with another payload, kg; what it raises refuses the change. Without it the parameter is read-only."""

    def health(self, status: StatusBuilder) -> None:
        """Fill in the status; problems are there already, the timing of loops and the state are added."""


class ComponentNode(ManagedNode):
    """The node of a component."""

    def __init__(self, kind: type[Component], **node_options: Any) -> None:
        self.kind, self.component = kind, None  # type: tuple[type[Component], Component | None]
        self.default_robot = kind.default_robot
        self.follows_payload = kind.carry is not Component.carry
        self.ports: dict[str, Any] = {}
        self.closing = ExitStack()
        self.idle = ""
        self.active = False
        self._errors: Counter[str] = Counter()
        super().__init__(kind.name, activate_at_start=kind.activate_at_start, **node_options)
        self.own = self.parameters.declare_settings("", kind.parameters, quiet=True)
        lines = kind.table()
        self._loops = [line for line in lines if isinstance(line, Loop)]
        if any(not line.while_active for line in self._loops):
            self._thresholds = LoopThresholds(self)
        for line in lines:
            self.ports[line.name] = line.make(self, partial(self._call, line))
        self.parameters.on_change(self._changed)
        self.diagnostics.add_task(kind.about, self._diagnose)

    @property
    def deaf(self) -> bool:
        """Whether it takes and publishes nothing until it is configured again."""
        return bool(self.defect) and not self.kind.goes_on

    def _call(self, line: Line[Any], *arguments: Any) -> Any:
        component = self.component
        if component is None or self.deaf or (line.active and not self.active):
            return None
        try:
            result = getattr(component, line.method)(*arguments)
        except ContinuumRobotError as error:
            if line.answers:
                raise
            self._errors[line.name] += 1
            self.take_problem(line.name, str(error))
            return None
        if self.problems and result is not SKIPPED:
            self.problems.pop(line.name, None)
        return result

    def _changed(self, names: set[str]) -> None:
        component = self.component
        if component is not None:
            component.parameters = self.own.value
            component.parameters_changed(names)

    def configure(self) -> None:
        self.idle = ""
        self._errors.clear()
        try:
            self.component = self.kind(self, self.load_robot())
        except NothingToDoError as reason:
            self.idle = str(reason)
            self.get_logger().info(self.idle)
            return
        self._start_loops(while_active=False)

    def activate(self) -> None:
        if self.deaf:
            raise DeviceError(self.get_name(), f"has a defect: {self.defect}", "Clean up and configure it")
        if self.component is not None:
            self.component.activate()
            self._start_loops(while_active=True)
        self.active = True

    def deactivate(self) -> None:
        self.active = False
        self._stop_loops(while_active=True)
        if self.component is not None:
            self.component.deactivate()

    def cleanup(self) -> None:
        """Drop it, and close what it opened."""
        self._stop_loops(while_active=True)
        self._stop_loops(while_active=False)
        self.component = None
        self.closing.close()

    def carry(self, payload_kg: float) -> None:
        if self.component is not None:
            self.component.carry(payload_kg)

    def _start_loops(self, *, while_active: bool) -> None:
        for line in self._loops:
            if line.while_active == while_active:
                cycle = self.guarded(partial(self._call, line))
                period_s = 1.0 / getattr(self.own.value, line.rate)
                loop = self.flow.create_loop(f"{self.kind.name} {line.name}", period_s, cycle, self.on_defect)
                self.ports[line.name] = loop
                loop.start()

    def _stop_loops(self, *, while_active: bool) -> None:
        for line in self._loops:
            loop = self.ports[line.name]
            if line.while_active == while_active and loop is not None:
                self.ports[line.name] = None
                if not loop.stop():
                    self.get_logger().error(f"the loop {line.name} hangs in a call to the device")

    def diagnose_problems(self, status: StatusBuilder) -> None:
        """In the component's status instead."""

    def _diagnose(self, status: StatusBuilder) -> None:
        component = self.component
        for problem in tuple(self.problems.values()):  # a loop's thread may change them
            status.summary(self.kind.problem_level, problem)
        if component is None or self.deaf:
            status.summary(Level.ERROR if self.deaf else Level.OK, self.defect or self.idle or self.state)
            return
        component.health(status)
        for line in self._loops:
            loop = self.ports[line.name]
            if loop is not None and not line.while_active:
                self._thresholds.diagnose(status, loop.statistics.report(), loop.period_s)
                status.add(f"{line.name}_errors", self._errors[line.name])
        status.summary(Level.OK, self.state)


def as_node(kind: type[Component]) -> Callable[..., ComponentNode]:
    """What makes the node of a component."""
    return partial(ComponentNode, kind)


def run(kind: type[Component], *, background: bool = False) -> int:
    """The ``main`` of a component's program: run it until SIGINT or SIGTERM."""
    return run_node(as_node(kind), background=background)
