# SPDX-License-Identifier: Apache-2.0
"""Writes a rosbag2 recording (MCAP) that stays readable: after a kill up to the last second, and when the disk is full.

No ROS is needed here: messages come serialised, with their type's name.
"""

from __future__ import annotations

import io
import os
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rosbags.interfaces import Connection
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from continuum_robot.errors import RecordingError

FLUSH_PERIOD_S = 1.0
DRAIN_PERIOD_S = 0.05
QUEUE_LENGTH = 20_000
CHUNK_BYTES = 2**18


# MCAP message record: opcode, length of what follows, channel, sequence, log time, publish time.
_MESSAGE = struct.Struct("<BQHIQQ")
_MESSAGE_OPCODE = 0x05


class _File(io.RawIOBase):
    """A file whose writes are complete or raise, without a buffer that could fail later."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._position = 0

    def write(self, data: Any) -> int:
        """Write all of ``data``. Raises :class:`OSError`, and then nothing of it counts."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.write(self._descriptor, view[done:])
        self._position += done
        return done

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._position

    def cut(self, position: int) -> None:
        """Forget what lies behind ``position``."""
        os.ftruncate(self._descriptor, position)
        os.lseek(self._descriptor, position, os.SEEK_SET)
        self._position = position

    def writable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _ChunkedMcapWriter(McapWriter):
    """rosbags' MCAP storage that can drop its newest chunks, so that the summary fits on a full disk."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self.bio.close()
        self.path.unlink()
        file = _File(self.path)
        header = io.BytesIO()
        for text in ("ros2", "continuum_robot"):
            header.write(len(text).to_bytes(4, "little") + text.encode())
        file.write(b"\x89MCAP\x30\r\n\x01" + header.tell().to_bytes(8, "little") + header.getvalue())
        self.file = file
        self.bio = file  # type: ignore[assignment]
        self._ends: list[tuple[int, dict[int, int]]] = []
        self._first = file.tell()

    def close_chunk(self) -> None:
        """Write the pending chunk whole, or not at all."""
        counts = {channel: len(messages) for channel, messages in self.chunk.msgs.items()}
        start = self.file.tell()
        known = len(self.chunks)
        try:
            super().close_chunk()
        except OSError:
            del self.chunks[known:]
            self.file.cut(start)
            raise
        self._ends.append((start, counts))

    def write(self, connection: Connection, timestamp: int, data: bytes | memoryview) -> None:
        """Add a message; chunks are small, since a full disk costs the newest ones."""
        chunk, channel = self.chunk, connection.id
        self.message_start_time = min(timestamp, self.message_start_time)
        self.message_end_time = max(timestamp, self.message_end_time)
        self.channel_stats[channel] += 1
        chunk.message_start_time = min(timestamp, chunk.message_start_time)
        chunk.message_end_time = max(timestamp, chunk.message_end_time)
        chunk.msgs[channel].append((timestamp, chunk.bio.tell()))
        # One record in two writes: rosbags' own way takes eight, at a thousand messages a second.
        chunk.bio.write(_MESSAGE.pack(_MESSAGE_OPCODE, _MESSAGE.size - 9 + len(data), channel, 0, timestamp, timestamp))
        chunk.bio.write(data)
        if chunk.bio.tell() > CHUNK_BYTES:
            self.close_chunk()

    def flush(self) -> None:
        """Hand everything so far to the operating system, from where a killed process cannot take it back."""
        if self.chunk.msgs:
            self.close_chunk()

    def drop_chunk(self) -> bool:
        """Drop the newest chunk from the file; False when there is none."""
        if not self._ends:
            self.file.cut(self._first)
            return False
        start, counts = self._ends.pop()
        self.chunks.pop()
        self.file.cut(start)
        self._uncount(counts)
        return True

    def drop_pending(self) -> None:
        """Forget the messages that are not in the file yet."""
        self._uncount({channel: len(messages) for channel, messages in self.chunk.msgs.items()})
        self.chunk.bio = io.BytesIO()
        self.chunk.msgs.clear()

    @property
    def end(self) -> int:
        """Where the chunks end in the file."""
        return self.file.tell()

    def _uncount(self, counts: Mapping[int, int]) -> None:
        for channel, number in counts.items():
            self.channel_stats[channel] -= number


class _BagWriter(Writer):
    STORAGE_PLUGINS: ClassVar[Mapping[StoragePlugin, Any]] = {StoragePlugin.MCAP: _ChunkedMcapWriter}


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """What a recording holds.

    Attributes
    ----------
    written, dropped : messages in the file, and messages that were lost because the queue or the disk was full
    problem : why the recording ended early, empty when it did not
    """

    written: int
    dropped: int
    problem: str


class BagRecorder:
    """Records serialised messages in a thread of its own, behind a bounded queue.

    Parameters
    ----------
    folder : made here; must not exist. It holds one .mcap file and metadata.yaml
    metadata : stored with the recording, text by key
    on_problem : called once, in the writer's thread, with the sentence when writing failed

    Raises
    ------
    RecordingError : the folder exists or cannot be made
    """

    def __init__(
        self,
        folder: Path,
        metadata: Mapping[str, str] | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder
        self.dropped = 0
        self.problem = ""
        self._on_problem = on_problem or (lambda _sentence: None)
        self._types = MessageTypes()
        try:
            self._writer = _BagWriter(folder, version=9, storage_plugin=StoragePlugin.MCAP)
            for key, value in (metadata or {}).items():
                self._writer.set_custom_data(key, value)
            self._writer.open()
        except (OSError, WriterError) as error:
            raise RecordingError(folder, f"cannot be written ({_reason(error)})", _REMEDY) from error
        self._connections: dict[str, Connection] = {}
        self._queue: deque[tuple[Connection, int, bytes]] = deque()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def add_topic(self, topic: str, type_name: str) -> None:
        """Announce a topic.

        Parameters
        ----------
        topic : its full name
        type_name : e.g. ``continuum_robot/msg/TendonStates``

        Raises
        ------
        RecordingError : the type's definition is not found, or the recording has ended
        """
        if topic in self._connections or self.problem:
            return
        store = self._types.store_with(type_name, self.folder)
        with self._lock:
            self._connections[topic] = self._writer.add_connection(topic, type_name, typestore=store)

    def write(self, topic: str, data: bytes, time_ns: int) -> None:
        """Queue a serialised message that arrived at ``time_ns``; never blocks, a full queue drops it and counts."""
        connection = self._connections.get(topic)
        if connection is None or self.problem:
            self.dropped += 1
            return
        if len(self._queue) < QUEUE_LENGTH:
            self._queue.append((connection, time_ns, data))
        else:
            self.dropped += 1

    def report(self) -> RecordingReport:
        """What was written so far."""
        return RecordingReport(self._written, self.dropped, self.problem)

    def close(self, timeout_s: float = 5.0) -> RecordingReport:
        """Write what is queued, then the summary. Never raises; the report says what went wrong."""
        self._stop.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self.problem = self.problem or f"{self.folder}: the disk does not answer within {timeout_s:g} s"
            return self.report()
        self._finish()
        return self.report()

    def _run(self) -> None:
        """Write in batches: waking up for each message would cost more than writing it."""
        next_flush_s = time.monotonic() + FLUSH_PERIOD_S
        while not self.problem:
            ending = self._stop.wait(DRAIN_PERIOD_S)
            try:
                self._drain()
                if time.monotonic() >= next_flush_s:
                    next_flush_s = time.monotonic() + FLUSH_PERIOD_S
                    with self._lock:
                        self._storage.flush()
            except OSError as error:
                self._fail(error)
            if ending:
                return

    def _drain(self) -> None:
        queue, storage = self._queue, self._storage
        while queue:
            with self._lock:
                # In small lots, so that the other threads of this process are not kept waiting.
                for _ in range(min(50, len(queue))):
                    storage.write(*queue.popleft())
                    self._written += 1

    @property
    def _storage(self) -> _ChunkedMcapWriter:
        storage = self._writer.storage
        if not isinstance(storage, _ChunkedMcapWriter):
            raise RecordingError(self.folder, "is closed", "Start a new recording")
        return storage

    def _fail(self, error: BaseException) -> None:
        """The disk is full: what is there is closed readably, the newest chunks make room for the summary."""
        self.problem = str(RecordingError(self.folder, f"the recording ended early ({_reason(error)})", _REMEDY))
        self.dropped += len(self._queue)
        self._queue.clear()
        self._finish()
        self._on_problem(self.problem)

    def _finish(self) -> None:
        if self._writer.storage is None:
            return
        storage = self._storage
        with self._lock:
            if self.problem:
                storage.drop_pending()
                # One more: what is left over must also take the file metadata.yaml.
                storage.drop_chunk()
            while True:
                self._recount(storage)
                end = storage.end
                try:
                    if storage.chunk.bio.tell():
                        storage.close_chunk()
                        end = storage.end
                    self._writer.close()
                    return
                except OSError as error:
                    if not self.problem:
                        self.problem = str(
                            RecordingError(self.folder, f"the recording ended early ({_reason(error)})", _REMEDY)
                        )
                        self._on_problem(self.problem)
                    if storage.bio.closed:
                        return  # the .mcap is complete, only metadata.yaml is missing
                    storage.file.cut(end)
                    storage.drop_pending()
                    if not storage.drop_chunk():
                        self._writer.abort()
                        return

    def _recount(self, storage: _ChunkedMcapWriter) -> None:
        """Tell rosbags what is really in the file."""
        kept = sum(storage.channel_stats.values())
        self.dropped += self._written - kept
        self._written = kept
        self._writer.counts.update(storage.channel_stats)
        self._writer.min_timestamp = storage.message_start_time
        self._writer.max_timestamp = storage.message_end_time


class MessageTypes:
    """Definitions of message types: rosbags knows the common ones, others are read from installed .msg files."""

    def __init__(self) -> None:
        self._store = get_typestore(Stores.LATEST)

    def store_with(self, type_name: str, file: Path) -> Typestore:
        """The store, with ``type_name`` in it. Raises :class:`RecordingError` naming ``file`` when it is unknown."""
        if type_name not in self._store.types:
            definition = find_definition(type_name)
            if definition is None:
                raise RecordingError(
                    file, f"the definition of {type_name} was not found", "Install its package, or leave the topic out"
                )
            types = get_types_from_msg(definition.read_text(encoding="utf-8"), type_name)
            for inner in _referenced(definition.read_text(encoding="utf-8"), type_name.split("/", 1)[0]):
                if inner not in types:
                    self.store_with(inner, file)
            self._store.register({name: fields for name, fields in types.items() if name not in self._store.types})
        return self._store


def find_definition(type_name: str) -> Path | None:
    """The installed .msg file of a type such as ``continuum_robot/msg/TendonStates``; None where there is none."""
    package, _, name = type_name.split("/")
    prefixes = [Path(entry) for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if entry]
    candidates = [prefix / "share" / package / "msg" / f"{name}.msg" for prefix in [*prefixes, Path(sys.prefix)]]
    candidates.append(Path(__file__).resolve().parents[2] / "msg" / f"{name}.msg")
    return next((path for path in candidates if path.is_file()), None)


def _referenced(definition: str, package: str) -> list[str]:
    """Message types that a definition uses, other than the primitive ones."""
    found = []
    for line in definition.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) < 2 or "=" in words[1]:
            continue
        kind = words[0].split("[", 1)[0].split("<", 1)[0]
        if "/" in kind:
            parts = kind.split("/")
            found.append(f"{parts[0]}/msg/{parts[-1]}")
        elif kind[0].isupper():
            found.append(f"{package}/msg/{kind}")
    return found


_REMEDY = "Free some space, or choose another folder; the robot does not depend on its recording"


def _reason(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
