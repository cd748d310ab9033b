# SPDX-License-Identifier: Apache-2.0
"""Reading back what the recorder wrote: topics of an MCAP (or sqlite3) bag as numpy arrays. Needs no ROS 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.bag_reading import readable

Vector = NDArray[np.float64]

_NO_MESSAGES = "Record again, and let the recorder end by itself, Ctrl-C or SIGTERM"


@dataclass(frozen=True)
class Series:
    """All messages of one topic."""

    stamp_s: Vector
    received_s: Vector
    sequence: NDArray[np.int64]
    fields: Mapping[str, Vector]
    texts: Mapping[str, list[str]]

    def __len__(self) -> int:
        return len(self.stamp_s)

    def __getitem__(self, field: str) -> Vector:
        return self.fields[field]

    def between(self, start_s: float, end_s: float) -> Series:
        """The messages stamped within [start_s, end_s], s from the recording's origin."""
        kept = (self.stamp_s >= start_s) & (self.stamp_s <= end_s)
        return Series(
            self.stamp_s[kept],
            self.received_s[kept],
            self.sequence[kept],
            {name: values[kept] for name, values in self.fields.items()},
            {
                name: [text for text, keep in zip(texts, kept, strict=True) if keep]
                for name, texts in self.texts.items()
            },
        )


@dataclass(frozen=True)
class Recording:
    """Topics of a bag. ``namespace``: of the topics; ``topics``: relative name -> series; ``origin_ns``: time 0."""

    file: Path
    namespace: str
    topics: Mapping[str, Series]
    origin_ns: int

    def series(self, name: str) -> Series:
        """The messages of a topic."""
        if name not in self.topics or not len(self.topics[name]):
            there = ", ".join(topic for topic, series in self.topics.items() if len(series)) or "none"
            raise RecordingError(self.file, f"has no messages on {name} (there are: {there})", _NO_MESSAGES)
        return self.topics[name]


def read_recording(bag: Path, topics: Sequence[str], namespace: str | None = None) -> Recording:
    """Read topics of a bag."""
    with readable(bag):
        with AnyReader([bag]) as reader:
            chosen = _namespace(bag, {connection.topic for connection in reader.connections}, topics, namespace)
            desired = {f"{chosen.rstrip('/')}/{name}": name for name in topics}
            connections = [connection for connection in reader.connections if connection.topic in desired]
            collected: dict[str, list[tuple[int, Any]]] = {name: [] for name in topics}
            if connections:
                for connection, received_ns, raw in reader.messages(connections=connections):
                    collected[desired[connection.topic]].append(
                        (received_ns, reader.deserialize(raw, connection.msgtype))
                    )
        stamps = [_stamp_ns(message) for rows in collected.values() for _, message in rows]
        origin_ns = min(stamps, default=0)
        series = {name: _series(rows, origin_ns) for name, rows in collected.items() if rows}
        return Recording(bag, chosen, series, origin_ns)


def _namespace(bag: Path, recorded: set[str], topics: Sequence[str], namespace: str | None) -> str:
    if namespace is not None:
        return "/" + namespace.strip("/")
    found = sorted({topic[: -len(topics[0])] for topic in recorded if topic.endswith("/" + topics[0])})
    if len(found) > 1:
        raise RecordingError(bag, f"holds robots in several namespaces ({', '.join(found)})", "Say which namespace")
    return "/" + (found[0].strip("/") if found else "")


def _stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 1_000_000_000 + int(message.header.stamp.nanosec)


def _series(rows: list[tuple[int, Any]], origin_ns: int) -> Series:
    messages = [message for _, message in rows]
    names = [name for name in vars(messages[0]) if name not in ("header", "sequence") and not name.startswith("_")]
    fields, texts = {}, {}
    for name in names:
        first = getattr(messages[0], name)
        if isinstance(first, (bool, int, float, np.ndarray, np.generic)):
            fields[name] = _stack([np.atleast_1d(getattr(message, name)) for message in messages])
        elif hasattr(first, "orientation"):  # a pose: place, and turn as quaternion with w last
            fields[name] = np.array([_pose(getattr(message, name)) for message in messages])
        elif isinstance(first, str):
            texts[name] = [getattr(message, name) for message in messages]
    return Series(
        stamp_s=np.array([(_stamp_ns(message) - origin_ns) * 1e-9 for message in messages]),
        received_s=np.array([(received_ns - origin_ns) * 1e-9 for received_ns, _ in rows]),
        sequence=np.array([getattr(message, "sequence", 0) for message in messages], dtype=np.int64),
        fields=fields,
        texts=texts,
    )


def _pose(pose: Any) -> list[float]:
    place, turn = pose.position, pose.orientation
    return [place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w]


def _stack(values: list[NDArray[Any]]) -> Vector:
    width = max(len(value) for value in values)
    stacked = np.full((len(values), width), np.nan)
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked
