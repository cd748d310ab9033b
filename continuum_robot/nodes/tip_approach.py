# SPDX-License-Identifier: Apache-2.0
"""The node that brings the tip of a segment with equilibrium modulation to ``tip_target``, to a micrometre."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray

from continuum_robot.control.tip.approach import (
    LOST,
    MOVING,
    STOPPED,
    ApproachSettings,
    Progress,
    Reach,
    TipApproach,
    approach_parameters,
)
from continuum_robot.errors import ParameterError
from continuum_robot.mechanisms.equilibrium_modulation.building import modulation_of
from continuum_robot.msg import ClarkeState, Shape, TipState
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.lockstep.flow import FlowLoop
from continuum_robot.nodes.reference.turn import ReferenceTurn
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.schema import Quantity

Vector = NDArray[np.float64]

TRACKED, SHAPE = "tracked", "shape"
REFUSED = "refused"
_STATE_TIMEOUT_S = 0.5
_TELL_S = 0.2
_LONGEST_FRAME_S = 0.1
_UNKNOWN = np.full(3, np.nan)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A place of the tip: (3,), m, base frame, its stamp, ns, and when it came, s, monotonic."""

    place_m: Vector
    stamp_ns: int
    heard_s: float


class TipApproachNode(ManagedNode):
    """Backbones by J_M, insertion by J_mu, from the measured tip; both go out as ``clarke_reference``.

    A target that is not finite, in another frame or out of reach is refused, and all stays as it was. A tip that is not
    seen any more lets the drives stand until it is. Where the driver stops, or another program takes the reference,
    the target is dropped: it has to be given again. The work is done in a thread of its own, so that it never delays a
    controller in the same process.
    """

    def __init__(self, **node_options: Any) -> None:
        super().__init__("tip_approach", **node_options)
        declare = self.parameters.declare
        declare(
            "rate_hz",
            100.0,
            "how often clarke_reference is published",
            rules=Quantity("", "Hz", ge=20, le=500),
            read_only=True,
        )
        declare(
            "tip_source",
            TRACKED,
            "tracked: the topic tracked_tip of a camera. shape: the tip that the shape estimator finds from the drives,"
            " only as good as the model",
            rules=Quantity("", choices=(TRACKED, SHAPE)),
            read_only=True,
        )
        declare(
            "tip_timeout_s",
            0.5,
            "age of the tip's place at which the drives stand",
            rules=Quantity("", "s", gt=0, le=60),
        )
        declare("base_frame", "base", "frame of tip_target and tracked_tip", read_only=True)
        self._settings: dict[str, Any] = {}
        self._approach: TipApproach | None = None
        self._loop: FlowLoop | None = None
        self._desired: PointStamped | None = None
        self._seen: _Seen | None = None
        self._used_ns = 0
        self._reported_s = -math.inf
        self._reach: Reach | None = None
        self._progress: Progress | None = None
        self._state, self._message = "", ""
        self._way: tuple[Vector, Vector, float, float] | None = None
        self._sequence = self._refused = self._accepted = 0

        flow = self.flow
        self._references = flow.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        self._states = flow.create_publisher(TipState, "tip_state", qos.state_publisher())
        self.create_subscription(PointStamped, "tip_target", self._on_target, qos.command_subscription())
        if self.parameters.get("tip_source") == TRACKED:
            subscribe_to_stream(self, PointStamped, "tracked_tip", self._on_tracked, lazy=True)
        else:
            subscribe_to_stream(self, Shape, "shape", self._on_shape, lazy=True)
        # Raw: it is needed once a target.
        self._clarke: tuple[bytes, float] | None = None
        subscribe_to_stream(self, ClarkeState, "clarke_state", self._on_clarke_state, raw=True, lazy=True)
        self._turn = ReferenceTurn(self)
        self.diagnostics.add_task("approach", self._diagnose)

    def configure(self) -> None:
        """Make the controller of the robot's file, with the parameters' values over it."""
        robot = self.load_robot()
        modulation_of(robot)
        self._settings = {
            "approach": self.parameters.declare_settings("approach", approach_parameters(robot)),
            "target": self.parameters.declare_settings("target", ApproachSettings()),
        }
        self._approach = TipApproach(robot, self._settings["approach"].value, self._settings["target"].value)
        self._reference = ClarkeState(simulated=self.simulated, writer=self.get_name())
        count = robot.coordinate_count
        self._position = conversions.preallocate(self._reference, "position", count)
        self._velocity = conversions.preallocate(self._reference, "velocity", count)
        conversions.preallocate(self._reference, "acceleration", count, 0.0)

    def activate(self) -> None:
        """Wait for a target."""
        self._desired = self._seen = self._reach = self._progress = self._way = None
        self._state = self._message = ""
        self._turn.forget()
        self._loop = self.flow.create_loop(
            "tip_approach", 1.0 / self.parameters.get("rate_hz"), self._cycle, self._on_loop_failure
        )
        self._loop.start()

    def deactivate(self) -> None:
        """Forget the target and fall silent: the joint-space controller holds the position."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()
        if self._approach is not None:
            self._approach.end()

    def cleanup(self) -> None:
        """Forget the controller."""
        self._approach = None

    # Callbacks: they only keep what the loop takes.

    def _on_target(self, message: PointStamped) -> None:
        self._desired = message

    def _on_tracked(self, message: PointStamped) -> None:
        if message.header.frame_id in ("", self.parameters.get("base_frame")):
            self._see(message.point, message.header.stamp)

    def _on_shape(self, message: Shape) -> None:
        self._see(message.tip.position, message.header.stamp)

    def _see(self, point: Any, stamp: Any) -> None:
        self._seen = _Seen(conversions.position(point), conversions.stamp_ns(stamp), self.clock.monotonic_s())

    def _on_clarke_state(self, data: bytes) -> None:
        self._clarke = data, self.clock.monotonic_s()

    # The loop

    def _cycle(self, now_s: float, _elapsed_s: float) -> None:
        approach = self._approach
        if approach is None:
            return
        drop = self._turn.ended_by()
        if drop and approach.target_m is not None:
            approach.end()
            self._way = None
            self._say(STOPPED, f"the target was dropped: {drop}", now_s)
        desired, self._desired = self._desired, None
        if desired is not None:
            self._accept(approach, desired, now_s)
        if approach.target_m is None:
            return
        self._follow(approach, now_s)
        self._publish_reference(now_s)

    def _accept(self, approach: TipApproach, desired: PointStamped, now_s: float) -> None:
        point = desired.point
        try:
            frame, own = desired.header.frame_id, self.parameters.get("base_frame")
            if frame not in ("", own):
                raise ParameterError("tip_target.header.frame_id", frame, f"{own}, or empty for it")
            if self._turn.driver != "active":
                raise ParameterError("tip_target", "given", f"an active driver, it is {self._turn.driver or 'away'}")
            self._reach = approach.begin([point.x, point.y, point.z], self._measured_coordinate(now_s))
        except ParameterError as error:
            self._refused += 1
            self.get_logger().error(f"refused: {error}")
            self._publish_state(REFUSED, str(error), now_s, conversions.position(point))
            return
        self._accepted += 1
        self._progress, self._way, self._used_ns = None, None, 0
        self._turn.ask(now_s)
        self._say(MOVING, "", now_s)

    def _measured_coordinate(self, now_s: float) -> Vector:
        """Where the drives are now; refused where that is not known."""
        if self._clarke is not None:
            data, heard_s = self._clarke
            message = conversions.message_of(data, ClarkeState)
            position = np.zeros(0) if message is None else conversions.vector(message.position)
            if (
                now_s - heard_s < _STATE_TIMEOUT_S
                and position.size == self._position.size
                and np.isfinite(position).all()
            ):
                return np.array(position)
        raise ParameterError("clarke_state", "old or unknown", f"one of the last {_STATE_TIMEOUT_S:g} s")

    def _follow(self, approach: TipApproach, now_s: float) -> None:
        if not self._turn.given(now_s):
            return
        seen = self._seen
        timeout_s = self.parameters.get("tip_timeout_s")
        if seen is None or now_s - seen.heard_s > timeout_s:
            self._say(LOST, f"no place of the tip came in the last {timeout_s:g} s: the drives stand", now_s)
            return
        if seen.stamp_ns == self._used_ns:
            return
        frame_s = (seen.stamp_ns - self._used_ns) * 1e-9
        if not 0 < frame_s < _LONGEST_FRAME_S:
            frame_s = 1.0 / self.parameters.get("rate_hz")
        self._used_ns = seen.stamp_ns
        progress = self._progress = approach.update(seen.place_m, frame_s)
        # On the way to what was asked for before, to where it is asked to be a frame later.
        start = progress.coordinate_m if self._way is None else self._on_the_way(now_s)[0]
        self._way = start, progress.coordinate_m, now_s, frame_s
        self._say(progress.state, progress.message, now_s)

    def _on_the_way(self, now_s: float) -> tuple[Vector, Vector]:
        """Position and velocity that are asked for now."""
        if self._way is None:
            raise ParameterError("tip_target", None, "a target to go to")
        start, end, begun_s, period_s = self._way
        fraction = (now_s - begun_s) / period_s
        if fraction >= 1:
            return end, np.zeros_like(end)
        return start + max(fraction, 0.0) * (end - start), (end - start) / period_s

    def _publish_reference(self, now_s: float) -> None:
        if self._way is None:
            return
        message = self._reference
        self._sequence += 1
        message.sequence = self._sequence
        conversions.set_stamp(message.header.stamp, self.clock.stamp_ns(now_s))
        self._position[:], self._velocity[:] = self._on_the_way(now_s)
        self._references.publish(message)

    def _say(self, state: str, message: str, now_s: float) -> None:
        changed = (state, message) != (self._state, self._message)
        if changed and state != self._state:
            self.get_logger().info(f"tip target: {state}{': ' if message else ''}{message}")
        self._state, self._message = state, message
        if changed or now_s - self._reported_s >= _TELL_S:
            self._publish_state(state, message, now_s)

    def _publish_state(self, state: str, text: str, now_s: float, refused: Vector | None = None) -> None:
        self._reported_s = now_s
        reach, progress, approach = self._reach, self._progress, self._approach
        message = TipState(simulated=self.simulated, state=state, message=text)
        conversions.set_stamp(message.header.stamp, self.clock.stamp_ns(now_s))
        message.header.frame_id = str(self.parameters.get("base_frame"))
        target = approach.target_m if approach is not None and refused is None else refused
        known = refused is None and reach is not None
        message.target = conversions.point_message(_UNKNOWN if target is None else target)
        message.goal = conversions.point_message(reach.place_m if known and reach is not None else _UNKNOWN)
        message.tip = conversions.point_message(_UNKNOWN if self._seen is None else self._seen.place_m)
        message.distance = reach.miss_m if known and reach is not None else np.nan
        message.error = progress.distance_m if refused is None and progress is not None else np.nan
        settings = self._settings["target"].value
        message.reachable = bool(known and reach is not None and reach.miss_m <= settings.tolerance_m)
        message.clarke = conversions.float_array(_UNKNOWN if self._way is None else self._way[1])
        self._states.publish(message)

    def _on_loop_failure(self, error: BaseException) -> None:
        self.defect = repr(error)
        self.report_error("the approach failed", error)

    def _diagnose(self, status: StatusBuilder) -> None:
        progress = self._progress
        if self._state in (LOST, STOPPED):
            status.summary(Level.WARN, self._message or self._state)
        status.summary(Level.OK, self._state or self.state)
        status.add("phase", progress.phase if progress is not None else "")
        status.add("distance_m", progress.distance_m if progress is not None else np.nan)
        status.add("limited", progress.limited if progress is not None else False)
        status.add("targets_accepted", self._accepted)
        status.add("targets_refused", self._refused)
        status.add("references_published", self._sequence)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(TipApproachNode)


if __name__ == "__main__":
    sys.exit(main())
