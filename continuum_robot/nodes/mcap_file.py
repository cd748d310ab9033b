# SPDX-License-Identifier: Apache-2.0
"""MCAP files as the recorder writes them, and how one is read that was cut off in the middle.

Written: chunks that are handed to the operating system whole, and metadata records that lie before and between them, so
that a file without its end still reports what it holds. Read: from the front, as far as the records are complete;
rosbags and most tools need the index at the end, which a killed recorder never wrote. No ROS is needed here.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rosbags.interfaces import Connection
from rosbags.rosbag2 import ReaderError
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import (
    McapWriter,
    PendingChunk,
    decompress,
    write_channel,
    write_record,
    write_schema,
)

from continuum_robot.errors import RecordingError

CHUNK_BYTES = 2**18
METADATA_NAME = "continuum_robot"
"""Name of the metadata records with what the recorder knows of the run; later ones add to earlier ones."""

MAGIC = b"\x89MCAP0\r\n"
LIBRARY = "continuum_robot"
PROFILE = "ros2"

# Opcodes of the MCAP format's records.
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX, _CHUNK_INDEX = range(0x01, 0x09)
_STATISTICS, _METADATA, _METADATA_INDEX, _SUMMARY_OFFSET, _DATA_END = 0x0B, 0x0C, 0x0D, 0x0E, 0x0F

# Opcode, length of what follows, channel, sequence, log time, publish time.
_MESSAGE_RECORD = struct.Struct("<BQHIQQ")
_MESSAGE_HEAD = struct.Struct("<HIQQ")
_RECORD_HEAD = struct.Struct("<BQ")
_CHUNK_HEAD = struct.Struct("<QQQI")
_NO_TIME = 2**63 - 1


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


@dataclass(frozen=True, slots=True)
class _MetadataPlace:
    name: str
    start: int
    length: int


class ChunkedMcapWriter(McapWriter):
    """rosbags' MCAP storage with metadata records, which can drop its newest chunks so that the index fits on the disk.

    Parameters
    ----------
    path : folder of the bag; the file gets its name
    compression : as rosbags asks for it
    """

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        super().__init__(path, compression)
        self.bio.close()
        self.path.unlink()
        file = _File(self.path)
        file.write(MAGIC + _record(_HEADER, _text(PROFILE) + _text(LIBRARY)))
        self.file = file
        self.bio = file  # type: ignore[assignment]
        self._ends: list[tuple[int, dict[int, int]]] = []
        self._metadata: list[_MetadataPlace] = []

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record at once, whole or, where :class:`OSError` is raised, not at all.

        Parameters
        ----------
        name : of the record
        values : text by key
        """
        start = self.file.tell()
        data = _record(_METADATA, _text(name) + _map(values))
        try:
            self.file.write(data)
        except OSError:
            self.cut(start)
            raise
        self._metadata.append(_MetadataPlace(name, start, len(data)))

    def close_chunk(self) -> None:
        """Write the pending chunk whole, or not at all."""
        counts = {channel: len(messages) for channel, messages in self.chunk.msgs.items()}
        start = self.file.tell()
        try:
            index = self._write_chunk(self.chunk)
        except OSError:
            self.cut(start)
            raise
        self.chunks.append(index)
        self._ends.append((start, counts))
        self.chunk = _empty_chunk()

    def _write_chunk(self, chunk: PendingChunk) -> io.BytesIO:
        """Write a chunk and its message indexes; gives its entry in the summary."""
        records = chunk.bio.getvalue()
        stored = self.compressor(records)
        times = (chunk.message_start_time if chunk.msgs else 0, chunk.message_end_time)
        start = self.file.tell()
        head = _CHUNK_HEAD.pack(*times, len(records), zlib.crc32(records)) + _text(self.compression)
        self.file.write(_record(_CHUNK, head + struct.pack("<Q", len(stored)) + stored))
        end = self.file.tell()
        places = []
        for channel, messages in chunk.msgs.items():
            places.append(struct.pack("<HQ", channel, self.file.tell()))
            entries = b"".join(struct.pack("<QQ", *entry) for entry in messages)
            self.file.write(_record(_MESSAGE_INDEX, struct.pack("<HI", channel, len(entries)) + entries))
        index = io.BytesIO()
        index.write(struct.pack("<QQQQ", *times, start, end - start))
        index.write(_sized(b"".join(places)) + struct.pack("<Q", self.file.tell() - end))
        index.write(_text(self.compression) + struct.pack("<QQ", len(stored), len(records)))
        return index

    def write(self, connection: Connection, timestamp: int, data: bytes | memoryview) -> None:
        """Add a message; chunks are small, since a full disk costs the newest ones.

        Parameters
        ----------
        timestamp : ns since the epoch
        data : the serialised message
        """
        chunk, channel = self.chunk, connection.id
        self.message_start_time = min(timestamp, self.message_start_time)
        self.message_end_time = max(timestamp, self.message_end_time)
        self.channel_stats[channel] += 1
        chunk.message_start_time = min(timestamp, chunk.message_start_time)
        chunk.message_end_time = max(timestamp, chunk.message_end_time)
        chunk.msgs[channel].append((timestamp, chunk.bio.tell()))
        # One record in two writes: rosbags' own way takes eight, at a thousand messages a second.
        length = _MESSAGE_RECORD.size - 9 + len(data)
        chunk.bio.write(_MESSAGE_RECORD.pack(_MESSAGE, length, channel, 0, timestamp, timestamp))
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
            return False
        start, counts = self._ends.pop()
        self.chunks.pop()
        self.cut(start)
        self._uncount(counts)
        return True

    def drop_pending(self) -> None:
        """Forget the messages that are not in the file yet."""
        self._uncount({channel: len(messages) for channel, messages in self.chunk.msgs.items()})
        self.chunk = _empty_chunk()

    @property
    def end(self) -> int:
        """Where the chunks end in the file."""
        return self.file.tell()

    def close(self, version: int, metadata: str) -> None:
        """Write what is pending, then the summary that makes the file quick to open, and close it.

        Parameters
        ----------
        version : of rosbag2, which is written in ``metadata`` too
        metadata : rosbag2's own, YAML
        """
        _ = version
        if self.chunk.bio.tell():
            self.close_chunk()
        # rosbag2 reads it where metadata.yaml is missing.
        self.add_metadata("rosbag2", {"serialized_metadata": metadata})
        self.file.write(_record(_DATA_END, bytes(4)))
        self._write_summary()
        self.file.close()

    def _write_summary(self) -> None:
        groups: dict[int, bytes] = {_SCHEMA: b"", _CHANNEL: b"", _CHUNK_INDEX: b"", _METADATA_INDEX: b""}
        for schema in self.schemas:
            groups[_SCHEMA] += _written(write_schema, schema)
        for channel in self.channels:
            groups[_CHANNEL] += _written(write_channel, channel, self.schemas)
        groups[_CHUNK_INDEX] = b"".join(_written(write_record, _CHUNK_INDEX, chunk) for chunk in self.chunks)
        for place in self._metadata:
            groups[_METADATA_INDEX] += _record(
                _METADATA_INDEX, struct.pack("<QQ", place.start, place.length) + _text(place.name)
            )
        counts = b"".join(struct.pack("<HQ", *item) for item in sorted(self.channel_stats.items()))
        total = sum(self.channel_stats.values())
        numbers = (total, len(self.schemas), len(self.channels), 0, len(self._metadata), len(self.chunks))
        groups[_STATISTICS] = _record(
            _STATISTICS,
            struct.pack("<QHIIII", *numbers)
            + struct.pack("<QQ", self.message_start_time if total else 0, self.message_end_time)
            + _sized(counts),
        )
        summary_start = self.file.tell()
        offsets = b""
        for opcode, data in groups.items():
            if data:
                offsets += _record(_SUMMARY_OFFSET, struct.pack("<BQQ", opcode, self.file.tell(), len(data)))
                self.file.write(data)
        offsets_start = self.file.tell()
        self.file.write(offsets + _record(_FOOTER, struct.pack("<QQI", summary_start, offsets_start, 0)) + MAGIC)

    def cut(self, position: int) -> None:
        """Forget what lies behind ``position`` in the file."""
        self.file.cut(position)
        self._metadata = [place for place in self._metadata if place.start < position]

    def _uncount(self, counts: Mapping[int, int]) -> None:
        for channel, number in counts.items():
            self.channel_stats[channel] -= number


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic in a file: its full name, the message type with its encoding and definition, and the QoS it was offered.

    ``message_encoding`` is ``cdr`` for ROS 2; ``qos`` is rosbag2's YAML, empty where it is not said.

    Attributes
    ----------
    type_name : of the message, such as ``continuum_robot/msg/Shape``
    definition_encoding : ``ros2msg``
    """

    topic: str
    type_name: str
    message_encoding: str
    definition_encoding: str
    definition: str
    qos: str


@dataclass(frozen=True, slots=True)
class Message:
    """A serialised message, and when the recorder took it, ns.

    Attributes
    ----------
    time_ns : since the epoch, ns
    data : the message
    """

    channel: Channel
    time_ns: int
    data: bytes


@dataclass
class McapScan:
    """What a file holds from its front on, as far as it is complete.

    Attributes
    ----------
    file : the file
    profile, library : what its header states: ``ros2`` and who wrote it
    channels : by their number in the file
    metadata : values of each metadata record, those of the same name merged
    complete : whether the file's end was met, index and all; set when everything was read
    lost_bytes : how much lies behind the last complete record
    """

    file: Path
    profile: str = ""
    library: str = ""
    channels: dict[int, Channel] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    complete: bool = False
    lost_bytes: int = 0
    _schemas: dict[int, tuple[str, str, str]] = field(default_factory=dict)

    @property
    def note(self) -> dict[str, str]:
        """What the recorder of this package said of the run, empty where another one wrote the file."""
        return self.metadata.get(METADATA_NAME, {})

    def messages(self) -> Iterator[Message]:
        """All messages in the order of the file.

        Raises
        ------
        RecordingError : not an MCAP file, or not readable
        """
        yield from self._walk(chunks=True)

    def read_metadata(self) -> McapScan:
        """Read header and metadata records, passing over the messages; gives itself. Raises as :meth:`messages`."""
        for _ in self._walk(chunks=False):
            break
        return self

    def _walk(self, *, chunks: bool) -> Iterator[Message]:
        try:
            with self.file.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if stream.read(len(MAGIC)) != MAGIC:
                    raise RecordingError(self.file, "is no MCAP file", "Give a recording, a file that ends in .mcap")
                yield from self._records(stream, size, chunks=chunks)
        except OSError as error:
            raise RecordingError(self.file, f"cannot be read ({error.strerror})", "Give a recording") from error

    def _records(self, stream: BinaryIO, size: int, *, chunks: bool) -> Iterator[Message]:
        while True:
            start = stream.tell()
            self.lost_bytes = size - start
            head = stream.read(_RECORD_HEAD.size)
            if len(head) < _RECORD_HEAD.size:
                return
            opcode, length = _RECORD_HEAD.unpack(head)
            if stream.tell() + length > size:
                return
            if opcode in (_MESSAGE_INDEX, _CHUNK_INDEX) or (opcode in (_CHUNK, _MESSAGE) and not chunks):
                stream.seek(length, os.SEEK_CUR)
                continue
            data = stream.read(length)
            try:
                if opcode == _CHUNK:
                    yield from self._chunk(data)
                elif opcode == _FOOTER:
                    self.complete = stream.read(len(MAGIC)) == MAGIC
                    self.lost_bytes = 0 if self.complete else self.lost_bytes
                    return
                else:
                    yield from self._record(opcode, data)
            except (ReaderError, struct.error, UnicodeDecodeError, KeyError):
                # Zeros or rubbish, as a file system leaves them behind the last write before the power failed.
                return

    def _chunk(self, data: bytes) -> Iterator[Message]:
        _, _, size, crc = _CHUNK_HEAD.unpack_from(data)
        reader = _Fields(data, _CHUNK_HEAD.size)
        compression = reader.text()
        (length,) = reader.unpack("<Q")
        try:
            records = decompress(reader.take(length), compression, size, crc)
        except Exception as error:  # the decompressors' own errors have no common base
            raise ReaderError from error
        place = 0
        while place < len(records):
            opcode, length = _RECORD_HEAD.unpack_from(records, place)
            place += _RECORD_HEAD.size
            yield from self._record(opcode, records[place : place + length])
            place += length

    def _record(self, opcode: int, data: bytes) -> Iterator[Message]:
        if opcode == _MESSAGE:
            number, _, time_ns, _ = _MESSAGE_HEAD.unpack_from(data)
            yield Message(self.channels[number], time_ns, data[_MESSAGE_HEAD.size :])
            return
        reader = _Fields(data)
        if opcode == _HEADER:
            self.profile, self.library = reader.text(), reader.text()
        elif opcode == _SCHEMA:
            (number,) = reader.unpack("<H")
            self._schemas[number] = (reader.text(), reader.text(), reader.text())
        elif opcode == _CHANNEL:
            number, schema = reader.unpack("<HH")
            type_name, definition_encoding, definition = self._schemas.get(schema, ("", "", ""))
            topic, message_encoding = reader.text(), reader.text()
            qos = reader.mapping().get("offered_qos_profiles", "")
            self.channels[number] = Channel(topic, type_name, message_encoding, definition_encoding, definition, qos)
        elif opcode == _METADATA:
            self.metadata.setdefault(reader.text(), {}).update(reader.mapping())


class _Fields:
    """Takes the fields of a record one after the other. Raises :class:`struct.error` behind its end."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self._data, self._place = data, place

    def take(self, length: int) -> bytes:
        part = self._data[self._place : self._place + length]
        if len(part) < length:
            raise struct.error
        self._place += length
        return part

    def unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        return self.take(*self.unpack("<I")).decode()

    def mapping(self) -> dict[str, str]:
        inner = _Fields(self.take(*self.unpack("<I")))
        found = {}
        while inner._place < len(inner._data):
            key = inner.text()
            found[key] = inner.text()
        return found


def _empty_chunk() -> PendingChunk:
    return PendingChunk(_NO_TIME, 0, io.BytesIO(), defaultdict(list))


def _record(opcode: int, data: bytes) -> bytes:
    return _RECORD_HEAD.pack(opcode, len(data)) + data


def _sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _map(values: Mapping[str, str]) -> bytes:
    return _sized(b"".join(_text(key) + _text(value) for key, value in values.items()))


def _written(write: Any, *arguments: Any) -> bytes:
    """What a writing function of rosbags writes."""
    stream = io.BytesIO()
    write(stream, *arguments)
    return stream.getvalue()


def find_mcap_files(folder: Path) -> list[Path]:
    """The MCAP files in a folder, in the order of their names."""
    return sorted(path for path in folder.glob("*.mcap") if path.is_file())
