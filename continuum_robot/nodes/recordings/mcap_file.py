# SPDX-License-Identifier: Apache-2.0
"""MCAP files read from the front, as far as their records are complete, also where they were cut off in the middle.

rosbags and most tools need the index at the end, which a killed recorder never wrote. Records are parsed by mcap. No
ROS is needed here.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.stream_reader import breakup_chunk

from continuum_robot.errors import RecordingError

METADATA_NAME = "continuum_robot"
"""Name of the metadata records with what the recorder knows of the run; later ones add to earlier ones."""
MAGIC = b"\x89MCAP0\r\n"
PROFILE = "ros2"

_RECORD_HEAD = struct.Struct("<BQ")
_PASSED_OVER = (Opcode.MESSAGE_INDEX, Opcode.CHUNK_INDEX)
_READ: dict[int, Callable[[ReadDataStream], records.McapRecord]] = {
    Opcode.HEADER: records.Header.read,
    Opcode.SCHEMA: records.Schema.read,
    Opcode.CHANNEL: records.Channel.read,
    Opcode.METADATA: records.Metadata.read,
    Opcode.CHUNK: records.Chunk.read,
}


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic in a file: its full name, the message type with its encoding and definition, and the QoS it was offered.

    ``message_encoding`` is ``cdr`` for ROS 2; ``qos`` is rosbag2's YAML, empty where it is not reported.
    """

    topic: str
    type_name: str
    message_encoding: str
    definition_encoding: str
    definition: str
    qos: str


@dataclass(frozen=True, slots=True)
class Message:
    """A serialised message, and when the recorder took it, ns."""

    channel: Channel
    time_ns: int
    data: bytes


@dataclass
class McapScan:
    """What a file holds from its front on, as far as it is complete."""

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
        """All messages in the order of the file."""
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


def find_mcap_files(folder: Path) -> list[Path]:
    """The MCAP files in a folder; the parts of a recording that was split (``a_0``, ``a_1``) in their order."""
    files = [path for path in folder.glob("*.mcap") if path.is_file()]
    return sorted(files, key=lambda path: (part_of(path), path.name))


def part_of(file: Path) -> tuple[str, int]:
    """Name of the recording of which a file is a part, and which part it is, as ros2 bag splits; -1: of no
    split one.
    """
    name, _, number = file.stem.rpartition("_")
    return (name, int(number)) if name and number.isascii() and number.isdecimal() else (file.stem, -1)
