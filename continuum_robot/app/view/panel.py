# SPDX-License-Identifier: Apache-2.0
"""The controls of the page: stop and reset, state in words, steering, tuning, pushing, recording."""

from __future__ import annotations

import html
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.processes import ProcessGroup, node_command
from continuum_robot.app.view import colors, words
from continuum_robot.app.view.body import Body
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.reach import Reach, Unit, largest_push_n, reach_of, unit_of
from continuum_robot.app.view.scene import force_words
from continuum_robot.app.view.snapshot import ContactSnapshot, Snapshot
from continuum_robot.control.motion import motion_limits
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

TRAJECTORY, SLIDERS, TIP, PLANE = "Trajectory", "Sliders", "Drag the tip", "Drag in the Clarke plane"
_PATIENCE_S = 2.0
_TABLE = 121
_COLUMNS = 4
_PLANE_RADIUS = 0.26
_GAINS = {"p": "P", "i": "I", "d": "D"}
_GAIN_SPAN = 4.0

_STYLE = """<style>
.cr-banner{margin:0 12px 8px;padding:8px 10px;border-radius:6px;font-size:13px;line-height:1.35;color:#fff}
.cr-banner b{font-size:15px} .cr-note{font-size:12px;line-height:1.4;color:#555;padding:2px 12px}
.cr-scale{height:12px;border-radius:3px} .cr-ends{display:flex;justify-content:space-between;font-size:11px}
.cr-key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.cr-table{font-size:11.5px;overflow:hidden;border-collapse:collapse;width:100%}
.cr-table td{padding:0 5px 0 0;white-space:nowrap}
div:has(> .cr-stop) + div button{min-height:68px;font-size:22px;font-weight:800;letter-spacing:.5px}
.cr-keys{display:grid;grid-template-columns:1fr 1fr;gap:0 8px;line-height:1.25}
.cr-title{white-space:nowrap;overflow:hidden;text-overflow:ellipsis;
font-size:11.5px;line-height:1.3;color:#555;padding:5px 8px 0 10px}
.cr-title b{color:#222;font-size:12.5px}
</style>"""
_STATE_COLORS = {"up": "#2b8a3e", "fault": "#c92a2a", "starting": "#b7791f", "stopping": "#b7791f", "down": "#5c6370"}


@dataclass
class Controls:
    """Handles that something else than the page itself moves, such as a test.

    Attributes
    ----------
    stop, reset : buttons
    mode : who gives the reference
    sliders : of each Clarke coordinate, mm
    kind, amplitude, frequency, play : trajectory of the reference source
    gains : parameter name -> slider
    pretension : slider, None before the controller was heard
    push, push_place, push_force, push_direction : pushing; None of a robot that cannot be pushed
    record : checkbox
    """

    stop: Any
    reset: Any
    mode: Any
    sliders: list[Any]
    kind: Any = None
    amplitude: Any = None
    frequency: Any = None
    play: Any = None
    gains: dict[str, Any] | None = None
    pretension: Any = None
    push: Any = None
    push_place: Any = None
    push_force: Any = None
    push_direction: Any = None
    record: Any = None


class Panel:
    """Everything a hand can move, and the sentences beside it.

    Parameters
    ----------
    server : of the page
    commander : spun
    robot : what it is
    body : its looks
    scene_scale : units of the scene a metre
    record_directory : where recordings go of a stack that has no recorder

    Attributes
    ----------
    controls : handles
    """

    def __init__(
        self,
        server: viser.ViserServer,
        commander: Commander,
        robot: Robot,
        body: Body,
        *,
        scene_scale: float,
        record_directory: Path,
    ) -> None:
        self._server, self._commander, self._robot, self._body = server, commander, robot, body
        self._scale, self._record_directory = scene_scale, record_directory
        self._reach: Reach = reach_of(robot)
        self._unit = unit_of(robot)
        self._snapshot = Snapshot(time_s=time.monotonic())
        self._seen: dict[str, Any] = {}
        self._wanted: Array | None = None
        self._legend: Any = None
        self._chosen_s = -math.inf
        self._dragged = False
        self._tips = self._tip_table()
        self._programmed = threading.local()
        self._recording: ProcessGroup | None = None
        self._tuned = self._played = False
        gui = server.gui
        gui.add_html(_STYLE + '<div class="cr-stop"></div>')
        stop = gui.add_button("EMERGENCY STOP", color="red", hint="Latches the driver's stop: tensions go to safe.")
        stop.on_click(lambda _event: self._stop())
        self._banner = gui.add_html("")
        reset = gui.add_button("Reset", hint="Clears the faults and brings the stack up again.")
        reset.on_click(lambda _event: self._reset())
        self._answer = gui.add_html("", visible=False)
        mode = gui.add_dropdown("Steer", (TRAJECTORY, SLIDERS, TIP, PLANE), hint="Who gives the reference.")
        self.controls = Controls(stop, reset, mode, [])
        tabs = gui.add_tab_group()
        with tabs.add_tab("Steer"):
            self._make_steering()
        with tabs.add_tab("Tune"):
            self._make_tuning()
        with tabs.add_tab("Push"):
            self._make_pushing()
        with tabs.add_tab("Record"):
            self._make_recording()
        self._make_gizmos()
        mode.on_update(lambda _event: self._choose(mode.value))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Short names of the Clarke coordinates."""
        return self._reach.short_names

    # What the page says, every frame

    def update(self, snapshot: Snapshot, scale_end_n: float) -> None:
        """Bring words and buttons up to date; call it within ``server.atomic()``.

        Parameters
        ----------
        snapshot : what is known
        scale_end_n : where the scale of the tensions ends, N
        """
        self._snapshot = snapshot
        self._set(self._banner, "content", banner(snapshot))
        latched = snapshot.stack.estop
        self._set(self.controls.stop, "label", "STOPPED (latched)" if latched else "EMERGENCY STOP")
        self._set(
            self.controls.reset, "disabled", not (snapshot.stack.faults or latched or snapshot.stack.state == "down")
        )
        if self._legend is not None:
            self._set(
                self._legend, "content", legend(snapshot, scale_end_n, self._reach.short_names, unit_of(self._robot))
            )
        self._leave_when_taken(snapshot)
        self._follow_gizmos(snapshot)
        self._find_parameters()
        if self.controls.push is not None:
            self._set(self.controls.push, "disabled", not self._commander.can_push)
        self._set(self._record_note, "content", self._record_words())
        tip_words = self._commander.tip_words if self.controls.mode.value == TIP and self._tips is None else ""
        self._set(self._tip_note, "content", _note(tip_words))

    def close(self) -> None:
        """Give the reference back and end a recording."""
        if self._commander.steering:
            done = threading.Event()
            self._commander.hand_back(lambda _success, _sentence: done.set())
            done.wait(1.0)
        self._end_recording()

    def add_legend(self) -> None:
        """The legend, in the container that is open."""
        self._legend = self._server.gui.add_html("")

    def _set(self, handle: Any, name: str, value: Any) -> None:
        if getattr(handle, name) != value:
            setattr(handle, name, value)

    def _tell(self, sentence: str) -> None:
        self._answer.content = _note(sentence)
        self._answer.visible = bool(sentence)

    # Stop and reset

    def _stop(self) -> None:
        self._commander.drop_reference()
        self._commander.stop_robot(
            lambda success, sentence: self._tell("" if success else f"The stop was not confirmed: {sentence}")
        )

    def _reset(self) -> None:
        self._tell("Reset: the stack goes down, faults are cleared, the stack comes up ...")
        self._commander.reset(
            lambda success, sentence: self._tell("" if success else f"The reset did not succeed: {sentence}")
        )

    # Steering

    def _make_steering(self) -> None:
        gui = self._server.gui
        gui.add_html(
            _note(
                "The node reference_source plays a trajectory. As soon as you move a slider, it falls silent and the"
                " page writes the reference, so that two never fight; with Trajectory it plays again. Dragging the tip"
                " asks the stack for the tip's place: inverse kinematics within the limits of the tendons."
            )
        )
        self._tip_note = gui.add_html("")
        for name, low, high in zip(self._reach.names, self._reach.low_m, self._reach.high_m, strict=True):
            slider = gui.add_slider(
                f"{name}, mm", min=round(1e3 * low, 3), max=round(1e3 * high, 3), step=round(1e3 * high, 3) / 200,
                initial_value=0.0, hint="Moving it takes the reference over.",
            )  # fmt: skip
            slider.on_update(lambda _event: self._slide())
            self.controls.sliders.append(slider)
        self._trajectory_folder = gui.add_folder("Trajectory of reference_source")

    def _choose(self, mode: str) -> None:
        if self._by_program:
            return
        self._chosen_s, self._dragged = time.monotonic(), False
        if mode == TRAJECTORY:
            self._commander.play(lambda _success, sentence: self._tell(f"reference_source: {sentence}"))
        elif mode == TIP and self._tips is None:
            self._tell("The robot holds. Drag the axes at the tip: it brings its tip there.")
            self._commander.hold(self._answer_if_refused)
        elif not self._commander.steering:
            self._take()

    def _take(self) -> None:
        snapshot = self._snapshot
        start = snapshot.clarke_reference if snapshot.clarke_reference.size else snapshot.clarke
        if start.size != len(self._reach.names) or snapshot.stack.driver != "active":
            self._tell("The robot is not under control: nothing to steer. See the state above.")
            self._programmatically(self.controls.mode, TRAJECTORY)
            return

        def taken(success: bool, sentence: str) -> None:
            self._tell(f"You steer now: {sentence}." if success else f"Refused: {sentence}")
            if success:
                if self._wanted is not None:
                    self._commander.aim(self._wanted)
            else:
                self._programmatically(self.controls.mode, TRAJECTORY)

        self._commander.take_reference(start, motion_limits(self._robot), taken)

    def _slide(self) -> None:
        if self._by_program:
            return
        self._aim(1e-3 * np.array([slider.value for slider in self.controls.sliders]))
        if self.controls.mode.value != SLIDERS:
            self.controls.mode.value = SLIDERS

    def _aim(self, target: Array) -> None:
        self._wanted = np.clip(target, self._reach.low_m, self._reach.high_m)
        self._commander.aim(self._wanted)

    def _leave_when_taken(self, snapshot: Snapshot) -> None:
        """Somebody else took the reference, or the robot stopped: the page steers no more."""
        mode = self.controls.mode.value
        if mode == TRAJECTORY or time.monotonic() - self._chosen_s < _PATIENCE_S:
            return
        by_other_node = mode == TIP and self._tips is None
        lost = not by_other_node and not self._commander.steering
        if lost or snapshot.stack.state == "fault" or not snapshot.alive:
            self._commander.drop_reference()
            self._programmatically(self.controls.mode, TRAJECTORY)
            self._tell(
                f"You do not steer any more: {self._commander.writer or 'nobody'} gives the reference."
                if lost and snapshot.alive
                else "You do not steer any more: the robot stopped."
            )

    def _programmatically(self, handle: Any, value: Any) -> None:
        """Move a control without acting as if a hand did it: its callback comes in this thread, before this returns."""
        self._programmed.active = True
        try:
            handle.value = value
        finally:
            self._programmed.active = False

    @property
    def _by_program(self) -> bool:
        return getattr(self._programmed, "active", False)

    def _answer_if_refused(self, success: bool, sentence: str) -> None:
        if not success:
            self._tell(f"Refused: {sentence}")

    # Gizmos

    def _make_gizmos(self) -> None:
        scene = self._server.scene
        self._tip_gizmo = scene.add_transform_controls(
            "/target", scale=0.22, disable_rotations=True, depth_test=False, visible=False
        )
        self._tip_gizmo.on_update(lambda _event: self._drag_tip())
        self._plane = scene.add_frame("/plane", show_axes=False, position=(0.3, 0.5, 0.004), visible=False)
        scene.add_cylinder(
            "/plane/disk", radius=_PLANE_RADIUS, height=0.004, color=(214, 226, 245), opacity=0.8, cast_shadow=False
        )
        scene.add_label(
            "/plane/name", "Clarke plane: x q_Re, y q_Im",
            position=(0.0, -1.15 * _PLANE_RADIUS, 0.0), anchor="top-center", font_screen_scale=0.8,
        )  # fmt: skip
        self._plane_dot = scene.add_icosphere("/plane/measured", radius=0.014, color=colors.ACTUAL)
        reach = _PLANE_RADIUS
        self._plane_gizmo = scene.add_transform_controls(
            "/plane/target", scale=0.16, active_axes=(True, True, False), disable_rotations=True, depth_test=False,
            translation_limits=((-reach, reach), (-reach, reach), (0.0, 0.0)),
        )  # fmt: skip
        self._plane_gizmo.on_update(lambda _event: self._drag_plane())

    @property
    def _plane_index(self) -> int:
        """First coordinate of the last segment that bends in two directions."""
        return 2 * (len(self._reach.names) // 2) - 2

    def _drag_tip(self) -> None:
        if self.controls.mode.value != TIP:
            return
        self._dragged = True
        self.aim_tip(np.asarray(self._tip_gizmo.position) / self._scale)

    def aim_tip(self, place_m: Array) -> None:
        """Bring the tip to a place, base frame, shape (3,), m, while it is dragged.

        Parameters
        ----------
        place_m : base frame, shape (3,), m
        """
        if self._tips is None:
            self._commander.aim_tip(place_m, lambda _success, sentence: self._tell(sentence))
            return
        clarke, tips = self._tips
        self._aim(clarke[np.argmin(np.sum((tips - place_m) ** 2, axis=1))])

    def _tip_at(self, clarke: Array) -> Array:
        return np.asarray(self._body.geometry(self._body.coefficients(clarke)).tip[:3, 3])

    def _tip_table(self) -> tuple[Array, Array] | None:
        """Where the tip goes with the only coordinate of a robot; None of others: a node of the stack steers theirs."""
        if len(self._reach.names) > 1:
            return None
        clarke = np.linspace(self._reach.low_m, self._reach.high_m, _TABLE)
        return clarke, np.array([self._tip_at(values) for values in clarke])

    def _drag_plane(self) -> None:
        start = self._wanted if self._wanted is not None else self._snapshot.clarke_reference
        if self.controls.mode.value != PLANE or start.size != len(self._reach.names):
            return
        k = self._plane_index
        point = np.asarray(self._plane_gizmo.position)[:2] / _PLANE_RADIUS
        wanted = np.array(start)
        wanted[k : k + 2] = point * self._reach.high_m[k : k + 2]
        self._aim(wanted)

    def _follow_gizmos(self, snapshot: Snapshot) -> None:
        mode = self.controls.mode.value
        size = len(self._reach.names)
        at = snapshot.clarke_reference
        if self._seen.get("mode") != mode:
            self._seen["mode"] = mode
            if mode in (TRAJECTORY, TIP):
                self._wanted = None
            self._tip_gizmo.visible = mode == TIP
            self._plane.visible = mode == PLANE and size > 1
            if at.size == size > 1 and mode == PLANE:
                k = self._plane_index
                self._plane_gizmo.position = (*(_PLANE_RADIUS * at[k : k + 2] / self._reach.high_m[k : k + 2]), 0.0)
        if mode == TIP and not self._dragged and at.size == size:
            self._tip_gizmo.position = self._tip_at(at) * self._scale
        if mode == PLANE and snapshot.clarke.size == size > 1:
            k = self._plane_index
            self._plane_dot.position = (
                *(_PLANE_RADIUS * snapshot.clarke[k : k + 2] / self._reach.high_m[k : k + 2]), 0.0
            )  # fmt: skip
        if mode != SLIDERS and snapshot.clarke_reference.size == size:
            now_s = time.monotonic()
            if now_s - self._seen.get("slid_s", -math.inf) > 0.2:
                self._seen["slid_s"] = now_s
                for slider, value in zip(self.controls.sliders, snapshot.clarke_reference, strict=True):
                    self._programmatically(slider, float(np.clip(1e3 * value, slider.min, slider.max)))

    # Trajectory, gains and pretension: what the nodes allow

    def _make_tuning(self) -> None:
        gui = self._server.gui
        gui.add_html(
            _note(
                "PID gains of the Clarke controller, one set a segment, and the pretension that keeps tendons taut. A"
                " change acts at the controller's next cycle. The ranges are the node's own, for gains at most four"
                " times the start value; what does not fit together is refused with a sentence."
            )
        )
        self._tuning_folder = gui.add_folder("Controller", visible=False)

    def _find_parameters(self) -> None:
        now_s = time.monotonic()
        if now_s - self._seen.get("asked_s", -math.inf) < 1.0 or self._snapshot.stack.state != "up":
            return
        self._seen["asked_s"] = now_s
        if not self._tuned:
            names = [f"gains.{part}.{gain}" for part in self._robot.part_names for gain in _GAINS]
            self._commander.describe("clarke_controller", [*names, "pretension_n"], self._fill_tuning)
        if not self._played:
            names = ["reference.kind", "reference.amplitude_m", "reference.frequency_hz"]
            self._commander.describe("reference_source", names, self._fill_trajectory)

    def _fill_tuning(self, found: dict[str, Described]) -> None:
        if self._tuned or "pretension_n" not in found:
            return
        self._tuned = True
        gains = {}
        with self._tuning_folder:
            low, high = found["pretension_n"].range or (0.0, math.inf)
            if self._robot.limits is not None:
                high = min(high, self._robot.limits.maximum_n)
            self.controls.pretension = self._slider("pretension, N", "pretension_n", low, high, found["pretension_n"])
            for part in self._robot.part_names:
                for gain, letter in _GAINS.items():
                    name = f"gains.{part}.{gain}"
                    if name not in found:
                        continue
                    low, high = found[name].range or (0.0, math.inf)
                    start = float(found[name].value)
                    title = f"{letter} {part}" if len(self._robot.part_names) > 1 else letter
                    if start > 0:
                        gains[name] = self._slider(title, name, low, min(high, _GAIN_SPAN * start), found[name])
        self.controls.gains = gains
        self._tuning_folder.visible = True

    def _slider(self, title: str, name: str, low: float, high: float, found: Described) -> Any:
        value = float(np.clip(found.value, low, high))
        slider = self._server.gui.add_slider(
            title, min=low, max=high, step=(high - low) / 400, initial_value=value, hint=found.descriptor.description
        )

        def changed(_event: Any) -> None:
            self._commander.set_parameters("clarke_controller", {name: float(slider.value)}, self._answer_if_refused)

        slider.on_update(changed)
        return slider

    def _fill_trajectory(self, found: dict[str, Described]) -> None:
        if self._played or "reference.kind" not in found:
            return
        self._played = True
        controls = self.controls
        kinds = tuple(kind for kind in found["reference.kind"].choices if kind != "csv")
        amplitude = np.array(found["reference.amplitude_m"].value, dtype=float)
        frequency = [float(value) for value in found["reference.frequency_hz"].value or [0.1]]
        reach = float(1e3 * self._reach.high_m.max())
        with self._trajectory_folder:
            gui = self._server.gui
            now = found["reference.kind"].value
            controls.kind = gui.add_dropdown("kind", kinds, initial_value=now if now in kinds else kinds[0])
            largest = float(1e3 * np.abs(amplitude).max())
            controls.amplitude = gui.add_slider(
                "amplitude, mm", min=0.0, max=max(reach, largest), step=reach / 200, initial_value=largest
            )
            controls.frequency = gui.add_slider(
                "frequency, Hz", min=0.02, max=0.5, step=0.01, initial_value=float(np.clip(frequency[0], 0.02, 0.5))
            )
            controls.play = gui.add_button("Play")
        controls.play.on_click(lambda _event: self._play(amplitude, len(frequency)))

    def _play(self, shape: Array, count: int) -> None:
        """The amplitudes keep their proportions."""
        largest = float(np.abs(shape).max())
        wanted = 1e-3 * float(self.controls.amplitude.value)
        amplitude = wanted * shape / largest if largest > 0 else np.full(shape.size, wanted)
        values = {
            "reference.kind": str(self.controls.kind.value),
            "reference.amplitude_m": [float(value) for value in amplitude],
            "reference.frequency_hz": [float(self.controls.frequency.value)] * count,
        }

        def answer(success: bool, sentence: str) -> None:
            self._tell(f"reference_source plays {values['reference.kind']}." if success else f"Refused: {sentence}")
            if success:
                self._commander.drop_reference()
                self._programmatically(self.controls.mode, TRAJECTORY)

        self._commander.set_parameters("reference_source", values, answer)

    # Push

    def _make_pushing(self) -> None:
        gui = self._server.gui
        if self._robot.mechanism is not None:
            gui.add_html(_note("Pushes are simulated on rods only; this robot is a mechanism."))
            return
        gui.add_html(
            _note(
                "Push on the simulated robot and see what the controller does about it. The violet arrow is your push;"
                " the red one, where a contact monitor runs, is what the robot feels: its force, its place, and the"
                " stretch of backbone that holds the place with 90 % probability."
            )
        )
        length_mm, largest = 1e3 * self._robot.length_m, largest_push_n(self._robot)
        controls = self.controls
        controls.push_place = gui.add_slider("place, mm from base", min=0.0, max=length_mm, step=length_mm / 100,
                                             initial_value=length_mm)  # fmt: skip
        controls.push_force = gui.add_slider("force, N", min=0.0, max=largest, step=largest / 100,
                                             initial_value=0.4 * largest)  # fmt: skip
        controls.push_direction = gui.add_slider("direction, ° from +x", min=0, max=360, step=5, initial_value=180)
        self._push_time = gui.add_slider("for, s", min=0.5, max=10.0, step=0.5, initial_value=2.0)
        controls.push = gui.add_button("Push", color="violet", disabled=True)
        controls.push.on_click(lambda _event: self._push())
        gui.add_html(
            _note(
                "A contact monitor that calls itself blind has lost the robot for a moment. It stays blind until"
                " somebody has looked at it:"
            )
        )
        look = gui.add_button("Reset contact monitor", color="gray")
        look.on_click(lambda _event: self._commander.reset_contact_monitor(self._answer_if_refused))

    def _push(self) -> None:
        controls = self.controls
        angle = math.radians(controls.push_direction.value)
        force = controls.push_force.value * np.array([math.cos(angle), math.sin(angle), 0.0])
        self._commander.push(1e-3 * controls.push_place.value, force, float(self._push_time.value))

    # Record

    def _make_recording(self) -> None:
        self.controls.record = self._server.gui.add_checkbox("record", initial_value=False)
        self.controls.record.on_update(lambda _event: self._record(bool(self.controls.record.value)))
        self._record_note = self._server.gui.add_html("")

    def _record(self, wanted: bool) -> None:
        if self._by_program:
            return
        if self._commander.has_recorder and self._recording is None:
            self._commander.record(wanted, self._answer_if_refused)
            return
        if wanted and self._recording is None:
            parameters = {
                "robot": self._robot.file_name or self._robot.name,
                "use_fake_hardware": self._snapshot.stack.simulated,
                "directory": str(self._record_directory),
            }
            group = ProcessGroup(
                {"recorder": node_command("recorder", parameters, self._commander.node.get_namespace())}
            )
            group.start()
            self._recording = group
        elif not wanted:
            self._end_recording()

    def _end_recording(self) -> None:
        group, self._recording = self._recording, None
        if group is not None:
            group.stop()

    def _record_words(self) -> str:
        state = self._snapshot.stack.nodes.get("recorder")
        if state is not None:
            recording = state == "active"
            if self.controls.record.value != recording:
                self._programmatically(self.controls.record, recording)
            words_ = "The stack's recorder writes all topics" if recording else "The stack's recorder rests"
        elif self._recording is not None:
            words_ = f"All topics are written to a folder named by the date in {self._record_directory}"
        else:
            words_ = f"Switch on to write all topics to {self._record_directory}"
        return _note(words_ + ". Recordings are MCAP files: ros2 bag, PlotJuggler and Foxglove open them.")


def _note(text: str) -> str:
    return f'<div class="cr-note">{html.escape(text)}</div>' if text else ""


def banner(snapshot: Snapshot) -> str:
    """State of the stack and faults in words, as HTML.

    Parameters
    ----------
    snapshot : what is known
    """
    stack = snapshot.stack
    state = stack.state if snapshot.alive or stack.state in ("starting", "down") else ""
    color = "#c92a2a" if stack.faults or stack.estop else _STATE_COLORS.get(state, "#5c6370")
    kind = "simulated" if stack.simulated else "hardware"
    title = (state or "no stack").upper() + (f" · {kind}" if state else "")
    if stack.estop:
        title = "EMERGENCY STOP IS LATCHED"
    parts = [f"<b>{html.escape(title)}</b><br>{html.escape(words.STATES.get(state, ''))}"]
    if stack.driver and state:
        parts.append(f"Motors: {html.escape(words.DRIVER_STATES.get(stack.driver, stack.driver))}.")
    for fault in stack.faults:
        said = words.explain(fault)
        parts.append(f"<b>{html.escape(said.name)}</b>: {html.escape(said.cause)}.<br>➜ {html.escape(said.remedy)}")
    idle = [f"{name} {what}" for name, what in stack.nodes.items() if what != "active"]
    if idle and state in ("up", "fault"):
        parts.append("Not active: " + html.escape(", ".join(idle)) + ".")
    if snapshot.shape_problem:
        parts.append("Shape: " + html.escape(snapshot.shape_problem))
    return f'<div class="cr-banner" style="background:{color}">' + "<br>".join(parts) + "</div>"


def legend(snapshot: Snapshot, scale_end_n: float, names: tuple[str, ...], unit: Unit) -> str:
    """What is seen and how large it is, as HTML.

    Parameters
    ----------
    snapshot : what is known
    scale_end_n : where the scale of the tensions ends, N
    names : of the Clarke coordinates
    unit : of lengths
    """
    keys = (
        (colors.ACTUAL, "robot as measured"),
        (colors.DESIRED, "wanted shape"),
        (colors.TRAIL, "path of the tip"),
        (colors.CONTACT, "felt contact, its place"),
        (colors.PUSH, "true push (simulated)"),
    )
    rows = "".join(
        f'<div><span class="cr-key" style="background:{colors.css(color)}"></span>{text}</div>' for color, text in keys
    )
    cells = _cells(names[:_COLUMNS], snapshot.clarke, unit)
    tip = _cells(("tip x", "y", "z"), snapshot.tip_m, unit)
    says = "" if snapshot.contact is None else f"Contact: <b>{html.escape(contact_words(snapshot.contact))}</b>"
    return (
        f'<div class="cr-note"><div class="cr-keys">{rows}<div>axes x y z: red green blue</div></div>'
        "Tendons are coloured by their tension:"
        f'<div class="cr-scale" style="background:{colors.scale_css()}"></div>'
        f'<div class="cr-ends"><span>0 N, slack</span><span>{scale_end_n / 2:g}</span>'
        f"<span>{scale_end_n:g} N</span></div>"
        f'<table class="cr-table"><tr>{cells}</tr><tr>{tip}</tr></table>{says}</div>'
    )


def _cells(names: Sequence[str], values_m: Array, unit: Unit) -> str:
    pairs = zip(names, unit.per_m * values_m, strict=False)
    digits = unit.digits if len(names) < _COLUMNS else 1
    cells = "".join(f"<td>{html.escape(name)} <b>{value:.{digits}f}</b></td>" for name, value in pairs)
    return f"{cells}<td>{unit.name}</td>" if cells else ""


def contact_words(contact: ContactSnapshot) -> str:
    """What the contact monitor says, in a few words.

    Parameters
    ----------
    contact : newest
    """
    if contact.touching:
        force = np.nan_to_num(contact.force_n)
        return force_words(contact, float(np.sqrt(force @ force)))
    return f"{contact.state}: {contact.reason}" if contact.reason else contact.state
