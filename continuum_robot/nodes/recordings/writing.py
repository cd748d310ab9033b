# SPDX-License-Identifier: Apache-2.0
"""Writes a rosbag2 recording (MCAP) that stays readable: after a kill up to the last second, and when the disk is full.

mcap writes the file, rosbags the definitions, their hashes and metadata.yaml. After a kill the index at the file's end
and metadata.yaml are missing: :func:`repair` writes a whole copy. No ROS is needed here: messages come serialised.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcap.writer
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
from continuum_robot.nodes.recordings.mcap_file import METADATA_NAME, PROFILE

FLUSH_PERIOD_S = 0.5
"""What a killed recorder loses at most, with ``DRAIN_PERIOD_S``: 0.55 s, where the machine itself does not stand."""
DRAIN_PERIOD_S = 0.05
QUEUE_LENGTH = 20_000
CHUNK_BYTES = 2**18
BALLAST_BYTES = 8 * 2**20
"""Freed when the disk is full: takes the last chunk, and the index of three hours."""

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


class BallastedFile:
    """A file that frees its ballast when a write fails, goes on, and keeps the error: it is time to close it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("xb", buffering=0)
        # Without a name: it goes with the process, however that ends.
        self._ballast = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        os.posix_fallocate(self._ballast.fileno(), 0, BALLAST_BYTES)
        self.problem: OSError | None = None

    def write(self, data: bytes) -> None:
        """Write all. Raises :class:`OSError` where the ballast did not help."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._file.fileno(), view) :]
            except OSError as error:
                if self.problem is not None:
                    raise
                self.problem = error
                self._ballast.close()

    def tell(self) -> int:
        """Where the next byte goes."""
        return self._file.tell()

    def flush(self) -> None:
        """Nothing: there is no buffer."""

    @property
    def removed(self) -> bool:
        """Whether no name leads to the file any more; writes to it succeed all the same."""
        return os.fstat(self._file.fileno()).st_nlink == 0

    def check_there(self) -> None:
        """Raise :class:`OSError` after a failed write, or if the path leads elsewhere: removed, moved or unmounted."""
        if self.problem is not None:
            raise self.problem
        if not os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path)):
            raise FileNotFoundError(errno.ENOENT, "another file has taken its place", str(self._path))

    def close(self) -> None:
        """Close it and free the ballast."""
        self._ballast.close()
        self._file.close()


class McapStorage:
    """rosbags' storage interface over mcap's writer."""

    def __init__(self, folder: Path, _compression: Any) -> None:
        self.path = folder / f"{folder.name}.mcap"
        self.file = BallastedFile(self.path)
        self._writer = mcap.writer.Writer(
            self.file,  # type: ignore[arg-type]
            chunk_size=sys.maxsize,  # chunks end in flush()
            compression=mcap.writer.CompressionType.NONE,
        )
        self._writer.start(PROFILE, "continuum_robot")
        self._schemas: dict[str, int] = {}
        self._channels: dict[int, int] = {}
        self._pending = 0

    def add_msgtype(self, connection: Connection) -> None:
        """Write a definition."""
        kind = f"ros2{connection.msgdef.format.name.lower()}"
        self._schemas[connection.msgtype] = self._writer.register_schema(
            connection.msgtype, kind, connection.msgdef.data.encode()
        )

    def add_connection(self, connection: Connection, offered_qos_profiles: str) -> None:
        """Write a topic."""
        encoding = getattr(connection.ext, "serialization_format", "cdr")
        self._channels[connection.id] = self._writer.register_channel(
            connection.topic,
            encoding,
            self._schemas[connection.msgtype],
            {"offered_qos_profiles": offered_qos_profiles},
        )

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record at once."""
        self._writer.add_metadata(name, dict(values))

    def write(self, connection: Connection, timestamp: int, data: bytes | memoryview) -> None:
        """Add a message; chunks are small, since a kill costs the newest one."""
        self._writer.add_message(self._channels[connection.id], timestamp, bytes(data), timestamp)
        self._pending += len(data)
        if self._pending > CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything so far to the operating system, from where a killed process cannot take it back."""
        self._pending = 0
        self._writer.flush()

    def close(self, version: int, metadata: str) -> None:
        """Write what is pending, then the summary that makes the file quick to open, and close it."""
        _ = version
        self.flush()
        # rosbag2 reads it where metadata.yaml is missing.
        self.add_metadata("rosbag2", {"serialized_metadata": metadata})
        self._writer.finish()
        self.file.close()

    def abort(self) -> None:
        """Close the file without its end."""
        self.file.close()


class BagWriter(Writer):
    """rosbags' writer over :class:`McapStorage`; messages by :meth:`put`, without rosbags' checks of each."""

    STORAGE_PLUGINS: Mapping[StoragePlugin, Any] = {StoragePlugin.MCAP: McapStorage}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, version=9, storage_plugin=StoragePlugin.MCAP)
        self.open()

    @property
    def file(self) -> McapStorage:
        """The open file."""
        if not isinstance(self.storage, McapStorage):
            raise RecordingError(self.path, "is closed", "Start a new recording")
        return self.storage

    def note(self, values: Mapping[str, str], name: str = METADATA_NAME) -> None:
        """Note ``values`` in the file, and in metadata.yaml."""
        if name == METADATA_NAME:
            for key, value in values.items():
                self.set_custom_data(key, value)
        self.file.add_metadata(name, values)

    def put(self, connection: Connection, time_ns: int, data: bytes) -> None:
        """Write a message."""
        self.file.write(connection, time_ns, data)
        self.counts[connection.id] += 1
        self.min_timestamp = min(time_ns, self.min_timestamp)
        self.max_timestamp = max(time_ns, self.max_timestamp)


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
            self._writer = BagWriter(folder)
            self._writer.note(metadata or {})
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
                        self._writer.file.flush()
                    self._writer.file.file.check_there()
            except OSError as error:
                self._fail(error)
            if ending:
                return

    def _drain(self) -> None:
        queue, writer = self._queue, self._writer
        while self._notes:
            with self._lock:
                writer.note(self._notes.popleft())
        while queue:
            with self._lock:
                # In small lots, so that the other threads of this process are not kept waiting.
                for _ in range(min(50, len(queue))):
                    writer.put(*queue.popleft())
                    self._written += 1
                full = writer.file.file.problem
            if full is not None:
                raise full

    def _fail(self, error: OSError) -> None:
        """The disk is full: what is there is closed readably, in the place of the ballast."""
        self.dropped += len(self._queue)
        self._queue.clear()
        self._report(f"the recording ended early ({reason_of(error)})")
        self._finish()

    def _report(self, problem: str) -> None:
        if not self.problem:
            self.problem = str(RecordingError(self.folder, problem, REMEDY))
            self._on_problem(self.problem)

    def _finish(self) -> None:
        if self._writer.storage is None:
            return
        file = self._writer.file.file
        with self._lock:
            if file.removed:
                self._report("was removed while it was recorded")
                self.dropped, self._written = self.dropped + self._written, 0
                self._writer.abort()
                return
            try:
                self._writer.close()
            except OSError as error:
                self._report(f"the recording ended early ({reason_of(error)})")
                self._writer.abort()  # without its end, as after a kill: for report, replay and repair
            if file.problem is not None:
                self._report(f"the recording ended early ({reason_of(file.problem)})")


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
