# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot replay RUN``: a recorded run's inputs into the nodes again, their answers beside the old ones."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import ParameterEvent
from rclpy.clock import ClockType, ROSClock
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import deserialize_message
from rclpy.time import Time
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from continuum_robot.app.output import print_table, run_folder, say, write_json
from continuum_robot.app.recordings.comparison import TopicComparison, compare, comparison_numbers
from continuum_robot.app.recordings.inputs import (
    ANSWERS,
    CLARKE,
    COMMANDS,
    CONTACT,
    DECIMATED,
    FIBER,
    PARAMETERS,
    REFERENCE,
    SHAPE,
    STATES,
    STATUS,
    STRINGS,
    RecordedInputs,
    State,
    read_inputs,
)
from continuum_robot.app.recordings.reading import read_recording
from continuum_robot.app.recordings.run import RECORDING, RecordedRun, open_run
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.errors import DeviceError, RecordingError
from continuum_robot.msg import ClarkeState, Contact, DriverStatus, FiberCurvature, Shape, StringLengths, TendonStates
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import Spinner, StopRequest, initialize, shut_down_at_end
from continuum_robot.nodes.clarke_controller import ClarkeControllerNode
from continuum_robot.nodes.contact_monitor import ContactMonitorNode, Contacts
from continuum_robot.nodes.lockstep.bus import BusPublisher, LockstepBus
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.description import Robot

TOPICS = (STATES, *ANSWERS)
# What was recorded of these does not hold for a replay, or is given by it.
_OWN_PARAMETERS = (
    "robot", "use_", "clock", "seed", "activate", "configure", "start_type", "calibration_folder", "diagnostics.",
)  # fmt: skip
# Paced by the messages, not by the clock of this computer.
_UNPACED: dict[str, dict[str, Any]] = {
    "shape_estimator": {"rate_hz": 1000.0},
    "clarke_controller": {"clarke_state.rate_hz": 4000.0},
    "contact_monitor": {"rate_hz": 1000.0, "input_timeout_s": 10.0},
}
_UNITS = {"per_m": "1/m", "per_m_s": "1/(m s)", "per_s": "1/s", "m_per_s": "m/s", "n": "N", "nm2": "N m²"}
_NODES: dict[str, tuple[Callable[..., ManagedNode], tuple[str, ...]]] = {
    "shape_estimator": (ShapeEstimatorNode, (SHAPE,)),
    "clarke_controller": (ClarkeControllerNode, (COMMANDS, CLARKE)),
    "contact_monitor": (ContactMonitorNode, (CONTACT,)),
}


class Player(Node):
    """Stands in for driver, string encoder and reference: publishes what was recorded, in lock-step with the nodes."""

    def __init__(self, bus: LockstepBus) -> None:
        super().__init__("tendon_driver", cli_args=[])  # whose status the controller takes
        self._newest: dict[str, int] = {}
        self.shapes = 0
        kinds = {
            STATES: TendonStates,
            DECIMATED: TendonStates,
            STRINGS: StringLengths,
            FIBER: FiberCurvature,
            REFERENCE: ClarkeState,
        }
        self._outputs: dict[str, Any] = {topic: BusPublisher(bus, self, kind, topic) for topic, kind in kinds.items()}
        self._outputs[STATUS] = self.create_publisher(DriverStatus, STATUS, qos.latched())
        for topic, kind in ((SHAPE, Shape), (CLARKE, ClarkeState), (CONTACT, Contact)):
            bus.tap(self.resolve_topic_name(topic), self._listener(topic, kind))

    def play(self, topic: str, data: bytes) -> None:
        """Publish a serialised message."""
        self._outputs[topic].publish(data)

    def answered(self, topic: str, sequence: int) -> bool:
        """Whether the answer to ``sequence`` came."""
        return self._newest.get(topic, -1) >= sequence

    def _listener(self, topic: str, kind: Any) -> Callable[[bytes], None]:
        def take(data: bytes) -> None:
            self._newest[topic] = deserialize_message(data, kind).sequence
            self.shapes += topic == SHAPE

        return take


class _Replay:
    """The nodes of a replay in this process, and the inputs that go through them one after the other."""

    def __init__(
        self, nodes: Mapping[str, ManagedNode], recorder: Recorder, player: Player, spinner: Spinner, bus: LockstepBus
    ) -> None:
        self.nodes, self.recorder, self.player, self.spinner, self._bus = nodes, recorder, player, spinner, bus
        self.missing: dict[str, int] = dict.fromkeys((SHAPE, CLARKE, CONTACT), 0)
        self._monitor = nodes.get("contact_monitor")
        self._clocks = [node.get_clock() for node in (*nodes.values(), recorder)]
        self._now_ns = 0

    def start(self) -> None:
        """Bring the nodes up. Raises :class:`DeviceError` where one does not come."""
        for node in (self.recorder, *self.nodes.values()):
            for transition in (node.trigger_configure, node.trigger_activate):
                self.spinner.run(transition, 300.0)
            if node.state != "active":
                raise DeviceError(node.get_name(), node.last_error or node.state, "See the log")

    def give(self, step: Any) -> None:
        """Hand one input to the nodes and wait until they have dealt with it."""
        self._now_ns = max(self._now_ns, step.time_ns)
        now = Time(nanoseconds=self._now_ns, clock_type=ClockType.ROS_TIME)
        for clock in self._clocks:
            if isinstance(clock, ROSClock):
                clock.set_ros_time_override(now)
        if isinstance(step, State):
            self.spinner.run(lambda: self._give_state(step))
        elif step.topic == PARAMETERS:
            self._set_parameters(step.data)
        else:
            self.player.play(step.topic, step.data)
            if step.topic == STATUS:
                self.spinner.run(_nothing)  # it takes no turn
            self.settle()

    def settle(self) -> None:
        """Until all nodes have dealt with all that was given to them."""
        self.spinner.run(lambda: self._bus.run_due(self._now_ns, everybody=True))

    def _give_state(self, state: State) -> None:
        player = self.player
        for data in state.strings:
            player.play(STRINGS, data)
        shapes = player.shapes
        if SHAPE in state.answers:
            player.play(DECIMATED, state.data)
        if state.controlled:
            player.play(STATES, state.data)
        self._bus.run_due(self._now_ns)
        if state.controlled and "clarke_controller" in self.nodes:
            self.missing[CLARKE] += not player.answered(CLARKE, state.sequence)
        if SHAPE in state.answers and "shape_estimator" in self.nodes:
            self.missing[SHAPE] += not player.answered(SHAPE, state.sequence)
        monitor = getattr(self._monitor, "component", None)
        if isinstance(monitor, Contacts) and player.shapes > shapes:
            self.missing[CONTACT] += monitor.shapes_taken < player.shapes

    def _set_parameters(self, data: bytes) -> None:
        event = deserialize_message(data, ParameterEvent)
        node = self.nodes.get(event.node.rsplit("/", 1)[-1])
        if node is None:
            return
        own = _UNPACED[node.get_name()]
        changes = [Parameter.from_parameter_msg(message) for message in event.changed_parameters]
        changes = [change for change in changes if change.name not in own and not _is_own(change.name)]
        if changes:
            self.spinner.run(lambda: node.set_parameters_atomically(changes))


def _nothing() -> None:
    """What the executor runs when it is only waited for."""


def run_replay_of_run(
    path: Path,
    robot: str | None,
    *,
    realtime: bool,
    out: Path,
    json_file: Path | None = None,
    console: Console | None = None,
) -> int:
    """Play the inputs of a recorded run into estimator, controller and contact monitor, record and compare."""
    console = console or Console()
    with open_run(path) as run:
        loaded = run.robot(robot)
        inputs = read_inputs(run.bag, run.namespace)
        if inputs.tendon_count != loaded.tendon_count:
            raise RecordingError(
                path,
                f"has {inputs.tendon_count} tendons, the robot {loaded.name} has {loaded.tendon_count}",
                "Give the recorded robot's file with --robot",
            )
        names = _nodes_to_replay(inputs, loaded)
        if not names:
            raise RecordingError(
                path, "has no answers of a node that can be replayed", "Record shape or tendon_commands"
            )
        with claimed_domain(""), StopRequest() as stop:
            folder = run_folder(out)
            begun_s = time.monotonic()
            with _bring_up(run, loaded, names, folder, recorded_parameters=robot is None) as replay:
                played = _play(replay, inputs, realtime, stop, console)
            took_s = time.monotonic() - begun_s
            failed = replay.spinner.failed or any(node.defect for node in replay.nodes.values())
        numbers: dict[str, Any] = {
            "robot": loaded.name,
            "nodes": names,
            "states": inputs.state_count,
            "states_played": played,
            "states_per_s": played / took_s,
            **{f"{topic}_not_answered": count for topic, count in replay.missing.items()},
        }
        recording = folder / RECORDING
        if played:
            comparisons = compare(
                read_recording(run.bag, TOPICS, run.namespace),
                read_recording(recording, TOPICS),
                coefficient_units=loaded.traits.coefficient_units,
            )
            numbers |= comparison_numbers(comparisons)
            _print(console, path, comparisons)
    for file in (folder / "replay.json", json_file):
        if file is not None:
            write_json(file, numbers)
    for what, file in (("numbers", folder / "replay.json"), ("recording", recording)):
        say(console, f"{what:9} {file}")
    if stop.signal_name:
        console.print(f"stopped after {played} of {inputs.state_count} states")
        return 143 if stop.signal_name == "SIGTERM" else 130
    return 1 if failed else 0


def _nodes_to_replay(inputs: RecordedInputs, robot: Robot) -> list[str]:
    names = [name for name, (_, topics) in _NODES.items() if inputs.answered & set(topics)]
    if robot.control is None and "clarke_controller" in names:
        names.remove("clarke_controller")
    # The monitor works on the estimator's shapes.
    if "contact_monitor" in names and ("shape_estimator" not in names or robot.traits.without_contact):
        names.remove("contact_monitor")
    return names


@contextlib.contextmanager
def _bring_up(
    run: RecordedRun, robot: Robot, names: list[str], folder: Path, *, recorded_parameters: bool
) -> Iterator[_Replay]:
    common = {"robot": robot.file_name, "use_fake_hardware": run.simulated, "use_sim_time": True}
    initialize(args=[])
    with shut_down_at_end():
        nodes: dict[str, ManagedNode] = {}
        bus = LockstepBus()
        for name in names:
            recorded = _recorded_parameters(run, name) if recorded_parameters else {}
            nodes[name] = _NODES[name][0](overrides=recorded | _UNPACED[name] | common, bus=bus)
        topics = [STATES, DECIMATED, STRINGS, FIBER, REFERENCE, STATUS, *ANSWERS]
        own = {"directory": str(folder), "name": RECORDING, "topics": topics}
        recorder = Recorder(overrides=common | own, bus=bus)
        player = Player(bus)
        spinner = Spinner([*nodes.values(), recorder, player])
        replay = _Replay(nodes, recorder, player, spinner, bus)
        spinner.start()
        try:
            replay.start()
            recorder.add_metadata(
                {"replay_of": json.dumps({"run": run.given.name, "begun": run.note.get("begun", "")})}
            )
            yield replay
            spinner.run(recorder.trigger_deactivate)
        finally:
            spinner.stop()
            for node in (*nodes.values(), recorder, player):
                node.destroy_node()


def _recorded_parameters(run: RecordedRun, node: str) -> dict[str, Any]:
    """Parameters as they were, but for those that a replay gives; an empty list does not say of what it is one."""
    words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return {
        name: words.get(value, value) if isinstance(value, str) else value
        for name, value in run.parameters(node).items()
        if not _is_own(name) and value != [] and value is not None
    }


def _is_own(parameter: str) -> bool:
    return parameter.startswith(_OWN_PARAMETERS)


def _play(replay: _Replay, inputs: RecordedInputs, realtime: bool, stop: StopRequest, console: Console) -> int:
    """How many states were played."""
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    played = 0
    begun_s = time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=inputs.state_count)
        for step in inputs.steps:
            due_s = begun_s + 1e-9 * (step.time_ns - inputs.begin_ns)
            wait_s = due_s - time.monotonic() if realtime else 0.0
            if (wait_s > 0 and stop.wait(wait_s)) or stop.signal_name or replay.spinner.failed:
                break
            replay.give(step)
            if isinstance(step, State):
                played += 1
                progress.advance(task)
    replay.settle()
    return played


def _print(console: Console, path: Path, comparisons: list[TopicComparison]) -> None:
    rows: list[tuple[str, ...]] = []
    for one in comparisons:
        compared = f"{one.compared} of {one.recorded}"
        if not one.differences:
            rows.append((one.topic, "", compared, "", "not answered", "", ""))
        for number, difference in enumerate(one.differences):
            unit = _UNITS.get(difference.unit, difference.unit)
            rows.append(
                (
                    "" if number else one.topic,
                    difference.field,
                    "" if number else compared,
                    f"{difference.scale:.4g} {unit}",
                    f"{difference.largest:.3g}",
                    f"{difference.largest_later:.3g}",
                    f"{100 * difference.exact:.2f} %",
                )
            )
    columns = ("topic", "field", ">compared", ">largest value", ">largest difference", ">after 1 s", ">to rounding")
    print_table(console, f"{path.name}: recomputed beside recorded", columns, rows)
