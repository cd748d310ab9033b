# SPDX-License-Identifier: Apache-2.0
"""The node that writes ``clarke_reference``: a trajectory, a path of the tip, or nothing while others do."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped
from numpy.typing import NDArray
from std_srvs.srv import Trigger

from continuum_robot.control.motion import LONGEST_STEP_S, Halt, MotionLimits, motion_limits
from continuum_robot.control.references import ClarkeReference, Hold, Interpolated, Reference, blend, make_reference
from continuum_robot.control.tip.control import TipControl, TipSettings
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.msg import ClarkeState, Shape
from continuum_robot.nodes.base import component as node
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.reference.lines import HOLDING, MotionStart, ReferenceWriter, StageLine
from continuum_robot.nodes.reference.reaction import NodeReaction
from continuum_robot.nodes.reference.tip_path import SHAPE_AGE_S, TipPath, TipStates
from continuum_robot.nodes.reference.trajectory_action import Trajectory, serve
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.coordinates import coordinate_limits_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import quantity
from continuum_robot.srv import TakeReference

Vector = NDArray[np.float64]

NAME = "reference_source"
TARGET_AGE_S = 1.0
"""A tip target that is older when it arrives was meant for another moment."""
TIP_SETTLES_S = 0.2
"""After so long at rest the tip is where the controller ``tip`` holds it, s."""
_LEAST_BLEND_S = 0.2
_LIMITS = {"reference.speed_m_per_s", "reference.acceleration_m_per_s2"}


@dataclass(frozen=True, kw_only=True)
class TipParameters:
    """Of tip targets."""

    tolerance_m: float = quantity(
        "error of the estimated tip within which it has reached its target; 0: half a percent of the length",
        "m",
        default=TipSettings().tolerance_m,
        ge=0.0,
        le=1.0,
    )
    integral_per_s: float = quantity(
        "rate at which the error of the estimated tip is taken away; negative: 2, or 4 of servos that hold tendons",
        "1/s",
        default=TipSettings().integral_per_s,
        ge=-1.0,
        le=20.0,
    )


@dataclass(frozen=True, kw_only=True)
class SourceParameters:
    """Of the reference source."""

    blend_s: float = quantity("time to blend into the trajectory", "s", default=1.0, ge=0.0, le=60.0, live=True)
    base_frame: str = quantity("frame_id of tip targets, and of the tip's state", default="base")
    tip: TipParameters = TipParameters()


class Source(node.Component):
    """Silent until activated; then it holds the measured position until somebody starts a motion.

    The service ``~/restart`` starts the trajectory from its beginning, blended in from where the reference stands; so
    does a change of a ``reference.`` parameter once a motion was started. ``~/hold`` brings the reference to rest where
    it is. A point on ``tip_target`` brings the tip there, and keeps it there until something else is asked for. While
    the controller ``tip`` commands, targets of the tip alone move the robot, and at rest the tip is kept where it is.
    Where the contact monitor runs and ``reaction.strategy`` asks for it, a contact changes the reference; ``~/resume``
    goes back to it, and so does every new motion.
    Where the driver stops, by a fault or an e-stop, so does every motion: the node falls silent, and holds the measured
    position once the driver obeys again. ``reference_holding`` says whether it holds.

    One program at a time writes ``clarke_reference``. Others ask by ``~/take`` and this node falls silent; whatever it
    is asked for afterwards makes it the writer again, and ``reference_writer`` shows the one before.
    """

    name, about = NAME, "reference"
    parameters = SourceParameters()
    tick = node.timer(active=True)
    references = node.output(ClarkeState, "clarke_reference", qos.command_publisher())
    # Raw: it is needed once.
    measurements = node.heard(ClarkeState, "clarke_state", raw=True, lazy=True)
    writer = node.Line(lambda host, _call: ReferenceWriter(host, NAME))
    motion = node.Line(lambda host, call: MotionStart(host, partial(call, True), partial(call, False)), active=True)
    tip_states = node.Line(lambda host, _call: TipStates(host, host.own.value.base_frame, simulated=host.simulated))
    reaction = node.Line(lambda host, _call: NodeReaction(host))
    shapes = node.heard(Shape, "shape", raw=True, lazy=True)
    targets = node.heard(PointStamped, "tip_target", node.plain, profile=qos.command_subscription())
    poses = node.heard(PoseStamped, "tip_target_pose", node.plain, profile=qos.command_subscription())
    goals = node.Line(serve)
    take = node.service(TakeReference, "~/take")
    restart = node.service(Trigger, "~/restart")
    hold = node.service(Trigger, "~/hold")
    stage_lines = node.Line[list[StageLine]](lambda _host, _call: [])
    """Of one stage at most, for good: it listens."""
    stage_fault = node.Line(lambda _host, call: call, active=True)

    start_position: Vector | None = None
    current: ClarkeReference | None = None
    measured: Vector | None = None
    clarke_state: tuple[bytes, float] | None = None
    stage: StageLine | None = None
    start_s = published_s = blend_s = rests_since_s = 0.0
    leads_stage = to_tip = False

    def __init__(self, host: node.ComponentNode, robot: Robot) -> None:
        super().__init__(host, robot)
        count = robot.coordinate_count
        settings = robot.reference or ReferenceSettings(kind="hold")
        if len(settings.amplitude_m) != count:
            settings = dataclasses.replace(settings, amplitude_m=(0.0,) * count)
        if not settings.frequency_hz:
            settings = dataclasses.replace(settings, frequency_hz=(0.1,))
        self.settings = host.parameters.declare_settings(
            "reference", settings, check=self._check_settings, all_live=True
        )
        self.trajectory = self._make(self.settings.value)
        self.message = ClarkeState(simulated=host.simulated, writer=NAME)
        self.position = conversions.preallocate(self.message, "position", count)
        self.velocity = conversions.preallocate(self.message, "velocity", count)
        self.acceleration = conversions.preallocate(self.message, "acceleration", count)
        self.tip_states.prepare(count)
        if robot.base_stage is not None and not self.stage_lines:
            self.stage_lines.append(StageLine(host, robot.base_stage, self.stage_fault))
        self.stage = next(iter(self.stage_lines), None)
        self.tip_path = self._make_tip_path()
        self.reaction.configure(robot)

    def activate(self) -> None:
        """Hold the position that is measured next, until a motion is started."""
        self.motion.activate()
        self._stand()
        self.tick.start(self._period_s)

    def deactivate(self) -> None:
        """Fall silent: the controller holds the position."""
        self.tick.cancel()
        self.motion.set_holding(True)

    def _stand(self) -> None:
        """Hold the position that is measured next; nobody else has the turn any more."""
        self.to_tip = False
        self._write_as(NAME)
        self.measured = self.current = self.start_position = None
        self.reaction.reset()
        self.rests_since_s = self.host.clock.monotonic_s()
        self.motion.set_holding(True)

    @motion
    def end_motion(self, of_driver: bool) -> None:
        """The driver stopped, or obeys again: whatever moved before does not go on by itself. Or another controller
        commands: the motion ends, and where it is that of the tip, the tip is held then.
        """
        if of_driver or not self._hold():
            self._stand()

    @stage_fault
    def end_with_stage(self) -> None:
        """The stage stopped, and the tip cannot follow its path without it."""
        if self.to_tip or self._stage_way is not None:
            self._hold()

    @property
    def _stage_way(self) -> Interpolated | None:
        """Where the trajectory that is played has the stage; None where it does not move it."""
        return None if self.to_tip else getattr(self.trajectory, "stage", None)

    def _wait_for_stage(self, now_s: float) -> None:
        """A trajectory that moves the stage begins when that is heard; it ends where the stage is too far or silent."""
        trajectory, line = self.trajectory, self.stage
        if line is None or self._stage_way is None:
            return
        if line.position is None and not self.leads_stage:
            self.start_s = now_s
            return
        problem = line.obstacle if self.leads_stage else self._refuse_way(trajectory)
        self.leads_stage = True
        if problem:
            self.host.get_logger().error(f"the trajectory ends: {problem}")
            self._hold()

    def _lead_stage(self, time_s: float) -> None:
        """Move the stage along; at the end of its way it holds by itself, and others may command it."""
        way, line = self._stage_way, self.stage
        if way is None or line is None or not self.leads_stage:
            return
        if time_s <= way.duration_s + line.stage.command_timeout_s:
            line.command(way.at(time_s).position)

    def _refuse_way(self, trajectory: Reference) -> str:
        """Why a trajectory cannot begin where the stage is, "" where it can, or does not move it."""
        way, line = getattr(trajectory, "stage", None), self.stage
        if way is None or line is None:
            return ""
        begin, here = way.at(0.0).position, line.position
        if line.fault or here is None:  # unheard yet, it is waited for
            return line.obstacle if line.fault else ""
        # It gets there while the tendons are blended in.
        room = line.stage.speed * 0.5 * max(self.parameters.blend_s, _LEAST_BLEND_S)
        if (np.abs(begin - here) > room).any():
            return f"the stage is at {here.round(4).tolist()}, the file begins at {begin.round(4).tolist()} (m, rad)"
        return ""

    @property
    def _stage_obstacle(self) -> str:
        return "" if self.stage is None else self.stage.obstacle

    @property
    def _period_s(self) -> float:
        return 1.0 / self.settings.value.rate_hz

    @measurements
    def see_measurement(self, data: bytes) -> None:
        self.clarke_state = data, self.host.clock.monotonic_s()
        if not self.host.active or self.start_position is not None:
            return
        message = conversions.message_of(data, ClarkeState)
        position = np.array(conversions.vector(message.position)) if message is not None else np.zeros(0)
        if position.size == self.position.size and np.all(np.isfinite(position)):
            self.measured = position

    @tick
    def publish(self) -> None:
        if not self.writer.ours or self.motion.stopped:
            return
        now_s, now_ns = self.host.clock.monotonic_s(), self.host.clock.now_ns()
        if self.start_position is None:
            if self.measured is None:
                return
            self.start_position, self.start_s = self.measured, now_s
            if self.motion.holding:
                self.trajectory, self.blend_s = Hold(self.measured), 0.0
        self._wait_for_stall(now_s)
        self._wait_for_stage(now_s)
        if self.motion.leads_tip and self.motion.holding and not self.to_tip:
            self._hold_tip(now_s)
        desired = reference = self._tip_path_at(now_s) if self.to_tip else self._trajectory_at(now_s)
        if self.reaction.active:
            reference = self.reaction.answer(reference, self._measured_now(now_s), self._period_s)
        # No contact keeps the tendons from it.
        if reference is desired or np.array_equal(reference.position, desired.position):
            self._lead_stage(now_s - self.start_s)
        self.current = reference
        message = self.message
        message.sequence += 1
        conversions.set_stamp(message.header.stamp, now_ns)
        self.position[:] = reference.position
        self.velocity[:] = reference.velocity
        self.acceleration[:] = reference.acceleration
        self.references.publish(message)

    def _wait_for_stall(self, now_s: float) -> None:
        """A trajectory waits while this program stalls: making up for it, the reference would jump."""
        longest_s = max(LONGEST_STEP_S, 2.0 * self._period_s)
        self.start_s += max(0.0, now_s - max(self.published_s, self.start_s) - longest_s)
        self.published_s = now_s

    def _trajectory_at(self, now_s: float) -> ClarkeReference:
        trajectory, start, blend_s = self.trajectory, self.start_position, self.blend_s
        if start is None:
            raise ParameterError(NAME, self.host.state, "a node that plays a trajectory")
        time_s = now_s - self.start_s
        reference = trajectory.at(time_s)
        if time_s < blend_s:
            reference = blend(start, reference, max(time_s, 0.0) / blend_s, blend_s)
        return reference

    def _play(self, trajectory: Reference, *, blend_s: float | None = None) -> None:
        """Play from here on; a trajectory that goes on from where the reference is needs no blend."""
        here = self._here()
        self.reaction.resume()
        self.trajectory, self.to_tip, self.leads_stage = trajectory, False, False
        self.blend_s = self.parameters.blend_s if blend_s is None else blend_s
        if here is not None:
            self.start_position = here.position
            self.start_s = self.host.clock.monotonic_s()
        self._write_as(NAME)

    def _here(self) -> ClarkeReference | None:
        return self.writer.followed(self.current, self.position.size)

    def _hold(self) -> bool:
        """Come to rest from where the reference is; False where there is none yet."""
        here = self._here()
        if here is None:
            return False
        self._play(Halt(here.position, here.velocity, self._motion_limits().acceleration_m_per_s2), blend_s=0.0)
        self.motion.set_holding(True)
        return True

    def _start(self) -> None:
        """Play the trajectory from its beginning."""
        self._play(self._make(self.settings.value))
        self.motion.set_holding(False)

    # What the action follow_joint_trajectory plays

    def begin_trajectory(self, make: Callable[[Robot, Vector], Trajectory]) -> Trajectory:
        """Play a trajectory that begins where the reference is."""
        here = self._here()
        obstacle = self._refuse_start() or ("there is no reference yet" if here is None else "")
        if obstacle or here is None:
            raise DeviceError(NAME, f"plays no trajectory: {obstacle}", "Bring the stack up")
        trajectory = make(self.robot, here.position)
        self._play(trajectory, blend_s=0.0)
        self.motion.set_holding(False)
        return trajectory

    def trajectory_state(self, trajectory: Reference) -> tuple[float, ClarkeReference, Vector | None] | None:
        """Time since the start (s), reference and measured coordinates (m) of a trajectory; None: it ended before."""
        ended = self.to_tip or self.trajectory is not trajectory or not self.writer.ours
        if ended or not self.host.active or self.motion.stopped:
            return None
        now_s = self.host.clock.monotonic_s()
        return now_s - self.start_s, self._trajectory_at(now_s), self._measured_now(now_s)

    def end_trajectory(self) -> None:
        """Come to rest where the reference is."""
        self._hold()

    def _refuse_start(self, *, of_tip: bool = False) -> str:
        """Why no motion can be started now, "" where one can."""
        if not self.host.active:
            return "the reference source is not active: bring the stack up"
        if self.motion.leads_tip and not of_tip and not self.motion.obstacle:
            return "the controller tip takes targets of the tip only: switch to clarke first"
        return self.motion.obstacle

    def _write_as(self, name: str, *, tell: bool = False) -> None:
        # Until the next tick, what comes meanwhile begins where the reference is, not where this node wrote it last.
        self.current = self._here()
        self.writer.hand_to(name, tell=tell or not self.host.active)

    # The tip

    @shapes
    def see_shape(self, data: bytes) -> None:
        if self.tip_path is not None and (self.to_tip or self.motion.leads_tip):
            self.tip_path.hear_shape(data)

    def _hold_tip(self, now_s: float) -> None:
        """Keep the tip where it is, once the reference rests and the tip is known."""
        path, here = self.tip_path, self._here()
        if path is None or here is None or np.any(here.velocity):
            self.rests_since_s = now_s
        elif self._stage_obstacle:
            return
        elif now_s - self.rests_since_s >= TIP_SETTLES_S and path.hold(here, self._motion_limits()):
            self.to_tip = True

    @targets
    def go_to_target(self, message: PointStamped) -> None:
        path = self.tip_path
        if path is None and self.robot.traits.tip_nodes:
            return  # another node brings the tip of a mechanism to its target
        place = conversions.position(message.point)
        problem = self._refuse_target(message, place)
        here = self._here()
        if path is None or here is None or problem:
            self.tip_states.refuse(message.point, problem or "the stack is not up")
            return
        if not self.to_tip or not self.writer.ours:
            path.start(here, self._motion_limits())
        path.aim(place, here)
        self.reaction.resume()
        self.to_tip = True
        self._write_as(NAME)
        self.motion.set_holding(False)

    @poses
    def go_to_pose(self, message: PoseStamped) -> None:
        """What RViz and other tools send; the orientation cannot be chosen, and is not looked at."""
        self.go_to_target(PointStamped(header=message.header, point=message.pose.position))

    def _refuse_target(self, message: PointStamped, place: Vector) -> str:
        frame = self.parameters.base_frame
        obstacle = self._refuse_start(of_tip=True) or self._stage_obstacle
        if obstacle:
            return obstacle
        if not np.all(np.isfinite(place)):
            return "the target is not finite"
        if message.header.frame_id not in ("", frame):
            return f"frame {message.header.frame_id!r}: targets are given in {frame!r}"
        stamp_ns = conversions.stamp_ns(message.header.stamp)
        age_s = (self.host.clock.now_ns() - stamp_ns) * 1e-9
        # In lock-step programs that take no part, a client or RViz, stamp with the wall clock.
        if stamp_ns and not self.host.clock.stepped and abs(age_s) > TARGET_AGE_S:
            return f"the target is {age_s:.1f} s old: at most {TARGET_AGE_S:g} s"
        return ""

    def _tip_path_at(self, now_s: float) -> ClarkeReference:
        path = self.tip_path
        if path is None:
            raise ParameterError(NAME, self.robot.name, "a robot whose tip is brought to targets")
        return path.at(self._period_s, self._measured_now(now_s))

    def _measured_now(self, now_s: float) -> Vector | None:
        """Measured coordinates, None where they are not known or old."""
        if self.clarke_state is None:
            return None
        data, heard_s = self.clarke_state
        fresh = now_s - heard_s < SHAPE_AGE_S
        message = conversions.message_of(data, ClarkeState)
        if message is None:
            return None
        position = conversions.vector(message.position)
        return position if fresh and position.size == self.position.size else None

    def _make_tip_path(self) -> TipPath | None:
        robot, tip = self.robot, self.parameters.tip
        if robot.traits.without_tip_control or robot.limits is None:
            return None
        control = TipControl(robot, TipSettings(tolerance_m=tip.tolerance_m, integral_per_s=tip.integral_per_s))
        path = TipPath(robot, control, self.tip_states, self.host.clock, self.stage)
        self.host.closing.callback(path.close)
        return path

    def _motion_limits(self) -> MotionLimits:
        return motion_limits(self.robot.changed(reference=self.settings.value))

    def parameters_changed(self, names: Collection[str] = ()) -> None:
        if self.settings.leaves.keys().isdisjoint(names):
            return
        if _LIMITS.issuperset(names):
            if self.tip_path is not None:
                self.tip_path.limit(self._motion_limits())
            return
        # Where no trajectory was started, a parameter starts none: it is made when it is.
        if not self.motion.holding and not self.motion.leads_tip:
            trajectory = self._make(self.settings.value)
            problem = self._refuse_way(trajectory)
            if problem:
                self.host.get_logger().warning(f"plays nothing new: {problem}")
                self._hold()
            else:
                self._play(trajectory)
        if self.host.active and "reference.rate_hz" in names:
            self.tick.start(self._period_s)

    @restart
    def start_trajectory(self, _request: Trigger.Request) -> str:
        obstacle = self._refuse_start() or self._refuse_way(self._make(self.settings.value))
        if obstacle:
            raise ContinuumRobotError(obstacle)
        self._start()
        return f"plays {self.settings.value.kind}"

    @hold
    def come_to_rest(self, _request: Trigger.Request) -> str:
        if not self.host.active or not (self.motion.holding or self._hold()):
            raise ContinuumRobotError("there is no reference yet")
        return "holds the reference where it is"

    @take
    def hand_over(self, request: TakeReference.Request) -> str:
        name = check_request("TakeReference", request).writer.strip()
        obstacle = self._refuse_start(of_tip=name in ("", NAME))
        if obstacle:
            raise ContinuumRobotError(obstacle)
        if name in ("", NAME):
            if not self.writer.ours and not self._hold():
                raise ContinuumRobotError("no reference yet")
            return f"{NAME} writes clarke_reference"
        before = self.writer.name
        self._write_as(name, tell=True)  # every turn is announced: who asked knows by it which names are old
        self.motion.set_holding(False)
        return f"{name} writes clarke_reference instead of {before}"

    def _make(self, settings: ReferenceSettings) -> Reference:
        robot = self.robot
        folder = Path(robot.file_name).parent if robot.file_name else None
        return make_reference(settings, robot.coordinate_count, folder, robot.base_stage)

    def _check_settings(self, settings: ReferenceSettings) -> None:
        self._make(settings)
        if settings.amplitude_m:
            most_m = coordinate_limits_m(self.robot)
            amplitude = np.abs(settings.amplitude_m)
            worst = int(np.argmax(amplitude / most_m))
            if amplitude[worst] > most_m[worst]:
                expected = f"at most limits.maximum_displacement_m = {most_m[worst]:g} m"
                raise ParameterError("reference.amplitude_m", float(amplitude[worst]), expected)

    def health(self, status: StatusBuilder) -> None:
        kind = self.settings.value.kind
        plays = "brings the tip to its target" if self.to_tip else f"plays {kind}"
        if not self.writer.ours:
            plays = f"silent: {self.writer.name} writes clarke_reference"
            broken_off_s = self.writer.broken_off_s()
            if broken_off_s:
                problem = f"not heard for {broken_off_s:.0f} s in the middle of a motion: the robot holds"
                status.summary(Level.WARN, f"{self.writer.name}, which writes clarke_reference, was {problem}")
        elif self.motion.holding:
            plays = f"{HOLDING}; keeps the tip where it is" if self.to_tip else HOLDING
        self.reaction.diagnose(status)
        status.summary(Level.OK, plays if self.current is not None and self.host.active else self.host.state)
        status.add("writer", self.writer.name)
        status.add("holding", self.motion.holding)
        status.add("kind", kind)
        status.add("references_published", self.message.sequence)
        status.add("duration_s", self.trajectory.duration_s)


ReferenceSource = node.as_node(Source)
main = partial(node.run, Source)


if __name__ == "__main__":
    sys.exit(main())
