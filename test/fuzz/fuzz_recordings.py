# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: readers of recordings. Each file is written to a folder of its own in memory."""

from __future__ import annotations

import contextlib
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from continuum_robot.app.recordings.inputs import read_inputs
from continuum_robot.app.recordings.reading import read_recording
from continuum_robot.app.recordings.run import open_run, recorded_facts
from continuum_robot.errors import RecordingError, RobotFileError
from continuum_robot.identification import recordings
from continuum_robot.nodes.recordings.mcap_file import MAGIC, McapScan
from continuum_robot.nodes.recordings.repairing import repair

TOPICS = ("tendon_states", "tendon_commands", "clarke_state", "clarke_reference", "contact")


def mcap(data: bytes) -> None:
    """Any bytes as an MCAP file, as they are and behind its magic; read, repaired, and what was repaired read."""
    with _folder() as folder:
        file = folder / "fuzz.mcap"
        file.write_bytes(data)
        _read_all(file, folder)
        if not data.startswith(MAGIC):
            file.write_bytes(MAGIC + data)
            _read_all(file, folder)


def mcap_records(data: bytes) -> None:
    """Records with lengths and checksums put right: the first byte of each reports which kind, the second how long."""
    records = b""
    rest = data
    while len(rest) >= 3:
        opcode, length = rest[0] % 16, int.from_bytes(rest[1:3], "little") % 512
        body, rest = rest[3 : 3 + length], rest[3 + length :]
        records += struct.pack("<BQ", opcode, len(body)) + body
    head = struct.pack("<I4sI4s", 4, b"ros2", 4, b"fuzz")
    file_head = MAGIC + struct.pack("<BQ", 1, len(head)) + head
    chunk = (
        struct.pack("<QQQI", 0, 1, len(records), zlib.crc32(records)) + struct.pack("<IQ", 0, len(records)) + records
    )
    with _folder() as folder:
        for name, body in (("plain", records), ("chunk", struct.pack("<BQ", 6, len(chunk)) + chunk)):
            file = folder / f"{name}.mcap"
            file.write_bytes(file_head + body)
            _read_all(file, folder)


def metadata_yaml(data: bytes) -> None:
    """The description beside a recording of another program."""
    with _folder() as folder:
        bag = folder / "bag"
        bag.mkdir()
        (bag / "metadata.yaml").write_bytes(data)
        chosen = zlib.crc32(data)
        _open(bag if chosen & 8 else folder, chosen)


def recorded_csv(data: bytes) -> None:
    """A recording of tendons and markers, as it is and behind a sound header."""
    header = b"timestamp,pattern_label,servo_1_mm,tip_x,tip_y,tip_z\n"
    with _folder() as folder:
        file = folder / "fuzz.csv"
        for content in (data, header + data):
            file.write_bytes(content)
            with contextlib.suppress(RecordingError):
                recording = recordings.read_recording(file)
                assert len(recording) == len(recording.labels) == len(recording.marker_m)
                assert recording.seen.shape == (len(recording),)


def _read_all(file: Path, folder: Path) -> None:
    with contextlib.suppress(RecordingError):
        scan = McapScan(file)
        for message in scan.messages():
            assert isinstance(message.channel.topic, str)
        assert 0 <= scan.lost_bytes <= file.stat().st_size
    chosen = zlib.crc32(file.read_bytes())
    whole = folder / "repaired"
    shutil.rmtree(whole, ignore_errors=True)
    with contextlib.suppress(RecordingError):
        repair([file], whole)
        if chosen & 8:
            file = whole
    _open(file, chosen)


def _open(path: Path, chosen: int) -> None:
    """As ``report`` and ``replay`` open a recording; ``chosen``: which of them, since each takes milliseconds."""
    with contextlib.suppress(RecordingError, RobotFileError), open_run(path) as run:
        for noted in (
            lambda: run.statistics,
            lambda: run.parameters("tendon_driver"),
            lambda: run.blend_s,
            run.robot,
        ):
            with contextlib.suppress(RecordingError):
                noted()
        if chosen % 3 == 0:
            recorded_facts(run)
        elif chosen % 3 == 1:
            read_recording(run.bag, TOPICS, run.namespace)
        else:
            read_inputs(run.bag, run.namespace)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None, prefix="fuzz_") as name:
        yield Path(name)
