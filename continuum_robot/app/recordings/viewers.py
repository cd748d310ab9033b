# SPDX-License-Identifier: Apache-2.0
"""Recordings for the viewers of others, which need nothing of this package then: Foxglove's and rerun's."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcap.writer
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rosbags.typesys import Stores, get_typestore

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.output import say
from continuum_robot.app.recordings.dataset import imported, unused
from continuum_robot.app.recordings.playback import Playback
from continuum_robot.app.recordings.reading import Bag, open_bag, read_recording
from continuum_robot.app.recordings.run import RecordedRun, open_run
from continuum_robot.errors import ParameterError, missing_package
from continuum_robot.geometry.so3 import quaternion_from_matrix
from continuum_robot.models import colors
from continuum_robot.models.drawing import Geometry, desired_coefficients
from continuum_robot.models.making import robot_model
from continuum_robot.nodes.recordings.mcap_file import METADATA_NAME, PROFILE
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.file.whole_file import make_folder, whole

Array = NDArray[np.float64]

FOXGLOVE, RERUN = "foxglove", "rerun"
SUFFIXES = {FOXGLOVE: ".mcap", RERUN: ".rrd"}
FRAME_S = 1.0 / 30.0
"""From one drawn shape to the next."""
_TRAIL_FRAMES = 150
_DESIRED_RADIUS = 0.5
"""Of the desired shape, in radii of the actual one: where both agree it is inside."""
_ARROW = 0.3
"""Length of the largest force, in lengths of the robot."""


def run_export(
    run: Path, to: str, out: Path, robot: str | None = None, namespace: str | None = None,
    console: Console | None = None,
) -> int:  # fmt: skip
    """Write a recording for a viewer; the exit code, 0."""
    console = console or Console()
    out = unused(out)
    if out.suffix != SUFFIXES[to]:
        raise ParameterError("--out", str(out), f"a file that ends in {SUFFIXES[to]}, with --to {to}")
    make_folder(out.parent)
    with open_run(run) as opened:
        played = Playback(opened, opened.robot(robot), namespace)
        EXPORTS[to](opened, played, out, console)
    return 0


def _frames(played: Playback) -> Iterator[tuple[float, RobotState]]:
    """Times, s, and states with a shape."""
    size = robot_model(played.robot).drawing().size
    for number in range(math.floor(played.duration_s / FRAME_S) + 1):
        state = played.state(number * FRAME_S)
        if state.coefficients.size == size and np.isfinite(state.coefficients).all():
            yield number * FRAME_S, state


# Foxglove

MARKERS = "markers"
_DIAGNOSTICS = "/diagnostics"
_MARKER_ARRAY = "visualization_msgs/msg/MarkerArray"


def export_foxglove(run: RecordedRun, played: Playback, out: Path, console: Console) -> None:
    """The recording itself, the robot as markers in it, and a layout beside it that names its topics."""
    layout = out.with_suffix(".json")
    unused(layout)
    with whole(out) as partial, whole(layout) as partial_layout:
        with open_bag(run.bag, run.given) as bag, partial.open("wb") as stream:
            writer = mcap.writer.Writer(stream, compression=mcap.writer.CompressionType.ZSTD)
            writer.start(PROFILE, "continuum_robot")
            _copy(bag, writer, _drawn(played) if f"{played.prefix}/{MARKERS}" not in bag.topics else iter(()))
            writer.add_metadata(METADATA_NAME, dict(run.note))
            writer.finish()
        partial_layout.write_text(json.dumps(_layout(played), indent=1) + "\n", encoding="utf-8")
    say(console, f"{out}, and the layout {layout}: in Foxglove open the file, then Layouts, Import from file")


def _copy(bag: Bag, writer: mcap.writer.Writer, drawn: Iterator[tuple[int, str, bytes]]) -> None:
    """All messages with their definitions, and between them those that are drawn, in the order of their times."""
    channels: dict[str, int] = {}
    schemas: dict[str, int] = {}

    def put(topic: str, kind: str, definition: str, time_ns: int, data: bytes) -> None:
        if topic not in channels:
            if kind not in schemas:
                schemas[kind] = writer.register_schema(kind, "ros2msg", definition.encode())
            channels[topic] = writer.register_channel(topic, "cdr", schemas[kind])
        writer.add_message(channels[topic], time_ns, data, time_ns)

    definition = get_typestore(Stores.LATEST).generate_msgdef(_MARKER_ARRAY, ros_version=2)[0]
    following = next(drawn, None)
    for connection, time_ns, data in bag.serialised(lambda _one: True):
        while following is not None and following[0] <= time_ns:
            put(following[1], _MARKER_ARRAY, definition, following[0], following[2])
            following = next(drawn, None)
        put(connection.topic, connection.msgtype, connection.msgdef.data, time_ns, data)


def _drawn(played: Playback) -> Iterator[tuple[int, str, bytes]]:
    """Time, ns, topic and bytes of the markers of each frame."""
    try:
        from rclpy.serialization import serialize_message  # noqa: PLC0415 - only here are messages made
        from visualization_msgs.msg import MarkerArray  # noqa: PLC0415

        from continuum_robot.nodes.robot_markers import RobotMarkers, state_words  # noqa: PLC0415
        from continuum_robot.nodes.topics.conversions import set_stamp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_package(error) from None
    drawing = robot_model(played.robot).drawing()
    shown = RobotMarkers(played.robot, drawing, played.base_frame, played.prefix, lifetime_s=1.0)
    for time_s, state in _frames(played):
        words = state_words(state.tension_n, state.driver_message, simulated=state.simulated, holding=state.holding)
        geometry = drawing.geometry(state.coefficients)
        contact = played.fresh("contact", 1.0)
        markers = shown.of(
            state.coefficients, geometry, state.tension_n, contact, words, healthy=not (state.faults or state.estop)
        )
        time_ns = played.begin_ns + round(1e9 * time_s)
        for marker in markers:
            set_stamp(marker.header.stamp, time_ns)
        yield time_ns, f"{played.prefix}/{MARKERS}", serialize_message(MarkerArray(markers=markers))


def _layout(played: Playback) -> dict[str, Any]:
    """The shipped layout with the topics, tendons and coordinates of a recording, without what only acts on a robot."""
    layout = json.loads(shipped_file("foxglove/continuum_robot.json").read_text(encoding="utf-8"))
    panels = layout["configById"]
    for name in [name for name in panels if name.startswith("CallService!")]:
        del panels[name]
    layout["layout"] = _without(layout["layout"], panels)
    for panel in panels.values():
        for key in ("topicPath", "topicToRender"):
            if panel.get(key, _DIAGNOSTICS) != _DIAGNOSTICS:
                panel[key] = _recorded(panel[key], played)
        if "topics" in panel:
            panel["topics"] = {_recorded(topic, played): looks for topic, looks in panel["topics"].items()}
            panel["followTf"] = played.base_frame
            panel.pop("publish", None)
        if "paths" in panel:
            panel["paths"] = [own for path in panel["paths"] for own in _paths(path, played)]
    return dict(layout)


def _without(tree: Any, panels: dict[str, Any]) -> Any:
    """A tree of panels without those that are not there any more."""
    if isinstance(tree, str):
        return tree if tree in panels else None
    first, second = _without(tree["first"], panels), _without(tree["second"], panels)
    return {**tree, "first": first, "second": second} if first and second else first or second


def _recorded(path: str, played: Playback) -> str:
    """A path as the recording names it: with its namespace, and the states as the driver gave them."""
    return played.prefix + re.sub("^/tendon_states_decimated", f"/{played.states_topic}", path)


def _paths(path: dict[str, Any], played: Playback) -> Iterator[dict[str, Any]]:
    """Of a path with index 0 as many as the recorded array has entries, of one with another index none."""
    found = re.fullmatch(r"/([^.]+)\.(\w+)\[(\d+)\]", path["value"])
    if found is None:
        yield path | {"value": _recorded(path["value"], played)}
        return
    topic, field, index = found[1], found[2], int(found[3])
    count = played.width(topic, field)
    if count is None:  # nothing was recorded on it
        yield path | {"value": _recorded(path["value"], played)}
    elif index == 0:
        tendons = colors.tendon_colors(played.robot)
        for number, color in enumerate(tendons if count == len(tendons) else colors.series_colors(count)):
            yield path | {
                "value": _recorded(f"/{topic}.{field}[{number}]", played),
                "label": f"{topic}/{field}[{number}]",
                "color": colors.css(color),
            }


# rerun

_SERIES = {
    "tendon_states": {"tension": "N", "displacement": "m", "velocity": "m/s"},
    "clarke_state": {"position": "m"},
    "clarke_reference": {"position": "m"},
    "contact": {"ratio": ""},
    "shape": {"coefficients": ""},
}
"""Topics and fields that become curves, with their units."""


def export_rerun(run: RecordedRun, played: Playback, out: Path, console: Console) -> None:
    """The robot in three dimensions, curves of the numbers, and a blueprint that shows both."""
    rr = imported("rerun")
    blueprints = imported("rerun.blueprint")
    named = {
        f"{topic}/{field}": f"{topic}.{field}{f', {unit}' if unit else ''}"
        for topic, fields in _SERIES.items()
        for field, unit in fields.items()
    }
    curves = _curves(run, played)
    plots = [blueprints.TimeSeriesView(origin=f"/{one}", name=named[one]) for one in curves]
    blueprint = blueprints.Blueprint(
        blueprints.Horizontal(
            blueprints.Spatial3DView(origin="/robot", name=played.robot.name), blueprints.Vertical(*plots)
        ),
        collapse_panels=True,
    )
    with whole(out) as partial:
        stream = rr.RecordingStream("continuum_robot", recording_id=played.name)
        stream.save(partial, default_blueprint=blueprint)
        stream.log("robot", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for path, (time_s, values) in curves.items():
            labels = [f"{path.rpartition('/')[2]}[{k}]" for k in range(values.shape[1])]
            stream.log(path, rr.SeriesLines(names=labels), static=True)
            stream.send_columns(
                path, indexes=[rr.TimeColumn("time", duration=time_s)], columns=rr.Scalars.columns(scalars=values)
            )
        _log_shapes(rr, stream, played)
        stream.flush()
        stream.disconnect()
    say(console, f"{out}: open it with rerun {out}")


def _curves(run: RecordedRun, played: Playback) -> dict[str, tuple[Array, Array]]:
    """Times, s, and values, shape (messages, width), of each topic and field that was recorded."""
    topics = {topic: tuple(fields) for topic, fields in _SERIES.items() if f"{played.prefix}/{topic}" in played.topics}
    recording = read_recording(run.bag, topics, played.prefix)
    found = {}
    for topic, series in recording.topics.items():
        time_s = series.received_s + 1e-9 * (recording.origin_ns - played.begin_ns)
        for field in _SERIES[topic]:
            values = series.fields.get(field, np.zeros((0, 0)))
            if values.shape[1]:
                found[f"{topic}/{field}"] = (time_s, np.ascontiguousarray(values))
    return found


def _log_shapes(rr: Any, stream: Any, played: Playback) -> None:
    robot, model = played.robot, robot_model(played.robot)
    drawing = model.drawing()
    largest_n = model.largest_push_n or 1.0
    limit_n = colors.largest_limit_n(robot)
    trail: list[Array] = []
    for time_s, state in _frames(played):
        stream.set_time("time", duration=time_s)
        geometry = drawing.geometry(state.coefficients)
        actual = rr.LineStrips3D(_lines(geometry), radii=drawing.tube_radius_m, colors=colors.MEASURED)
        stream.log("robot/backbone", actual)
        if len(geometry.disks):
            disks = rr.Cylinders3D(
                lengths=drawing.disk_thickness_m, radii=drawing.disk_radii_m, centers=geometry.disks[:, :3, 3],
                quaternions=_quaternions(geometry.disks), colors=[(*colors.DISK, 140)], fill_mode="solid",
            )  # fmt: skip
            stream.log("robot/disks", disks)
        tension = state.tension_n if state.tension_n.size else np.full(len(geometry.tendons), np.nan)
        if len(tension) == len(geometry.tendons):
            tints = colors.tension_colors(tension, limit_n)
            stream.log("robot/tendons", rr.LineStrips3D(list(geometry.tendons), colors=tints))
        trail.append(geometry.tip[:3, 3])
        stream.log("robot/tip_path", rr.LineStrips3D([trail[-_TRAIL_FRAMES:]], colors=colors.TRAIL))
        stream.log("robot/tip", rr.Points3D([trail[-1]], radii=1.5 * drawing.tube_radius_m, colors=colors.TRAIL))
        desired = desired_coefficients(drawing, robot, state.reference_m)
        lines = [] if desired is None else _lines(drawing.geometry(desired))
        radius_m = _DESIRED_RADIUS * drawing.tube_radius_m
        stream.log("robot/desired", rr.LineStrips3D(lines, radii=radius_m, colors=colors.DESIRED))
        force, contact = np.nan_to_num(state.contact.force_there_n), state.contact
        touched = contact.in_contact and math.isfinite(contact.wrench_arc_length_m) and force.any()
        if touched:
            pose = drawing.pose(state.coefficients, contact.wrench_arc_length_m)
            vector = pose[:3, :3] @ force * (_ARROW * drawing.length_m / largest_n)
            arrow = rr.Arrows3D(origins=[pose[:3, 3] - vector], vectors=[vector], colors=colors.CONTACT)
            stream.log("robot/contact", arrow)
        else:
            stream.log("robot/contact", rr.Clear(recursive=False))


def _quaternions(frames: Array) -> Array:
    """Of frames, x first as rerun has them."""
    return np.roll(quaternion_from_matrix(frames[:, :3, :3]), -1, axis=-1)


def _lines(geometry: Geometry) -> list[Array]:
    return [geometry.backbone[:, :3, 3]] if len(geometry.backbone) else list(geometry.outlines)


EXPORTS: dict[str, Callable[[RecordedRun, Playback, Path, Console], None]] = {
    FOXGLOVE: export_foxglove,
    RERUN: export_rerun,
}
"""The export of each viewer."""
