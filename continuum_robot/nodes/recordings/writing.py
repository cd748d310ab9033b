# SPDX-License-Identifier: Apache-2.0
"""Writes a rosbag2 recording (MCAP) that stays readable: after a kill up to the last second, and when the disk is full.

After a kill the index at the file's end and metadata.yaml are missing: :func:`repair` writes a whole copy. No ROS is
needed here: messages come serialised, with their type's name.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.mcap_file import METADATA_NAME
from continuum_robot.nodes.recordings.mcap_writer import ChunkedMcapWriter

FLUSH_PERIOD_S = 0.5
"""What a killed recorder loses at most, with ``DRAIN_PERIOD_S``: 0.55 s, where the machine itself does not stand."""


DRAIN_PERIOD_S = 0.05


QUEUE_LENGTH = 20_000


_FOREVER = QosTime(9223372036, 854775807)


def offered_qos(*, latched: bool) -> Qos:
    """The quality of service with which ``ros2 bag play`` offers a topic: reliable, and transient local if latched."""
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else 10,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        _FOREVER,
        _FOREVER,
        QosLiveliness.AUTOMATIC,
        _FOREVER,
        avoid_ros_namespace_conventions=False,
    )


class BagWriter(Writer):
    """rosbags' writer with chunks of ours."""

    STORAGE_PLUGINS: Mapping[StoragePlugin, Any] = {StoragePlugin.MCAP: ChunkedMcapWriter}


@dataclass(frozen=True, slots=True)
class RecordingReport:
    """What a recording holds."""

    written: int
    dropped: int
    problem: str


class BagRecorder:
    """Records serialised messages in a thread of its own, behind a bounded queue."""

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
            self._writer = BagWriter(folder, version=9, storage_plugin=StoragePlugin.MCAP)
            self._writer.open()
            self._note(metadata or {})
        except (OSError, WriterError) as error:
            raise RecordingError(folder, f"cannot be written ({reason_of(error)})", REMEDY) from error
        self._connections: dict[str, Connection] = {}
        self._queue: deque[tuple[Connection, int, bytes]] = deque()
        self._notes: deque[Mapping[str, str]] = deque()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def add_topic(self, topic: str, type_name: str, *, latched: bool = False) -> None:
        """Announce a topic."""
        if topic in self._connections or self.problem:
            return
        store = self._types.store_with(type_name, self.folder)
        with self._lock:
            self._connections[topic] = self._writer.add_connection(
                topic, type_name, typestore=store, offered_qos_profiles=[offered_qos(latched=latched)]
            )

    def add_metadata(self, values: Mapping[str, str]) -> None:
        """Store further metadata, text by key, over what is there; written by the recorder's thread."""
        self._notes.append(dict(values))

    def wait_for_room(self) -> None:
        """Wait until at most half of the queue is taken: for lock-step, where nothing may be lost and all can wait."""
        while len(self._queue) > QUEUE_LENGTH // 2 and self._thread.is_alive() and not self.problem:
            time.sleep(DRAIN_PERIOD_S)

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
        """Write what is queued, then the summary. Never raises; the report lists what went wrong."""
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
                    self._storage.file.check_there()
            except OSError as error:
                self._fail(error)
            if ending:
                return

    def _note(self, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            self._writer.set_custom_data(key, value)
        self._storage.add_metadata(METADATA_NAME, values)

    def _drain(self) -> None:
        queue, storage = self._queue, self._storage
        while self._notes:
            with self._lock:
                self._note(self._notes.popleft())
        while queue:
            with self._lock:
                # In small lots, so that the other threads of this process are not kept waiting.
                for _ in range(min(50, len(queue))):
                    storage.write(*queue.popleft())
                    self._written += 1

    @property
    def _storage(self) -> ChunkedMcapWriter:
        storage = self._writer.storage
        if not isinstance(storage, ChunkedMcapWriter):
            raise RecordingError(self.folder, "is closed", "Start a new recording")
        return storage

    def _fail(self, error: BaseException) -> None:
        """The disk is full: what is there is closed readably, the newest chunks make room for the summary."""
        self.problem = str(RecordingError(self.folder, f"the recording ended early ({reason_of(error)})", REMEDY))
        self.dropped += len(self._queue)
        self._queue.clear()
        self._finish()
        self._on_problem(self.problem)

    def _finish(self) -> None:
        if self._writer.storage is None:
            return
        storage = self._storage
        with self._lock:
            if storage.file.removed:
                self._lose_all()
                return
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
                            RecordingError(self.folder, f"the recording ended early ({reason_of(error)})", REMEDY)
                        )
                        self._on_problem(self.problem)
                    if storage.bio.closed:
                        return  # the .mcap is complete, only metadata.yaml is missing
                    storage.cut(end)
                    storage.drop_pending()
                    if not storage.drop_chunk():
                        self._writer.abort()
                        return

    def _lose_all(self) -> None:
        """Nothing of a removed file counts as written."""
        if not self.problem:
            self.problem = str(RecordingError(self.folder, "was removed while it was recorded", REMEDY))
            self._on_problem(self.problem)
        self.dropped, self._written = self.dropped + self._written, 0
        self._writer.abort()

    def _recount(self, storage: ChunkedMcapWriter) -> None:
        """Tell rosbags what is really in the file."""
        kept = sum(storage.channel_stats.values())
        self.dropped += self._written - kept
        self._written = kept
        self._writer.counts.update(storage.channel_stats)
        self._writer.min_timestamp = storage.message_start_time
        self._writer.max_timestamp = storage.message_end_time


def message_type_hash(type_name: str, definition: str, file: Path) -> str:
    """RIHS01 hash of the definition of ``type_name``."""
    try:
        store = get_typestore(Stores.EMPTY)
        store.register(get_types_from_msg(definition, type_name))
        return store.hash_rihs01(type_name)
    except TypesysError as error:
        raise RecordingError(file, f"the definition of {type_name} is not readable ({error})", _FOREIGN) from error


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
    here = Path(__file__).resolve()
    prefixes = [Path(entry) for entry in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if entry]
    shares = [prefix / "share" for prefix in [*prefixes, *here.parents, Path(sys.prefix)]]
    candidates = [share / package / "msg" / f"{name}.msg" for share in shares]
    if package == "continuum_robot":
        candidates.append(here.parents[3] / "msg" / f"{name}.msg")
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


_FOREIGN = "Give a recording of this package or of ros2 bag"


REMEDY = "Free some space, or choose another folder; the robot does not depend on its recording"


def reason_of(error: BaseException) -> str:
    """What an error reports, without its number."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
