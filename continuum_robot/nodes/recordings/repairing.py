# SPDX-License-Identifier: Apache-2.0
"""Makes a recording that was cut off readable again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rosbags.interfaces import (
    Connection,
)
from rosbags.rosbag2 import StoragePlugin, WriterError
from rosbags.rosbag2.metadata import parse_qos

from continuum_robot.errors import RecordingError
from continuum_robot.nodes.recordings.bag_reading import readable
from continuum_robot.nodes.recordings.mcap_file import PROFILE, McapScan
from continuum_robot.nodes.recordings.mcap_writer import ChunkedMcapWriter
from continuum_robot.nodes.recordings.writing import REMEDY, BagWriter, message_type_hash, reason_of


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What could be saved of a recording: how many messages, and how many bytes behind the last whole record.

    Attributes
    ----------
    messages : how many were saved
    lost_bytes : behind the last whole record
    """

    messages: int
    lost_bytes: int


def repair(file: Path, folder: Path) -> RepairReport:
    """Copy what is readable of an MCAP file into a new recording with its index and metadata.yaml.

    Parameters
    ----------
    file : an MCAP file that was cut off, as by a killed recorder; it is left as it is
    folder : of the new recording; must not exist

    Returns
    -------
    what was saved

    Raises
    ------
    RecordingError : not an MCAP file of ROS 2, nothing readable in it, or the new one cannot be written
    """
    scan = McapScan(file).read_metadata()
    if scan.profile != PROFILE:
        raise RecordingError(file, f"has the profile {scan.profile or 'none'!r}", "Give a recording of ROS 2")
    connections: dict[str, Connection] = {}
    saved = 0
    try:
        writer = BagWriter(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    except WriterError as error:
        raise RecordingError(folder, f"cannot be written ({error})", "Choose another folder") from error
    try:
        writer.open()
        storage = writer.storage
        for name, values in scan.metadata.items():
            if name != "rosbag2" and isinstance(storage, ChunkedMcapWriter):
                storage.add_metadata(name, values)
        for key, value in scan.note.items():
            writer.set_custom_data(key, value)
        for message in scan.messages():
            channel = message.channel
            if channel.topic not in connections:
                with readable(file):
                    qos = parse_qos(channel.qos) if channel.qos else ()
                    hash_text = message_type_hash(channel.type_name, channel.definition, file)
                connections[channel.topic] = writer.add_connection(
                    channel.topic,
                    channel.type_name,
                    msgdef=channel.definition,
                    rihs01=hash_text,
                    serialization_format=channel.message_encoding,
                    offered_qos_profiles=qos,
                )
            writer.write(connections[channel.topic], message.time_ns, message.data)
            saved += 1
        if not saved:
            raise RecordingError(file, "holds no message", "There is nothing to repair")
        writer.close()
    except (OSError, WriterError) as error:
        raise RecordingError(folder, f"cannot be written ({reason_of(error)})", REMEDY) from error
    finally:
        if writer.storage is not None:
            writer.abort()
    return RepairReport(saved, scan.lost_bytes)
