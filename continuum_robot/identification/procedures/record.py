# SPDX-License-Identifier: Apache-2.0
"""What procedures found, as it is stored, each in a file that names the robot's: homing, cogging, contact floor.

Of a homing: where tendons and strings stand at the straight pose. Of the cogging: a table over the angle of each motor,
with its uncertainty. Of a contact monitor: what it learnt from free motion, one file a robot and method.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
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
from continuum_robot.estimation.contact.floor_learning import Learnt
from continuum_robot.estimation.contact.free_motion import Floor, FreeMotion
from continuum_robot.estimation.contact.monitor import OF_THE_OBSERVERS
from continuum_robot.estimation.contact.settings import METHODS, MonitorSettings
from continuum_robot.identification.cogging_fit import CoggingFit
from continuum_robot.identification.procedures.homing import Homed
from continuum_robot.identification.procedures.hung_weight import nominal_lever_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import CONTACT_OBSERVERS
from continuum_robot.robot.file.plain_yaml import BOUNDS, YamlBounds, plain_yaml, read_yaml
from continuum_robot.robot.file.whole_file import write_whole
from continuum_robot.robot.schema import Source, quantity, read, refuse

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


CALIBRATE_FIRST = "Calibrate it: continuum-robot calibrate-cogging."


@dataclass(frozen=True, slots=True, kw_only=True)
class MotorCogging:
    """Cogging of one motor."""

    tendon: str = quantity("name of the motor's tendon", filled=True)
    m_per_turn: float = quantity("tendon that a turn of the motor winds", "m", gt=0, le=100)
    torque_nm: tuple[float, ...] = quantity(
        "torque with which the cogging holds the motor back, over a turn from the zero of the devices on",
        "N.m",
        ge=-1e3,
        le=1e3,
    )
    deviation_nm: tuple[float, ...] = quantity("its standard deviation", "N.m", ge=0, le=1e3)

    def __post_init__(self) -> None:
        if len(self.torque_nm) < 2 or len(self.torque_nm) != len(self.deviation_nm):
            raise refuse("deviation_nm", len(self.deviation_nm), f"as many values as torque_nm: {len(self.torque_nm)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoggingRecord(RobotRecord):
    """Cogging as it is stored, one file a robot."""

    texts: ClassVar[RecordTexts] = RecordTexts(
        "Written by calibrate-cogging.",
        "cogging record",
        "has no table of its motors' cogging",
        "has a table of cogging that cannot be used",
        "has a table of cogging of another",
        CALIBRATE_FIRST,
    )
    # Two tables of 1440 entries for each of 64 motors.
    bounds: ClassVar[YamlBounds] = YamlBounds(characters=1 << 22, values=200_000, expanded_characters=1 << 22)
    serial_number: str = quantity("of the robot", filled=True)
    angle_known: bool = quantity("false: the motors were switched off since, and count from another zero", default=True)
    motors: tuple[MotorCogging, ...] = quantity("of every tendon, in order")

    def __post_init__(self) -> None:
        lengths = {len(motor.torque_nm) for motor in self.motors}
        if len(lengths) != 1:
            raise refuse("motors", sorted(lengths), "tables of one length, of at least one motor")

    @property
    def m_per_turn(self) -> Vector:
        """Tendon that a turn of each motor winds, shape (N,), m."""
        return np.array([motor.m_per_turn for motor in self.motors])

    @property
    def force_n(self) -> Vector:
        """The table as forces on the tendons, shape (N, K), N."""
        table = np.array([motor.torque_nm for motor in self.motors])
        return np.asarray(table * (2 * math.pi / self.m_per_turn)[:, None])


def spooled_per_turn_m(robot: Robot) -> Vector:
    """Tendon that a turn of each motor winds, by the robot file, shape (N,), m."""
    return np.array([2 * math.pi * nominal_lever_m(robot, tendon) for tendon in range(robot.tendon_count)])


def make_cogging_record(robot: Robot, fit: CoggingFit, now: datetime | None = None) -> CoggingRecord:
    """What is stored of a calibration."""
    per_turn = spooled_per_turn_m(robot)
    lever_m = per_turn / (2 * math.pi)
    motors = tuple(
        MotorCogging(
            tendon=name,
            m_per_turn=float(per_turn[j]),
            torque_nm=tuple(float(f"{value:.6g}") for value in fit.force_n[j] * lever_m[j]),
            deviation_nm=tuple(float(f"{value:.3g}") for value in fit.deviation_n[j] * lever_m[j]),
        )
        for j, name in enumerate(robot.tendon_names)
    )
    return CoggingRecord(**origin(robot, now), serial_number=serial_number(robot), motors=motors)


def cogging_path(robot: Robot, folder: Path | None = None) -> Path:
    """The file of a robot's cogging; arguments and errors as :func:`record_path`."""
    return record_path(robot, folder, "cogging")


def load_cogging(robot: Robot, path: Path) -> CoggingRecord:
    """Read the cogging of a robot's motors and make sure that it is this robot's."""
    record = CoggingRecord.load(
        robot,
        path,
        lambda record: ("robot", record.robot, robot.name),
        lambda record: ("serial number", record.serial_number, serial_number(robot)),
        lambda record: ("tendons", [motor.tendon for motor in record.motors], list(robot.tendon_names)),
    )
    per_turn = spooled_per_turn_m(robot)
    if not np.allclose(record.m_per_turn, per_turn, rtol=1e-6):
        raise DeviceError(
            robot.name,
            f"has a table of cogging for other spools or gears ({record.m_per_turn.tolist()} m a turn, now"
            f" {per_turn.tolist()})",
            CALIBRATE_FIRST,
        )
    if not record.angle_known:
        raise DeviceError(
            robot.name, "has a table of cogging from before its motors were aligned again", CALIBRATE_FIRST
        )
    return record


def forget_angles(robot: Robot, folder: Path | None = None) -> bool:
    """Note in the stored table, if there is one, that the motors count from another zero now; whether there was one."""
    path = cogging_path(robot, folder)
    try:
        record = load_cogging(robot, path)
    except DeviceError:
        return False
    dataclasses.replace(record, angle_known=False).store(path)
    return True


LEARN_FIRST = "Let its contact monitor learn while it moves freely: continuum-robot learn-floor."


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """Those of the contact monitor that make another residual of the same motion."""

    gain_per_s: tuple[float, ...] = quantity("as the parameter", "1/s", gt=0)
    reset_cycles: int = quantity("as the parameter", ge=0)
    smoothing_points: int = quantity("as the parameter", ge=1)
    force_walk_n_per_sqrt_s: float = quantity("as the parameter", "N/s^0.5", gt=0)
    contact_type: str = quantity("as the parameter", filled=True)
    known_arc_length_m: float = quantity("as the parameter", "m")


@dataclass(frozen=True, slots=True, kw_only=True)
class MotionRecord:
    """The residual of free motion, of all channels together."""

    fractions: tuple[float, ...] = quantity("by which forces of the model are off")
    covariance: tuple[float, ...] = quantity("of what is left, row by row", "(N.m^2)^2")
    evidence: float = quantity("r^T S^-1 r of what is left stays below it", gt=0)
    bound: tuple[float, ...] = quantity("every channel of what is left stays below it", "N.m^2", ge=0)

    def __post_init__(self) -> None:
        size = len(self.bound)
        if len(self.covariance) != size**2:
            raise refuse("covariance", len(self.covariance), f"{size**2} values for {size} channels")
        covariance = np.reshape(self.covariance, (size, size))
        if not (np.allclose(covariance, covariance.T, rtol=1e-6) and np.linalg.eigvalsh(covariance).min() > 0):
            raise refuse("covariance", "not symmetric and positive", "a covariance")


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRecord(RobotRecord):
    """A floor as it is stored."""

    texts: ClassVar[RecordTexts] = RecordTexts(
        "Learnt from free motion by the contact monitor.",
        "record of free motion",
        "has not learnt its free motion",
        "has a record of its free motion that cannot be used",
        "learnt its free motion on {date} with another",
        LEARN_FIRST,
    )
    robot_file_sha256: str = quantity("SHA-256 of the robot file with which it was learnt", filled=True)
    devices: str = quantity("hardware, or the level of the simulation", filled=True)
    method: str = quantity("of the contact monitor", choices=METHODS, door=CONTACT_OBSERVERS)
    observer: ObserverSettings = quantity("its settings")
    duration_s: float = quantity("of the motion", "s", gt=0)
    moved_m: tuple[float, ...] = quantity("range of each tendon's displacement", "m", ge=0)
    least_tip_force_n: float | None = quantity("at the tip, detected in every direction", "N", gt=0, default=None)
    bound: tuple[float, ...] = quantity("every channel of the residual stays below it", "N.m^2", ge=0)
    motion: MotionRecord | None = quantity("of all channels together", default=None)

    @property
    def floor(self) -> Floor:
        """For :meth:`ContactMonitor.use_floor`."""
        motion = self.motion
        if motion is None:
            return Floor(np.array(self.bound), None)
        size = len(motion.bound)
        covariance = np.reshape(motion.covariance, (size, size))
        return Floor(
            np.array(self.bound),
            FreeMotion(np.array(motion.fractions), covariance, motion.evidence, np.array(motion.bound)),
        )


def _numbers(values: Vector) -> tuple[float, ...]:
    return tuple(float(value) for value in np.ravel(values))


def _observer(settings: MonitorSettings) -> ObserverSettings:
    return ObserverSettings(**{name: getattr(settings, name) for name in OF_THE_OBSERVERS if name != "method"})


def make_floor_record(
    robot: Robot, settings: MonitorSettings, devices: str, learnt: Learnt, now: datetime | None = None
) -> FloorRecord:
    """What is stored of a learning."""
    motion = learnt.floor.motion
    return FloorRecord(
        **origin(robot, now),
        robot_file_sha256=file_sha256(robot),
        devices=devices,
        method=settings.method,
        observer=_observer(settings),
        duration_s=learnt.duration_s,
        moved_m=_numbers(learnt.moved_m),
        least_tip_force_n=learnt.least_tip_force_n if math.isfinite(learnt.least_tip_force_n) else None,
        bound=_numbers(learnt.floor.bound),
        motion=None
        if motion is None
        else MotionRecord(
            fractions=_numbers(motion.fractions),
            covariance=_numbers(motion.covariance),
            evidence=motion.evidence,
            bound=_numbers(motion.bound),
        ),
    )


def floor_path(robot: Robot, method: str, folder: Path | None = None) -> Path:
    """The file of a robot's floor."""
    kind = f"floor.{method}"
    return named_path(robot.name, folder, kind) if robot.hardware is None else record_path(robot, folder, kind)


def load_floor(robot: Robot, settings: MonitorSettings, devices: str, path: Path) -> FloorRecord:
    """Read a floor and make sure that it is this robot's, of this monitor."""
    return FloorRecord.load(
        robot,
        path,
        lambda record: ("robot", record.robot, robot.name),
        lambda record: ("robot file", record.robot_file_sha256[:12], file_sha256(robot)[:12]),
        lambda record: ("devices", record.devices, devices),
        lambda record: ("method", record.method, settings.method),
        lambda record: ("settings", record.observer, _observer(settings)),
    )
