# SPDX-License-Identifier: Apache-2.0
"""MCAP files: what the recorder noted in them, and their messages from the front on, of files that were cut off too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mcap import records
from mcap.exceptions import InvalidMagic
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader, breakup_chunk

from continuum_robot.errors import RecordingError

_LONGEST_REASON = 200


@contextlib.contextmanager
def readable(bag: Path) -> Iterator[None]:
    """While a recording is opened and its messages are taken apart."""
    try:
        yield
    except RecordingError:
        raise
    # In a damaged or foreign file rosbags, and what takes its messages apart, meet whatever a byte can be taken for:
    # KeyError, struct.error, MemoryError, AttributeError and more, without a common base.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise RecordingError(
            bag,
            f"cannot be read as a recording ({reason})",
            "Give the folder of a run, the folder of a recording, or a file that ends in .mcap",
        ) from error


METADATA_NAME = "continuum_robot"
"""Name of the metadata records with what the recorder knows of the run; later ones add to earlier ones."""
MAGIC = b"\x89MCAP0\r\n"
PROFILE = "ros2"
EPISODE = "episode"
"""Topic of the marks of episodes, std_msgs/String, one of the words below."""
BEGIN, SUCCESS, DISCARD = "begin", "success", "discard"


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic in a file; ``qos``: rosbag2's YAML of what was offered, empty where it is not noted."""

    topic: str
    type_name: str
    message_encoding: str
    definition: str
    qos: str


@dataclass(frozen=True, slots=True)
class Message:
    """A serialised message, and when the recorder took it, ns."""

    channel: Channel
    time_ns: int
    data: bytes


def profile_of(file: Path) -> str:
    """``ros2``, or what another program's file says."""
    with readable(file), file.open("rb") as stream:
        try:
            return make_reader(stream).get_header().profile
        except InvalidMagic as error:
            raise RecordingError(file, "is no MCAP file", "Give a recording, a file that ends in .mcap") from error


def note_of(file: Path) -> dict[str, str]:
    """What the recorder of this package reported of the run; empty where another one wrote the file."""
    note: dict[str, str] = {}
    with readable(file), file.open("rb") as stream:
        for record in make_reader(stream).iter_metadata():
            note |= record.metadata if record.name == METADATA_NAME else {}
    return note


@dataclass
class McapScan:
    """Reads a file from its front on, as far as its records are whole; the fields are complete behind the last."""

    file: Path
    profile: str = ""
    channels: dict[int, Channel] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    complete: bool = False
    lost_bytes: int = 0
    _schemas: dict[int, records.Schema] = field(default_factory=dict)

    def messages(self) -> Iterator[Message]:
        """All messages in the order of the file."""
        try:
            size = self.lost_bytes = self.file.stat().st_size
            with self.file.open("rb") as stream:
                reader = StreamReader(stream, emit_chunks=True, record_size_limit=size)
                for record in reader.records:
                    whole = breakup_chunk(record, validate_crc=True) if isinstance(record, records.Chunk) else [record]
                    for one in whole:
                        if isinstance(one, records.Message):
                            yield Message(self.channels[one.channel_id], one.log_time, one.data)
                        else:
                            self._take(one)
                    self.lost_bytes = size - stream.tell()
            self.complete, self.lost_bytes = True, 0
        except OSError as error:
            raise RecordingError(self.file, f"cannot be read ({error.strerror})", "Give a recording") from error
        except Exception:
            # The end is missing, or is zeros or rubbish, as file systems leave them behind the last write before the
            # power failed. What mcap, struct and the decompressors raise then has no common base.
            return

    def _take(self, record: records.McapRecord) -> None:
        if isinstance(record, records.Header):
            self.profile = record.profile
        elif isinstance(record, records.Schema):
            self._schemas[record.id] = record
        elif isinstance(record, records.Channel):
            schema = self._schemas.get(record.schema_id, records.Schema(0, b"", "", ""))
            self.channels[record.id] = Channel(
                record.topic,
                schema.name,
                record.message_encoding,
                schema.data.decode(errors="replace"),
                record.metadata.get("offered_qos_profiles", ""),
            )
        elif isinstance(record, records.Metadata):
            self.metadata.setdefault(record.name, {}).update(record.metadata)


def find_mcap_files(folder: Path) -> list[Path]:
    """The MCAP files in a folder; the parts of a recording that was split (``a_0``, ``a_1``) in their order."""
    files = [path for path in folder.glob("*.mcap") if path.is_file()]
    return sorted(files, key=lambda path: (part_of(path), path.name))


def part_of(file: Path) -> tuple[str, int]:
    """The recording of which a file is a part, and which part, as ros2 bag splits; -1: it is not split."""
    name, _, number = file.stem.rpartition("_")
    return (name, int(number)) if name and number.isascii() and number.isdecimal() else (file.stem, -1)
