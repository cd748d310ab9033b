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

BLOCK = 4096
"""Messages of a topic that are held at once, before their numbers go into arrays: an hour at 1 kHz has 3.6 million."""
_NO_MESSAGES = "Record again, and let the recorder end by itself, Ctrl-C or SIGTERM"


class Bag:
    """A recording that is open: its topics, and messages of some of them."""

    def __init__(self, file: Path, reader: AnyReader) -> None:
        self._file, self._reader = file, reader
        self.topics = sorted({connection.topic for connection in reader.connections})
        self.duration_ns = reader.duration if reader.message_count else 0
        self.deserialize = reader.typestore.deserialize_cdr
        """A message from its bytes and type, also when the recording is closed again."""

    def namespace(self, topic: str, given: str | None) -> str:
        """The namespace that is given, else that of the robot with this topic."""
        if given is not None:
            return "/" + given.strip("/")
        found = [name[: -len(topic)] for name in self.topics if name.endswith("/" + topic)]
        if len(found) > 1:
            problem = f"holds robots in several namespaces ({', '.join(found)})"
            raise RecordingError(self._file, problem, "Say which namespace")
        return "/" + (found[0].strip("/") if found else "")

    def serialised(self, wanted: Callable[[Any], bool]) -> Iterator[tuple[Any, int, bytes]]:
        """Connection (``topic``, ``msgtype``), time of the recorder in ns, and serialised message."""
        connections = [connection for connection in self._reader.connections if wanted(connection)]
        for connection, time_ns, raw in self._reader.messages(connections=connections) if connections else ():
            yield connection, time_ns, bytes(raw)

    def messages(self, wanted: Callable[[Any], bool]) -> Iterator[tuple[Any, int, bytes, Any]]:
        """As :meth:`serialised`, and the message itself."""
        for connection, time_ns, data in self.serialised(wanted):
            yield connection, time_ns, data, self._reader.deserialize(data, connection.msgtype)


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


def read_recording(
    bag: Path, topics: Sequence[str] | Mapping[str, Sequence[str]], namespace: str | None = None
) -> Recording:
    """Read topics of a bag, of a mapping only the fields that it names; no more than a block of messages is held."""
    kept = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
    with open_bag(bag) as opened:
        chosen = opened.namespace(next(iter(topics)), namespace)
        names = {f"{chosen.rstrip('/')}/{name}": name for name in topics}
        waiting: dict[str, list[tuple[int, Any]]] = {name: [] for name in topics}
        blocks: dict[str, list[_Block]] = {name: [] for name in topics}
        for connection, received_ns, _, message in opened.messages(lambda one: one.topic in names):
            name = names[connection.topic]
            waiting[name].append((received_ns, message))
            if len(waiting[name]) == BLOCK:
                blocks[name].append(_Block(waiting[name], kept[name]))
                waiting[name] = []
        for name, rows in waiting.items():
            if rows:
                blocks[name].append(_Block(rows, kept[name]))
        origin_ns = min((int(block.stamp_ns.min()) for own in blocks.values() for block in own), default=0)
        series = {name: _joined(own, origin_ns) for name, own in blocks.items() if own}
        return Recording(bag, chosen, series, origin_ns)


class _Block:
    """Some messages of a topic as arrays."""

    def __init__(self, rows: list[tuple[int, Any]], kept: Sequence[str] | None) -> None:
        messages = [message for _, message in rows]
        self.stamp_ns = np.array([stamp_ns(message) for message in messages], dtype=np.int64)
        self.received_ns = np.array([received_ns for received_ns, _ in rows], dtype=np.int64)
        self.sequence = np.array([getattr(message, "sequence", 0) for message in messages], dtype=np.int64)
        self.fields: dict[str, Vector] = {}
        self.texts: dict[str, list[str]] = {}
        for name, first in vars(messages[0]).items():
            if name in ("header", "sequence") or name.startswith("_") or (kept is not None and name not in kept):
                continue
            values = [getattr(message, name) for message in messages]
            if isinstance(first, (bool, int, float, np.ndarray, np.generic)):
                self.fields[name] = _stack([np.atleast_1d(value) for value in values])
            elif hasattr(first, "orientation"):  # a pose: place, and turn as quaternion with w last
                self.fields[name] = np.array([_pose(value) for value in values])
            elif isinstance(first, str):
                self.texts[name] = values


def _joined(blocks: list[_Block], origin_ns: int) -> Series:
    def column(name: str) -> Vector:
        parts = [block.fields[name] for block in blocks]
        if len({part.shape[1] for part in parts}) > 1:
            parts = [_stack([row for part in parts for row in part])]
        return np.concatenate(parts)

    first = blocks[0]
    return Series(
        stamp_s=1e-9 * (np.concatenate([block.stamp_ns for block in blocks]) - origin_ns),
        received_s=1e-9 * (np.concatenate([block.received_ns for block in blocks]) - origin_ns),
        sequence=np.concatenate([block.sequence for block in blocks]),
        fields={name: column(name) for name in first.fields},
        texts={name: [text for block in blocks for text in block.texts[name]] for name in first.texts},
    )


def _pose(pose: Any) -> list[float]:
    place, turn = pose.position, pose.orientation
    return [place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w]


def _stack(values: list[NDArray[Any]]) -> Vector:
    stacked = np.full((len(values), max(map(len, values))), np.nan)
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked
