# SPDX-License-Identifier: Apache-2.0
"""The panel of the page: stop and reset, state in words, and a tab each for steering, tuning, pushing, recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import viser

from continuum_robot.app.client.state import RobotState
from continuum_robot.app.view.commander import Commander
from continuum_robot.app.view.controls.parameters import ParameterFolder, Trajectory, gains, motors, touching
from continuum_robot.app.view.controls.pushing import Pushing
from continuum_robot.app.view.controls.recording import Recording
from continuum_robot.app.view.controls.stage import StageSliders
from continuum_robot.app.view.controls.status import Status, banner
from continuum_robot.app.view.controls.steering import Steering
from continuum_robot.app.view.controls.targets import PlaneTarget, TipTarget
from continuum_robot.app.view.curves import TICKS_STYLE
from continuum_robot.app.view.gui import note, show
from continuum_robot.models.drawing import Drawing
from continuum_robot.models.robot_model import RobotModel

STYLE = """<style>
:root{--cr-dim:color-mix(in srgb,var(--mantine-color-text) 72%,transparent)}
.cr-banner{margin:0 12px 8px;padding:8px 10px;border-radius:6px;font-size:13px;line-height:1.35;color:#fff}
.cr-banner b{font-size:15px}
.cr-note{font-size:12px;line-height:1.4;color:var(--cr-dim);padding:2px 12px}
.cr-answer{min-height:36px}
.cr-scale{height:12px;border-radius:3px} .cr-ends{display:flex;justify-content:space-between;font-size:11px}
.cr-key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}
.cr-table{font-size:11.5px;overflow:hidden;border-collapse:collapse;width:100%}
.cr-table td{padding:0 5px 0 0;white-space:nowrap}
[style*="min-height: 0"]:has(.cr-stop){overflow:clip!important}
div:has(> .cr-stop) + div{position:sticky;top:0;z-index:5;background:var(--mantine-color-body)}
div:has(> .cr-stop) + div button{min-height:68px;font-size:22px;font-weight:800;letter-spacing:.5px}
.cr-keys{display:grid;grid-template-columns:1fr 1fr;gap:0 8px;line-height:1.25}
.cr-title{white-space:nowrap;overflow:hidden;text-overflow:ellipsis;
font-size:11.5px;line-height:1.3;color:var(--cr-dim);padding:5px 8px 0 10px}
.cr-title b{color:var(--mantine-color-text);font-size:12.5px}
label,input,.mantine-Text-root{letter-spacing:normal!important}
input.mantine-NumberInput-input{padding-left:4px;padding-right:2px;font-size:10px}
canvas{opacity:1!important}
/* Of a phone viser's sheet is narrow and high, by styles of its elements. */
@media (max-width:36em){
[style*="20em"]{width:100vw!important} [style*="max-height: 60%"]{max-height:52%!important}
div:has(> .cr-stop) + div{position:fixed;top:0;left:0;right:0;background:none}
div:has(> .cr-stop) + div button{min-height:52px}}"""
STYLE += TICKS_STYLE + "</style>"


class Panel:
    """Everything a hand can move, and the sentences beside it."""

    def __init__(
        self,
        server: viser.ViserServer,
        commander: Commander,
        model: RobotModel,
        drawing: Drawing,
        *,
        scene_scale: float,
        record_directory: Path,
    ) -> None:
        gui, robot = server.gui, model.robot
        gui.add_html(STYLE + '<div class="cr-stop"></div>')
        status = self.status = Status(server, commander)
        self.steering = None if robot.control is None else Steering(server, commander, robot, status)
        self.tip: TipTarget | None = None
        self.plane: PlaneTarget | None = None
        self.trajectory: Trajectory | None = None
        self.stage: StageSliders | None = None
        self.folders: dict[str, ParameterFolder] = {}
        tabs = gui.add_tab_group()
        if self.steering is None:
            with tabs.add_tab("Steer"):
                gui.add_html(
                    note(
                        "This page cannot steer the robot: its file has no section control, hence there is no reference"
                        " and no controller. Its tendons are pulled by the node that publishes tendon_commands."
                    )
                )
        else:
            with tabs.add_tab("Steer"):
                gui.add_html(
                    note(
                        "The node reference_source plays a trajectory. As soon as you move a slider, it falls silent"
                        " and the page writes the reference, so that two never fight; with Trajectory it plays again."
                        " Dragging the tip asks the stack for the tip's place: inverse kinematics within the limits of"
                        " the tendons."
                    )
                )
                self.tip = TipTarget(
                    server, commander, self.steering, status,
                    drawing=drawing, scene_scale=scene_scale, stage=robot.base_stage,
                )  # fmt: skip
                self.plane = PlaneTarget(server, self.steering)
                self.steering.add_sliders()
                if robot.base_stage is not None:
                    self.stage = StageSliders(server, commander, status, robot.base_stage)
                self.trajectory = Trajectory(server, commander, self.steering, status)
            with tabs.add_tab("Tune"):
                what = "PID gains of the controller, one set a segment, and the pretension that keeps tendons taut."
                if robot.takes_displacements:
                    what = (
                        "The servos have gains of their own. Here is the pretension that keeps tendons taut, and how"
                        " fast the error of a measured shape or tip is corrected."
                    )
                gui.add_html(
                    note(
                        f"{what} A change acts at the controller's next cycle. The ranges are the node's own, for gains"
                        " at most four times the start value; what does not fit together is refused with a sentence."
                    )
                )
                self.folders["gains"] = gains(server, commander, status, robot)
                self.folders["motors"] = motors(server, commander, status)
        with tabs.add_tab("Push"):
            self.pushing = Pushing(server, commander, model, status)
            if robot.control is not None:
                self.folders["touching"] = touching(server, commander, status)
        with tabs.add_tab("Record"):
            self.recording = Recording(server, commander, robot, status, record_directory)

    def update(self, snapshots: Sequence[RobotState]) -> None:
        """Bring words and buttons up to date; call it within ``server.atomic()``."""
        (snapshot,) = snapshots
        steering = (self.steering, self.tip, self.plane, self.stage, self.trajectory)
        for part in (self.status, *steering, *self.folders.values(), self.recording):
            if part is not None:
                part.update(snapshot)
        self.pushing.update()

    def close(self) -> None:
        """Give the reference back and end a recording."""
        if self.steering is not None:
            self.steering.close()
        self.recording.close()


class OnlookersPanel:
    """The state in words, for those who only look: it has nothing that a hand can move."""

    def __init__(self, server: viser.ViserServer) -> None:
        server.gui.add_html(STYLE)
        self._banner = server.gui.add_html("")
        server.gui.add_html(note("View only: this page takes no orders. Who steers the robot does it elsewhere."))

    def update(self, snapshots: Sequence[RobotState]) -> None:
        """Bring the words up to date."""
        show(self._banner, "content", banner(snapshots[0]))

    def close(self) -> None:
        """Nothing is to be given back."""
