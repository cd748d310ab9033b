# SPDX-License-Identifier: Apache-2.0
"""The plant's strings for another process: a small memory-mapped file with one writer.

The simulated plant lives with the tendon actuators; the string encoders may run in a process of their own. Both find
the file by the user, the ROS domain id, the namespace and the robot's name.

Layout, little-endian: magic (8 bytes), sequence (int64), process id of the writer (int64), number of strings (int64),
time (float64, s), extension of each string (float64, m). The sequence is odd while the writer is at work, and the
reader takes a value only if it found the same even sequence before and after: a seqlock.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.simulated_wires import robot_key, shared_folder
from continuum_robot.errors import DeviceError, ParameterError

Vector = NDArray[np.float64]

_MAGIC = b"CRPLANT1"
_HEADER = struct.Struct("<8sqqqd")
_SEQUENCE = struct.Struct("<q")
_SEQUENCE_AT = 8
_BODY = struct.Struct("<qqd")
_BODY_AT = 16
_MAXIMUM_STRINGS = 4096
_ATTEMPTS = 20
TIP_VALUES = 12
"""Of the tip's frame behind the strings: its first three rows, one after the other."""


@dataclass(frozen=True, slots=True)
class StringSample:
    """True extensions of all strings, and when they were valid."""

    time_s: float
    extension_m: Vector


class Linked(Protocol):
    """What a simulated body shows to sensors."""

    @property
    def string_extension(self) -> Vector:
        """Of the strings, (strings,), m."""

    @property
    def linked(self) -> Vector:
        """All that sensors in other processes need: see :class:`SimulatedBody`."""


class StringSource(Protocol):
    """Where simulated string encoders get the true extensions from."""

    def open(self) -> None:
        """Begin; the other side need not be there yet."""

    def read(self) -> StringSample | None:
        """The newest sample, None while there is none."""

    def close(self) -> None:
        """End. Safe to call at any time."""


def link_path(namespace: str, robot: str = "", domain_id: str | None = None) -> Path:
    """The file of a plant."""
    return shared_folder() / f"continuum_robot-{robot_key(namespace, robot, domain_id)}.plant"


_on_demand: dict[Path, PlantLinkWriter] = {}
"""Writers of this process that write when a reader of this process asks."""


class PlantLinkWriter:
    """The writing end. A file lock keeps a second writer out; a dead writer's lock is void."""

    def __init__(self, path: Path, string_count: int) -> None:
        if not 0 <= string_count <= _MAXIMUM_STRINGS:
            raise ParameterError("string_count", string_count, f"0 to {_MAXIMUM_STRINGS}")
        self.path, self._count = Path(path), string_count
        self._map: mmap.mmap | None = None
        self._file: int | None = None
        self._sequence = 0
        self._offered: tuple[float, Linked] | None = None
        self._newest: tuple[float, Linked] | None = None
        self._on_demand = False

    def open(self) -> None:
        """Create the file, or take over that of a dead writer."""
        if self._map is not None:
            return
        try:
            file = self._locked_file()
        except OSError as error:
            if isinstance(error, DeviceError):
                raise
            raise DeviceError(
                str(self.path), f"cannot be created: {error.strerror}", "Make its folder writable."
            ) from error
        size = _HEADER.size + 8 * self._count
        if os.fstat(file).st_size < size:  # never shorter: a reader may have the old length mapped
            os.ftruncate(file, size)
        self._file, self._map = file, mmap.mmap(file, size)
        previous = _SEQUENCE.unpack_from(self._map, _SEQUENCE_AT)[0]
        self._sequence = max(0, previous) // 2 * 2
        self.write(math.nan, np.full(self._count, np.nan))
        self._map[: len(_MAGIC)] = _MAGIC

    def _locked_file(self) -> int:
        """The file, locked; it stands under its name when the lock is held, whatever others did meanwhile."""
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(file):
                    return file
            except BlockingIOError:
                writer = _writer_of(file)
                os.close(file)
                raise DeviceError(
                    str(self.path),
                    f"process {writer} already simulates this robot",
                    "Stop that program, or use another namespace or ROS_DOMAIN_ID.",
                ) from None
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _is_current(self, file: int) -> bool:
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return False
        own = os.fstat(file)
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def write_on_demand(self) -> None:
        """From now on write what is offered only when a reader asks: all are in the thread that moves the plant."""
        self._on_demand = True
        _on_demand[self.path] = self

    def offer(self, time_s: float, plant: Linked) -> None:
        """Publish what is linked of this instant, or of a later one that is offered before somebody asks."""
        if self._on_demand:
            self._offered = self._newest = time_s, plant
        else:
            self.write(time_s, plant.linked)

    def serve(self) -> None:
        """Write what was offered last."""
        offered, self._offered = self._offered, None
        if offered is not None:
            self.write(offered[0], offered[1].linked)

    def strings(self) -> StringSample | None:
        """The strings alone of what was offered last, which nobody has to write for."""
        return None if self._newest is None else StringSample(self._newest[0], self._newest[1].string_extension)

    def write(self, time_s: float, extension_m: Vector) -> None:
        """Publish the strings of one instant."""
        if self._map is None:
            raise DeviceError(str(self.path), "the link is not open", "Open it first.")
        memory = self._map
        _SEQUENCE.pack_into(memory, _SEQUENCE_AT, self._sequence + 1)
        _BODY.pack_into(memory, _BODY_AT, os.getpid(), self._count, time_s)
        memory[_HEADER.size : _HEADER.size + 8 * self._count] = np.ascontiguousarray(extension_m, dtype="<f8").tobytes()
        self._sequence += 2
        _SEQUENCE.pack_into(memory, _SEQUENCE_AT, self._sequence)

    def close(self) -> None:
        """Remove the file. Safe to call at any time."""
        memory, file = self._map, self._file
        self._map = self._file = self._offered = self._newest = None
        self._on_demand = False
        _on_demand.pop(self.path, None)
        if memory is not None and file is not None:
            # Readers that still have it mapped see no time and look for a new file.
            _BODY.pack_into(memory, _BODY_AT, 0, self._count, math.nan)
            if self._is_current(file):
                self.path.unlink(missing_ok=True)
            memory.close()
            os.close(file)


class PlantLinkReader:
    """The reading end; waits for the writer to appear and follows a new one."""

    def __init__(self, path: Path, *, strings_only: bool = False) -> None:
        """``strings_only``: what is linked beside them may be left out."""
        self.path, self._strings_only = Path(path), strings_only
        self._map: mmap.mmap | None = None

    def open(self) -> None:
        """Begin; the writer need not be there yet."""

    def read(self) -> StringSample | None:
        """The newest sample, None while there is no writer."""
        if (writer := _on_demand.get(self.path)) is not None:
            if self._strings_only:
                return writer.strings()
            writer.serve()
        if self._map is None:
            self._map = self._mapped()
        if self._map is None:
            return None
        sample = self._sample(self._map)
        if sample is None:
            self.close()
        return sample

    def close(self) -> None:
        """Let go of the file. Safe to call at any time."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def _mapped(self) -> mmap.mmap | None:
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            size = os.fstat(file).st_size
            return mmap.mmap(file, size, access=mmap.ACCESS_READ) if size >= _HEADER.size else None
        finally:
            os.close(file)

    def _sample(self, memory: mmap.mmap) -> StringSample | None:
        for _ in range(_ATTEMPTS):
            magic, before, _pid, count, time_s = _HEADER.unpack_from(memory, 0)
            if before % 2 == 0 and magic == _MAGIC and _HEADER.size + 8 * count <= len(memory):
                values = np.frombuffer(memory[_HEADER.size : _HEADER.size + 8 * count], dtype="<f8").astype(float)
                if _SEQUENCE.unpack_from(memory, _SEQUENCE_AT)[0] == before:
                    return StringSample(time_s, values) if math.isfinite(time_s) else None
        return None


def _writer_of(file: int) -> str:
    header = os.pread(file, _HEADER.size, 0)
    return str(_HEADER.unpack(header)[2]) if len(header) == _HEADER.size else "unknown"
