# SPDX-License-Identifier: Apache-2.0
"""MCAP files as the recorder writes them, and how one is read that was cut off in the middle.

Written: chunks that are handed to the operating system whole, and metadata records that lie before and between them, so
that a file without its end still reports what it holds. Read: from the front, as far as the records are complete;
rosbags and most tools need the index at the end, which a killed recorder never wrote. The records themselves are those
of mcap, whose own writer neither takes back a chunk nor leaves room for the index. No ROS is needed here.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from mcap import records
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.stream_reader import breakup_chunk
from rosbags.interfaces import Connection
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter, PendingChunk, write_channel, write_schema

from continuum_robot.errors import RecordingError

CHUNK_BYTES = 2**18
METADATA_NAME = "continuum_robot"
"""Name of the metadata records with what the recorder knows of the run; later ones add to earlier ones."""

MAGIC = b"\x89MCAP0\r\n"
LIBRARY = "continuum_robot"
PROFILE = "ros2"

# Opcode, length of what follows, channel, sequence, log time, publish time.
_MESSAGE_RECORD = struct.Struct("<BQHIQQ")
_RECORD_HEAD = struct.Struct("<BQ")
_NO_TIME = 2**63 - 1
_PASSED_OVER = (Opcode.MESSAGE_INDEX, Opcode.CHUNK_INDEX)
_READ: dict[int, Callable[[ReadDataStream], records.McapRecord]] = {
    Opcode.HEADER: records.Header.read,
    Opcode.SCHEMA: records.Schema.read,
    Opcode.CHANNEL: records.Channel.read,
    Opcode.METADATA: records.Metadata.read,
    Opcode.CHUNK: records.Chunk.read,
}


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
        file.write(MAGIC + _written(records.Header(PROFILE, LIBRARY)))
        self.file = file
        self.bio = file  # type: ignore[assignment]
        self._ends: list[tuple[int, dict[int, int]]] = []
        self._indexes: list[records.ChunkIndex] = []
        self._metadata: list[records.MetadataIndex] = []

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Write a metadata record at once, whole or, where :class:`OSError` is raised, not at all.

        Parameters
        ----------
        name : of the record
        values : text by key
        """
        start = self.file.tell()
        data = _written(records.Metadata(name, dict(values)))
        try:
            self.file.write(data)
        except OSError:
            self.cut(start)
            raise
        self._metadata.append(records.MetadataIndex(start, len(data), name))

    def close_chunk(self) -> None:
        """Write the pending chunk whole, or not at all."""
        counts = {channel: len(messages) for channel, messages in self.chunk.msgs.items()}
        start = self.file.tell()
        try:
            index = self._write_chunk(self.chunk)
        except OSError:
            self.cut(start)
            raise
        self._indexes.append(index)
        self._ends.append((start, counts))
        self.chunk = _empty_chunk()

    def _write_chunk(self, chunk: PendingChunk) -> records.ChunkIndex:
        """Write a chunk and its message indexes; gives its entry in the summary."""
        messages = chunk.bio.getvalue()
        stored = self.compressor(messages)
        begin_ns = chunk.message_start_time if chunk.msgs else 0
        start = self.file.tell()
        whole = records.Chunk(
            compression=self.compression,
            data=stored,
            message_end_time=chunk.message_end_time,
            message_start_time=begin_ns,
            uncompressed_crc=zlib.crc32(messages),
            uncompressed_size=len(messages),
        )
        self.file.write(_written(whole))
        end = self.file.tell()
        places = {}
        for channel, entries in chunk.msgs.items():
            places[channel] = self.file.tell()
            self.file.write(_written(records.MessageIndex(channel, entries)))
        return records.ChunkIndex(
            chunk_length=end - start,
            chunk_start_offset=start,
            compression=self.compression,
            compressed_size=len(stored),
            message_end_time=chunk.message_end_time,
            message_index_length=self.file.tell() - end,
            message_index_offsets=places,
            message_start_time=begin_ns,
            uncompressed_size=len(messages),
        )

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
        chunk.bio.write(_MESSAGE_RECORD.pack(Opcode.MESSAGE, length, channel, 0, timestamp, timestamp))
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
        self._indexes.pop()
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
        self.file.write(_written(records.DataEnd(0)))
        self._write_summary()
        self.file.close()

    def _write_summary(self) -> None:
        total = sum(self.channel_stats.values())
        statistics = records.Statistics(
            attachment_count=0,
            channel_count=len(self.channels),
            channel_message_counts=dict(sorted(self.channel_stats.items())),
            chunk_count=len(self._indexes),
            message_count=total,
            message_end_time=self.message_end_time,
            message_start_time=self.message_start_time if total else 0,
            metadata_count=len(self._metadata),
            schema_count=len(self.schemas),
        )
        groups = {
            Opcode.SCHEMA: b"".join(_of_rosbags(write_schema, schema) for schema in self.schemas),
            Opcode.CHANNEL: b"".join(_of_rosbags(write_channel, channel, self.schemas) for channel in self.channels),
            Opcode.CHUNK_INDEX: b"".join(map(_written, self._indexes)),
            Opcode.METADATA_INDEX: b"".join(map(_written, self._metadata)),
            Opcode.STATISTICS: _written(statistics),
        }
        summary_start = self.file.tell()
        offsets = b""
        for opcode, data in groups.items():
            if data:
                offsets += _written(records.SummaryOffset(opcode, self.file.tell(), len(data)))
                self.file.write(data)
        offsets_start = self.file.tell()
        self.file.write(offsets + _written(records.Footer(summary_start, offsets_start, 0)) + MAGIC)

    def cut(self, position: int) -> None:
        """Forget what lies behind ``position`` in the file."""
        self.file.cut(position)
        self._metadata = [place for place in self._metadata if place.offset < position]

    def _uncount(self, counts: Mapping[int, int]) -> None:
        for channel, number in counts.items():
            self.channel_stats[channel] -= number


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic in a file: its full name, the message type with its encoding and definition, and the QoS it was offered.

    ``message_encoding`` is ``cdr`` for ROS 2; ``qos`` is rosbag2's YAML, empty where it is not reported.

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
    _schemas: dict[int, records.Schema] = field(default_factory=dict)

    @property
    def note(self) -> dict[str, str]:
        """What the recorder of this package reported of the run, empty where another one wrote the file."""
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
            if opcode in _PASSED_OVER or (opcode in (Opcode.CHUNK, Opcode.MESSAGE) and not chunks):
                stream.seek(length, os.SEEK_CUR)
                continue
            data = stream.read(length)
            if opcode == Opcode.FOOTER:
                self.complete = stream.read(len(MAGIC)) == MAGIC
                self.lost_bytes = 0 if self.complete else self.lost_bytes
                return
            try:
                yield from self._record(opcode, data)
            except _DamagedError:
                # Zeros or rubbish, as a file system leaves them behind the last write before the power failed.
                return

    def _record(self, opcode: int, data: bytes) -> Iterator[Message]:
        if opcode == Opcode.MESSAGE:
            yield self._message(_parsed(lambda stream: records.Message.read(stream, len(data)), data))
        elif opcode in _READ:
            record = _parsed(_READ[opcode], data)
            if isinstance(record, records.Chunk):
                for inner in _parsed(lambda _: breakup_chunk(record, validate_crc=True), data):
                    if isinstance(inner, records.Message):
                        yield self._message(inner)
                    else:
                        self._take(inner)
            else:
                self._take(record)

    def _message(self, record: records.Message) -> Message:
        channel = self.channels.get(record.channel_id)
        if channel is None:
            raise _DamagedError
        return Message(channel, record.log_time, record.data)

    def _take(self, record: records.McapRecord) -> None:
        if isinstance(record, records.Header):
            self.profile, self.library = record.profile, record.library
        elif isinstance(record, records.Schema):
            self._schemas[record.id] = record
        elif isinstance(record, records.Channel):
            schema = self._schemas.get(record.schema_id, records.Schema(0, b"", "", ""))
            self.channels[record.id] = Channel(
                record.topic,
                schema.name,
                record.message_encoding,
                schema.encoding,
                schema.data.decode(errors="replace"),
                record.metadata.get("offered_qos_profiles", ""),
            )
        elif isinstance(record, records.Metadata):
            self.metadata.setdefault(record.name, {}).update(record.metadata)


class _DamagedError(Exception):
    """A record that is none."""


def _parsed(read: Callable[[ReadDataStream], Any], data: bytes) -> Any:
    """What a reading function of mcap makes of a record. Raises :class:`_DamagedError`."""
    try:
        return read(_Fields(io.BytesIO(data)))
    except Exception as error:  # those of mcap, struct and the decompressors have no common base
        raise _DamagedError from error


class _Fields(ReadDataStream):
    """mcap's own gives what is left of a text that is cut off."""

    def read(self, length: int) -> bytes:
        """So many bytes. Raises :class:`EndOfFile` where there are fewer."""
        data = super().read(length)
        if len(data) < length:
            raise EndOfFile
        return data


def _empty_chunk() -> PendingChunk:
    return PendingChunk(_NO_TIME, 0, io.BytesIO(), defaultdict(list))


def _written(record: records.McapRecord) -> bytes:
    builder = RecordBuilder()
    record.write(builder)
    return bytes(builder.end())


def _of_rosbags(write: Any, *arguments: Any) -> bytes:
    """What a writing function of rosbags writes."""
    stream = io.BytesIO()
    write(stream, *arguments)
    return stream.getvalue()


def find_mcap_files(folder: Path) -> list[Path]:
    """The MCAP files in a folder, in the order of their names."""
    return sorted(path for path in folder.glob("*.mcap") if path.is_file())
