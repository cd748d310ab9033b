# SPDX-License-Identifier: Apache-2.0
"""The node that writes ``clarke_reference``: a trajectory, a path of the tip, or nothing while others do."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, PoseStamped
from numpy.typing import NDArray
from std_srvs.srv import Trigger

from continuum_robot.control.motion import LONGEST_STEP_S, Halt, MotionLimits, motion_limits
from continuum_robot.control.references import ClarkeReference, Hold, Interpolated, Reference, blend, make_reference
from continuum_robot.control.tip.control import TipControl, TipSettings
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.msg import ClarkeState, Shape
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.base.requests import check_request
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.base.spinning import run_node
from continuum_robot.nodes.reference.motion_start import HOLDING, MotionStart
from continuum_robot.nodes.reference.reaction import NodeReaction
from continuum_robot.nodes.reference.stage_line import StageLine
from continuum_robot.nodes.reference.tip_path import SHAPE_AGE_S, TipPath, TipStates
from continuum_robot.nodes.reference.trajectory_action import Trajectory, serve
from continuum_robot.nodes.reference.writer import ReferenceWriter
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.nodes.topics.owned_topic import subscribe_to_stream
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.coordinates import coordinate_limits_m
from continuum_robot.robot.description import Robot
from continuum_robot.robot.schema import Quantity
from continuum_robot.srv import TakeReference

Vector = NDArray[np.float64]

NAME = "reference_source"
TARGET_AGE_S = 1.0
"""A tip target that is older when it arrives was meant for another moment."""
TIP_SETTLES_S = 0.2
"""After so long at rest the tip is where the controller ``tip`` holds it, s."""
_LEAST_BLEND_S = 0.2
_LIMITS = {"reference.speed_m_per_s", "reference.acceleration_m_per_s2"}


class ReferenceSource(ManagedNode):
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

    def __init__(self, **node_options: Any) -> None:
        super().__init__(NAME, **node_options)
        declare = self.parameters.declare
        declare("blend_s", 1.0, "time to blend into the trajectory", rules=Quantity("", "s", ge=0.0, le=60.0))
        declare("base_frame", "base", "frame_id of tip targets, and of the tip's state", read_only=True)
        default = TipSettings()
        declare(
            "tip.tolerance_m",
            default.tolerance_m,
            "error of the estimated tip within which it has reached its target; 0: half a percent of the length",
            rules=Quantity("", "m", ge=0.0, le=1.0),
            read_only=True,
        )
        declare(
            "tip.integral_per_s",
            default.integral_per_s,
            "rate at which the error of the estimated tip is taken away; negative: 2, or 4 of servos that hold tendons",
            rules=Quantity("", "1/s", ge=-1.0, le=20.0),
            read_only=True,
        )
        self.parameters.on_change(self._on_parameters)
        self._settings: Settings | None = None
        self._robot: Robot | None = None
        self._trajectory: Reference | None = None
        self._start_position: Vector | None = None
        self._start_s = self._published_s = 0.0
        self._current: ClarkeReference | None = None
        self._active = False
        self._sequence = 0
        self._measured: Vector | None = None
        self._clarke_state: tuple[bytes, float] | None = None
        self._blend_s = 0.0
        self._position: Vector = np.zeros(0)
        self._tip_path: TipPath | None = None
        self._stage: StageLine | None = None
        self._leads_stage = False
        self._to_tip = False
        self._rests_since_s = 0.0
        flow = self.flow
        self._timer = flow.create_timer(self._publish)
        self._references = flow.create_publisher(ClarkeState, "clarke_reference", qos.command_publisher())
        # Made now and not at activation, when it would delay a controller in the same process. Raw: it is needed once.
        subscribe_to_stream(self, ClarkeState, "clarke_state", self._on_measurement, raw=True, lazy=True)
        self._writer = ReferenceWriter(self, NAME)
        self._motion = MotionStart(self, self._on_driver, self._on_controller)
        self._tip_states = TipStates(self, str(self.parameters.get("base_frame")), simulated=self.simulated)
        self._reaction = NodeReaction(self)
        subscribe_to_stream(self, Shape, "shape", self._on_shape, raw=True, lazy=True)
        self.create_subscription(PointStamped, "tip_target", self._on_tip_target, qos.command_subscription())
        self.create_subscription(PoseStamped, "tip_target_pose", self._on_tip_pose, qos.command_subscription())
        self._trajectories = serve(self, self, self.clock)
        self.create_service(TakeReference, "~/take", self._serve_take)
        self.create_service(Trigger, "~/restart", self._serve_restart)
        self.create_service(Trigger, "~/hold", self._serve_hold)
        self.diagnostics.add_task("reference", self._diagnose)

    def configure(self) -> None:
        """Make the trajectory and the control of the tip, and start to listen where the robot stands."""
        robot = self.load_robot()
        self._robot = robot
        count = robot.coordinate_count
        settings = robot.reference or ReferenceSettings(kind="hold")
        if len(settings.amplitude_m) != count:
            settings = dataclasses.replace(settings, amplitude_m=(0.0,) * count)
        if not settings.frequency_hz:
            settings = dataclasses.replace(settings, frequency_hz=(0.1,))
        self._settings = self.parameters.declare_settings(
            "reference", settings, check=self._check_settings, all_live=True
        )
        self._trajectory = self._make(self._settings.value)
        self._message = ClarkeState(simulated=self.simulated, writer=NAME)
        self._position = conversions.preallocate(self._message, "position", count)
        self._velocity = conversions.preallocate(self._message, "velocity", count)
        self._acceleration = conversions.preallocate(self._message, "acceleration", count)
        self._tip_states.prepare(count)
        if robot.base_stage is not None and self._stage is None:
            self._stage = StageLine(self, robot.base_stage, self._on_stage_fault)
        self._tip_path = self._make_tip_path(robot)
        self._reaction.configure(robot)

    def activate(self) -> None:
        """Hold the position that is measured next, until a motion is started."""
        self._motion.activate()
        self._stand()
        self._active = True
        self._set_timer()

    def deactivate(self) -> None:
        """Fall silent: the controller holds the position."""
        self._active = False
        self._timer.cancel()
        self._motion.set_holding(True)

    def cleanup(self) -> None:
        """Forget the trajectory."""
        self._trajectory = None
        path, self._tip_path = self._tip_path, None
        if path is not None:
            path.close()

    def destroy_node(self) -> None:
        """End the action's server before the node, which does not know it."""
        server = getattr(self, "_trajectories", None)  # the constructor may not have come that far
        if server is not None:
            server.destroy()
        super().destroy_node()

    def _stand(self) -> None:
        """Hold the position that is measured next; nobody else has the turn any more."""
        self._to_tip = False
        self._write_as(NAME)
        self._measured = self._current = self._start_position = None
        self._reaction.reset()
        self._rests_since_s = self.clock.monotonic_s()
        self._motion.set_holding(True)

    def _on_driver(self) -> None:
        """The driver stopped, or obeys again: whatever moved before does not go on by itself."""
        if self._active:
            self._stand()

    def _on_controller(self) -> None:
        """Another controller commands: the motion ends, and where it is that of the tip, the tip is held then."""
        if self._active and not self._hold():
            self._stand()

    def _on_stage_fault(self) -> None:
        """The stage stopped, and the tip cannot follow its path without it."""
        if self._active and (self._to_tip or self._stage_way is not None):
            self._hold()

    @property
    def _stage_way(self) -> Interpolated | None:
        """Where the trajectory that is played has the stage; None where it does not move it."""
        return None if self._to_tip else getattr(self._trajectory, "stage", None)

    def _wait_for_stage(self, now_s: float) -> None:
        """A trajectory that moves the stage begins when that is heard; it ends where the stage is too far or silent."""
        trajectory, line = self._trajectory, self._stage
        if trajectory is None or line is None or self._stage_way is None:
            return
        if line.position is None and not self._leads_stage:
            self._start_s = now_s
            return
        problem = line.obstacle if self._leads_stage else self._refuse_way(trajectory)
        self._leads_stage = True
        if problem:
            self.get_logger().error(f"the trajectory ends: {problem}")
            self._hold()

    def _lead_stage(self, time_s: float) -> None:
        """Move the stage along; at the end of its way it holds by itself, and others may command it."""
        way, line = self._stage_way, self._stage
        if way is None or line is None or not self._leads_stage:
            return
        if time_s <= way.duration_s + line.stage.command_timeout_s:
            line.command(way.at(time_s).position)

    def _refuse_way(self, trajectory: Reference) -> str:
        """Why a trajectory cannot begin where the stage is, "" where it can, or does not move it."""
        way, line = getattr(trajectory, "stage", None), self._stage
        if way is None or line is None:
            return ""
        begin, here = way.at(0.0).position, line.position
        if line.fault or here is None:  # unheard yet, it is waited for
            return line.obstacle if line.fault else ""
        # It gets there while the tendons are blended in.
        room = line.stage.speed * 0.5 * max(float(self.parameters.get("blend_s")), _LEAST_BLEND_S)
        if (np.abs(begin - here) > room).any():
            return f"the stage is at {here.round(4).tolist()}, the file begins at {begin.round(4).tolist()} (m, rad)"
        return ""

    @property
    def _stage_obstacle(self) -> str:
        return "" if self._stage is None else self._stage.obstacle

    @property
    def _period_s(self) -> float:
        return 0.01 if self._settings is None else 1.0 / self._settings.value.rate_hz

    def _set_timer(self) -> None:
        if self._settings is not None:
            self._timer.start(self._period_s)

    def _on_measurement(self, data: bytes) -> None:
        self._clarke_state = data, self.clock.monotonic_s()
        if not self._active or self._start_position is not None:
            return
        message = conversions.message_of(data, ClarkeState)
        position = np.array(conversions.vector(message.position)) if message is not None else np.zeros(0)
        if position.size == self._position.size and np.all(np.isfinite(position)):
            self._measured = position

    def _publish(self) -> None:
        if not self._active or self._trajectory is None or not self._writer.ours or self._motion.stopped:
            return
        now_s, now_ns = self.clock.monotonic_s(), self.clock.now_ns()
        if self._start_position is None:
            if self._measured is None:
                return
            self._start_position, self._start_s = self._measured, now_s
            if self._motion.holding:
                self._trajectory, self._blend_s = Hold(self._measured), 0.0
        self._wait_for_stall(now_s)
        self._wait_for_stage(now_s)
        if self._motion.leads_tip and self._motion.holding and not self._to_tip:
            self._hold_tip(now_s)
        desired = reference = self._tip_path_at(now_s) if self._to_tip else self._trajectory_at(now_s)
        if self._reaction.active:
            reference = self._reaction.answer(reference, self._measured_now(now_s), self._period_s)
        if np.array_equal(reference.position, desired.position):  # no contact keeps the tendons from it
            self._lead_stage(now_s - self._start_s)
        self._current = reference
        self._sequence += 1
        message = self._message
        message.sequence = self._sequence
        conversions.set_stamp(message.header.stamp, now_ns)
        self._position[:] = reference.position
        self._velocity[:] = reference.velocity
        self._acceleration[:] = reference.acceleration
        self._references.publish(message)

    def _wait_for_stall(self, now_s: float) -> None:
        """A trajectory waits while this program stalls: making up for it, the reference would jump."""
        longest_s = max(LONGEST_STEP_S, 2.0 * self._period_s)
        self._start_s += max(0.0, now_s - max(self._published_s, self._start_s) - longest_s)
        self._published_s = now_s

    def _trajectory_at(self, now_s: float) -> ClarkeReference:
        trajectory, start, blend_s = self._trajectory, self._start_position, self._blend_s
        if trajectory is None or start is None:
            raise ParameterError(NAME, self.state, "a node that plays a trajectory")
        time_s = now_s - self._start_s
        reference = trajectory.at(time_s)
        if time_s < blend_s:
            reference = blend(start, reference, max(time_s, 0.0) / blend_s, blend_s)
        return reference

    def _play(self, trajectory: Reference, *, blend_s: float | None = None) -> None:
        """Play from here on; a trajectory that goes on from where the reference is needs no blend."""
        here = self._here()
        self._reaction.resume()
        self._trajectory, self._to_tip, self._leads_stage = trajectory, False, False
        self._blend_s = float(self.parameters.get("blend_s")) if blend_s is None else blend_s
        if here is not None:
            self._start_position = here.position
            self._start_s = self.clock.monotonic_s()
        self._write_as(NAME)

    def _here(self) -> ClarkeReference | None:
        return self._writer.followed(self._current, self._position.size)

    def _hold(self) -> bool:
        """Come to rest from where the reference is; False where there is none yet."""
        here = self._here()
        if here is None or self._robot is None:
            return False
        self._play(Halt(here.position, here.velocity, self._motion_limits().acceleration_m_per_s2), blend_s=0.0)
        self._motion.set_holding(True)
        return True

    def _start(self) -> None:
        """Play the trajectory from its beginning."""
        if self._settings is not None:
            self._play(self._make(self._settings.value))
            self._motion.set_holding(False)

    # What the action follow_joint_trajectory plays

    def begin_trajectory(self, make: Callable[[Robot, Vector], Trajectory]) -> Trajectory:
        """Play a trajectory that begins where the reference is."""
        here, robot = self._here(), self._robot
        obstacle = self._refuse_start() or ("there is no reference yet" if here is None else "")
        if obstacle or here is None or robot is None:
            raise DeviceError(NAME, f"plays no trajectory: {obstacle}", "Bring the stack up")
        trajectory = make(robot, here.position)
        self._play(trajectory, blend_s=0.0)
        self._motion.set_holding(False)
        return trajectory

    def trajectory_state(self, trajectory: Reference) -> tuple[float, ClarkeReference, Vector | None] | None:
        """Time since the start (s), reference and measured coordinates (m) of a trajectory; None: it ended before."""
        ended = self._to_tip or self._trajectory is not trajectory or not self._writer.ours
        if ended or not self._active or self._motion.stopped:
            return None
        now_s = self.clock.monotonic_s()
        return now_s - self._start_s, self._trajectory_at(now_s), self._measured_now(now_s)

    def end_trajectory(self) -> None:
        """Come to rest where the reference is."""
        self._hold()

    def _refuse_start(self, *, of_tip: bool = False) -> str:
        """Why no motion can be started now, "" where one can."""
        if not self._active:
            return "the reference source is not active: bring the stack up"
        if self._motion.leads_tip and not of_tip and not self._motion.obstacle:
            return "the controller tip takes targets of the tip only: switch to clarke first"
        return self._motion.obstacle

    def _write_as(self, name: str, *, tell: bool = False) -> None:
        # Until the next tick, what comes meanwhile begins where the reference is, not where this node wrote it last.
        self._current = self._here()
        self._writer.hand_to(name, tell=tell or not self._active)

    # The tip

    def _on_shape(self, data: bytes) -> None:
        if self._tip_path is not None and (self._to_tip or self._motion.leads_tip):
            self._tip_path.hear_shape(data)

    def _hold_tip(self, now_s: float) -> None:
        """Keep the tip where it is, once the reference rests and the tip is known."""
        path, here = self._tip_path, self._here()
        if path is None or here is None or np.any(here.velocity):
            self._rests_since_s = now_s
        elif self._stage_obstacle:
            return
        elif now_s - self._rests_since_s >= TIP_SETTLES_S and path.hold(here, self._motion_limits()):
            self._to_tip = True

    def _on_tip_target(self, message: PointStamped) -> None:
        path = self._tip_path
        if path is None and self._robot is not None and self._robot.traits.tip_nodes:
            return  # another node brings the tip of a mechanism to its target
        place = conversions.position(message.point)
        problem = self._refuse_target(message, place)
        here = self._here()
        if path is None or here is None or problem:
            self._tip_states.refuse(message.point, problem or "the stack is not up")
            return
        if not self._to_tip or not self._writer.ours:
            path.start(here, self._motion_limits())
        path.aim(place, here)
        self._reaction.resume()
        self._to_tip = True
        self._write_as(NAME)
        self._motion.set_holding(False)

    def _on_tip_pose(self, message: PoseStamped) -> None:
        """What RViz and other tools send; the orientation cannot be chosen, and is not looked at."""
        self._on_tip_target(PointStamped(header=message.header, point=message.pose.position))

    def _refuse_target(self, message: PointStamped, place: Vector) -> str:
        frame = str(self.parameters.get("base_frame"))
        obstacle = self._refuse_start(of_tip=True) or self._stage_obstacle
        if obstacle:
            return obstacle
        if not np.all(np.isfinite(place)):
            return "the target is not finite"
        if message.header.frame_id not in ("", frame):
            return f"frame {message.header.frame_id!r}: targets are given in {frame!r}"
        stamp_ns = conversions.stamp_ns(message.header.stamp)
        age_s = (self.clock.now_ns() - stamp_ns) * 1e-9
        # In lock-step programs that take no part, a client or RViz, stamp with the wall clock.
        if stamp_ns and not self.clock.stepped and abs(age_s) > TARGET_AGE_S:
            return f"the target is {age_s:.1f} s old: at most {TARGET_AGE_S:g} s"
        return ""

    def _tip_path_at(self, now_s: float) -> ClarkeReference:
        path = self._tip_path
        if path is None or self._settings is None:
            raise ParameterError(NAME, self.state, "a node that is configured")
        return path.at(1.0 / self._settings.value.rate_hz, self._measured_now(now_s))

    def _measured_now(self, now_s: float) -> Vector | None:
        """Measured coordinates, None where they are not known or old."""
        if self._clarke_state is None:
            return None
        data, heard_s = self._clarke_state
        fresh = now_s - heard_s < SHAPE_AGE_S
        message = conversions.message_of(data, ClarkeState)
        if message is None:
            return None
        position = conversions.vector(message.position)
        return position if fresh and position.size == self._position.size else None

    def _make_tip_path(self, robot: Robot) -> TipPath | None:
        if robot.traits.without_tip_control or robot.limits is None:
            return None
        settings = TipSettings(
            tolerance_m=self.parameters.get("tip.tolerance_m"),
            integral_per_s=self.parameters.get("tip.integral_per_s"),
        )
        return TipPath(robot, TipControl(robot, settings), self._tip_states, self.clock, self._stage)

    def _motion_limits(self) -> MotionLimits:
        robot = self._robot if self._robot is not None else self.load_robot()
        reference = self._settings.value if self._settings is not None else robot.reference
        return motion_limits(robot.changed(reference=reference))

    def _on_parameters(self, names: set[str]) -> None:
        if self._settings is None or not names & set(self._settings.leaves) or self._trajectory is None:
            return
        if names <= _LIMITS:
            if self._tip_path is not None:
                self._tip_path.limit(self._motion_limits())
            return
        # Where no trajectory was started, a parameter starts none: it is made when it is.
        if not self._motion.holding and not self._motion.leads_tip:
            trajectory = self._make(self._settings.value)
            problem = self._refuse_way(trajectory)
            if problem:
                self.get_logger().warning(f"plays nothing new: {problem}")
                self._hold()
            else:
                self._play(trajectory)
        if self._active and "reference.rate_hz" in names:
            self._set_timer()

    def _serve_restart(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        obstacle = self._refuse_start()
        if self._settings is not None and not obstacle:
            obstacle = self._refuse_way(self._make(self._settings.value))
        if obstacle or self._settings is None:
            response.message = f"refused: {obstacle}"
            return response
        self._start()
        response.success, response.message = True, f"plays {self._settings.value.kind}"
        return response

    def _serve_hold(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._active and (self._motion.holding or self._hold())
        response.message = (
            "holds the reference where it is" if response.success else "refused: there is no reference yet"
        )
        return response

    def _serve_take(self, request: TakeReference.Request, response: TakeReference.Response) -> TakeReference.Response:
        name = check_request("TakeReference", request).writer.strip()
        obstacle = self._refuse_start(of_tip=name in ("", NAME))
        if obstacle:
            response.message = f"refused: {obstacle}"
        elif name in ("", NAME):
            response.success = self._writer.ours or self._hold()
            response.message = f"{NAME} writes clarke_reference" if response.success else "refused: no reference yet"
        else:
            before = self._writer.name
            self._write_as(name, tell=True)  # every turn is announced: who asked knows by it which names are old
            self._motion.set_holding(False)
            response.success, response.message = True, f"{name} writes clarke_reference instead of {before}"
        return response

    def _make(self, settings: ReferenceSettings) -> Reference:
        robot = self._robot if self._robot is not None else self.load_robot()
        folder = Path(robot.file_name).parent if robot.file_name else None
        return make_reference(settings, robot.coordinate_count, folder, robot.base_stage)

    def _check_settings(self, settings: ReferenceSettings) -> None:
        self._make(settings)
        if self._robot is not None and settings.amplitude_m:
            most_m = coordinate_limits_m(self._robot)
            amplitude = np.abs(settings.amplitude_m)
            worst = int(np.argmax(amplitude / most_m))
            if amplitude[worst] > most_m[worst]:
                expected = f"at most limits.maximum_displacement_m = {most_m[worst]:g} m"
                raise ParameterError("reference.amplitude_m", float(amplitude[worst]), expected)

    def _diagnose(self, status: StatusBuilder) -> None:
        kind = self._settings.value.kind if self._settings is not None else "none"
        plays = "brings the tip to its target" if self._to_tip else f"plays {kind}"
        if not self._writer.ours:
            plays = f"silent: {self._writer.name} writes clarke_reference"
            broken_off_s = self._writer.broken_off_s()
            if broken_off_s:
                problem = f"not heard for {broken_off_s:.0f} s in the middle of a motion: the robot holds"
                status.summary(Level.WARN, f"{self._writer.name}, which writes clarke_reference, was {problem}")
        elif self._motion.holding:
            plays = f"{HOLDING}; keeps the tip where it is" if self._to_tip else HOLDING
        self._reaction.diagnose(status)
        status.summary(Level.OK, plays if self._current is not None and self._active else self.state)
        status.add("writer", self._writer.name)
        status.add("holding", self._motion.holding)
        status.add("kind", kind)
        status.add("references_published", self._sequence)
        duration_s = self._trajectory.duration_s if self._trajectory is not None else math.nan
        status.add("duration_s", duration_s)


def main() -> int:
    """Run the node until SIGINT or SIGTERM."""
    return run_node(ReferenceSource)


if __name__ == "__main__":
    sys.exit(main())
