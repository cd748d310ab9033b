# SPDX-License-Identifier: Apache-2.0
"""Makes a recording that was cut off readable again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rosbags.interfaces import (
    Connection,
)
from rosbags.rosbag2 import StoragePlugin, WriterError
from rosbags.rosbag2.metadata import parse_qos

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.bag_reading import readable
from continuum_robot.nodes.recordings.mcap_file import MAGIC, PROFILE, McapScan, Message
from continuum_robot.nodes.recordings.mcap_writer import ChunkedMcapWriter
from continuum_robot.nodes.recordings.writing import REMEDY, BagWriter, message_type_hash, reason_of


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What could be saved of a recording: how many messages, and how many bytes behind the last whole record."""

    messages: int
    lost_bytes: int


def repair(files: Sequence[Path], folder: Path) -> RepairReport:
    """Copy what is readable of a recording into a new one with its index and metadata.yaml."""
    # Of a part that had just been begun the file may be there and empty.
    begun = [file for file in files if len(files) == 1 or file.stat().st_size >= len(MAGIC)]
    scans = [McapScan(file).read_metadata() for file in begun]
    for scan in scans:
        if scan.profile != PROFILE:
            raise RecordingError(scan.file, f"has the profile {scan.profile or 'none'!r}", "Give a recording of ROS 2")
    connections: dict[tuple[str, str], Connection] = {}
    saved = 0
    try:
        writer = BagWriter(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    except WriterError as error:
        raise RecordingError(folder, f"cannot be written ({error})", "Choose another folder") from error
    try:
        writer.open()
        storage = writer.storage
        for scan in scans:
            for name, values in scan.metadata.items():
                if name != "rosbag2" and isinstance(storage, ChunkedMcapWriter):
                    storage.add_metadata(name, values)
            for name, text in scan.note.items():
                writer.set_custom_data(name, text)
        for file, message in _messages(scans):
            channel = message.channel
            key = channel.topic, channel.type_name
            if key not in connections:
                with readable(file):
                    qos = parse_qos(channel.qos) if channel.qos else ()
                    hash_text = message_type_hash(channel.type_name, channel.definition, file)
                connections[key] = writer.add_connection(
                    channel.topic,
                    channel.type_name,
                    msgdef=channel.definition,
                    rihs01=hash_text,
                    serialization_format=channel.message_encoding,
                    offered_qos_profiles=qos,
                )
            writer.write(connections[key], message.time_ns, message.data)
            saved += 1
        if not saved:
            raise RecordingError(files[0], "holds no message", "There is nothing to repair")
        writer.close()
    except (OSError, WriterError) as error:
        raise RecordingError(folder, f"cannot be written ({reason_of(error)})", REMEDY) from error
    finally:
        if writer.storage is not None:
            writer.abort()
    unread = sum(file.stat().st_size for file in files if file not in begun)
    return RepairReport(saved, unread + sum(scan.lost_bytes for scan in scans))


def _messages(scans: Sequence[McapScan]) -> Iterator[tuple[Path, Message]]:
    for scan in scans:
        for message in scan.messages():
            yield scan.file, message
