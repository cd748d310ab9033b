# SPDX-License-Identifier: Apache-2.0
"""Parameters of nodes as controls, each folder a table: gains, motors, reactions; and the trajectory that is played."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from continuum_robot.app.client.stack_link import SOURCE
from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander, Described
from continuum_robot.app.view.controls.status import Status
from continuum_robot.app.view.controls.steering import Steering
from continuum_robot.app.view.steering_range import on_step, slider_step
from continuum_robot.robot.control_settings import REACTIONS
from continuum_robot.robot.description import Robot

Array = NDArray[np.float64]

CONTROLLER, DRIVER = "clarke_controller", "tendon_driver"
PRETENSION, COGGING, STRATEGY = "pretension_n", "cogging", "reaction.strategy"
_INTEGRAL = "integral_per_s"
_PERIOD_S = 1.0
_SPAN = 4.0


class Question:
    """Asks a node for parameters once a second while the stack is up, until it answers."""

    def __init__(
        self,
        commander: Commander,
        node: str,
        names: Sequence[str],
        answered: Callable[[dict[str, Described]], None],
    ) -> None:
        self._commander, self._node, self._names, self._answered = commander, node, list(names), answered
        self._asked_s = -math.inf
        self._done = False

    def update(self, snapshot: RobotState) -> None:
        """Ask where it is time to."""
        now_s = time.monotonic()
        if self._done or snapshot.stack != "up" or now_s - self._asked_s < _PERIOD_S:
            return
        self._asked_s = now_s
        self._commander.describe(self._node, self._names, self._take)

    def _take(self, found: dict[str, Described]) -> None:
        if not self._done and self._names[0] in found:
            self._done = True
            self._answered(found)


@dataclass(frozen=True)
class Row:
    """A parameter as a control: a dropdown of words, or a slider over the node's own range, up to ``most``.

    With ``span`` the slider reaches that many times the value at first; a value that is 0 then has none.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    most: float = math.inf
    span: float = 0.0


class ParameterFolder:
    """A folder of parameters of one node in the container that is open; it appears once the node answers."""

    def __init__(
        self, server: viser.ViserServer, commander: Commander, status: Status, title: str, node: str, rows: list[Row]
    ) -> None:
        self._gui, self._commander, self._status, self._node, self._rows = server.gui, commander, status, node, rows
        self.controls: dict[str, Any] = {}
        self._folder = server.gui.add_folder(title, visible=False)
        self._buttons: list[tuple[str, str, Callable[[], None]]] = []
        self._question = Question(commander, node, [row.name for row in rows], self._fill)

    def with_button(self, title: str, hint: str, press: Callable[[], None]) -> ParameterFolder:
        """A button under the parameters, among the controls by its title."""
        self._buttons.append((title, hint, press))
        return self

    def update(self, snapshot: RobotState) -> None:
        """Look for the node."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        controls: dict[str, Any] = {}
        with self._folder:
            for row in self._rows:
                control = self._control(row, found[row.name]) if row.name in found else None
                if control is not None:
                    control.on_update(lambda _event, name=row.name, control=control: self._set(name, control.value))
                    controls[row.name] = control
            for title, hint, press in self._buttons:
                controls[title] = self._gui.add_button(title, hint=hint)
                controls[title].on_click(lambda _event, press=press: press())
        self.controls = controls
        self._folder.visible = True

    def _control(self, row: Row, found: Described) -> Any:
        hint = found.descriptor.description
        if row.words:
            return self._gui.add_dropdown(row.title, row.words, initial_value=str(found.value), hint=hint)
        start, (low, high) = float(found.value), found.range or (0.0, math.inf)
        high = min(high, row.most, row.span * start if row.span else math.inf)
        if row.span and not start > 0:
            return None
        step = slider_step(high - low)
        end = on_step(high, step)
        return self._gui.add_slider(
            row.title, min=low, max=end, step=step, initial_value=min(float(np.clip(start, low, high)), end), hint=hint
        )

    def _set(self, name: str, value: Any) -> None:
        value = value if isinstance(value, str) else float(value)
        self._commander.set_parameters(self._node, {name: value}, self._status.show_if_refused)


def gains(server: viser.ViserServer, commander: Commander, status: Status, robot: Robot) -> ParameterFolder:
    """Gains and pretension of the controller, within the ranges that it allows."""
    most_n = math.inf if robot.limits is None else robot.limits.smallest("maximum_n", robot.tendon_count)
    rows = [Row(PRETENSION, "pretension, N", most=most_n)]
    if not robot.takes_displacements:
        several = len(robot.part_names) > 1
        rows += [
            Row(f"gains.{part}.{gain}", f"{gain.upper()} {part}" if several else gain.upper(), span=_SPAN)
            for part in robot.part_names
            for gain in "pid"
        ]
    elif robot.sees_shape or robot.sees_tip:
        rows.append(Row(_INTEGRAL, "integral, 1/s"))
    return ParameterFolder(server, commander, status, "Controller", CONTROLLER, rows)


def motors(server: viser.ViserServer, commander: Commander, status: Status) -> ParameterFolder:
    """Whether the driver feeds the motors' cogging forward."""
    row = Row(COGGING, "feed cogging forward", words=("auto", "on", "off"))
    return ParameterFolder(server, commander, status, "Motors", DRIVER, [row])


def touching(server: viser.ViserServer, commander: Commander, status: Status) -> ParameterFolder:
    """What the robot does when something touches it, and the way back to its reference."""
    row = Row(STRATEGY, "the robot should", words=REACTIONS)
    folder = ParameterFolder(server, commander, status, "When something touches", SOURCE, [row])
    return folder.with_button(
        "Go on", "Back to the reference from where it holds.", lambda: commander.resume(status.show_if_refused)
    )


class Trajectory:
    """The trajectory that reference_source plays: a folder in the container that is open, filled once that answers."""

    def __init__(self, server: viser.ViserServer, commander: Commander, steering: Steering, status: Status) -> None:
        self._gui, self._commander, self._steering, self._status = server.gui, commander, steering, status
        self._unit = steering.unit
        self.kind: Any = None
        self.amplitude: Any = None
        self.frequency: Any = None
        self.play: Any = None
        self._folder = server.gui.add_folder(f"Trajectory of {SOURCE}")
        names = ("reference.kind", "reference.amplitude_m", "reference.frequency_hz")
        self._question = Question(commander, SOURCE, names, self._fill)

    def update(self, snapshot: RobotState) -> None:
        """Look for the reference source."""
        self._question.update(snapshot)

    def _fill(self, found: dict[str, Described]) -> None:
        kinds = tuple(kind for kind in found["reference.kind"].choices if kind != "csv")
        amplitude = np.array(found["reference.amplitude_m"].value, dtype=float)
        frequency = [float(value) for value in found["reference.frequency_hz"].value or [0.1]]
        reach = float(self._unit.per_m * self._steering.reach.high_m.max())
        gui = self._gui
        with self._folder:
            now = found["reference.kind"].value
            self.kind = gui.add_dropdown("kind", kinds, initial_value=now if now in kinds else kinds[0])
            largest = float(self._unit.per_m * np.abs(amplitude).max())
            step = slider_step(max(reach, largest))
            high = on_step(max(reach, largest), step)
            self.amplitude = gui.add_slider(
                f"amplitude, {self._unit.name}", min=0.0, max=high, step=step, initial_value=min(largest, high)
            )
            self.frequency = gui.add_slider(
                "frequency, Hz", min=0.02, max=0.5, step=0.01, initial_value=float(np.clip(frequency[0], 0.02, 0.5))
            )
            self.play = gui.add_button("Play")
        self.play.on_click(lambda _event: self._play(amplitude, len(frequency)))

    def _play(self, shape: Array, count: int) -> None:
        """The amplitudes keep their proportions."""
        largest = float(np.abs(shape).max())
        desired = float(self.amplitude.value) / self._unit.per_m
        amplitude = desired * shape / largest if largest > 0 else np.full(shape.size, desired)
        values = {
            "reference.kind": str(self.kind.value),
            "reference.amplitude_m": [float(value) for value in amplitude],
            "reference.frequency_hz": [float(self.frequency.value)] * count,
        }

        def answer(success: bool, sentence: str) -> None:
            self._status.show(f"{SOURCE} {sentence}." if success else f"Refused: {sentence}")
            if success:
                self._steering.leave()

        def start(success: bool, sentence: str) -> None:
            if success:
                self._commander.play(self._steering.asking(answer))
            else:
                answer(success, sentence)

        self._commander.set_parameters(SOURCE, values, self._steering.asking(start))
