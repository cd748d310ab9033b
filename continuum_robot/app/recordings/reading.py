# SPDX-License-Identifier: Apache-2.0
"""Reading back what the recorder wrote: topics of an MCAP (or sqlite3) bag as numpy arrays. Needs no ROS 2."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader

from continuum_robot.errors import ParameterError, RecordingError, missing_package
from continuum_robot.nodes.recordings.mcap_file import readable

if TYPE_CHECKING:
    from pandas import DataFrame

Vector = NDArray[np.float64]

BLOCK = 4096
"""Messages of a topic that are held at once, before their numbers go into arrays: an hour at 1 kHz has 3.6 million."""
_OTHER_PACKAGES = ("diagnostic_msgs/", "rcl_interfaces/", "tf2_msgs/")
"""Messages of these hold no numbers of the robot that could stand in columns."""
_SAME_TIME_S = 1e-7
_OTHER_CLOCK_S = 1e8
"""In lock-step time begins at 1 s; what is stamped by the computer's clock is decades later."""
_NO_FIELDS = ("header", "sequence", "__msgtype__")
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

    def topics_with_numbers(self, root: str) -> list[str]:
        """Names of the topics below ``root``, relative to it, but those of no robot: diagnostics, log and frames."""
        return sorted(
            one.topic.removeprefix(root)
            for one in {one.topic: one for one in self._reader.connections}.values()
            if one.topic.startswith(root) and not one.msgtype.startswith(_OTHER_PACKAGES)
        )

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
    """All messages of one topic.

    Attributes
    ----------
    stamp_s : of the messages, s from the recording's origin; of those without a header when the recorder took them
    received_s : when the recorder took them, s from the origin
    sequence : counter in the message, 0 if it has none
    fields : numbers, shape (messages, width); what a shorter array lacks is NaN
    texts : texts
    parts : what distinguishes the columns of a field, such as ``.x``; a field that is not listed is an array
    alone : whether the message has one field beside its header
    """

    stamp_s: Vector
    received_s: Vector
    sequence: NDArray[np.int64]
    fields: Mapping[str, Vector]
    texts: Mapping[str, list[str]]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alone: bool = False

    @classmethod
    def of(cls, stamp_s: Vector, **fields: Vector) -> Series:
        """Numbers that were not recorded, at their times, s."""
        return cls(stamp_s, stamp_s, np.arange(len(stamp_s)), fields, {})

    def __len__(self) -> int:
        return len(self.stamp_s)

    def __getitem__(self, field: str) -> Vector:
        return self.fields[field]

    def between(self, start_s: float, end_s: float) -> Series:
        """The messages stamped within [start_s, end_s], s from the recording's origin."""
        kept = (self.stamp_s >= start_s) & (self.stamp_s <= end_s)
        return replace(
            self,
            stamp_s=self.stamp_s[kept],
            received_s=self.received_s[kept],
            sequence=self.sequence[kept],
            fields={name: values[kept] for name, values in self.fields.items()},
            texts={
                name: [text for text, keep in zip(texts, kept, strict=True) if keep]
                for name, texts in self.texts.items()
            },
        )

    def columns(self, topic: str) -> dict[str, Vector]:
        """The numbers by the names of their columns: ``topic.field``, ``topic.field[0]``, ``topic.field.x``."""
        found: dict[str, Vector] = {}
        for name, values in self.fields.items():
            head, width = topic if self.alone else f"{topic}.{name}", values.shape[1]
            parts = self.parts.get(name, ())
            parts = parts if len(parts) == width else tuple(f"[{k}]" for k in range(width))
            found |= {f"{head}{part}": values[:, k] for k, part in enumerate(parts)}
        return found


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

    def frame(self, topic: str) -> DataFrame:
        """Every message of a topic as a row of a pandas DataFrame.

        The index ``time_s`` is the stamp, s from the recording's origin. Columns are named ``topic.field``; elements
        of arrays ``topic.field[0]``, parts of messages in the message ``topic.field.x``. A topic whose message has one
        field beside the header stands for it: ``tip_target.x``, ``wrench.force.z``. SI units, as in the messages.

        Raises
        ------
        RecordingError : no messages on the topic
        MissingPackageError : pandas is not installed
        """
        series = self.series(topic)
        counted = {f"{topic}.sequence": series.sequence} if series.sequence.any() else {}
        texts = {topic if series.alone else f"{topic}.{name}": values for name, values in series.texts.items()}
        return _data_frame(counted | series.columns(topic) | texts, series.stamp_s)

    def joined(self, rate_hz: float, names: Sequence[str] = ()) -> DataFrame:
        """Numbers of several topics on a common time base, as a pandas DataFrame.

        Each row holds the newest value stamped at or before its time, as a program beside the robot knows it then;
        NaN before the first. Index and columns are those of :meth:`frame`.

        Parameters
        ----------
        rate_hz : rows per second of recorded time
        names : of columns, or what they begin with, such as ``tendon_states`` or ``clarke_state.position``; none: all

        Raises
        ------
        RecordingError : no columns of that name
        MissingPackageError : pandas is not installed
        """
        if not rate_hz > 0:
            raise ParameterError("rate_hz", rate_hz, "a number above 0, Hz")
        time_s = np.arange(int(self.end_s * rate_hz + 1e-6) + 1) / rate_hz
        columns = self.columns(names)
        values = self.held(columns, time_s)
        return _data_frame({name: values[:, k] for k, name in enumerate(columns)}, time_s)

    @property
    def end_s(self) -> float:
        """The last stamp, s from the origin."""
        stamp_s = np.concatenate([[0.0], *(series.stamp_s for series in self.topics.values())])
        return float(stamp_s[stamp_s < _OTHER_CLOCK_S].max())

    def columns(self, names: Sequence[str] = ()) -> list[str]:
        """Names of the columns that are meant by ``names``, as of :meth:`joined`."""
        there = [column for topic, series in self.topics.items() for column in series.columns(topic)]
        chosen: dict[str, None] = {}
        for name in names:
            meant = [one for one in there if one == name or one.startswith((f"{name}.", f"{name}["))]
            if not meant:
                fields = dict.fromkeys(one.partition("[")[0] for one in there)
                known = [one for one in fields if topic_of(one) == topic_of(name)] or {topic_of(one) for one in fields}
                remedy = f"There are: {', '.join(sorted(known)) or 'none'}"
                raise RecordingError(self.file, f"has no numbers named {name!r}", remedy)
            chosen |= dict.fromkeys(meant)
        return list(chosen) if names else there

    def held(self, columns: Sequence[str], time_s: Vector) -> Vector:
        """Values of columns at times, shape (times, columns): the newest stamped until then, NaN before the first."""
        held = np.full((len(time_s), len(columns)), np.nan)
        for topic in {topic_of(column) for column in columns}:
            series, own = self.topics[topic], self.topics[topic].columns(topic)
            order = np.argsort(series.stamp_s, kind="stable")
            row = np.searchsorted(series.stamp_s[order], time_s + _SAME_TIME_S, side="right") - 1
            for k, column in enumerate(columns):
                if column in own:
                    held[row >= 0, k] = own[column][order[row[row >= 0]]]
        return held


def topic_of(name: str) -> str:
    """The topic of a column."""
    return name.partition(".")[0].partition("[")[0]


def _data_frame(columns: Mapping[str, Any], time_s: Vector) -> DataFrame:
    try:
        import pandas  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise missing_package(error) from None
    return pandas.DataFrame(columns, index=pandas.Index(time_s, name="time_s"))


def read_recording(
    bag: Path, topics: Sequence[str] | Mapping[str, Sequence[str]] | None = None, namespace: str | None = None
) -> Recording:
    """Read topics of a bag, None: all; of a mapping only the fields that it names. Of messages a block is held."""
    with open_bag(bag) as opened:
        chosen = opened.namespace("tendon_states" if topics is None else next(iter(topics)), namespace)
        root = f"{chosen.rstrip('/')}/"
        if topics is None:
            topics = opened.topics_with_numbers(root)
        kept = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
        names = {f"{root}{name}": name for name in topics}
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
        self.received_ns = np.array([received_ns for received_ns, _ in rows], dtype=np.int64)
        self.stamp_ns = self.received_ns
        if hasattr(messages[0], "header"):
            self.stamp_ns = np.array([stamp_ns(message) for message in messages], dtype=np.int64)
        self.sequence = np.array([getattr(message, "sequence", 0) for message in messages], dtype=np.int64)
        self.fields: dict[str, Vector] = {}
        self.texts: dict[str, list[str]] = {}
        self.parts: dict[str, tuple[str, ...]] = {}
        # A field's name is in small letters; what else there is are the message's constants.
        names = [name for name in vars(messages[0]) if name not in _NO_FIELDS and name.islower()]
        self.alone = len(names) == 1
        for name in names if kept is None else [name for name in names if name in kept]:
            values = [getattr(message, name) for message in messages]
            first = values[0]
            if isinstance(first, np.ndarray):
                self.fields[name] = _stack(values)
            elif isinstance(first, str):
                self.texts[name] = values
            elif numbers := dict(_numbers(first)):
                self.fields[name] = _stack([np.array([number for _, number in _numbers(value)]) for value in values])
                self.parts[name] = tuple(numbers)


def _joined(blocks: list[_Block], origin_ns: int) -> Series:
    def column(name: str) -> Vector:
        parts = [block.fields[name] for block in blocks]
        if len({part.shape[1] for part in parts}) > 1:
            parts = [_stack([row for part in parts for row in part])]
        return np.concatenate(parts)

    first = blocks[0]
    stamp_s = 1e-9 * (np.concatenate([block.stamp_ns for block in blocks]) - origin_ns)
    received_s = 1e-9 * (np.concatenate([block.received_ns for block in blocks]) - origin_ns)
    return Series(
        stamp_s=np.where(stamp_s < _OTHER_CLOCK_S, stamp_s, received_s),
        received_s=received_s,
        sequence=np.concatenate([block.sequence for block in blocks]),
        fields={name: column(name) for name in first.fields},
        texts={name: [text for block in blocks for text in block.texts[name]] for name in first.texts},
        parts=first.parts,
        alone=first.alone,
    )


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in a value, a pose's as place and quaternion with w last, by the way to each: ``.position.x``."""
    if isinstance(value, (bool, int, float, np.generic)):
        yield path, float(value)
    elif isinstance(value, np.ndarray):
        yield from ((f"{path}[{k}]", float(number)) for k, number in enumerate(value))
    elif hasattr(value, "__msgtype__"):
        for name, inner in vars(value).items():
            yield from _numbers(inner, f"{path}.{name}")


def _stack(values: list[NDArray[Any]]) -> Vector:
    stacked = np.full((len(values), max(map(len, values))), np.nan)
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked
