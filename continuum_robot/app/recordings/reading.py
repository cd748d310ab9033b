# SPDX-License-Identifier: Apache-2.0
"""Reading back what the recorder wrote: topics of an MCAP (or sqlite3) bag as numpy arrays. Needs no ROS 2."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.mcap_file import readable

Vector = NDArray[np.float64]

_NO_MESSAGES = "Record again, and let the recorder end by itself, Ctrl-C or SIGTERM"


class Bag:
    """A recording that is open: its topics, and messages of some of them."""

    def __init__(self, file: Path, reader: AnyReader) -> None:
        self._file, self._reader = file, reader
        self.topics = sorted({connection.topic for connection in reader.connections})

    def namespace(self, topic: str, given: str | None) -> str:
        """The namespace that is given, else that of the robot with this topic."""
        if given is not None:
            return "/" + given.strip("/")
        found = [name[: -len(topic)] for name in self.topics if name.endswith("/" + topic)]
        if len(found) > 1:
            problem = f"holds robots in several namespaces ({', '.join(found)})"
            raise RecordingError(self._file, problem, "Say which namespace")
        return "/" + (found[0].strip("/") if found else "")

    def messages(self, wanted: Callable[[Any], bool]) -> Iterator[tuple[Any, int, bytes, Any]]:
        """Connection (``topic``, ``msgtype``), time of the recorder in ns, serialised message, and the message."""
        connections = [connection for connection in self._reader.connections if wanted(connection)]
        for connection, time_ns, raw in self._reader.messages(connections=connections) if connections else ():
            yield connection, time_ns, bytes(raw), self._reader.deserialize(raw, connection.msgtype)


@contextlib.contextmanager
def open_bag(file: Path, given: Path | None = None) -> Iterator[Bag]:
    """A recording, while the block lasts; what cannot be read in it is a :class:`RecordingError` of ``given``."""
    with readable(given or file), AnyReader([file]) as reader:
        yield Bag(file, reader)


def stamp_ns(message: Any) -> int:
    """The stamp of a message, ns."""
    return int(message.header.stamp.sec) * 1_000_000_000 + int(message.header.stamp.nanosec)


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
    with open_bag(bag) as opened:
        chosen = opened.namespace(topics[0], namespace)
        names = {f"{chosen.rstrip('/')}/{name}": name for name in topics}
        collected: dict[str, list[tuple[int, Any]]] = {name: [] for name in topics}
        for connection, received_ns, _, message in opened.messages(lambda one: one.topic in names):
            collected[names[connection.topic]].append((received_ns, message))
        stamps = [stamp_ns(message) for rows in collected.values() for _, message in rows]
        origin_ns = min(stamps, default=0)
        series = {name: _series(rows, origin_ns) for name, rows in collected.items() if rows}
        return Recording(bag, chosen, series, origin_ns)


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
        stamp_s=np.array([(stamp_ns(message) - origin_ns) * 1e-9 for message in messages]),
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
