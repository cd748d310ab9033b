# SPDX-License-Identifier: Apache-2.0
"""A recording as a source of messages: at any of its times the newest of each topic, as of a stack that runs."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from continuum_robot.app.client.state import RobotState, state_of
from continuum_robot.app.recordings.reading import open_bag
from continuum_robot.app.recordings.run import RecordedRun, begun, open_run
from continuum_robot.errors import RecordingError, missing_package
from continuum_robot.robot.description import Robot

STREAMS = {
    "tendon_states": "tendon_states_decimated", "tendon_states_decimated": "tendon_states_decimated",
    "shape": "shape", "clarke_state": "clarke_state", "clarke_reference": "clarke_reference",
    "contact": "contact", "simulated_contact": "simulated_contact", "base_stage/state": "base_stage/state",
}  # fmt: skip
"""Topics of a recording, and under which the state of a robot looks for them: recorders take the states in full."""
LATCHED = ("stack_status", "driver_status", "reference_writer", "base_stage/status", "obstacles")
DIAGNOSTICS = "/diagnostics"
STEP_S = 1.0 / 60.0
"""Of a stream one message in this time is kept: a page draws 30 frames a second."""
MOST_STEPS = 60_000
"""Of a recording longer than 1000 s fewer: memory stays within some hundred MB."""
FRESH_S, STATUS_FRESH_S = 1.0, 5.0
_DRIVER_STATUS = "continuum_robot/msg/DriverStatus"


class Playback:
    """The states of a recorded robot, s from the recording's first message.

    Attributes
    ----------
    name : of the run, for people
    robot : that was recorded, or that was given in its place
    begin_ns : recorder's time at 0 s
    duration_s : from the first to the last message
    prefix : of the robot's topics, its namespace without a slash at the end
    topics : all that the recording knows, also without messages
    states_topic : on which the states of the tendons were recorded
    """

    def __init__(self, run: RecordedRun, robot: Robot, namespace: str | None = None) -> None:
        self.run, self.robot = run, robot
        self.name = run.folder.name if run.folder.name != "report" else run.bag.stem
        self._times: dict[str, list[int]] = {}
        self._data: dict[str, list[bytes]] = {}
        self._kinds: dict[str, str] = {}
        self._read: dict[str, tuple[int, Any]] = {}
        self._now_ns = 0
        with open_bag(run.bag, run.given) as bag:
            prefix = self.prefix = bag.namespace("shape", run.namespace if namespace is None else namespace).rstrip("/")
            self.topics = frozenset(bag.topics)
            self.states_topic = "tendon_states"
            self._driver = f"{prefix}/tendon_driver: "
            names = {f"{prefix}/{topic}": known for topic, known in STREAMS.items()}
            if f"{prefix}/tendon_states" in bag.topics:
                del names[f"{prefix}/tendon_states_decimated"]
            else:
                self.states_topic = "tendon_states_decimated"
            names |= {f"{prefix}/{topic}": topic for topic in LATCHED} | {DIAGNOSTICS: DIAGNOSTICS}
            self._deserialize = bag.deserialize
            step_ns = max(round(1e9 * STEP_S), bag.duration_ns // MOST_STEPS)
            for connection, time_ns, data in bag.serialised(lambda one: one.topic in names):
                self._keep(names[connection.topic], connection.msgtype, time_ns, data, step_ns)
        if not self._times.get("shape"):
            there = ", ".join(self._times) or "no topic of this stack"
            raise RecordingError(run.given, f"has no messages on shape (there are: {there})", "Record shape as well")
        streams = [times for topic, times in self._times.items() if topic in STREAMS.values()]
        self.begin_ns = min(times[0] for times in streams)
        self.duration_s = 1e-9 * (max(times[-1] for times in streams) - self.begin_ns)

    def _keep(self, topic: str, kind: str, time_ns: int, data: bytes, step_ns: int) -> None:
        times = self._times.setdefault(topic, [])
        if topic in STREAMS.values():
            if times and time_ns - times[-1] < step_ns:
                return
        elif topic == DIAGNOSTICS and self._driver.encode() not in data:
            return
        elif topic == "driver_status" and kind != _DRIVER_STATUS:
            return  # of an earlier version
        times.append(time_ns)
        self._kinds[topic] = kind
        self._data.setdefault(topic, []).append(data)

    def state(self, time_s: float) -> RobotState:
        """What was known of the robot at a time; unknown is what came more than a second before."""
        self._now_ns = self.begin_ns + round(1e9 * time_s)
        try:
            state = state_of(self, self._driver_values(), None, FRESH_S, STATUS_FRESH_S)
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        except AttributeError as error:
            problem = f"has messages as an earlier version recorded them ({error})"
            raise RecordingError(self.run.given, problem, "Use the version that recorded it") from error
        simulated = state.simulated or self.run.simulated
        return replace(state, time_s=time_s, age_s=state.silent_s, in_lockstep=False, simulated=simulated)

    def moments(self) -> list[tuple[float, str]]:
        """When a contact began or a fault was latched, s, and which."""
        contacts = begun((at_s, ["contact"] if one.in_contact else []) for at_s, one in self._all("contact"))
        return sorted(contacts + begun((at_s, one.faults) for at_s, one in self._all("stack_status")))

    def _all(self, topic: str) -> Iterator[tuple[float, Any]]:
        """Each kept message of a topic, and when it came, s."""
        for index, time_ns in enumerate(self._times.get(topic, ())):
            yield max(0.0, 1e-9 * (time_ns - self.begin_ns)), self._message(topic, index)

    @property
    def base_frame(self) -> str:
        """The frame of shapes."""
        return str(self._message("shape", 0).header.frame_id) or "base"

    def width(self, topic: str, field: str) -> int | None:
        """How many entries an array of the last message of a topic has; None without a message or a field."""
        if topic not in self._times:
            return None
        values = getattr(self._message(topic, len(self._times[topic]) - 1), field, None)
        return None if values is None else len(values)

    def _driver_values(self) -> dict[str, str]:
        message = self[DIAGNOSTICS]
        own = [] if message is None else [one for one in message.status if one.name.startswith(self._driver)]
        return {item.key: item.value for status in own for item in status.values}

    # As of the newest messages of a running stack

    def __getitem__(self, topic: str) -> Any:
        """The newest message of a topic, None before the first."""
        index = bisect.bisect_right(self._times.get(topic, ()), self._now_ns) - 1
        if index < 0:
            return None
        known = self._read.get(topic)
        if known is None or known[0] != index:
            known = self._read[topic] = index, self._message(topic, index)
        return known[1]

    def _message(self, topic: str, index: int) -> Any:
        return self._deserialize(self._data[topic][index], self._kinds[topic])

    def silent_s(self, topic: str) -> float:
        """How long before this time the newest message of a topic came, s; inf before the first."""
        times = self._times.get(topic, ())
        index = bisect.bisect_right(times, self._now_ns) - 1
        return 1e-9 * (self._now_ns - times[index]) if index >= 0 else math.inf

    def fresh(self, topic: str, within_s: float = math.inf) -> Any:
        """The newest message of a topic, None where it came longer before."""
        return self[topic] if self.silent_s(topic) < within_s else None


def read_playback(path: Path, robot: str | None = None, namespace: str | None = None) -> Playback:
    """Read a run, whole or cut off, with its recorded robot or with another robot file."""
    with open_run(path) as run:
        return Playback(run, run.robot(robot), namespace)
