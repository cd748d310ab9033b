# SPDX-License-Identifier: Apache-2.0
"""Recordings as data sets of episodes: read by pandas, written as CSV, Parquet or a LeRobotDataset. Needs no ROS 2."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import continuum_robot
from continuum_robot.app.output import print_table, say
from continuum_robot.app.recordings.reading import Recording, read_recording, topic_of
from continuum_robot.app.recordings.run import RecordedRun, open_run
from continuum_robot.control.observations import observations
from continuum_robot.csv_table import write_csv_table
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError, RecordingError, missing_package
from continuum_robot.nodes.recordings.mcap_file import BEGIN, DISCARD, EPISODE, SUCCESS
from continuum_robot.robot.file.whole_file import DISK_REMEDY, make_folder, whole

Array = NDArray[np.float64]

CSV, PARQUET, LEROBOT = "csv", "parquet", "lerobot"
STATE = ("tendon_states.displacement", "tendon_states.tension", "clarke_state.position")
ACTION = ("clarke_reference.position",)
TASK = "steer the robot by hand"
LEROBOT_VERSION = "v3.0"
"""Of the format, in lerobot 0.4 ``CODEBASE_VERSION``."""

_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def load_recording(run: Path | str, topics: Sequence[str] | None = None, namespace: str | None = None) -> Recording:
    """Read a recording, also one that was cut off; ``frame`` and ``joined`` give pandas DataFrames of it.

    Parameters
    ----------
    run : folder of a run, of a recording, or a .mcap
    topics : relative to the namespace; None: all that hold numbers or texts of the robot
    namespace : of the robot; None: as noted in the recording

    Raises
    ------
    RecordingError : it cannot be read
    """
    with open_run(Path(run)) as opened:
        return read_recording(opened.bag, topics, opened.namespace if namespace is None else namespace)


@dataclass(frozen=True)
class Episode:
    """Frames at a constant rate, from 0 s.

    Attributes
    ----------
    observation : shape (frames, columns)
    action : what was asked for after each observation, before the next one, shape (frames, columns of actions)
    source : where it comes from, for the metadata
    """

    observation: Array
    action: Array
    source: str = ""

    def __len__(self) -> int:
        return len(self.observation)


@dataclass(frozen=True)
class DataSet:
    """Episodes of one robot.

    Attributes
    ----------
    robot : name
    rate_hz : frames per second
    columns, actions : names of the columns of observations and actions
    episodes : in their order
    about : what else the file shall say of them, as JSON
    """

    robot: str
    rate_hz: float
    columns: Sequence[str]
    actions: Sequence[str] = ()
    episodes: Sequence[Episode] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, out: Path | str, to: str, task: str = TASK) -> Path:
        """Write it as a whole, or nothing.

        Parameters
        ----------
        out : a file, of ``lerobot`` a folder, that does not exist yet
        to : ``csv``, ``parquet`` or ``lerobot``
        task : of ``lerobot``, in words

        Raises
        ------
        ParameterError : no episodes, ``out`` exists, or a value or rate that the format does not take
        MissingPackageError : pandas or pyarrow, of the extra learn, is not installed
        DeviceError : it cannot be written
        """
        path = unused(out)
        if to not in (CSV, PARQUET, LEROBOT):
            raise ParameterError("to", to, f"{CSV}, {PARQUET} or {LEROBOT}")
        if not self.episodes:
            raise ParameterError("episodes", 0, "at least one to write")
        make_folder(path.parent)
        try:
            with whole(path) as partial:
                if to == LEROBOT:
                    self._write_lerobot(partial, task)
                elif to == PARQUET:
                    self._write_parquet(partial)
                else:
                    columns = self._columns()
                    write_csv_table(partial, list(columns), np.stack([*columns.values()], axis=1))
        except (OSError, RecordingError) as error:  # the latter of the CSV, by its unfinished name
            cause = getattr(error.__cause__ or error, "strerror", None) or error
            raise DeviceError(str(path), f"cannot be written ({cause})", DISK_REMEDY) from error
        return path

    def _all(self, of: Callable[[Episode], Array] = lambda one: one.observation) -> Array:
        return np.concatenate([of(episode) for episode in self.episodes])

    def _counted(self) -> Array:
        """Time within the episode, number of the frame, number of the episode; shape (frames, 3)."""
        lengths = [len(episode) for episode in self.episodes]
        frame = np.concatenate([np.arange(length) for length in lengths])
        return np.stack([frame / self.rate_hz, frame, np.repeat(np.arange(len(lengths)), lengths)], axis=1)

    def _columns(self) -> dict[str, NDArray[Any]]:
        """What a row of a table has for each frame."""
        counted, values, asked = self._counted(), self._all(), self._all(lambda one: one.action)
        return {
            "timestamp": counted[:, 0],
            "frame_index": counted[:, 1].astype(np.int64),
            "episode_index": counted[:, 2].astype(np.int64),
            **{name: values[:, k] for k, name in enumerate(self.columns)},
            **{f"action.{name}": asked[:, k] for k, name in enumerate(self.actions)},
        }

    def _described(self) -> dict[str, Any]:
        sources = [episode.source for episode in self.episodes]
        versions = {"continuum_robot_version": continuum_robot.__version__, "rate_hz": self.rate_hz}
        return {"robot": self.robot, **versions, **self.about, "episodes": sources}

    def _write_parquet(self, file: Path) -> None:
        pa, parquet = imported("pyarrow"), imported("pyarrow.parquet")
        table = pa.table(self._columns()).replace_schema_metadata({"continuum_robot": json.dumps(self._described())})
        parquet.write_table(table, file)

    def _write_lerobot(self, folder: Path, task: str) -> None:
        if self.rate_hz != int(self.rate_hz):
            raise ParameterError("rate", self.rate_hz, "a whole number of frames per second, as LeRobotDataset has")
        pa, parquet, pandas = imported("pyarrow"), imported("pyarrow.parquet"), imported("pandas")
        counted = self._counted()
        index = np.arange(len(counted))
        values: dict[str, NDArray[Any]] = {
            "observation.state": self._all().astype(np.float32),
            "action": self._all(lambda one: one.action).astype(np.float32),
            "timestamp": counted[:, :1].astype(np.float32),
            "frame_index": counted[:, 1:2].astype(np.int64),
            "episode_index": counted[:, 2:].astype(np.int64),
            "index": index[:, None],
            "task_index": np.zeros_like(index)[:, None],
        }
        names = {"observation.state": list(self.columns), "action": list(self.actions)}
        features = {
            key: {"dtype": str(value.dtype), "shape": [value.shape[1]], "names": names.get(key)}
            for key, value in values.items()
        }
        ends = np.cumsum([len(episode) for episode in self.episodes])
        starts = [0, *ends[:-1]]
        # What belongs to the numbers of an episode, in the columns that lerobot's own writer gives them.
        rows = [
            {
                "episode_index": k,
                "tasks": [task],
                "length": int(end - start),
                "data/chunk_index": 0,
                "data/file_index": 0,
                "dataset_from_index": int(start),
                "dataset_to_index": int(end),
                **{
                    f"stats/{key}/{name}": numbers
                    for key, value in values.items()
                    for name, numbers in _statistics(value[start:end]).items()
                },
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
            for k, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]
        info = {
            "codebase_version": LEROBOT_VERSION,
            "robot_type": self.robot,
            "total_episodes": len(rows),
            "total_frames": len(index),
            "total_tasks": 1,
            "chunks_size": 1000,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": int(self.rate_hz),
            "splits": {"train": f"0:{len(rows)}"},
            "data_path": f"data/{_FILE}",
            "video_path": None,
            "features": features,
        }
        data, meta = folder / "data/chunk-000", folder / "meta"
        for made in (data, meta / "episodes/chunk-000"):
            made.mkdir(parents=True)
        columns = {
            key: pa.FixedSizeListArray.from_arrays(value.ravel(), value.shape[1]) if value.shape[1] > 1 else value[:, 0]
            for key, value in values.items()
        }
        parquet.write_table(pa.table(columns), data / "file-000.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), meta / "episodes/chunk-000/file-000.parquet")
        pandas.DataFrame({"task_index": [0]}, index=[task]).to_parquet(meta / "tasks.parquet")
        for name, content in (
            ("info", info),
            ("stats", {key: _statistics(value) for key, value in values.items()}),
            ("continuum_robot", self._described()),
        ):
            (meta / f"{name}.json").write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")


def _statistics(values: NDArray[Any]) -> dict[str, list[Any]]:
    """What LeRobotDataset keeps of each column, by its names."""
    found = {"min": values.min(axis=0), "max": values.max(axis=0), "mean": values.mean(axis=0, dtype=float)}
    found |= {"std": values.std(axis=0, dtype=float), "count": np.array([len(values)])}
    quantiles = np.quantile(values, _QUANTILES, axis=0)
    found |= {f"q{100 * q:02.0f}": row for q, row in zip(_QUANTILES, quantiles, strict=True)}
    return {name: value.tolist() for name, value in found.items()}


def unused(out: Path | str) -> Path:
    """A path that nothing has yet."""
    path = Path(out).expanduser()
    if path.exists() or path.is_symlink():
        raise ParameterError("out", str(path), "a name that nothing has yet: remove the old one or choose another")
    return path


def imported(name: str) -> Any:
    """A module of an extra."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise missing_package(error) from None


@dataclass(frozen=True)
class Marks:
    """Which parts of a recording are episodes: their beginnings and ends, s; how many others were begun."""

    spans: list[tuple[float, float]]
    discarded: int = 0
    unfinished: int = 0


def marked_episodes(recording: Recording) -> Marks | None:
    """The episodes that somebody marked, None where nobody did. One that was begun again counts as discarded.

    Raises
    ------
    RecordingError : a mark that is none of ``begin``, ``success`` and ``discard``
    """
    series = recording.topics.get(EPISODE)
    if series is None or "data" not in series.texts:
        return None
    spans, discarded, begun_s = [], 0, None
    for time_s, mark in zip(series.stamp_s, series.texts["data"], strict=True):
        if mark not in (BEGIN, SUCCESS, DISCARD):
            expected = f"Marks are {BEGIN}, {SUCCESS} and {DISCARD}"
            raise RecordingError(recording.file, f"has the mark {mark!r} on {EPISODE}", expected)
        if begun_s is not None and mark == SUCCESS:
            spans.append((begun_s, float(time_s)))
        elif begun_s is not None:
            discarded += 1
        begun_s = float(time_s) if mark == BEGIN else None
    return Marks(spans, discarded, int(begun_s is not None))


def read_data_set(
    run: Path,
    rate_hz: float,
    names: Sequence[str] = (),
    actions: Sequence[str] = (),
    namespace: str | None = None,
    *,
    known: bool = False,
) -> tuple[DataSet, Marks]:
    """The episodes of a recording: those that are marked, else one of all that is in it.

    Values are held: each frame has the newest that was stamped until then, and as its action the newest that was
    stamped until the next frame.

    Parameters
    ----------
    run : folder of a run, of a recording, or a .mcap
    rate_hz : frames per second
    names, actions : of columns, or what they begin with; no names: all
    namespace : of the robot; None: as noted in the recording
    known : whether an unknown value, NaN, is an error

    Raises
    ------
    RecordingError : it cannot be read, has no such columns, unknown values, or an episode without two frames
    """
    with open_run(run) as opened:
        wanted = dict.fromkeys(map(topic_of, (*names, *actions)))
        topics = [*wanted, EPISODE] if names else None
        recording = read_recording(opened.bag, topics, opened.namespace if namespace is None else namespace)
        columns = recording.columns(names)
        action_columns = recording.columns(actions) if actions else []
        about = _about(opened, columns + action_columns)
        robot = opened.note.get("robot", "")
    marks = marked_episodes(recording)
    if marks is None:
        begin_s = max((float(recording.topics[topic].stamp_s.min()) for topic in wanted), default=0.0)
        marks = Marks([(begin_s, recording.end_s)])
    episodes = []
    for start_s, end_s in marks.spans:
        time_s = start_s + np.arange(int((end_s - start_s) * rate_hz + 1e-6) + 1) / rate_hz
        if len(time_s) < 2:
            problem = f"has an episode of {end_s - start_s:.3g} s at {start_s:.3f} s, less than two frames"
            raise RecordingError(run, problem, "Raise the rate")
        values = recording.held(columns, time_s)
        asked = recording.held(action_columns, time_s + 1 / rate_hz)
        if known:
            _check_known(run, [*columns, *action_columns], np.hstack([values, asked]), time_s)
        episodes.append(Episode(values, asked, f"{run.name} from {start_s:.3f} s to {end_s:.3f} s"))
    return DataSet(robot, rate_hz, columns, action_columns, episodes, about), marks


def _check_known(run: Path, columns: Sequence[str], values: Array, time_s: Array) -> None:
    row, column = np.nonzero(~np.isfinite(values))
    if row.size:
        problem = f"{columns[column[0]]} is unknown (NaN) at {time_s[row[0]]:.3f} s"
        raise RecordingError(run, problem, "Leave it out, or begin the episode later: every value has to be known")


def run_export(
    runs: Sequence[Path],
    to: str,
    out: Path,
    *,
    rate_hz: float,
    names: Sequence[str],
    actions: Sequence[str],
    task: str,
    namespace: str | None = None,
    console: Console | None = None,
) -> int:
    """Write recordings as one data set; the exit code, 0."""
    console = console or Console()
    unused(out)
    if to == LEROBOT:
        names, actions = names or STATE, actions or ACTION
    parts, rows = [], []
    for run in runs:
        part, marks = read_data_set(run, rate_hz, names, actions, namespace, known=to == LEROBOT)
        parts.append(part)
        frames = sum(map(len, part.episodes))
        rows.append((run.name, len(part.episodes), frames, frames / rate_hz, marks.discarded, marks.unfinished))
    for run, part in zip(runs, parts, strict=True):
        if difference := _difference(part, parts[0]):
            remedy = "Export it by itself, or name what both have with --observations"
            raise RecordingError(run, f"does not go with {runs[0]}: {difference}", remedy)
    print_table(console, "", ("run", ">episodes", ">frames", ">s", ">discarded", ">not ended"), rows)
    whole_set = replace(parts[0], episodes=[episode for part in parts for episode in part.episodes])
    whole_set.write(out, to, task or TASK)
    count, frames = len(whole_set.episodes), sum(map(len, whole_set.episodes))
    say(console, f"{count} episode{'s' * (count > 1)}, {frames} frames at {rate_hz:g} Hz in {out}")
    return 0


def _difference(one: DataSet, other: DataSet) -> str:
    if one.robot != other.robot:
        return f"its robot is {one.robot or 'unknown'}, not {other.robot or 'unknown'}"
    names = sorted({*one.columns, *one.actions} ^ {*other.columns, *other.actions})
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''} is in one of them only" if names else ""


def _about(run: RecordedRun, columns: Sequence[str]) -> dict[str, Any]:
    """What the recorder noted of the run, and the units that are known by the robot's file."""
    noted = {key: run.note.get(key, "") for key in ("robot_file_sha256", "git_sha", "simulated", "versions")}
    noted["recorded_by_version"] = run.note.get("continuum_robot_version", "")
    units: dict[str, str] = {}
    with contextlib.suppress(ContinuumRobotError):  # a recording of ros2 bag, or of a robot without limits
        known = observations(run.robot())
        for column in columns:
            name = next((one for one in known if column == one or column.startswith((f"{one}.", f"{one}["))), None)
            units |= {} if name is None else {column: known[name].unit}
    return {**noted, "units": units}
