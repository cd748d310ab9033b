# SPDX-License-Identifier: Apache-2.0
"""MCAP files as the recorder writes them, record by record with mcap, whose own writer takes back no chunk.

Chunks are handed to the operating system whole, and metadata records lie before and between them, so that a file
without its end is still readable. The newest chunks can be dropped, so that the index fits on a full disk.
"""

from __future__ import annotations

import errno
import io
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcap import records
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from rosbags.interfaces import Connection
from rosbags.rosbag2.enums import CompressionMode
from rosbags.rosbag2.storage_mcap import McapWriter, PendingChunk, write_channel, write_schema

from continuum_robot.nodes.recordings.mcap_file import MAGIC, PROFILE

CHUNK_BYTES = 2**18
LIBRARY = "continuum_robot"

# Opcode, length of what follows, channel, sequence, log time, publish time.
_MESSAGE_RECORD = struct.Struct("<BQHIQQ")
_NO_TIME = 2**63 - 1


class _File(io.RawIOBase):
    """A file whose writes are complete or raise, without a buffer that could fail later."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
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

    @property
    def removed(self) -> bool:
        """Whether no name leads to the file any more; writes to it succeed all the same."""
        return os.fstat(self._descriptor).st_nlink == 0

    def check_there(self) -> None:
        """Raise :class:`OSError` if the path does not lead to this file any more: removed, moved or unmounted."""
        if not os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
            raise FileNotFoundError(errno.ENOENT, "another file has taken its place", str(self._path))

    def writable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class ChunkedMcapWriter(McapWriter):
    """rosbags' MCAP storage with metadata records, which can drop its newest chunks so that the index fits
    on the disk.
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
        """Write a metadata record at once, whole or, where :class:`OSError` is raised, not at all."""
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
        """Add a message; chunks are small, since a full disk costs the newest ones."""
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
        """Write what is pending, then the summary that makes the file quick to open, and close it."""
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
