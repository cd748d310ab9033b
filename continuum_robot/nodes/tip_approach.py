# SPDX-License-Identifier: Apache-2.0
"""The node that brings the tip of a segment with equilibrium modulation to ``tip_target``, to a micrometre."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
from geometry_msgs.msg import PointStamped
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.control.tip.approach import (
    ApproachSettings,
    Progress,
    Reach,
    TipApproach,
    approach_parameters,
)
from continuum_robot.mechanisms.equilibrium_modulation.segment import modulation_of
from continuum_robot.msg import Shape, TipState
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import StatusBuilder
from continuum_robot.nodes.reference.tip_task import UNKNOWN, TipTask, not_known
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity

Vector = NDArray[np.float64]

TRACKED, SHAPE = "tracked", "shape"
_LONGEST_FRAME_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ApproachParameters:
    """Of the approach."""

    rate_hz: float = quantity("how often clarke_reference is published", "Hz", default=100.0, ge=20, le=500)
    tip_source: str = quantity(
        "tracked: the topic tracked_tip of a camera. shape: the tip that the shape estimator finds from the drives,"
        " only as good as the model",
        default=TRACKED,
        choices=(TRACKED, SHAPE),
    )
    tip_timeout_s: float = quantity(
        "age of the tip's place at which the drives stand", "s", default=0.5, gt=0, le=60, live=True
    )
    base_frame: str = quantity("frame of tip_target and tracked_tip", default="base")


def _tip(host: node.ComponentNode, call: node.Call) -> None:
    tracked = host.own.value.tip_source == TRACKED
    kind, topic = (PointStamped, "tracked_tip") if tracked else (Shape, "shape")
    subscribe_to_stream(host, kind, topic, call, lazy=True)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A place of the tip: (3,), m, base frame, its stamp, ns, and when it came, s, monotonic."""

    place_m: Vector
    stamp_ns: int
    heard_s: float


@dataclass(frozen=True, slots=True)
class _Way:
    """From one place of the drives to another, (2m,), m, from a time on, within a period, s."""

    start_m: Vector
    end_m: Vector
    begun_s: float
    period_s: float

    def at(self, now_s: float) -> ClarkeReference:
        fraction, step = (now_s - self.begun_s) / self.period_s, self.end_m - self.start_m
        rest = np.zeros_like(step)
        if fraction >= 1:
            return ClarkeReference(self.end_m, rest, rest)
        return ClarkeReference(self.start_m + max(fraction, 0.0) * step, step / self.period_s, rest)


class Approach(TipTask):
    """Backbones by J_M, insertion by J_mu, from the measured tip; both go out as ``clarke_reference``.

    A target that is not finite, in another frame or out of reach is refused, and all stays as it was. A tip that is not
    seen any more lets the drives stand until it is. Where the driver stops, or another program takes the reference,
    the target is dropped: it has to be given again.
    """

    name, about = "tip_approach", "approach"
    what, troubled, tell_s = "tip_target", (TipState.LOST, TipState.STOPPED), 0.2
    parameters = ApproachParameters()
    target = node.heard(PointStamped, "tip_target", node.plain, profile=qos.command_subscription())
    tip = node.Line(_tip)
    follow = node.Loop("rate_hz", while_active=True)

    seen: _Seen | None = None
    reach: Reach | None = None
    progress: Progress | None = None
    way: _Way | None = None
    used_ns = 0

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        modulation_of(robot)
        settings = host.own_settings("approach", approach_parameters(robot))
        self.settings = host.own_settings("target", ApproachSettings())
        self.approach = TipApproach(robot, settings, self.settings)

    def activate(self) -> None:
        super().activate()
        self.seen = self.reach = self.progress = self.way = None

    def deactivate(self) -> None:
        """Forget the target and fall silent: the joint-space controller holds the position."""
        self.approach.end()

    # Callbacks: they only keep what the loop takes.

    @target
    def keep_target(self, message: PointStamped) -> None:
        self.desired = message

    @tip
    def see_tip(self, message: PointStamped | Shape) -> None:
        """A camera's place of the tip, or the estimated one."""
        if isinstance(message, Shape):
            place = message.tip.position
        elif message.header.frame_id in ("", self.parameters.base_frame):
            place = message.point
        else:
            return
        now_s, stamp_ns = self.host.clock.monotonic_s(), conversions.stamp_ns(message.header.stamp)
        self.seen = _Seen(conversions.position(place), stamp_ns, now_s)

    # The loop

    @follow
    def cycle(self, now_s: float, _elapsed_s: float) -> None:
        drop = self.turn.ended_by()
        if drop and self.approach.target_m is not None:
            self.approach.end()
            self.way = None
            self.tell(TipState.STOPPED, f"the target was dropped: {drop}", now_s)
        self.accept(now_s)
        if self.approach.target_m is None:
            return
        self._go_on(now_s)
        if self.way is not None:
            self.publish_reference(self.way.at(now_s), now_s)

    def begin(self, point_m: Vector, now_s: float) -> None:
        measured = self.measured(now_s)
        if measured is None:
            raise not_known()
        self.reach = self.approach.begin(point_m, measured)
        self.accepted += 1
        self.progress, self.way, self.used_ns = None, None, 0
        self.turn.ask(now_s)
        self.tell(TipState.MOVING, "", now_s)

    def _go_on(self, now_s: float) -> None:
        if not self.turn.given(now_s):
            return
        seen, timeout_s = self.seen, self.parameters.tip_timeout_s
        if seen is None or now_s - seen.heard_s > timeout_s:
            self.tell(TipState.LOST, f"no place of the tip came in the last {timeout_s:g} s: the drives stand", now_s)
            return
        if seen.stamp_ns == self.used_ns:
            return
        frame_s = (seen.stamp_ns - self.used_ns) * 1e-9
        if not 0 < frame_s < _LONGEST_FRAME_S:
            frame_s = 1.0 / self.parameters.rate_hz
        self.used_ns = seen.stamp_ns
        progress = self.progress = self.approach.update(seen.place_m, frame_s)
        # On the way to what was asked for before, to where it is asked to be a frame later.
        start = progress.coordinate_m if self.way is None else self.way.at(now_s).position
        self.way = _Way(start, progress.coordinate_m, now_s, frame_s)
        self.tell(progress.state, progress.message, now_s)

    def fill_state(self, message: TipState, refused: Vector | None) -> None:
        reach = self.reach if refused is None else None
        target = self.approach.target_m if refused is None else refused
        message.target = conversions.point_message(UNKNOWN if target is None else target)
        message.goal = conversions.point_message(UNKNOWN if reach is None else reach.place_m)
        message.tip = conversions.point_message(UNKNOWN if self.seen is None else self.seen.place_m)
        message.distance = np.nan if reach is None else reach.miss_m
        message.error = self.progress.distance_m if refused is None and self.progress is not None else np.nan
        message.reachable = reach is not None and bool(reach.miss_m <= self.settings.tolerance_m)
        message.clarke = conversions.float_array(UNKNOWN if self.way is None else self.way.end_m)

    def health(self, status: StatusBuilder) -> None:
        progress = self.progress
        status.add("phase", progress.phase if progress is not None else "")
        status.add("distance_m", progress.distance_m if progress is not None else np.nan)
        status.add("limited", progress.limited if progress is not None else False)
        super().health(status)


TipApproachNode = node.as_node(Approach)
main = partial(node.run, Approach)


if __name__ == "__main__":
    sys.exit(main())
