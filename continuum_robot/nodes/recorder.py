# SPDX-License-Identifier: Apache-2.0
"""The node that records the stack's topics into an MCAP file, without taking the messages apart."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import platform
import struct
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.serialization import serialize_message
from std_msgs.msg import String
from std_srvs.srv import Trigger

import continuum_robot
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.procedures.record import record_path
from continuum_robot.msg import TendonStates
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.parameter_snapshot import ParameterSnapshot
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.recordings.mcap_file import BEGIN, DISCARD, EPISODE, SUCCESS
from continuum_robot.nodes.recordings.writing import BagRecorder
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.file.parts import self_contained
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.clock import SteppedClock

GRAPH_PERIOD_S = 1.0

TOPICS: dict[str, str] = {
    "tendon_states": "continuum_robot/msg/TendonStates",
    "tendon_commands": "continuum_robot/msg/TendonCommands",
    "string_lengths": "continuum_robot/msg/StringLengths",
    "fiber_curvature": "continuum_robot/msg/FiberCurvature",
    "wrench": "geometry_msgs/msg/WrenchStamped",
    "shape": "continuum_robot/msg/Shape",
    "contact": "continuum_robot/msg/Contact",
    "simulated_contact": "continuum_robot/msg/Contact",
    "simulated_shape": "continuum_robot/msg/Shape",
    "clarke_state": "continuum_robot/msg/ClarkeState",
    "clarke_reference": "continuum_robot/msg/ClarkeState",
    "reference_writer": "std_msgs/msg/String",
    "reaction_state": "std_msgs/msg/String",
    "tip_target": "geometry_msgs/msg/PointStamped",
    "tip_state": "continuum_robot/msg/TipState",
    "base_stage/command": "sensor_msgs/msg/JointState",
    "base_stage/state": "sensor_msgs/msg/JointState",
    "base_stage/status": "diagnostic_msgs/msg/DiagnosticStatus",
    "tip_pose": "geometry_msgs/msg/PoseStamped",
    "tracked_tip": "geometry_msgs/msg/PointStamped",
    "tracked_pose": "geometry_msgs/msg/PoseStamped",
    "tracked_pose_with_covariance": "geometry_msgs/msg/PoseWithCovarianceStamped",
    "obstacles": "visualization_msgs/msg/MarkerArray",
    "pid_state": "continuum_robot/msg/PidState",
    "driver_status": "continuum_robot/msg/DriverStatus",
    "stack_status": "continuum_robot/msg/StackStatus",
    "estop": "std_msgs/msg/Bool",
    "estop_button": "continuum_robot/msg/EstopButton",
    "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
    "/tf": "tf2_msgs/msg/TFMessage",
    "/rosout": "rcl_interfaces/msg/Log",
    "/parameter_events": "rcl_interfaces/msg/ParameterEvent",
}
"""What is recorded by default; types of further topics are looked up in the graph."""

_KNOWN = TOPICS | {"tendon_states_decimated": TOPICS["tendon_states"]}

LATCHED = ("reference_writer", "base_stage/status", "obstacles", "driver_status", "stack_status", "estop")
STATISTICS = "statistics"
"""Metadata key of numbers that only the running stack knew; JSON."""
PARAMETERS = "parameters/"
"""Metadata key of a node's parameters, with the node's name behind it; JSON."""

_STAMP, _STAMP_AT = struct.Struct("<iI"), 4
"""Of the header, with which every topic in lock-step begins, behind the encapsulation."""
_LONGEST_WAIT_NS = 500_000_000
_LONGEST_LAG_NS = 30_000_000_000
"""Of a recorder that looks on: topics wait in queues of their own. Stamps of another clock are off by years."""

_LIBRARIES = ("ros-rclpy", "numpy", "scipy", "casadi", "rosbags")


class Recorder(ManagedNode):
    """Records while active. A disk that is full or not writable is logged once, and the stack goes on."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("recorder", activate_at_start=True, **node_options)
        declare = self.parameters.declare
        declare("directory", "runs", "folder in which the recording's folder is made", read_only=True)
        declare("name", "", "name of the recording's folder, empty: date and time", read_only=True)
        declare("topics", list(TOPICS), "topics to record, relative to the namespace", read_only=True)
        declare(
            "qos.depth", qos.RECORDED_DEPTH, "messages of a topic that may wait in the middleware",
            rules=Quantity("", ge=1, le=100_000), read_only=True,
        )  # fmt: skip
        declare(
            "looks_on",
            False,
            "in lock-step: the stack does not wait for this recorder, which takes the time from the states",
            read_only=True,
        )
        declare("note", "", "numbers of the run for the recording under way, JSON")
        self.parameters.on_change(self._on_parameters)
        self._recorder: BagRecorder | None = None
        self._looks_on = self.clock.stepped and bool(self.parameters.get("looks_on"))
        self._early: list[tuple[str, bytes, bool]] | None = [] if self._looks_on else None
        if self._looks_on:
            profile = qos.newest_state()
            self.create_subscription(TendonStates, "tendon_states_decimated", self._learn_time, profile, raw=True)
        # Subscriptions stay: the EventsExecutor does not take it well when a callback destroys what it listens to.
        self._subscribed: set[str] = set()
        self._unknown: set[str] = set()
        self._types: dict[str, str] = {}
        self._folder: Path | None = None
        self._finished = ""
        self._about: dict[str, str] = {}
        self._mark, self._kept = "", 0
        self._marks = self.create_publisher(String, EPISODE, qos.latched())
        self.create_service(Trigger, "~/begin_episode", partial(self._serve_mark, BEGIN))
        self.create_service(Trigger, "~/end_episode", partial(self._serve_mark, SUCCESS))
        self.create_service(Trigger, "~/discard_episode", partial(self._serve_mark, DISCARD))
        self._snapshot = ParameterSnapshot(self, self._take_parameters)
        self.create_timer(GRAPH_PERIOD_S, self._look_around, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self.diagnostics.add_task("recording", self._diagnose)

    @property
    def folder(self) -> Path | None:
        """The recording's folder, None before the first one."""
        return self._folder

    @property
    def noted_nodes(self) -> frozenset[str]:
        """Nodes whose parameters were handed to this recording."""
        return frozenset(self._snapshot.taken)

    def configure(self) -> None:
        """Choose the folder, and find out what there is to say of the run, before the robot moves."""
        self._about = self._metadata()
        self._choose_folder()
        self._snapshot.restart()
        self._snapshot.look()

    def add_metadata(self, values: Mapping[str, str]) -> None:
        """Store further metadata with the recording under way, text by key; without one, nothing happens."""
        if self._recorder is not None:
            self._recorder.add_metadata(values)

    def _on_parameters(self, names: set[str]) -> None:
        if "note" in names:
            self.add_metadata({STATISTICS: str(self.parameters.get("note"))})

    def _choose_folder(self) -> None:
        parent = Path(str(self.parameters.get("directory"))).expanduser()
        name = str(self.parameters.get("name")) or datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
        folder, number = parent / name, 1
        while folder.exists():
            number += 1
            folder = parent / f"{name}_{number}"
        self._folder = folder

    def activate(self) -> None:
        """Open the recording and subscribe. A recording that cannot be opened is logged, and is no failure."""
        if self._folder is None or self._folder.exists():
            self._choose_folder()
        folder = self._folder
        if folder is None:
            raise ParameterError("directory", self.parameters.get("directory"), "a folder that can be made")
        self._finished = ""
        try:
            begun = datetime.now(timezone.utc).isoformat(timespec="seconds")
            self._recorder = BagRecorder(folder, {**self._about, "begun": begun}, self._on_problem)
        except ContinuumRobotError as error:
            self._on_problem(str(error))
            return
        self.get_logger().info(f"recording to {folder}")
        self._mark, self._kept = "", 0
        self._marks.publish(String())  # what a recorder before this one left is over
        self._recorder.add_topic(self.resolve_topic_name(EPISODE), "std_msgs/msg/String", latched=True)
        for topic in self._subscribed:
            self._recorder.add_topic(self.resolve_topic_name(topic), self._types[topic], latched=topic in LATCHED)
        self._look_around()

    def deactivate(self) -> None:
        """Close the recording, readable. An episode under way is discarded."""
        if self._mark == BEGIN:
            self._set_mark(DISCARD)
        self._take_early()
        recorder, self._recorder = self._recorder, None
        self._snapshot.restart()  # until the next recording, parameters may change
        if recorder is not None:
            report = recorder.close()
            self._finished = report.problem
            self.get_logger().info(
                f"recorded {report.written} messages to {recorder.folder}"
                + (f", {report.dropped} dropped" if report.dropped else "")
            )

    def check(self) -> None:
        """Raises :class:`ContinuumRobotError` for a robot file that cannot be used."""
        self.load_robot()

    def _look_around(self) -> None:
        if self._recorder is not None:
            self._look_for_topics(self._recorder)
            self._snapshot.look()

    def _take_parameters(self, node: str, values: str) -> None:
        self._about[PARAMETERS + node] = values
        self.add_metadata({PARAMETERS + node: values})

    def _look_for_topics(self, recorder: BagRecorder) -> None:
        known: dict[str, list[str]] | None = None
        for topic in self.parameters.get("topics"):
            if topic in self._subscribed or topic in self._unknown:
                continue
            type_name = _KNOWN.get(topic)
            if type_name is None:
                if known is None:
                    known = dict(self.get_topic_names_and_types())
                types = known.get(self.resolve_topic_name(topic))
                if not types:
                    continue
                type_name = types[0]
            self._subscribe(recorder, topic, type_name)

    def _subscribe(self, recorder: BagRecorder, topic: str, type_name: str) -> None:
        full_name = self.resolve_topic_name(topic)
        try:
            recorder.add_topic(full_name, type_name, latched=topic in LATCHED)
            message_type = _message_type(type_name)
        except (ContinuumRobotError, ImportError, AttributeError) as error:
            self.get_logger().error(f"{full_name} is not recorded: {error}")
            self._unknown.add(topic)
            return
        profile = qos.latched() if topic in LATCHED else qos.every_state(int(self.parameters.get("qos.depth")))
        in_flow = topic in qos.FLOW_TOPICS
        take = partial(self._take, full_name, stamped=in_flow and self.clock.stepped)
        if in_flow and not self._looks_on:
            self.flow.create_subscription(message_type, topic, take, profile, raw=True)
        else:
            self.create_subscription(message_type, topic, take, profile, raw=True)
        self._subscribed.add(topic)
        self._types[topic] = type_name

    def _take(self, topic: str, data: bytes, *, stamped: bool) -> None:
        """``stamped``: in lock-step messages wait for the recorder; their stamps say when they were published."""
        recorder, now_ns = self._recorder, self.clock.now_ns()
        if recorder is None:
            return
        if self._early is not None:
            self._early.append((topic, data, stamped))
            return
        if stamped:
            if not self._looks_on:
                recorder.wait_for_room()
            stamp_ns, longest_ns = _stamp_ns(data), _LONGEST_LAG_NS if self._looks_on else _LONGEST_WAIT_NS
            now_ns = stamp_ns if abs(now_ns - stamp_ns) < longest_ns else now_ns
        recorder.write(topic, data, now_ns)

    def _learn_time(self, data: bytes) -> None:
        """A recorder that looks on has no turns that set its clock: what came before the first state waits for it."""
        if isinstance(self.clock, SteppedClock):
            self.clock.set_ns(max(self.clock.now_ns(), _stamp_ns(data)))
        self._take_early()

    def _take_early(self) -> None:
        early, self._early = self._early, None
        for topic, message, stamped in early or ():
            self._take(topic, message, stamped=stamped)

    def _serve_mark(self, mark: str, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._recorder is None:
            response.message = "refused: nothing is recorded"
        elif mark != BEGIN and self._mark != BEGIN:
            response.message = "refused: no episode is under way"
        else:
            again = self._mark == BEGIN
            self._set_mark(mark)
            response.success = True
            response.message = {
                BEGIN: f"episode {self._kept + 1} begins{' again' * again}",
                SUCCESS: f"episode {self._kept} is kept",
                DISCARD: f"episode {self._kept + 1} is discarded",
            }[mark]
        return response

    def _set_mark(self, mark: str) -> None:
        self._mark, message = mark, String(data=mark)
        self._kept += mark == SUCCESS
        self._take(self.resolve_topic_name(EPISODE), serialize_message(message), stamped=False)
        self._marks.publish(message)

    def _on_problem(self, sentence: str) -> None:
        self._finished = sentence
        self.last_error = sentence
        self.get_logger().error(sentence)

    def _metadata(self) -> dict[str, str]:
        """What is stored with the recording: enough to judge and to replay it on another computer."""
        metadata = {
            "continuum_robot_version": continuum_robot.__version__,
            "versions": json.dumps(_versions()),
            **_git_state(),
            "simulated": str(self.simulated).lower(),
            "namespace": self.get_namespace(),
        }
        try:
            robot = self.load_robot()
            text = self_contained(Path(robot.file_name))
            metadata |= {"robot": robot.name, "robot_file": text, "robot_file_sha256": _sha256(text)}
            homing = ""
            if robot.hardware is not None and not self.simulated:
                record = record_path(robot)
                homing = record.read_text(encoding="utf-8") if record.is_file() else ""
            metadata |= {"homing": homing, "calibration_sha256": _sha256(text + homing)}
        except (ContinuumRobotError, OSError) as error:
            metadata["robot_file"] = f"not readable: {error}"
        return metadata

    def _diagnose(self, status: StatusBuilder) -> None:
        recorder = self._recorder
        if self._finished:
            status.summary(Level.ERROR, self._finished)
        if recorder is None:
            status.summary(Level.OK, "does not record")
            return
        report = recorder.report()
        if report.dropped:
            status.summary(Level.WARN, f"{report.dropped} messages dropped")
        status.summary(Level.OK, f"records to {recorder.folder}")
        status.add("folder", recorder.folder)
        status.add("messages_written", report.written)
        status.add("messages_dropped", report.dropped)
        status.add("nodes_noted", len(self.noted_nodes))
        status.add("episodes_kept", self._kept)


def _stamp_ns(data: bytes) -> int:
    sec, nanosec = _STAMP.unpack_from(data, _STAMP_AT)
    return int(sec * conversions.NS_PER_S + nanosec)


def _message_type(type_name: str) -> Any:
    package, kind, name = type_name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), name)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed by pip"
    return found


def _git_state() -> dict[str, str]:
    """Commit of the checkout, and whether files of it were changed since; empty where it is no checkout."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return {"git_sha": "", "git_changed": ""}

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(folder), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=2.0, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "git_sha": git("rev-parse", "HEAD") or "",
        "git_changed": "" if changed is None else str(bool(changed)).lower(),
    }


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(Recorder, background=True)


if __name__ == "__main__":
    sys.exit(main())
