# SPDX-License-Identifier: Apache-2.0
"""A node for tests that listens, publishes, calls services, and waits with a limit for everything."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # programs that tests start import this without pytest

from continuum_robot.msg import ClarkeState, DriverStatus, Shape, StackStatus, TendonCommands, TendonStates
from continuum_robot.srv import InjectFault, ManageStack
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import TransformStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from nav_msgs.msg import Path as PathMessage
from rcl_interfaces.srv import DescribeParameters, SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from rclpy.serialization import deserialize_message
from robot_files import robot_values, written
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from continuum_robot.app.client.stack_link import StackLink, set_request
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.nodes.topics.driver_status import fault_names, state_name

if TYPE_CHECKING:
    from continuum_robot.nodes.composition import ComposedStack

# A busy machine may stop a process for longer than a robot would be left without commands, or be late in every cycle.
PATIENT = {
    "safety.late_latency_s": 5.0,
    "safety.missed_fraction": 1.0,
    "safety.current_mismatch_time_s": 2.0,
    "safety.command_fraction": 1000.0,
}
# The controller falls silent where states are old.
PATIENT_CONTROLLER = {"state_timeout_s": 0.5}
# A busy machine would be late for a loop at 1 kHz.
PATIENT_STACK = {"tendon_driver": {"rate_hz": 250.0, **PATIENT}, "clarke_controller": PATIENT_CONTROLLER}
PATIENT_LIMITS = {"command_timeout_s": 3.0, "reading_timeout_s": 2.0}
# Gains of poles that are slower by this factor bear delays that are longer by it: near 30 ms instead of ten.
SLOWER_POLES = 0.4
SIMULATED_STEP_S = 0.05

TRANSITIONS = {
    "configure": Transition.TRANSITION_CONFIGURE,
    "activate": Transition.TRANSITION_ACTIVATE,
    "deactivate": Transition.TRANSITION_DEACTIVATE,
    "cleanup": Transition.TRANSITION_CLEANUP,
}


FILES = tempfile.TemporaryDirectory(prefix="robots_of_tests_")


@functools.cache
def patient_robot(name: str = "opencr_five_tendon") -> str:
    """A file of a shipped robot with timeouts and gains for a busy machine, without devices and a truth of its own."""
    data = robot_values({}, name)
    data["limits"] |= PATIENT_LIMITS
    _bear_delays(data)
    data.pop("hardware", None)
    data.get("simulation", {}).pop("truth", None)
    return written(data, Path(FILES.name), name)


def patient_on_wires(data: dict[str, Any]) -> dict[str, Any]:
    """A robot file's values with timeouts and gains for a busy machine; the driver lets go before the boards do."""
    data["limits"] |= {**PATIENT_LIMITS, "command_timeout_s": 0.9}
    data["hardware"]["tendon_actuators"] |= {"receive_timeout_ms": 1000, "silent_after_s": 1.0}
    _bear_delays(data)
    return data


def _bear_delays(data: dict[str, Any]) -> None:
    """A loop that is late in most of its cycles, as on a busy machine, shall not swing up."""
    for gains in data.get("control", {}).get("gains", []):
        for power, name in ((1, "d"), (2, "p"), (3, "i")):
            gains[name] = SLOWER_POLES**power * gains.get(name, 0.0)


class Received(Sequence[Any]):
    """Messages of a topic, each read where somebody looks at it: nobody does at most of those that come at 1 kHz."""

    def __init__(self) -> None:
        self.kind: Any = None
        self._messages: list[Any] = []

    def append(self, data: bytes) -> None:
        self._messages.append(data)

    def clear(self) -> None:
        self._messages.clear()

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._read(place) for place in range(*index.indices(len(self._messages)))]
        # From the front: others come meanwhile.
        return self._read(index if index >= 0 else index + len(self._messages))

    def _read(self, place: int) -> Any:
        message = self._messages[place]
        if isinstance(message, bytes):
            message = self._messages[place] = deserialize_message(message, self.kind)
        return message


class Probe:
    """What a user at the keyboard sees and does, in a context of its own.

    With a stack in lock-step it waits in simulated time: that passes while it waits and stands still otherwise, and it
    has heard all messages of lock-step after each wait.
    """

    def __init__(self, namespace: str = "", *, stack: ComposedStack | None = None) -> None:
        self.stack = stack
        self.heard: Counter[str] = Counter()
        self.link = StackLink(namespace, "probe", topics=(), numbered=False)
        self.context, self.node = self.link.context, self.link.node
        self.received: dict[str, Received] = defaultdict(Received)
        self._publishers: dict[str, Any] = {}
        self.diagnostics: dict[str, DiagnosticStatus] = {}
        self.opened = contextlib.ExitStack()
        self.listen(DiagnosticArray, "/diagnostics", qos.events())

    def close(self) -> None:
        self.opened.close()
        self.link.close()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def listen(self, kind: Any, topic: str, profile: Any = None) -> None:
        self.received[topic].kind = kind

        def take(data: bytes) -> None:
            self.received[topic].append(data)
            if kind is DiagnosticArray:
                for status in self.received[topic][-1].status:
                    self.diagnostics[status.name] = status
            self.heard[topic] += 1

        self.heard[topic] += 0
        if self.stack is not None and topic in qos.FLOW_TOPICS:
            # At once, and lossless; who listens over DDS is behind.
            self.stack.run(lambda: self.stack.driver.bus.tap(self.node.resolve_topic_name(topic), take))
            return
        profile = profile or qos.every_state()
        self.link.make(lambda: self.node.create_subscription(kind, topic, take, profile, raw=True))

    def listen_to_stack(self) -> None:
        self.listen(TendonStates, "tendon_states")
        self.listen(TendonCommands, "tendon_commands")
        self.listen(ClarkeState, "clarke_state")
        self.listen(ClarkeState, "clarke_reference")
        self.listen(StackStatus, "stack_status", qos.latched())
        self.listen(DriverStatus, "driver_status", qos.latched())

    def listen_to_shape(self) -> None:
        self.listen(Shape, "shape")
        self.listen(PathMessage, "backbone")
        self.listen(MarkerArray, "markers")
        self.listen(TFMessage, "/tf")
        self.listen(String, "robot_description", qos.latched())

    def frames(self) -> dict[str, TransformStamped]:
        """The newest transform to each frame, by its name."""
        return {
            transform.child_frame_id: transform
            for message in list(self.received["/tf"])
            for transform in message.transforms
        }

    def newest(self, topic: str) -> Any:
        """The last message of a topic; where none has come yet, e.g. of a status that is latched, the next one."""
        self.wait_real(lambda: len(self.received[topic]) > 0, what=f"nothing came on {topic}")
        return self.received[topic][-1]

    def health(self, name: str) -> str:
        """The sentence of a diagnostic status, empty before the first."""
        return self.diagnostics[name].message if name in self.diagnostics else ""

    def wait(self, condition: Any, timeout_s: float = 30.0, what: str = "") -> None:
        if self.stack is None:
            self.wait_real(condition, timeout_s, what)
            return
        passed_s = 0.0
        # What is no message of lock-step, a status for instance, comes when it comes.
        while not wait_for(condition, 0.01, 0.002):
            assert passed_s < timeout_s, what or "the condition did not become true in simulated time"
            self.pause(SIMULATED_STEP_S)
            passed_s += SIMULATED_STEP_S

    def wait_real(self, condition: Any, timeout_s: float = 30.0, what: str = "") -> None:
        """As :meth:`wait`, in real time; in lock-step simulated time stands still."""
        assert wait_for(condition, timeout_s), what or "the condition did not become true in time"

    def pause(self, duration_s: float) -> None:
        """Let time pass."""
        if self.stack is None:
            time.sleep(duration_s)
            return
        pace = self.stack.driver.loop.pace
        self.wait_real(lambda: pace.up and pace.done, what="time does not pass: the stack is not up")
        self.stack.run(lambda: pace.run_for(duration_s))
        self.wait_real(lambda: pace.done or not pace.running, 60.0 + 60.0 * duration_s, "the cycles hang")
        assert pace.running, "the loop has ended"

    def wait_for_message(self, topic: str, timeout_s: float = 30.0) -> Any:
        """The next message from now on."""
        before = self.heard[topic]
        self.wait(lambda: self.heard[topic] > before, timeout_s, f"nothing came on {topic}")
        return self.newest(topic)

    def faults(self) -> list[str]:
        return list(fault_names(self.newest("driver_status")))

    def driver_state(self) -> str:
        return state_name(self.newest("driver_status")) if self.received["driver_status"] else ""

    def stack_state(self) -> str:
        return self.newest("stack_status").state if self.received["stack_status"] else ""

    def bring_up(self) -> None:
        """Whatever the test before, or a stall of the machine, left behind: the stack is up."""
        refused = ""

        def is_up() -> bool:
            return self.stack_state() == "up" and self.driver_state() == "active"

        def recovered() -> bool:
            nonlocal refused
            if self.stack_state() != "up":
                response = self.manage(ManageStack.Request.RESET)
                refused = "" if response.success else response.message
                return response.success and wait_for(is_up, 10.0)
            return is_up()

        assert wait_for(recovered, 60.0), refused or "the stack does not come up"

    def moving(self) -> bool:
        """Whether a motion was started; starts one where the stack is up and holds, as it does after every reset."""
        holding = self.stack_state() != "up" or self.newest("stack_status").holding
        if holding and self.stack_state() == "up":
            self.trigger("reference_source/restart")
        return not holding

    def travel_m(self, tendon: int = 0) -> float:
        """How far a tendon has been pulled to and fro in the states received; 0 before the first."""
        pulled = [message.displacement[tendon] for message in self.received["tendon_states"]]
        return max(pulled) - min(pulled) if pulled else 0.0

    def wait_for_fault(self, name: str, timeout_s: float = 30.0) -> None:
        """Latched, and the tensions ramped to the safe value."""
        self.wait(lambda: name in self.faults(), timeout_s, f"no fault {name}")
        assert self.driver_state() == "safe"

    def publish(self, kind: Any, topic: str, message: Any, profile: Any = None) -> None:
        publisher = self._publishers.get(topic)
        if publisher is None:
            profile = profile or qos.command_publisher()
            publisher = self.link.make(lambda: self.node.create_publisher(kind, topic, profile))
            self._publishers[topic] = publisher
            tapped = self.stack is not None and topic in qos.FLOW_TOPICS
            own = 1 if topic in self.heard and not tapped else 0  # this node's own ear is matched first

            def heard_by_all() -> bool:
                matched = publisher.get_subscription_count()
                return matched > own and matched >= self.node.count_subscribers(topic)

            self.wait_real(heard_by_all, 30.0, f"nobody listens to {topic}")
        publisher.publish(message)

    def stop_publishing(self, topic: str) -> None:
        publisher = self._publishers.pop(topic)
        self.link.make(lambda: self.node.destroy_publisher(publisher))

    def press_estop(self, pressed: bool) -> None:
        self.publish(Bool, "estop", Bool(data=pressed), qos.latched())

    def call(
        self, kind: Any, service: str, request: Any = None, timeout_s: float = 60.0, again_s: float | None = None
    ) -> Any:
        return self.link.call(kind, service, request, timeout_s, again_s)

    def trigger(self, service: str) -> Any:
        return self.call(Trigger, service, again_s=5.0)

    def manage(self, command: int, timeout_s: float = 90.0) -> Any:
        return self.call(ManageStack, "supervisor/manage", ManageStack.Request(command=command), timeout_s)

    def inject(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> Any:
        request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
        return self.call(InjectFault, "inject_fault", request)

    def transition(self, node: str, name: str) -> bool:
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[name]
        return self.call(ChangeState, f"{node}/change_state", request, 60.0).success

    def lifecycle_state(self, node: str) -> str:
        return self.call(GetState, f"{node}/get_state").current_state.label

    def set_parameter(self, node: str, name: str, value: Any) -> Any:
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        return self.call(SetParameters, f"{node}/set_parameters", request).results[0]

    def set_together(self, node: str, values: dict[str, Any]) -> Any:
        return self.call(SetParametersAtomically, f"{node}/set_parameters_atomically", set_request(values)).result

    def get_parameter(self, node: str, name: str) -> Any:
        return self.link.get_parameter(node, name, 60.0)

    def describe(self, node: str, name: str) -> Any:
        request = DescribeParameters.Request(names=[name])
        return self.call(DescribeParameters, f"{node}/describe_parameters", request).descriptors[0]


@contextlib.contextmanager
def patient_stack(**options: Any) -> Iterator[ComposedStack]:
    """The five-tendon robot under control in real time, up, on a machine that may be busy."""
    from continuum_robot.nodes.composition import ComposedStack  # noqa: PLC0415 - takes a second to load
    from continuum_robot.nodes.stack.options import StackOptions  # noqa: PLC0415

    given = StackOptions(robot=patient_robot(), visualize=False, parameters=PATIENT_STACK, **options)
    with ComposedStack(given) as stack:
        stack.wait_until_up(120.0)
        yield stack


@contextlib.contextmanager
def lockstep_stack(
    robot: str = "opencr_five_tendon", *topics: tuple[Any, str], **options: Any
) -> Iterator[tuple[ComposedStack, Probe]]:
    """A stack in lock-step, up, and a probe that lets its time pass and hears what it reports, and ``topics``."""
    from continuum_robot.nodes.composition import ComposedStack  # noqa: PLC0415 - takes a second to load
    from continuum_robot.nodes.stack.options import StackOptions  # noqa: PLC0415

    given = {"visualize": False, "clock": "lockstep", "seed": 1, "run_s": SIMULATED_STEP_S, **options}
    with ComposedStack(StackOptions(robot=robot, **given)) as stack, Probe(stack=stack) as probe:
        probe.listen_to_stack()
        for kind, topic in topics:
            probe.listen(kind, topic)
        stack.wait_until_up(120.0)
        probe.wait_real(lambda: probe.stack_state() == "up" and probe.driver_state() == "active")
        yield stack, probe


@contextlib.contextmanager
def listening_probe() -> Iterator[Probe]:
    """Hears a stack in real time."""
    with Probe() as probe:
        probe.listen_to_stack()
        probe.wait_for_message("tendon_states")
        probe.wait_for_message("stack_status")
        yield probe


def pause(duration_s: float) -> None:
    time.sleep(duration_s)
