# SPDX-License-Identifier: Apache-2.0
"""Recordings made up for tests: written with rosbags from the interface files, read back by the code under test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from continuum_robot.nodes.recordings.writing import BagRecorder
from continuum_robot.robot.loading import find_robot_file, load_robot

MESSAGES = Path(__file__).resolve().parents[3] / "msg"


def typestore():
    """Types of the project's own messages and of those they use."""
    store = get_typestore(Stores.ROS2_JAZZY)
    for file in sorted(MESSAGES.glob("*.msg")):
        store.register(get_types_from_msg(file.read_text(), f"continuum_robot/msg/{file.stem}"))
    return store


class SyntheticRun:
    """A run whose numbers are known: a sine tracked with a constant error, at 1 kHz with some cycles skipped."""

    rate_hz = 1000.0
    reference_rate_hz = 250.0
    error_m = np.array([2e-4, -1e-4])
    response_s = 3e-4
    first_ns = 1_700_000_000_000_000_000

    def __init__(self, duration_s: float = 2.0, skipped: tuple[int, ...] = (), lost: tuple[int, ...] = ()) -> None:
        self.duration_s, self.skipped, self.lost = duration_s, skipped, lost
        self.controlled_until_s, self.referred_from_s = duration_s, 0.0
        self.marks: tuple[tuple[float, str], ...] = ()
        self.target_m: tuple[float, float, float] | None = None

    def desired(self, time_s: float) -> np.ndarray:
        """Desired Clarke coordinates, shape (2,), m."""
        return 0.01 * np.array([np.sin(2 * np.pi * 0.1 * time_s), np.cos(2 * np.pi * 0.1 * time_s)])

    def write(self, bag: Path, namespace: str = "") -> Path:
        """Write the bag; ``namespace`` as in ``/left``."""
        store = typestore()
        types = store.types
        header = types["std_msgs/msg/Header"]
        time = types["builtin_interfaces/msg/Time"]
        empty = np.zeros(0)

        def stamped(at_s: float):
            at_ns = self.first_ns + round(at_s * 1e9)
            return at_ns, header(stamp=time(sec=at_ns // 10**9, nanosec=at_ns % 10**9), frame_id="")

        with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            connection = {
                topic: writer.add_connection(f"{namespace}/{topic}", f"continuum_robot/msg/{kind}", typestore=store)
                for topic, kind in (
                    ("tendon_states", "TendonStates"),
                    ("tendon_commands", "TendonCommands"),
                    ("clarke_state", "ClarkeState"),
                    ("clarke_reference", "ClarkeState"),
                )
            }

            def write(topic: str, at_ns: int, message) -> None:
                kind = "ClarkeState" if topic.startswith("clarke") else topic.title().replace("_", "")
                data = store.serialize_cdr(message, f"continuum_robot/msg/{kind}")
                writer.write(connection[topic], at_ns, data)

            clarke = types["continuum_robot/msg/ClarkeState"]
            states = types["continuum_robot/msg/TendonStates"]
            commands = types["continuum_robot/msg/TendonCommands"]
            if self.marks:
                marks = writer.add_connection(f"{namespace}/episode", "std_msgs/msg/String", typestore=store)
                for at_s, mark in self.marks:
                    message = types["std_msgs/msg/String"](data=mark)
                    data = store.serialize_cdr(message, "std_msgs/msg/String")
                    writer.write(marks, stamped(at_s)[0], data)
            if self.target_m is not None:
                kind, (at_ns, head) = "geometry_msgs/msg/PointStamped", stamped(0.0)
                point = types["geometry_msgs/msg/Point"](*self.target_m)
                data = store.serialize_cdr(types[kind](header=head, point=point), kind)
                writer.write(writer.add_connection(f"{namespace}/tip_target", kind, typestore=store), at_ns, data)
            sequence = 0
            for cycle in range(int(self.duration_s * self.rate_hz) + 1):
                if cycle in self.skipped:
                    continue
                sequence += 1
                at_s = cycle / self.rate_hz
                at_ns, head = stamped(at_s)
                tension = 1.0 + 0.1 * np.arange(5) + (0.5 if cycle == 100 else 0.0)
                message = states(
                    header=head,
                    sequence=sequence,
                    simulated=True,
                    displacement=np.zeros(5),
                    velocity=np.zeros(5),
                    tension=tension,
                    current=np.zeros(5),
                    temperature=np.full(5, np.nan),
                    age=np.zeros(5),
                    commanded_tension=tension,
                    commanded_displacement=empty,
                    limited=np.zeros(5, dtype=np.uint8),
                )
                if cycle not in self.lost:
                    write("tendon_states", at_ns, message)
                answer_ns, answer_head = stamped(at_s + self.response_s)
                answer = commands(
                    header=answer_head,
                    sequence=sequence,
                    writer="clarke_controller",
                    tension=tension,
                    displacement=empty,
                )
                write("tendon_commands", answer_ns, answer)
                if cycle % 4 == 0:
                    measured = self.desired(at_s) - self.error_m
                    body = {"sequence": sequence, "simulated": True, "velocity": empty, "acceleration": empty}
                    body |= {"writer": "", "generalized_force": empty}
                    if at_s <= self.controlled_until_s:
                        write("clarke_state", at_ns, clarke(header=head, position=measured, **body))
                    if at_s >= self.referred_from_s:
                        write("clarke_reference", at_ns, clarke(header=head, position=self.desired(at_s), **body))
        return bag


BENT_RATE_HZ = 50.0


def write_bent_run(folder: Path, *, robot: str = "opencr_five_tendon", duration_s: float = 3.0, left_out=()) -> Path:
    """A run that bends at 2 /m/s while its tensions rise by 1 N/s from 1 N, touched at the tip from 1 s to 2 s.

    The recorder notes the robot's file; ``left_out``: topics, or ``robot_file``.
    """
    store, loaded = typestore(), load_robot(robot)
    kinds = {
        "shape": "Shape",
        "tendon_states": "TendonStates",
        "clarke_state": "ClarkeState",
        "clarke_reference": "ClarkeState",
        "contact": "Contact",
        "stack_status": "StackStatus",
    }
    note = {"robot": robot, "robot_file": find_robot_file(robot).read_text(), "namespace": "/", "simulated": "true"}
    recorder = BagRecorder(folder / "recording", {key: text for key, text in note.items() if key not in left_out})
    for topic, kind in kinds.items():
        recorder.add_topic(f"/{topic}", f"continuum_robot/msg/{kind}")
    for step in range(round(duration_s * BENT_RATE_HZ) + 1):
        at_s = step / BENT_RATE_HZ
        touched = 1.0 <= at_s <= 2.0
        clarke = 1e-3 * at_s * np.eye(loaded.coordinate_count)[0]
        values = {
            "shape": {"coefficients": 2.0 * at_s * np.eye(loaded.coefficient_count)[1]},
            "tendon_states": {"tension": np.full(loaded.tendon_count, 1.0 + at_s)},
            "clarke_state": {"position": clarke},
            "clarke_reference": {"position": clarke + 1e-4},
            "contact": {
                "state": "contact" if touched else "clear",
                "in_contact": touched,
                "wrench": np.array([1.5, 0.0, 0.0, 0.0, 0.0, 0.0]),
                "wrench_arc_length": loaded.length_m,
                "screw_segment": -1,
            },
            "stack_status": {"state": "up", "simulated": True},
        }
        for topic, fields in values.items():
            if topic not in left_out:
                kind, at_ns = f"continuum_robot/msg/{kinds[topic]}", SyntheticRun.first_ns + round(1e9 * at_s)
                message = _filled(store, kind, fields)
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(at_ns, 10**9)
                recorder.write(f"/{topic}", bytes(store.serialize_cdr(message, kind)), at_ns)
    assert recorder.close().problem == ""
    return folder


def _filled(store, kind: str, values):
    """A message of a type: these values, all else empty."""
    fields = {}
    for name, (sort, what) in store.fielddefs[kind][1]:
        if name in values:
            fields[name] = values[name]
        elif sort == Nodetype.NAME:
            fields[name] = _filled(store, what, {})
        elif sort == Nodetype.BASE and what[0] == "float64" and name == "w":
            fields[name] = 1.0  # of a quaternion
        elif sort == Nodetype.BASE:
            fields[name] = "" if what[0] == "string" else False if what[0] == "bool" else 0
        elif sort == Nodetype.ARRAY:
            fields[name] = np.zeros(what[1])
        else:
            base = what[0][1][0] if what[0][0] == Nodetype.BASE else ""
            fields[name] = [] if base in ("", "string") else np.zeros(0, dtype=np.uint8 if base == "uint8" else float)
    return store.types[kind](**fields)
