# SPDX-License-Identifier: Apache-2.0
"""The stored homing of a robot: where its tendons and strings stand at the straight pose, and for which robot file."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import yaml
from numpy.typing import NDArray

from continuum_robot import __version__
from continuum_robot.errors import DeviceError, RecordingError, RobotFileError
from continuum_robot.identification.procedures.homing import Homed
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import BOUNDS, YamlBounds, plain_yaml, read_yaml
from continuum_robot.robot.file.whole_file import write_whole
from continuum_robot.robot.schema import Source, quantity, read

Vector = NDArray[np.float64]
Record = TypeVar("Record", bound="RobotRecord")
Check: TypeAlias = Callable[[Any], tuple[str, Any, Any]]

FOLDER_VARIABLE = "CONTINUUM_ROBOT_CALIBRATION"
HOME_FIRST = "Home the robot: continuum-robot home, or the action home_tendons."


@dataclass(frozen=True, slots=True, kw_only=True)
class StringZero:
    """Where a string stands at the straight pose."""

    string: str = quantity("name of the string", filled=True)
    zero_m: float = quantity("its reading there", "m", ge=-100, le=100)


@dataclass(frozen=True, slots=True)
class RecordTexts:
    """What a kind of record is, and what errors say of it, as predicates of the robot."""

    comment: str
    kind: str
    missing: str
    unusable: str
    foreign: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotRecord:
    """The origin of a stored record of a robot."""

    texts: ClassVar[RecordTexts]
    bounds: ClassVar[YamlBounds] = BOUNDS

    schema_version: int = quantity("version of this file", ge=1, le=1)
    robot: str = quantity("name of the robot", filled=True)
    date: str = quantity("when, ISO 8601, UTC", filled=True)
    program_version: str = quantity("of this package", filled=True)

    def store(self, path: Path) -> None:
        """Write it; a reader never sees half of it."""
        text = f"# SPDX-License-Identifier: Apache-2.0\n# {self.texts.comment} SI units.\n"
        text += yaml.safe_dump(_listed(dataclasses.asdict(self)), sort_keys=False, default_flow_style=None, width=120)
        try:
            write_whole(path, text)
        except OSError as error:
            raise RecordingError(
                path, f"cannot be written ({error.strerror})", "Make room, or its folder writable."
            ) from error

    @classmethod
    def load(cls: type[Record], robot: Robot, path: Path, *checks: Check) -> Record:
        """Read one, and make sure that it is this robot's."""
        texts = cls.texts
        if not path.is_file():
            raise DeviceError(robot.name, f"{texts.missing}: there is no {path}", texts.cure)
        try:
            mapping, lines = plain_yaml(read_yaml(path, texts.kind, cls.bounds), path, cls.bounds)
            record = read(cls, mapping, Source(path, lines))
        except RobotFileError as error:
            problem = " ".join(str(error).split())
            raise DeviceError(robot.name, f"{texts.unusable} ({problem})", texts.cure) from None
        for check in checks:
            what, stored, now = check(record)
            if stored != now:
                foreign = texts.foreign.format(date=record.date)
                raise DeviceError(robot.name, f"{foreign} {what} ({stored}, now {now})", texts.cure)
        return record


def origin(robot: Robot, now: datetime | None = None) -> dict[str, Any]:
    """The values of a :class:`RobotRecord` that is made at ``now``; None: at this moment."""
    moment = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
    return {
        "schema_version": 1,
        "robot": robot.name,
        "date": moment.isoformat(timespec="seconds"),
        "program_version": __version__,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HomingRecord(RobotRecord):
    """A homing as it is stored, one file a robot."""

    texts: ClassVar[RecordTexts] = RecordTexts(
        "Written by the homing procedure.",
        "homing record",
        "is not homed",
        "is not homed: its record cannot be used",
        "was homed on {date} with another",
        HOME_FIRST,
    )
    serial_number: str = quantity("of the robot", filled=True)
    robot_file_sha256: str = quantity("SHA-256 of the robot file with which it was homed", filled=True)
    tension_n: float = quantity("on every tendon at the straight pose", "N", gt=0, le=1e4)
    zero_m: tuple[float, ...] = quantity("reading of every tendon at the straight pose", "m", ge=-1e3, le=1e3)
    slack_m: tuple[float, ...] = quantity("slack that was taken up", "m", ge=-1e3, le=1e3)
    strings: tuple[StringZero, ...] = quantity("readings of the strings at the straight pose", default=())

    @property
    def zero(self) -> Vector:
        """``zero_m`` as an array, shape (N,), m."""
        return np.array(self.zero_m)

    def string_zero(self, names: tuple[str, ...]) -> Vector:
        """Zeros of strings in the order of their names, NaN for one that was not measured, shape (strings,), m."""
        known = {entry.string: entry.zero_m for entry in self.strings}
        return np.array([known.get(name, np.nan) for name in names], dtype=float)


def make_record(robot: Robot, homed: Homed, now: datetime | None = None) -> HomingRecord:
    """What is stored of a homing."""
    return HomingRecord(
        **origin(robot, now),
        serial_number=serial_number(robot),
        robot_file_sha256=file_sha256(robot),
        tension_n=homed.tension_n,
        zero_m=tuple(map(float, homed.zero_m)),
        slack_m=tuple(map(float, homed.slack_m)),
        strings=tuple(StringZero(string=name, zero_m=float(value)) for name, value in homed.string_zero_m.items()),
    )


def serial_number(robot: Robot) -> str:
    """The robot's serial number. Raises :class:`RobotFileError` where its file has no hardware section."""
    if robot.hardware is None:
        raise RobotFileError(robot.file_name or None, "hardware", None, "a section that describes the robot's devices")
    return robot.hardware.serial_number


def file_sha256(robot: Robot) -> str:
    """SHA-256 of the robot's file, byte by byte. Raises :class:`RobotFileError` where it came from none."""
    if not robot.file_name:
        raise RobotFileError(None, "", robot.name, "a robot that was read from a file")
    try:
        return hashlib.sha256(Path(robot.file_name).read_bytes()).hexdigest()
    except OSError as error:
        raise RobotFileError(robot.file_name, "", str(error), "a readable file") from error


def calibration_folder() -> Path:
    """Where records are kept: $CONTINUUM_ROBOT_CALIBRATION, else a folder in the user's data folder."""
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "continuum_robot" / "calibration"


def simulated_folder(folder: Path | None = None) -> Path:
    """Where records of simulated robots are kept, apart from those of real ones; ``folder`` as for these."""
    return (folder or calibration_folder()) / "simulated"


def record_path(robot: Robot, folder: Path | None = None, kind: str = "homing") -> Path:
    """The file of a robot's homing, or of another kind of record."""
    return named_path(f"{robot.name}.{serial_number(robot)}", folder, kind)


def named_path(name: str, folder: Path | None, kind: str) -> Path:
    """The file of a record of something with a name."""
    plain = re.sub(r"[^A-Za-z0-9._-]", lambda match: f"%{ord(match.group()):x}", name)
    return (folder or calibration_folder()) / f"{plain}.{kind}.yaml"


def _listed(value: Any) -> Any:
    """Tuples as lists, which YAML has."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def load_record(robot: Robot, path: Path) -> HomingRecord:
    """Read the homing of a robot and make sure that it is this robot's, as its file is now."""
    return HomingRecord.load(
        robot,
        path,
        lambda record: ("serial number", record.serial_number, serial_number(robot)),
        lambda record: ("robot", record.robot, robot.name),
        lambda record: ("robot file", record.robot_file_sha256[:12], file_sha256(robot)[:12]),
        lambda record: ("number of tendons", len(record.zero_m), robot.tendon_count),
    )
