# SPDX-License-Identifier: Apache-2.0
"""A robot on ROS 2 as a Python object whose methods wait: the same for simulation and hardware.

    with Robot("opencr_five_tendon", simulated=True) as robot:
        robot.bend(1, angle_rad=1.0, direction_rad=0.0)
        print(robot.state.tip_position_m)

Every wait ends: with what was asked for, with a fault, or with a timeout.

Names
-----
segment : number from 1, or name
wait : until the motion is over, and return how it ended; without, None at once
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuum_robot.action import CheckTendons, HomeTendons, LearnFloor
from continuum_robot.app.client.connection import Connection, bring_up, join, recorded
from continuum_robot.app.client.motions import (
    MotionResult,
    Motions,
    Task,
    TipResult,
    Trajectory,
    as_function,
    checked,
    move_stage,
    move_tip,
    source_parameters,
)
from continuum_robot.app.client.stack_link import (
    OPERATION_TIMEOUT_S,
    PREDICTIVE_TARGET,
    SOURCE,
    StackLink,
)
from continuum_robot.app.client.state import ContactState, RobotState
from continuum_robot.app.running.stack import with_world
from continuum_robot.control.motion import MotionLimits, motion_limits
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.geometry.clarke import clarke_from_arc
from continuum_robot.identification.weighing import Turn
from continuum_robot.identification.weighing_motion import WeighingMotion
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.choices import MUJOCO
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.rod.design import tip_compliance
from continuum_robot.srv import InjectFault, ManageStack, ReleaseEstop

Vector = NDArray[np.float64]

STALE_S = 1.0
_WEIGHING_FRACTION = 0.3


class Robot:
    """A robot that is brought up by this program, or that of a running stack (:meth:`connect`).

    Use it in a ``with`` block: it then comes up, and goes down in good order however the block ends. Methods that move
    wait until the motion is over and return how it ended; with ``wait=False`` they return None at once, and
    :meth:`is_task_complete`, :meth:`result` and :meth:`cancel` look after it. One motion at a time: a new one ends the
    one before. Methods may be called from one thread; :attr:`state`, :meth:`estop` and :meth:`cancel` from any.

    Methods raise the same errors for the same things, and report it only where there is more to it. ParameterError: a
    value that cannot be, before anything moves, or that a node refuses. DeviceError: a node refused, and why.
    RobotFaultError: a fault or the e-stop is latched, the motion was cancelled, or another program took the reference.
    RobotTimeoutError: it did not happen in time; motions allow 10 s behind their reference.

    After every bring-up and every reset the robot holds where it is, until a motion is asked for.

    Parameters
    ----------
    robot : robot file, or the name of a shipped robot
    simulated : False: the devices of the robot file's ``hardware`` section
    simulation_level : ``dynamics``, ``wire`` or ``mujoco``, where simulated
    world : file of obstacles, or the name of a shipped one, which makes the level ``mujoco``; simulated only
    namespace : ROS namespace
    contact : run a contact monitor
    force_sensor : read the force-torque sensor
    tracker : simulate a tracker of the tip, which corrects the tip of the shape
    predictive : plan to targets of :meth:`move_tip_round`
    visualize : publish tf, path and markers
    parameters : for each node, ROS parameters over the defaults
    clock : ``real``, or ``lockstep``: time comes from the simulated robot. Motions still take wall-clock time here
    processes : run the nodes in processes beside this one; else in this one, where tests look into them
    timeout_s : for the stack to come up, s
    """

    def __init__(
        self,
        robot: str | Path = "opencr_five_tendon",
        *,
        simulated: bool = True,
        simulation_level: str = "dynamics",
        world: str = "",
        namespace: str = "",
        contact: bool = False,
        force_sensor: bool = False,
        tracker: bool = False,
        predictive: bool = False,
        visualize: bool = True,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        clock: str = "real",
        processes: bool = True,
        timeout_s: float = OPERATION_TIMEOUT_S,
    ) -> None:
        if world:
            simulation_level, world = with_world(MUJOCO, world)
        options = StackOptions(
            robot=str(robot),
            simulated=simulated,
            simulation_level=simulation_level,
            world=world,
            namespace=namespace,
            contact=contact,
            force_sensor=force_sensor,
            tracker=tracker,
            predictive=predictive,
            visualize=visualize,
            clock=clock,
            parameters=parameters or {},
        )
        self._bring_up: Callable[[], Connection] | None = partial(bring_up, options, timeout_s, processes=processes)
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._description: RobotDescription | None = None
        self._task: Task | None = None

    @classmethod
    def connect(cls, namespace: str = "", *, robot: str | Path | None = None, timeout_s: float = 10.0) -> Robot:
        """Connect to a stack that runs already, in this process, another one, or on another machine.

        Closing leaves it running. It needs no ``with``, but then call :meth:`close`.

        Parameters
        ----------
        namespace : of the stack
        robot : robot file, where the one that the stack names is not on this machine
        timeout_s : for the stack to be found, s

        Raises
        ------
        RobotTimeoutError : no stack was found
        RobotFileError : its robot file is not on this machine
        """
        made = cls(robot or "", namespace=namespace, timeout_s=timeout_s)
        made._bring_up = None
        made._use(join(namespace, robot, timeout_s))
        return made

    # Life

    def start(self) -> Robot:
        """Bring the stack up and wait until it is active; a ``with`` block does it.

        Raises
        ------
        ContinuumRobotError : a robot file that cannot be used, a busy domain, a device that does not answer
        """
        if self._bring_up is None or self._connection is not None:
            return self
        self._use(self._bring_up())
        try:
            self.wait_until_active(self._timeout_s)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the motion under way; bring the stack down if this program brought it up. Safe to call twice."""
        connection = self._connection
        if connection is None:
            return
        try:
            self._end_task()
        finally:
            self._connection = None
            connection.closing.close()

    def __enter__(self) -> Robot:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # What it is

    @property
    def description(self) -> RobotDescription:
        """The robot of the robot file. Raises :class:`DeviceError` before :meth:`start`."""
        if self._description is None:
            raise DeviceError("robot", "is not up", "Use it in a with block, or call start()")
        return self._description

    @property
    def link(self) -> StackLink:
        """Services, newest messages and publishers underneath. Raises :class:`DeviceError` before :meth:`start`."""
        if self._connection is None:
            raise DeviceError("robot", "is not up", "Use it in a with block, or call start() or Robot.connect()")
        return self._connection.link

    @property
    def stack(self) -> ComposedStack | None:
        """The nodes that this program brought up; None where it is connected to others."""
        return None if self._connection is None else self._connection.stack

    @property
    def limits(self) -> MotionLimits:
        """Speed and acceleration within which motions are planned, m/s and m/s^2."""
        return motion_limits(self.description)

    @property
    def state(self) -> RobotState:
        """The newest of everything that is known, at once."""
        return self.link.state(self.description)

    # Waiting

    def wait_until_active(self, timeout_s: float = OPERATION_TIMEOUT_S) -> RobotState:
        """Wait until the stack is up and the robot's state is known, and return that."""

        def active() -> bool:
            state = self.state
            # Not every servo measures a load.
            commanded = state.displacement_m if self.description.takes_displacements else state.tension_n
            known = bool(np.all(np.isfinite(state.clarke_m)) and np.all(np.isfinite(commanded)))
            return state.stack == "up" and known and state.age_s < STALE_S

        self.link.wait_until(active, timeout_s, "is not up")
        return self.state

    def wait_for_contact(self, timeout_s: float = 60.0) -> ContactState:
        """Wait until something touches the robot, and return what is known of that.

        Raises
        ------
        DeviceError : no contact monitor runs
        """
        if not wait_for(lambda: self.link.messages.publishers("contact") > 0, 2.0):
            raise DeviceError("contact_monitor", "does not run", "Bring the robot up with contact=True")
        self.link.wait_until(lambda: self.state.contact.in_contact, timeout_s, "detected no contact")
        return self.state.contact

    # Motion

    def move_to(
        self,
        clarke: ArrayLike,
        duration_s: float | None = None,
        *,
        tolerance_m: float | None = None,
        wait: bool = True,
    ) -> MotionResult | None:
        """Move the Clarke coordinates from rest to rest, by a quintic polynomial.

        Parameters
        ----------
        clarke : desired coordinates [q_Re,1, q_Im,1, ...], shape (2m,), m
        duration_s : of the motion, s; None: the shortest within :attr:`limits`
        tolerance_m : error within which it has arrived, m; None: 2 % of the largest displacement

        Raises
        ------
        ParameterError : not finite, wrong number of values, or beyond the largest displacement of a tendon
        """
        goal = checked(self.description, clarke)
        if duration_s is not None and not 0 < duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a positive time in s")
        motions = self._motions
        return self._begin("move_to", lambda task: motions.move(task, goal, duration_s, tolerance_m), wait)

    def bend(
        self,
        segment: int | str,
        angle_rad: float,
        direction_rad: float = 0.0,
        duration_s: float | None = None,
        *,
        wait: bool = True,
    ) -> MotionResult | None:
        """Bend one segment as :meth:`move_to`, the others stay as they are desired now.

        Parameters
        ----------
        angle_rad : bending angle of the whole segment, rad
        direction_rad : towards which its tip moves, from +x towards +y, rad

        Raises
        ------
        ParameterError : no such segment, or a robot on which no tendons bend one segment alone
        """
        robot = self.description
        if robot.traits.without_bending_command:
            raise ParameterError("segment", segment, f"move_to instead: {robot.traits.without_bending_command}")
        index = _index(segment, robot.part_names)
        desired = self._motions.desired()
        radius_m = robot.segments[index].tendons.pitch_radius_m
        desired[2 * index : 2 * index + 2] = clarke_from_arc(direction_rad, angle_rad, radius_m)
        return self.move_to(desired, duration_s, wait=wait)

    def straighten(self, duration_s: float | None = None, *, wait: bool = True) -> MotionResult | None:
        """Move all Clarke coordinates to zero, as :meth:`move_to`."""
        return self.move_to(np.zeros(self.description.coordinate_count), duration_s, wait=wait)

    def move_tip_to(self, position_m: ArrayLike, *, timeout_s: float = 30.0, wait: bool = True) -> TipResult | None:
        """Bring the tip to a place and keep it there, by the stack's tip control.

        A place out of reach is no error: the tip goes to the reachable point next to it, and the result says how far
        that is.

        Parameters
        ----------
        position_m : shape (3,), m, in the base frame; of a robot with a stage, which then moves too where the tendons
            alone do not reach, in the stage's frame
        timeout_s : for the tip to arrive, s

        Raises
        ------
        ParameterError : not three finite numbers
        """
        target, link = _position(position_m), self.link
        return self._begin("move_tip_to", lambda task: move_tip(link, task, target, timeout_s), wait)

    def move_stage(
        self, insertion_m: float, rotation_rad: float = 0.0, *, timeout_s: float = 60.0, wait: bool = True
    ) -> Vector | None:
        """Insert and turn the whole robot by its stage; the tendons hold. Returns where it stands, shape (2,).

        Parameters
        ----------
        insertion_m, rotation_rad : place to go to, m and rad
        timeout_s : to arrive, s

        Raises
        ------
        ParameterError : a robot without a stage, or a place out of its ranges
        """
        stage = self.description.base_stage
        if stage is None:
            raise ParameterError("robot.base_stage", None, f"a stage in the file of robot {self.description.name!r}")
        goal, (low, high) = stage.checked((insertion_m, rotation_rad)), stage.ranges.T
        if ((goal < low) | (goal > high)).any():
            raise ParameterError("insertion_m, rotation_rad", goal.tolist(), f"{low.tolist()} to {high.tolist()}")
        link = self.link

        def work(task: Task) -> Vector:
            link.hold()  # the tip's control commands the stage too
            return move_stage(link, task, goal, timeout_s)

        return self._begin("move_stage", work, wait)

    def move_tip_round(self, position_m: ArrayLike, *, timeout_s: float = 30.0, wait: bool = True) -> TipResult | None:
        """Bring the tip to a position round the obstacles of the world, by the predictive control of the stack.

        Parameters
        ----------
        position_m : shape (3,), base frame, m
        timeout_s : for planning and for the tip to arrive, s

        Raises
        ------
        ParameterError : not three finite numbers
        """
        target, link = _position(position_m), self.link
        move = partial(move_tip, link, target_m=target, timeout_s=timeout_s, topic=PREDICTIVE_TARGET)
        return self._begin("move_tip_round", lambda task: move(task=task), wait)

    def follow(
        self, trajectory: Trajectory, duration_s: float | None = None, *, wait: bool = True
    ) -> MotionResult | None:
        """Move to where a trajectory begins, then follow it; references go out at 100 Hz.

        Parameters
        ----------
        trajectory : CSV file (columns ``time_s`` and q_re_1_m, q_im_1_m, ...), an object with ``at(t_s)`` such as those
            of :mod:`continuum_robot.control.references`, or a function of the time in s that gives Clarke coordinates,
            shape (2m,), m, or a ClarkeReference. A function is called once for each instant, in order, so it may look
            at :attr:`state` and close a loop of its own
        duration_s : for how long, s; None: for the trajectory's own time, without end for a function

        Raises
        ------
        ParameterError : a value that is not finite or beyond the largest displacement of a tendon
        RobotFileError : a CSV file that cannot be used
        """
        at, own_s = as_function(self.description, trajectory)
        end_s = own_s if duration_s is None else duration_s
        motions = self._motions
        return self._begin("follow", lambda task: motions.follow(task, at, end_s), wait)

    def weighing_motion(self, radius_m: float | None = None, **settings: Any) -> WeighingMotion:
        """A motion to weigh with.

        Parameters
        ----------
        radius_m : of the turns, Clarke coordinates, m; None: 0.3 of the largest displacement of a tendon
        **settings : of :class:`~continuum_robot.identification.weighing_motion.WeighingMotion`

        Raises
        ------
        ParameterError : no radius, and a robot file without limits; a radius, period or number that is not positive
        """
        robot = self.description
        if radius_m is None:
            if robot.limits is None:
                raise ParameterError("radius_m", None, f"a radius in m: {robot.name} has no limits in its file")
            radius_m = _WEIGHING_FRACTION * robot.limits.smallest("maximum_displacement_m", robot.tendon_count)
        return WeighingMotion(radius_m, robot.coordinate_count, **settings)

    def turn_to_weigh(
        self, motion: WeighingMotion | None = None, progress: Callable[[float], None] | None = None
    ) -> Turn:
        """Turn the bend slowly each way and return what was measured, for
        :func:`~continuum_robot.identification.weighing.weigh`: once without the payload, then with it.

        Parameters
        ----------
        motion : None: that of :meth:`weighing_motion`
        progress : called with the time into the motion, s
        """
        turns = motion or self.weighing_motion()
        rows: list[tuple[int, Vector, Vector]] = []

        def at(time_s: float) -> ClarkeReference:
            state = self.state
            rows.append((turns.arc(time_s), state.displacement_m, state.tension_n))
            if progress is not None:
                progress(time_s)
            return turns.at(time_s)

        self.follow(at, turns.duration_s)
        return Turn.of_samples(*zip(*rows, strict=True))

    def play(self, kind: str | None = None, **settings: Any) -> None:
        """Have the reference source play a trajectory until something else is asked for; returns at once.

        Parameters
        ----------
        kind : chirp, steps, circle, rest_to_rest, hold or csv; None: the robot file's own trajectory
        **settings : fields of :class:`~continuum_robot.robot.control_settings.ReferenceSettings`, e.g.
            ``amplitude_m=(0.01, 0.0), frequency_hz=(0.2,)``
        """
        self._end_task()
        self.link.set_parameters(SOURCE, source_parameters(self.description, kind, settings))
        self.link.restart()

    def take_turn(self) -> Vector:
        """Come to rest, and have everybody else fall silent on clarke_reference: for programs that publish themselves.

        Returns
        -------
        where the reference stands, shape (2m,), m: begin there, by :attr:`link`, and end with its ``give_back``
        """
        return self._motions.take_turn()

    def hold(self) -> None:
        """End the motion under way and come to rest where the robot is."""
        self._end_task()
        self.link.hold()

    def stop(self) -> None:
        """The same as :meth:`hold`: tendons stay under tension. For danger there is :meth:`estop`."""
        self.hold()

    def is_task_complete(self) -> bool:
        """Whether no motion is under way."""
        return self._task is None or self._task.done

    def cancel(self) -> None:
        """End the motion under way; the robot comes to rest where it is."""
        if not self.is_task_complete():
            self.hold()

    def result(self, timeout_s: float | None = None) -> MotionResult | TipResult:
        """Wait for the motion that was begun last, and return how it ended.

        Parameters
        ----------
        timeout_s : s; None: for as long as it takes

        Raises
        ------
        DeviceError : no motion was begun
        RobotTimeoutError : it is not over yet; it goes on
        ContinuumRobotError : what ended it
        """
        if self._task is None:
            raise DeviceError("robot", "no motion was begun", "Begin one with wait=False")
        outcome: MotionResult | TipResult = self._task.result(timeout_s)
        return outcome

    # Stop, reset, procedures

    def estop(self) -> str:
        """Latch the e-stop: tensions go to their safe value, whatever state the stack is in. Not safety-rated.

        Returns the driver's answer. If there is none within a second, the topic ``estop`` is pressed too, until
        :meth:`reset`, and the sentence says so: press the hardware's stop.
        """
        if self._task is not None:
            self._task.cancel()
        return self.link.estop()

    def reset(self, timeout_s: float = OPERATION_TIMEOUT_S) -> RobotState:
        """Clear e-stop and faults and bring the stack up again; the robot then holds where it is. Returns the state.

        Raises
        ------
        DeviceError : what keeps the faults from being cleared, and who still holds the e-stop
        """
        self._end_task()
        self.link.manage(ManageStack.Request.RESET, timeout_s)
        self.link.forget_before()
        return self.wait_until_active(timeout_s)

    def switch_controller(self, controller: str) -> str:
        """Let another controller command the tendons, with the torque on and without a jump of the tensions.

        Which one does is in :attr:`state`. Every motion ends; the robot holds where it is until one is asked for.
        Returns what the driver reported.

        Parameters
        ----------
        controller : ``clarke``, ``tip`` (follows :meth:`move_tip` alone, and keeps the tip at rest),
            ``hold_tension`` or ``topic``

        Raises
        ------
        DeviceError : the driver refused, and why
        """
        self._end_task()
        return self.link.switch_controller(controller)

    def release_estop(self, holder: str) -> str:
        """Let go of the e-stop in place of a program or button that has gone for good. Returns the driver's answer.

        See why it was pressed first: nobody else will. It clears no fault, :meth:`reset` does.

        Parameters
        ----------
        holder : name, as the error of :meth:`reset` gives it

        Raises
        ------
        DeviceError : it does not hold the e-stop, or is still there
        """
        request = ReleaseEstop.Request(holder=holder)
        return self.link.ask("release_estop", ReleaseEstop, request, again_s=None)

    def home(self, tension_n: float = 0.0, timeout_s: float = 300.0) -> HomeTendons.Result:
        """Take up slack, straighten, and store where the tendons stand there; the stack is paused meanwhile.

        Parameters
        ----------
        tension_n : on every tendon at the straight pose, N; 0: the robot file's

        Returns
        -------
        message, file, zero (m) and slack (m) of every tendon
        """
        return self._while_paused(HomeTendons, "home_tendons", HomeTendons.Goal(tension=float(tension_n)), timeout_s)

    def check_tendons(self, pull_n: float = 0.0, timeout_s: float = 300.0) -> tuple[str, ...]:
        """Pull at one tendon after the other, and compare with the robot file; the stack is paused meanwhile.

        Parameters
        ----------
        pull_n : most that is added to a tendon's tension, N; 0: from the limits

        Returns
        -------
        verdict on every tendon, "ok" where it is as the file states

        Raises
        ------
        DeviceError : a tendon is not as the file states, and which
        """
        goal = CheckTendons.Goal(pull=float(pull_n))
        return tuple(self._while_paused(CheckTendons, "check_tendons", goal, timeout_s).verdicts)

    def tare(self) -> str:
        """What the contact monitor, and the force sensor, measure now counts as nothing; nothing may touch the robot.

        Returns what they reported.

        Raises
        ------
        DeviceError : neither runs, or one refused
        """
        status = self.link.messages["stack_status"]
        nodes = [] if status is None else [n for n in status.node_names if n in ("contact_monitor", "force_sensor")]
        if not nodes:
            raise DeviceError("tare", "neither contact monitor nor force sensor runs", "Bring them up, contact=True")
        return "; ".join(self.link.trigger(f"{name}/tare") for name in nodes)

    def learn_floor(self, duration_s: float = 10.0, *, only_if_missing: bool = False) -> LearnFloor.Result:
        """Let the contact monitor learn what its residual is without a contact, while the robot moves as in its work.

        Parameters
        ----------
        duration_s : of free motion, s
        only_if_missing : return at once where a floor is in use

        Returns
        -------
        ``message`` says what was learnt, ``file`` where it is stored

        Raises
        ------
        DeviceError : something touched the robot, or it did not move; the floor of before is in use
        """
        return self.link.learn_floor(duration_s, only_if_missing=only_if_missing)

    # Settings, faults, recording

    def set_pretension(self, pretension_n: float) -> None:
        """Least tension that the controller leaves on a tendon; reached at its rate while the place is held.

        Parameters
        ----------
        pretension_n : N
        """
        self.set_parameters("clarke_controller", {"pretension_n": float(pretension_n)})

    def set_payload(self, payload_kg: float, *, simulated: bool = False) -> None:
        """Tell the models what the tip carries: the controller's feed-forward, shape estimator and contact monitor.

        The controller takes it over within a second; tare and learnt floor of the contact monitor are forgotten.

        Parameters
        ----------
        payload_kg : kg
        simulated : hang it at the simulated robot too, which otherwise stays as it is

        Raises
        ------
        ParameterError : not a payload of this robot; or a node, which it names, that cannot change it
        """
        described = self.description.carrying(payload_kg)
        status = self.link.messages["stack_status"]
        running = () if status is None else status.node_names
        for node in (*(("simulator",) if simulated else ()), "clarke_controller", "shape_estimator", "contact_monitor"):
            if node in running:
                self.set_parameters(node, {"payload_kg": float(payload_kg)})
        self._description = described

    def tip_compliance(self) -> Vector:
        """How far a small force on the tip moves it under the controller now, shape (3, 3), m/N in base axes.

        Raises
        ------
        DeviceError : the shape or the tensions are not known
        ParameterError : a tendon is slack
        """
        state = self.state
        if state.coefficients.size == 0 or not np.isfinite(state.coefficients).all():
            raise DeviceError("shape_estimator", "shows no shape", "Wait until it estimates, or bring it up")
        return tip_compliance(self.description, state.coefficients, state.tension_n)

    def compensate_cogging(self, on: bool = True) -> None:
        """Feed the cogging of the motors forward, or no longer, by the table of ``continuum-robot calibrate-cogging``.

        Parameters
        ----------
        on : feed it forward

        Raises
        ------
        ParameterError : there is no table that fits this robot
        """
        self.set_parameters("tendon_driver", {"cogging": "on" if on else "off"})

    def react(self, strategy: str, **settings: float) -> None:
        """What the robot does when something touches it, from the next contact on; the contact monitor has to run.

        Parameters
        ----------
        strategy : ignore, hold, retract, comply, guide or press
        settings : others of ``reaction`` in the robot file in its units, such as ``press_n=2.0``, N
        """
        values = {"strategy": strategy, **{name: float(value) for name, value in settings.items()}}
        self.set_parameters(SOURCE, {f"reaction.{name}": value for name, value in values.items()})

    def resume(self) -> str:
        """Go back to the reference from where a contact let the robot hold; returns what the stack reports.

        Raises
        ------
        DeviceError : it follows its reference
        """
        return self.link.trigger(f"{SOURCE}/resume")

    def set_gains(self, segment: int | str = 1, **gains: float) -> None:
        """Change gains of the controller, all or none, at its next cycle.

        Parameters
        ----------
        **gains : fields of :class:`~continuum_robot.robot.control_settings.PidGains`: p (N/m), i (N/(m.s)), d (N.s/m)
        """
        names = self.description.part_names
        name = names[_index(segment, names)]
        self.set_parameters("clarke_controller", {f"gains.{name}.{key}": float(value) for key, value in gains.items()})

    def set_parameters(self, node: str, values: Mapping[str, Any]) -> None:
        """Set ROS parameters of a node, all or none.

        Parameters
        ----------
        node : name, e.g. ``clarke_controller``
        values : by parameter
        """
        self.link.set_parameters(node, values)

    def get_parameter(self, node: str, name: str) -> Any:
        """Value of a node's ROS parameter, None where it is not declared.

        Parameters
        ----------
        name : of the parameter, dotted
        """
        return self.link.get_parameter(node, name)

    def inject_fault(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> str:
        """Make the simulated hardware misbehave; see :mod:`continuum_robot.simulation.faults`. Returns its answer.

        Parameters
        ----------
        fault : its name; empty ends all
        tendon : index from 0, -1 for all
        magnitude : meaning and unit depend on the fault
        duration_s : s; 0: until it is ended

        Raises
        ------
        DeviceError : refused: an unknown fault, or real hardware
        """
        state = self.state
        if state.stack and not state.simulated:
            raise DeviceError("inject_fault", "the robot is real", "Faults are injected into simulated hardware only.")
        request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
        response = self.link.call(InjectFault, "inject_fault", request, again_s=None)
        if not response.success:
            raise DeviceError("inject_fault", response.message, "See continuum_robot.simulation.faults")
        return str(response.message)

    def record(self, path: str | Path) -> AbstractContextManager[Path]:
        """Record all topics of the stack, as MCAP, while a ``with`` block runs, which is given the folder.

        Parameters
        ----------
        path : folder of the recording, made; with a number behind it where there is one already
        """
        return recorded(self.link, self.description, Path(path).expanduser())

    # Helpers

    @property
    def _motions(self) -> Motions:
        return Motions(self.link, self.description)

    def _use(self, connection: Connection) -> None:
        self._connection, self._description = connection, connection.robot

    def _begin(self, name: str, work: Callable[[Task], Any], wait: bool) -> Any:
        self._end_task()
        self.link.check_up()
        task = self._task = Task(name, work)
        if not wait:
            return None
        try:
            return task.result()
        except BaseException:
            task.cancel()
            raise

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.end()

    def _while_paused(self, kind: Any, name: str, goal: Any, timeout_s: float) -> Any:
        self._end_task()
        self.link.manage(ManageStack.Request.PAUSE)
        try:
            return self.link.run_action(kind, name, goal, timeout_s)
        finally:
            self.link.manage(ManageStack.Request.RESUME)
            self.link.forget_before()


def _position(position_m: ArrayLike) -> NDArray[np.float64]:
    target = np.array(position_m, dtype=float)
    if target.shape != (3,) or not np.all(np.isfinite(target)):
        raise ParameterError("position_m", position_m, "three finite numbers in m, in the base frame")
    return target


def _index(segment: int | str, names: Sequence[str]) -> int:
    if segment in names:
        return names.index(str(segment))
    if isinstance(segment, int) and 0 < segment <= len(names):
        return segment - 1
    raise ParameterError("segment", segment, f"a number from 1 to {len(names)}, or one of {', '.join(names)}")
