# SPDX-License-Identifier: Apache-2.0
"""Makes a recording that was cut off readable again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rosbags.interfaces import Connection
from rosbags.rosbag2 import WriterError
from rosbags.rosbag2.metadata import parse_qos

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.mcap_file import MAGIC, METADATA_NAME, PROFILE, McapScan, profile_of, readable
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
    for file in begun:
        if (profile := profile_of(file)) != PROFILE:
            raise RecordingError(file, f"has the profile {profile or 'none'!r}", "Give a recording of ROS 2")
    connections: dict[tuple[str, str], Connection] = {}
    saved, lost_bytes = 0, sum(file.stat().st_size for file in files if file not in begun)
    note: dict[str, str] = {}
    try:
        writer = BagWriter(folder)
    except (OSError, WriterError) as error:
        raise RecordingError(folder, f"cannot be written ({reason_of(error)})", "Choose another folder") from error
    try:
        for scan in map(McapScan, begun):
            for message in scan.messages():
                channel = message.channel
                key = channel.topic, channel.type_name
                if key not in connections:
                    with readable(scan.file):
                        qos = parse_qos(channel.qos) if channel.qos else ()
                        hash_text = message_type_hash(channel.type_name, channel.definition, scan.file)
                    connections[key] = writer.add_connection(
                        channel.topic,
                        channel.type_name,
                        msgdef=channel.definition,
                        rihs01=hash_text,
                        serialization_format=channel.message_encoding,
                        offered_qos_profiles=qos,
                    )
                writer.put(connections[key], message.time_ns, message.data)
                saved += 1
            lost_bytes += scan.lost_bytes
            for name, values in scan.metadata.items():
                if name == METADATA_NAME:
                    note |= values
                elif name != "rosbag2":
                    writer.note(values, name)
        if not saved:
            raise RecordingError(files[0], "holds no message", "There is nothing to repair")
        writer.note(note)
        writer.close()
    except (OSError, WriterError) as error:
        raise RecordingError(folder, f"cannot be written ({reason_of(error)})", REMEDY) from error
    finally:
        if writer.storage is not None:
            writer.abort()
    return RepairReport(saved, lost_bytes)
