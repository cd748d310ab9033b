# SPDX-License-Identifier: Apache-2.0
"""A run as it was recorded: found by a path, whole or cut off, with what the recorder noted about it; needs no ROS."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from continuum_robot.app.output import print_table, say, write_json
from continuum_robot.app.recordings.reading import open_bag
from continuum_robot.errors import RecordingError, RobotFileError
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import agreement, replay
from continuum_robot.nodes.recordings.mcap_file import (
    MAGIC,
    PROFILE,
    find_mcap_files,
    note_of,
    part_of,
    profile_of,
)
from continuum_robot.nodes.recordings.repairing import repair
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.loading import load_robot

RECORDING = "recording"
"""Name of the recording's folder in the folder of a run."""
PARAMETERS = "parameters/"
STATISTICS = "statistics"
"""Metadata key of numbers that only the running stack knew; JSON."""

DEFAULT_BLEND_S = 1.0
_METADATA_FILE = "metadata.yaml"
_LONGEST_NAME = 200
_GIVE = "Give the folder of a run, the folder of a recording, or a file that ends in .mcap"


@dataclass(frozen=True)
class RecordedRun:
    """A recording that can be opened, and what is known about it."""

    given: Path
    bag: Path
    folder: Path
    note: Mapping[str, str]
    lost_bytes: int | None
    robot_file: Path | None

    @property
    def was_cut(self) -> bool:
        """Whether the recorder could not write the end."""
        return self.lost_bytes is not None

    @property
    def simulated(self) -> bool:
        """Whether the wires ended in a simulator; a recording that does not say counts as none of a simulator."""
        return self.note.get("simulated") == "true"

    @property
    def namespace(self) -> str | None:
        """ROS namespace of the recorded robot, None where it is not noted."""
        return self.note.get("namespace")

    @property
    def statistics(self) -> dict[str, Any]:
        """Numbers that only the running stack knew, empty where they were not noted; null is NaN."""
        noted = self._noted(STATISTICS)
        return {key: math.nan if value is None else value for key, value in noted.items()}

    def parameters(self, node: str) -> dict[str, Any]:
        """Parameters of a node when the recording began, empty where they were not noted."""
        return self._noted(PARAMETERS + node)

    def _noted(self, key: str) -> dict[str, Any]:
        try:
            noted = json.loads(self.note.get(key, "{}"))
        except (ValueError, TypeError, RecursionError) as error:
            problem = f"holds a note {key!r} that is not readable ({type(error).__name__})"
            raise RecordingError(self.given, problem, "Record again, or take the note out of its metadata") from error
        return noted if isinstance(noted, dict) else {}

    @property
    def blend_s(self) -> float:
        """Length of the reference's start-up blend, s; the node's own default where it was not noted."""
        noted = self.parameters("reference_source").get("blend_s")
        return float(noted) if isinstance(noted, (int, float)) else DEFAULT_BLEND_S

    def robot(self, given: str | None = None) -> Robot:
        """The recorded robot, or the one that is given."""
        if given is not None:
            return load_robot(given)
        if self.robot_file is None:
            raise RecordingError(self.given, "does not hold the robot's file", "Give the robot file with --robot")
        try:
            return load_robot(self.robot_file)
        except RobotFileError as error:
            raise RecordingError(
                self.given,
                f"holds a robot file that this version cannot use ({error.key}: {error.value!r})",
                "Give a robot file for this version with --robot",
            ) from error


@contextlib.contextmanager
def open_run(path: Path) -> Iterator[RecordedRun]:
    """Find a recording; one that was cut off is repaired in a temporary folder while the block runs."""
    bag = find_recording(path)
    files = mcap_files(bag)
    cut = [file for file in files if not _has_end(file)]
    for file in files:
        profile = PROFILE if file in cut else profile_of(file)  # repair looks at those
        if profile != PROFILE:
            raise RecordingError(file, f"has the profile {profile or 'none'!r}", "Give a recording of ROS 2")
    with tempfile.TemporaryDirectory(prefix="continuum_robot_") as temporary:
        scratch = Path(temporary)
        whole, lost_bytes = bag, None
        listed = (bag / _METADATA_FILE).is_file()
        if cut or (len(files) > 1 and not listed):
            whole = scratch / "repaired"
            unread_bytes = repair(files, whole).lost_bytes
            lost_bytes = unread_bytes if cut else None
        elif files and not listed:
            whole = files[0]
        note = _note(whole)
        robot_file = None
        if "schema_version" in note.get("robot_file", ""):
            robot_file = scratch / f"{_file_name(note.get('robot', ''))}.yaml"
            robot_file.write_text(note["robot_file"], encoding="utf-8", errors="replace")
        yield RecordedRun(path, whole, _report_folder(bag), note, lost_bytes, robot_file)


def find_recording(path: Path) -> Path:
    """The recording that a path means: an MCAP file, or the folder of a recording."""
    if path.is_file():
        if path.name == _METADATA_FILE:
            return path.parent
        if path.suffix not in (".mcap", ".db3"):
            raise RecordingError(path, "is no recording", _GIVE)
        return path
    if not path.is_dir():
        raise RecordingError(path, "does not exist", _GIVE)
    if (path / _METADATA_FILE).is_file():
        return path
    files = find_mcap_files(path)
    if len({part_of(file)[0] for file in files}) > 1 or len(files) != len({part_of(file) for file in files}):
        problem = f"holds MCAP files of several recordings and no {_METADATA_FILE}"
        raise RecordingError(path, problem, "Give one of the files")
    if files:
        return path
    if _is_bag(path / RECORDING):
        return path / RECORDING
    inner = sorted(one for one in path.iterdir() if one.is_dir() and (_is_bag(one)))
    if len(inner) > 1:
        names = ", ".join(one.name for one in inner[:5]) + (", …" if len(inner) > 5 else "")
        raise RecordingError(path, f"holds {len(inner)} recordings ({names})", "Give one of them")
    if not inner:
        runs = [one for one in path.iterdir() if one.is_dir() and _is_bag(one / RECORDING)]
        hint = f"Give one of the runs in it, such as {max(runs).name}" if runs else _GIVE
        raise RecordingError(path, "holds no recording", hint)
    return inner[0]


def mcap_files(bag: Path) -> list[Path]:
    """The MCAP files of a recording in their order; none of one in another format."""
    return find_mcap_files(bag) if bag.is_dir() else [bag] if bag.suffix == ".mcap" else []


def recorded_facts(run: RecordedRun) -> dict[str, Any]:
    """What the driver's and the supervisor's own messages say of a run that ended without its statistics."""
    faults: dict[str, None] = {}
    values: dict[str, str] = {}
    kinds = ("continuum_robot/msg/StackStatus", "diagnostic_msgs/msg/DiagnosticArray")
    with open_bag(run.bag, run.given) as opened:
        for connection, _, _, message in opened.messages(lambda one: one.msgtype in kinds):
            if connection.msgtype == kinds[0]:
                faults |= dict.fromkeys(message.faults)
            else:
                values |= _driver_values(message)
    facts: dict[str, Any] = {"faults": list(faults)}
    if "simulation_level" in run.parameters("tendon_driver") and run.simulated:
        facts["simulation_level"] = run.parameters("tendon_driver")["simulation_level"]
    for key in _LOOP + _ROUND_TRIP:
        with contextlib.suppress(KeyError, ValueError):
            facts[key] = float(values[key])
    facts |= {key: int(facts[key]) for key in _COUNTS if math.isfinite(facts.get(key, math.nan))}
    return facts


def fault_moments(bag: Path, origin_ns: int, namespace: str) -> list[tuple[float, str]]:
    """When faults were latched, by the supervisor's messages."""
    topic = f"{namespace.rstrip('/')}/stack_status"
    with open_bag(bag) as opened:
        messages = opened.messages(lambda one: one.topic == topic)
        return begun((1e-9 * (time_ns - origin_ns), message.faults) for _, time_ns, _, message in messages)


def begun(present: Iterable[tuple[float, Sequence[str]]]) -> list[tuple[float, str]]:
    """When each name came that was not there the moment before, from what was there at each moment."""
    found: list[tuple[float, str]] = []
    before: set[str] = set()
    for at_s, names in present:
        found += [(at_s, str(name)) for name in names if name not in before]
        before = set(names)
    return found


_COUNTS = ("cycles", "missed_cycles")
_LOOP = ("loop_rate_hz", "missed_cycles_percent", *_COUNTS, "period_p99_us", "period_max_us")
_ROUND_TRIP = ("round_trip_p50_us", "round_trip_p99_us", "round_trip_max_us")


def _driver_values(message: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for status in message.status:
        if status.name.endswith(("tendon_driver: loop", "tendon_driver: round_trip")):
            found |= {item.key: item.value for item in status.values}
    return found


def _is_bag(folder: Path) -> bool:
    return folder.is_dir() and ((folder / _METADATA_FILE).is_file() or bool(find_mcap_files(folder)))


def _has_end(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - len(MAGIC)))
            return stream.read() == MAGIC
    except OSError as error:
        raise RecordingError(file, f"cannot be read ({error.strerror})", _GIVE) from error


def _file_name(robot: str) -> str:
    """A name under which the recorded robot file can be written, whatever is noted as the robot's."""
    name = Path(robot).name
    return name if name.isprintable() and 0 < len(name.encode("utf-8", "replace")) <= _LONGEST_NAME else "robot"


def _note(bag: Path) -> dict[str, str]:
    """What the recorder noted: in the MCAP file itself, else in metadata.yaml, which other tools may have kept."""
    files = [bag] if bag.suffix == ".mcap" else find_mcap_files(bag)
    note = note_of(files[0]) if files else {}
    if note or bag.is_file():
        return note
    try:
        content, _ = plain_yaml(read_yaml(bag / _METADATA_FILE, "description of a recording"))
        noted = dict(content["rosbag2_bagfile_information"].get("custom_data") or {})
        return {str(key): value for key, value in noted.items() if isinstance(value, str)}
    except (RobotFileError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordingError(bag / _METADATA_FILE, "is not readable", "Give the .mcap file itself") from error


def _report_folder(bag: Path) -> Path:
    folder = bag.parent if bag.is_file() else bag
    return folder.parent if folder.name == RECORDING else folder / "report"


def run_repair(path: Path, out: Path | None, console: Console | None = None) -> int:
    """Copy what is readable of a recording into a new one that every reader opens."""
    bag = find_recording(path)
    files = mcap_files(bag)
    if not files:
        raise RecordingError(bag, "holds no MCAP file", "Give a recording in the format MCAP")
    name = bag.stem if bag.is_file() else bag.name
    folder = out or bag.parent / f"{name}_repaired"
    report = repair(files, folder)
    lost = f"{report.lost_bytes} bytes at the end were not readable"
    say(console or Console(), f"{report.messages} messages in {folder}; {lost}")
    return 0


def run_prediction(file: Path, robot: str, json_file: Path | None, console: Console | None = None) -> int:
    """Print how well the marker that a robot file predicts agrees with the motion capture; the exit code, 0."""
    loaded = load_robot(robot)
    numbers = {"robot": loaded.name, "file": file.name, **agreement(replay(loaded, read_recording(file)))}
    print_table(console or Console(), f"{loaded.name}: {file.name}", ("number", ">value"), numbers.items())
    write_json(json_file, numbers)
    return 0
