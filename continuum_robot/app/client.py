# SPDX-License-Identifier: Apache-2.0
"""A robot on ROS 2 as a Python object whose methods wait: the same for simulation and hardware.

    with Robot("opencr_five_tendon", simulated=True) as robot:
        robot.bend(1, angle_rad=1.0, direction_rad=0.0)
        print(robot.state.tip_position_m)

Every wait ends: with what was asked for, with a fault, or with a timeout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from continuum_robot.action import CheckTendons, HomeTendons
from continuum_robot.app.demo import prepare_model
from continuum_robot.app.domain import claimed_domain
from continuum_robot.app.stack import load_for_stack
from continuum_robot.app.stack_link import OPERATION_TIMEOUT_S, REFERENCE_PERIOD_S, SOURCE, StackLink
from continuum_robot.control.motion import MotionLimits, motion_limits
from continuum_robot.control.references import ClarkeReference, Reference, RestToRest, read_csv_reference
from continuum_robot.errors import (
    ContinuumRobotError,
    DeviceError,
    ParameterError,
    RobotFaultError,
    RobotTimeoutError,
)
from continuum_robot.geometry.clarke import clarke_from_arc
from continuum_robot.nodes import conversions
from continuum_robot.nodes.composition import ComposedStack, StackOptions
from continuum_robot.nodes.recorder import Recorder
from continuum_robot.nodes.spinning import Spinner, wait_for
from continuum_robot.robot.control_settings import ReferenceSettings
from continuum_robot.robot.coordinates import clarke_manifold
from continuum_robot.robot.description import Robot as RobotDescription
from continuum_robot.robot.loading import load_robot
from continuum_robot.srv import InjectFault, ManageStack

Vector = NDArray[np.float64]
Trajectory = Callable[[float], "ArrayLike | ClarkeReference"]

POLL_S = 0.01
ARRIVED_SHARE = 0.02
"""A motion has arrived where the measured coordinates are within this share of the largest displacement."""
SETTLE_S = 10.0
STALE_S = 1.0
_TIP_ENDS = ("reached", "refused", "stopped")


class _HasAt(Protocol):
    def at(self, t_s: float, /) -> ClarkeReference: ...


@dataclass(frozen=True, slots=True)
class ContactState:
    """What the contact monitor says.

    Attributes
    ----------
    state : clear, contact, collision, blind, taring, settling; "" where no contact monitor runs
    in_contact : contact or collision
    arc_length_m : of the contact from the base, m; NaN where unknown
    force_n : size of the force, N; NaN where unknown
    place_m : of the contact, shape (3,), base frame, m; NaN where unknown
    """

    state: str = ""
    in_contact: bool = False
    arc_length_m: float = math.nan
    force_n: float = math.nan
    place_m: Vector = field(default_factory=lambda: np.full(3, np.nan))


@dataclass(frozen=True, slots=True)
class RobotState:
    """The newest of everything that the stack says of the robot; NaN where it is unknown.

    Attributes
    ----------
    stack : down, starting, up, stopping, fault; "" before the supervisor was heard
    simulated : whether the wires end in a simulator
    faults : latched now
    last_fault : the newest one, kept after recovery
    estop : whether the e-stop is latched
    writer : who writes the reference
    displacement_m, velocity_m_per_s, tension_n : of every tendon, shape (N,)
    clarke_m, clarke_rate_m_per_s : measured Clarke coordinates, shape (2m,)
    reference_m : wanted Clarke coordinates, shape (2m,), m
    coefficients : estimated shape, shape (n,), 1/m
    tip : estimated tip frame, shape (4, 4), base frame
    contact : of the contact monitor
    age_s : of the tendons' reading
    """

    stack: str
    simulated: bool
    faults: tuple[str, ...]
    last_fault: str
    estop: bool
    writer: str
    displacement_m: Vector
    velocity_m_per_s: Vector
    tension_n: Vector
    clarke_m: Vector
    clarke_rate_m_per_s: Vector
    reference_m: Vector
    coefficients: Vector
    tip: Vector
    contact: ContactState
    age_s: float

    @property
    def tip_position_m(self) -> Vector:
        """Estimated tip, shape (3,), base frame, m."""
        return self.tip[:3, 3]


@dataclass(frozen=True, slots=True)
class MotionResult:
    """How a motion ended.

    Attributes
    ----------
    clarke_m : measured Clarke coordinates at its end, shape (2m,), m
    error_m : norm of wanted less measured coordinates, m
    duration_s : it took, s
    """

    clarke_m: Vector
    error_m: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class TipResult:
    """How a motion of the tip ended.

    Attributes
    ----------
    tip_m : estimated, shape (3,), base frame, m
    goal_m : the reachable point next to the target, shape (3,), base frame, m
    distance_m : from target to goal: how much of it is out of reach, m
    error_m : from goal to tip, m
    reachable : whether goal and target are the same point
    message : what kept it from the target, empty for nothing
    duration_s : it took, s
    """

    tip_m: Vector
    goal_m: Vector
    distance_m: float
    error_m: float
    reachable: bool
    message: str
    duration_s: float


class _Task:
    """A motion in a thread of its own."""

    def __init__(self, name: str, work: Callable[[_Task], Any]) -> None:
        self.name = name
        self.cancelled = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return self.done

    def _main(self) -> None:
        try:
            self.result = self._work(self)
        except Exception as error:  # told where the result is asked for
            self.error = error


class Robot:
    """A robot that is brought up by this program, or that of a running stack (:meth:`connect`).

    Use it in a ``with`` block: it then comes up, and goes down in good order however the block ends. Methods that move
    wait until the motion is over, and raise where it is not; with ``wait=False`` they return at once, and
    :meth:`is_task_complete`, :meth:`result` and :meth:`cancel` look after it. One motion at a time: a new one ends the
    one before. Methods may be called from one thread; :attr:`state`, :meth:`estop` and :meth:`cancel` from any.

    The reference source of a robot that this program brings up holds it straight until something is asked for.

    Parameters
    ----------
    robot : robot file, or the name of a shipped robot
    simulated : False: the devices of the robot file's ``hardware`` section
    fake_level : ``dynamics``, ``wire`` or ``mirror``, where simulated
    namespace : ROS namespace
    contact : run a contact monitor
    force : read the force-torque sensor
    visualize : publish tf, path and markers
    parameters : for each node, ROS parameters over the defaults
    timeout_s : for the stack to come up, s
    """

    def __init__(
        self,
        robot: str | Path = "opencr_five_tendon",
        *,
        simulated: bool = True,
        fake_level: str = "dynamics",
        namespace: str = "",
        contact: bool = False,
        force: bool = False,
        visualize: bool = True,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        timeout_s: float = OPERATION_TIMEOUT_S,
    ) -> None:
        self._options: StackOptions | None = StackOptions(
            robot=str(robot),
            simulated=simulated,
            fake_level=fake_level,
            namespace=namespace,
            contact=contact,
            force=force,
            visualize=visualize,
            parameters=parameters or {},
        )
        self._timeout_s = timeout_s
        self._closing = contextlib.ExitStack()
        self._link_or_none: StackLink | None = None
        self._description: RobotDescription | None = None
        self._stack: ComposedStack | None = None
        self._task: _Task | None = None

    @classmethod
    def connect(cls, namespace: str = "", *, robot: str | Path | None = None, timeout_s: float = 10.0) -> Robot:
        """Connect to a stack that runs already, in this process, another one, or on another machine.

        Closing leaves it running. It needs no ``with``, but then call :meth:`close`.

        Parameters
        ----------
        namespace : of the stack
        robot : robot file, where the one that the stack names is not on this machine
        timeout_s : for the stack to be found, s

        Returns
        -------
        the connected robot

        Raises
        ------
        RobotTimeoutError : no stack was found
        RobotFileError : its robot file is not on this machine
        """
        made = cls(robot or "", namespace=namespace, timeout_s=timeout_s)
        made._options = None
        link = made._link_or_none = StackLink(namespace)
        made._closing.callback(link.close)
        try:
            if not wait_for(lambda: link.messages["stack_status"] is not None, timeout_s):
                raise RobotTimeoutError(
                    "robot",
                    f"no stack in namespace {link.namespace} after {timeout_s:g} s",
                    "Bring one up (continuum-robot up ROBOT), and see that ROS_DOMAIN_ID is the same",
                )
            file = robot or link.get_parameter("tendon_driver", "robot")
            made._description = load_robot(str(file))
        except BaseException:
            made.close()
            raise
        return made

    # Life

    def start(self) -> Robot:
        """Bring the stack up and wait until it is active; a ``with`` block does it.

        Raises
        ------
        ContinuumRobotError : a robot file that cannot be used, a busy domain, a device that does not answer
        """
        options = self._options
        if options is None or self._link_or_none is not None:
            return self
        description = load_for_stack(options)
        with contextlib.ExitStack() as closing:
            closing.enter_context(claimed_domain(options.namespace))
            if options.simulated:
                prepare_model(description, Console(quiet=True))
            stack = ComposedStack(_holding(options, description))
            closing.callback(stack.shutdown)
            stack.start()
            stack.wait_until_up(self._timeout_s)
            link = StackLink(options.namespace)
            closing.callback(link.close)
            self._link_or_none, self._description, self._stack = link, description, stack
            self.wait_until_active(self._timeout_s)
            self._closing = closing.pop_all()
        return self

    def close(self) -> None:
        """End the motion under way; bring the stack down if this program brought it up. Safe to call twice."""
        try:
            if self._link_or_none is not None:
                self._end_task()
        finally:
            self._link_or_none = self._stack = None
            self._closing.close()

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
        if self._link_or_none is None:
            raise DeviceError("robot", "is not up", "Use it in a with block, or call start() or Robot.connect()")
        return self._link_or_none

    @property
    def stack(self) -> ComposedStack | None:
        """The nodes that this program brought up; None where it is connected to others."""
        return self._stack

    @property
    def limits(self) -> MotionLimits:
        """Speed and acceleration within which motions are planned, m/s and m/s^2."""
        return motion_limits(self.description)

    @property
    def state(self) -> RobotState:
        """The newest of everything that is known, at once."""
        messages, robot = self.link.messages, self.description
        status, tendons, clarke = (
            messages["stack_status"],
            messages["tendon_states_decimated"],
            messages["clarke_state"],
        )
        shape, reference = messages["shape"], messages["clarke_reference"]
        tendon_count, coordinates = robot.tendon_count, robot.coordinate_count
        age_s = math.inf
        if tendons is not None:
            age_s = (time.time_ns() - conversions.stamp_ns(tendons.header.stamp)) * 1e-9
        return RobotState(
            stack="" if status is None else status.state,
            simulated=bool(status is not None and status.simulated),
            faults=() if status is None else tuple(status.faults),
            last_fault="" if status is None else status.last_fault,
            estop=bool(status is not None and status.estop),
            writer=self.link.writer,
            displacement_m=_values(tendons, "displacement", tendon_count),
            velocity_m_per_s=_values(tendons, "velocity", tendon_count),
            tension_n=_values(tendons, "tension", tendon_count),
            clarke_m=_values(clarke, "position", coordinates),
            clarke_rate_m_per_s=_values(clarke, "velocity", coordinates),
            reference_m=_values(reference, "position", coordinates),
            coefficients=_values(shape, "coefficients", robot.coefficient_count),
            tip=np.full((4, 4), np.nan) if shape is None else conversions.pose_matrix(shape.tip),
            contact=_contact(messages["contact"]),
            age_s=age_s,
        )

    # Waiting

    def wait_until_active(self, timeout_s: float = OPERATION_TIMEOUT_S) -> RobotState:
        """Wait until the stack is up and the robot's state is known.

        Parameters
        ----------
        timeout_s : s

        Returns
        -------
        the state

        Raises
        ------
        RobotFaultError : the stack is at fault
        RobotTimeoutError : it is not up in time
        """

        def active() -> bool:
            state = self.state
            known = bool(np.all(np.isfinite(state.clarke_m)) and np.all(np.isfinite(state.tension_n)))
            return state.stack == "up" and known and state.age_s < STALE_S

        self._wait(active, timeout_s, "is not up")
        return self.state

    def wait_for_contact(self, timeout_s: float = 60.0) -> ContactState:
        """Wait until something touches the robot.

        Parameters
        ----------
        timeout_s : s

        Returns
        -------
        what is known of the contact

        Raises
        ------
        DeviceError : no contact monitor runs
        RobotFaultError : the stack came to a fault
        RobotTimeoutError : nothing touched it
        """
        if not wait_for(lambda: self.link.messages.publishers("contact") > 0, 2.0):
            raise DeviceError("contact_monitor", "does not run", "Bring the robot up with contact=True")
        self._wait(lambda: self.state.contact.in_contact, timeout_s, "felt no contact")
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
        clarke : wanted coordinates [q_Re,1, q_Im,1, ...], shape (2m,), m
        duration_s : of the motion, s; None: the shortest within :attr:`limits`
        tolerance_m : error within which it has arrived, m; None: 2 % of the largest displacement
        wait : until it has arrived

        Returns
        -------
        how it ended; None without ``wait``

        Raises
        ------
        ParameterError : not finite, wrong number of values, or beyond the largest displacement of a tendon
        RobotFaultError : a fault, or another program took the reference
        RobotTimeoutError : it did not arrive within 10 s after the reference
        """
        goal = self._checked(clarke)
        if duration_s is not None and not 0 < duration_s < math.inf:
            raise ParameterError("duration_s", duration_s, "a positive time in s")

        def work(task: _Task) -> MotionResult:
            begun_s = time.monotonic()
            with self._writing():
                start = self._wanted()
                move_s = duration_s or max(self.limits.move_s(start, goal), REFERENCE_PERIOD_S)
                self._write(task, RestToRest(start, goal, move_s).at, move_s)
            return self._arrived(task, goal, tolerance_m, begun_s)

        return self._begin("move_to", work, wait)

    def bend(
        self,
        segment: int | str,
        angle_rad: float,
        direction_rad: float = 0.0,
        duration_s: float | None = None,
        *,
        wait: bool = True,
    ) -> MotionResult | None:
        """Bend one segment, the others stay as they are wanted now.

        Parameters
        ----------
        segment : number from 1, or name
        angle_rad : bending angle of the whole segment, rad
        direction_rad : towards which its tip moves, from +x towards +y, rad
        duration_s : s; None: the shortest within :attr:`limits`
        wait : until it has arrived

        Returns
        -------
        how it ended; None without ``wait``

        Raises
        ------
        ParameterError : no such segment, or beyond the largest displacement of a tendon
        RobotFaultError, RobotTimeoutError : as :meth:`move_to`
        """
        robot = self.description
        names = [one.name for one in robot.segments]
        index = names.index(segment) if segment in names else segment - 1 if isinstance(segment, int) else -1
        if robot.mechanism is not None or not 0 <= index < len(names):
            raise ParameterError("segment", segment, f"a number from 1 to {len(names)}, or one of {', '.join(names)}")
        wanted = self._wanted()
        radius_m = robot.segments[index].tendons.pitch_radius_m
        wanted[2 * index : 2 * index + 2] = clarke_from_arc(direction_rad, angle_rad, radius_m)
        return self.move_to(wanted, duration_s, wait=wait)

    def straighten(self, duration_s: float | None = None, *, wait: bool = True) -> MotionResult | None:
        """Move all Clarke coordinates to zero, as :meth:`move_to`.

        Parameters
        ----------
        wait : return only when it is straight
        """
        return self.move_to(np.zeros(self.description.coordinate_count), duration_s, wait=wait)

    def move_tip_to(self, position_m: ArrayLike, *, timeout_s: float = 30.0, wait: bool = True) -> TipResult | None:
        """Bring the tip to a place and keep it there, by the stack's tip control.

        A place out of reach is no error: the tip goes to the reachable point next to it, and the result says how far
        that is.

        Parameters
        ----------
        position_m : shape (3,), base frame, m
        timeout_s : for the tip to arrive, s
        wait : until it has arrived

        Returns
        -------
        how it ended; None without ``wait``

        Raises
        ------
        ParameterError : not three finite numbers
        RobotFaultError : refused, a fault, or another program took the reference
        RobotTimeoutError : the estimated tip did not settle at the goal
        """
        target = np.array(position_m, dtype=float)
        if target.shape != (3,) or not np.all(np.isfinite(target)):
            raise ParameterError("position_m", position_m, "three finite numbers in m, in the base frame")

        def work(task: _Task) -> TipResult:
            begun_s = time.monotonic()
            self.link.messages.forget("tip_state")
            self.link.publish_tip_target(target)
            while True:
                message = self.link.messages["tip_state"]
                mine = message is not None and np.allclose(_point(message.target), target, atol=1e-9)
                if mine and message.state in _TIP_ENDS:
                    break
                self._check_going(task)
                if time.monotonic() - begun_s > timeout_s:
                    said = f"{1e3 * message.error:.2f} mm from it ({message.message})" if mine else "no answer"
                    raise RobotTimeoutError(
                        "tip", f"did not reach the goal within {timeout_s:g} s: {said}", "Allow more time or tolerance"
                    )
                time.sleep(POLL_S)
            if message.state != "reached":
                raise RobotFaultError("tip_target", f"{message.state}: {message.message}", "See tip_state")
            return TipResult(
                _point(message.tip),
                _point(message.goal),
                message.distance,
                message.error,
                message.reachable,
                message.message,
                time.monotonic() - begun_s,
            )

        return self._begin("move_tip_to", work, wait)

    def follow(
        self,
        trajectory: str | Path | Reference | Trajectory,
        duration_s: float | None = None,
        *,
        wait: bool = True,
    ) -> MotionResult | None:
        """Move to where a trajectory begins, then follow it; references go out at 100 Hz.

        Parameters
        ----------
        trajectory : CSV file (columns ``time_s`` and q_re_1_m, q_im_1_m, ...), an object with ``at(t_s)`` such as those
            of :mod:`continuum_robot.control.references`, or a function of the time in s that gives Clarke coordinates,
            shape (2m,), m, or a ClarkeReference. A function is called once for each instant, in order, so it may look
            at :attr:`state` and close a loop of its own
        duration_s : for how long, s; None: for the trajectory's own time, without end for a function
        wait : until it has ended

        Returns
        -------
        how it ended; None without ``wait``

        Raises
        ------
        ParameterError : a value that is not finite or beyond the largest displacement of a tendon
        RobotFileError : a CSV file that cannot be used
        RobotFaultError, RobotTimeoutError : as :meth:`move_to`
        """
        at, own_s = self._as_function(trajectory)
        end_s = own_s if duration_s is None else duration_s

        def work(task: _Task) -> MotionResult:
            begun_s = time.monotonic()
            with self._writing():
                first = at(0.0)
                start = self._wanted()
                move_s = max(self.limits.move_s(start, first.position), REFERENCE_PERIOD_S)
                self._write(task, RestToRest(start, self._checked(first.position), move_s).at, move_s)
                last = self._write(task, at, end_s)
            return self._arrived(task, last, None, begun_s)

        return self._begin("follow", work, wait)

    def play(self, kind: str | None = None, **settings: Any) -> None:
        """Have the reference source play a trajectory until something else is asked for; returns at once.

        Parameters
        ----------
        kind : chirp, steps, circle, rest_to_rest, hold or csv; None: the robot file's own trajectory
        **settings : fields of :class:`~continuum_robot.robot.control_settings.ReferenceSettings`, e.g.
            ``amplitude_m=(0.01, 0.0), frequency_hz=(0.2,)``

        Raises
        ------
        ParameterError : refused, with the reason
        """
        self._end_task()
        robot = self.description
        values: dict[str, Any] = {}
        if kind is None and robot.reference is not None:
            values = {name: getattr(robot.reference, name) for name in ReferenceSettings.__dataclass_fields__}
        values |= settings | ({} if kind is None else {"kind": kind})
        parameters = {
            f"reference.{name}": [float(one) for one in value]
            if isinstance(value, (tuple, list, np.ndarray))
            else value
            for name, value in values.items()
        }
        # An empty list has no type over ROS; the reference source has a default for it.
        self.link.set_parameters(SOURCE, {name: value for name, value in parameters.items() if value != []})

    def take_turn(self) -> Vector:
        """Come to rest, and have everybody else fall silent on clarke_reference: for programs that publish themselves.

        Returns
        -------
        where the reference stands, shape (2m,), m: begin there, by :attr:`link`, and end with its ``give_back``

        Raises
        ------
        DeviceError : there is no reference source, or it refused
        """
        self.link.trigger(f"{SOURCE}/hold")
        self._settle()
        self.link.take_reference()
        return self._wanted()

    def hold(self) -> None:
        """End the motion under way and come to rest where the robot is. Raises :class:`DeviceError`."""
        self._end_task()
        self.link.trigger(f"{SOURCE}/hold")

    def stop(self) -> None:
        """The same as :meth:`hold`: tendons stay under tension. For danger there is :meth:`estop`."""
        self.hold()

    def is_task_complete(self) -> bool:
        """Whether no motion is under way."""
        return self._task is None or self._task.done

    def cancel(self) -> None:
        """End the motion under way; the robot comes to rest where it is."""
        running = not self.is_task_complete()
        self._end_task()
        if running:
            self.link.trigger(f"{SOURCE}/hold")

    def result(self, timeout_s: float | None = None) -> MotionResult | TipResult:
        """Wait for the motion that was begun last.

        Parameters
        ----------
        timeout_s : s; None: for as long as it takes

        Returns
        -------
        how it ended

        Raises
        ------
        DeviceError : no motion was begun
        RobotTimeoutError : it is not over yet; it goes on
        ContinuumRobotError : what ended it
        """
        task = self._task
        if task is None:
            raise DeviceError("robot", "no motion was begun", "Begin one with wait=False")
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not task.join(0.1):  # short waits, so that Ctrl-C is heard
            if time.monotonic() > end_s:
                raise RobotTimeoutError(task.name, f"is not over after {timeout_s:g} s", "Wait longer, or cancel()")
        if task.error is not None:
            raise task.error
        outcome: MotionResult | TipResult = task.result
        return outcome

    # Stop, reset, procedures

    def estop(self) -> str:
        """Latch the e-stop: tensions go to their safe value, whatever state the stack is in. Not safety-rated.

        Returns
        -------
        what the driver said

        Raises
        ------
        RobotTimeoutError : the driver does not answer; press the hardware's stop
        """
        task = self._task
        if task is not None:
            task.cancelled.set()
        return self.link.trigger("estop", 2.0)

    def reset(self, timeout_s: float = OPERATION_TIMEOUT_S) -> RobotState:
        """Clear e-stop and faults and bring the stack up again; the robot then holds.

        Parameters
        ----------
        timeout_s : s

        Returns
        -------
        the state

        Raises
        ------
        DeviceError : refused, with the cause that is still there
        RobotTimeoutError : not up in time
        """
        self._end_task()
        self.link.manage(ManageStack.Request.RESET, timeout_s)
        self.link.messages.forget("stack_status")
        self.wait_until_active(timeout_s)
        return self._held()

    def home(self, tension_n: float = 0.0, timeout_s: float = 300.0) -> HomeTendons.Result:
        """Take up slack, straighten, and store where the tendons stand there; the stack is paused meanwhile.

        Parameters
        ----------
        tension_n : on every tendon at the straight pose, N; 0: the robot file's
        timeout_s : s

        Returns
        -------
        message, file, zero (m) and slack (m) of every tendon

        Raises
        ------
        DeviceError : it failed, with what to do
        RobotTimeoutError : it took too long, and was cancelled
        """
        return self._while_paused(HomeTendons, "home_tendons", HomeTendons.Goal(tension=float(tension_n)), timeout_s)

    def check_tendons(self, pull_n: float = 0.0, timeout_s: float = 300.0) -> tuple[str, ...]:
        """Pull at one tendon after the other, and compare with the robot file; the stack is paused meanwhile.

        Parameters
        ----------
        pull_n : most that is added to a tendon's tension, N; 0: from the limits
        timeout_s : s

        Returns
        -------
        verdict on every tendon, "ok" where it is as the file says

        Raises
        ------
        DeviceError : a tendon is not as the file says, and which
        RobotTimeoutError : it took too long, and was cancelled
        """
        goal = CheckTendons.Goal(pull=float(pull_n))
        return tuple(self._while_paused(CheckTendons, "check_tendons", goal, timeout_s).verdicts)

    def tare(self) -> str:
        """What the contact monitor, and the force sensor, measure now counts as nothing; nothing may touch the robot.

        Returns
        -------
        what they said

        Raises
        ------
        DeviceError : neither runs, or one refused
        """
        nodes = [name for name in self._node_names() if name in ("contact_monitor", "force_sensor")]
        if not nodes:
            raise DeviceError("tare", "neither contact monitor nor force sensor runs", "Bring them up, contact=True")
        return "; ".join(self.link.trigger(f"{name}/tare") for name in nodes)

    # Settings

    def set_pretension(self, pretension_n: float) -> None:
        """Least tension that the controller leaves on a tendon, N. Raises :class:`ParameterError` beyond its limits.

        Parameters
        ----------
        pretension_n : N
        """
        self.set_parameters("clarke_controller", {"pretension_n": float(pretension_n)})

    def set_gains(self, segment: int | str = 1, **gains: float) -> None:
        """Change gains of the controller, all or none, at its next cycle.

        Parameters
        ----------
        segment : number from 1, or name
        **gains : fields of :class:`~continuum_robot.robot.control_settings.PidGains`: p (N/m), i (N/(m.s)), d (N.s/m)

        Raises
        ------
        ParameterError : no such segment or gain, or out of range
        """
        names = self.description.part_names
        name = names[segment - 1] if isinstance(segment, int) and 0 < segment <= len(names) else segment
        if name not in names:
            raise ParameterError("segment", segment, f"a number from 1 to {len(names)}, or one of {', '.join(names)}")
        self.set_parameters("clarke_controller", {f"gains.{name}.{key}": float(value) for key, value in gains.items()})

    def set_parameters(self, node: str, values: Mapping[str, Any]) -> None:
        """Set ROS parameters of a node, all or none.

        Parameters
        ----------
        node : name, e.g. ``clarke_controller``
        values : by parameter

        Raises
        ------
        ParameterError : refused, with the node's reason
        RobotTimeoutError : the node does not answer
        """
        self.link.set_parameters(node, values)

    def get_parameter(self, node: str, name: str) -> Any:
        """Value of a node's ROS parameter, None where it is not declared. Raises :class:`RobotTimeoutError`.

        Parameters
        ----------
        name : of the parameter, dotted
        """
        return self.link.get_parameter(node, name)

    def inject_fault(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> str:
        """Make the simulated hardware misbehave; see :mod:`continuum_robot.simulation.faults`.

        Parameters
        ----------
        fault : its name; empty ends all
        tendon : index from 0, -1 for all
        magnitude : meaning and unit depend on the fault
        duration_s : s; 0: until it is ended

        Returns
        -------
        what the driver said

        Raises
        ------
        DeviceError : refused: an unknown fault, or real hardware
        """
        request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
        response = self.link.call(InjectFault, "inject_fault", request)
        if not response.success:
            raise DeviceError("inject_fault", response.message, "See continuum_robot.simulation.faults")
        return str(response.message)

    # Recording

    @contextlib.contextmanager
    def record(self, path: str | Path) -> Iterator[Path]:
        """Record all topics of the stack, as MCAP, while the block runs.

        Parameters
        ----------
        path : folder of the recording, made; with a number behind it where there is one already

        Yields
        ------
        the folder

        Raises
        ------
        DeviceError : it cannot be written
        """
        path = Path(path).expanduser()
        link = self.link
        overrides = {
            "robot": str(self.description.file_name or self.description.name),
            "use_fake_hardware": self.state.simulated,
            "directory": str(path.parent),
            "name": path.name,
        }
        node = Recorder(
            context=link.context,
            namespace=link.namespace,
            overrides=overrides,
            cli_args=["--ros-args", "-r", f"__node:={link.name}_recorder"],
        )
        spinner = Spinner([node], link.context)
        spinner.start()
        try:
            spinner.run(node.trigger_configure)
            spinner.run(node.trigger_activate)
            folder = node.folder
            if node.last_error or folder is None:
                raise DeviceError("recording", node.last_error or "was not begun", "Choose another folder")
            yield folder
        finally:
            spinner.run(node.trigger_deactivate)
            spinner.stop()
            node.destroy_node()

    # Helpers

    def _node_names(self) -> Sequence[str]:
        status = self.link.messages["stack_status"]
        return () if status is None else tuple(status.node_names)

    def _check_up(self) -> None:
        """Raises RobotFaultError where the stack is at fault."""
        status = self.link.messages["stack_status"]
        if status is None:
            return
        if status.estop:
            raise RobotFaultError("robot", "the e-stop is latched", "Remove the cause, then call reset()")
        if status.state == "fault" or status.faults:
            faults = ", ".join(status.faults) or status.last_fault or "a node failed"
            raise RobotFaultError("robot", f"at fault: {faults}", "Remove the cause, then call reset()")

    def _wait(self, condition: Callable[[], bool], timeout_s: float, failure: str) -> None:
        end_s = time.monotonic() + timeout_s
        while not condition():
            self._check_up()
            if time.monotonic() > end_s:
                raise RobotTimeoutError("robot", f"{failure} after {timeout_s:g} s", "See the log of the stack")
            time.sleep(POLL_S)

    def _checked(self, clarke: ArrayLike) -> Vector:
        robot = self.description
        wanted = np.array(clarke, dtype=float)
        if wanted.shape != (robot.coordinate_count,) or not np.all(np.isfinite(wanted)):
            raise ParameterError("clarke", clarke, f"{robot.coordinate_count} finite values in m")
        displacement = clarke_manifold(robot).displacement(wanted)
        if robot.limits is not None and np.max(np.abs(displacement)) > robot.limits.maximum_displacement_m:
            raise ParameterError(
                "clarke",
                clarke,
                "tendon displacements of at most limits.maximum_displacement_m ="
                f" {robot.limits.maximum_displacement_m:g} m, not {np.max(np.abs(displacement)):.3g} m",
            )
        return wanted

    def _wanted(self) -> Vector:
        """Where the reference stands: what is wanted last, or else where the robot is."""
        state = self.state
        start = state.reference_m if np.all(np.isfinite(state.reference_m)) else state.clarke_m
        if not np.all(np.isfinite(start)):
            raise RobotFaultError("robot", "its Clarke coordinates are unknown", "Bring the stack up first")
        return np.array(start)

    def _begin(self, name: str, work: Callable[[_Task], Any], wait: bool) -> Any:
        self._end_task()
        self._check_up()
        task = self._task = _Task(name, work)
        if not wait:
            return None
        try:
            return self.result()
        except BaseException:
            task.cancelled.set()
            raise

    def _end_task(self) -> None:
        task = self._task
        if task is not None and not task.done:
            task.cancelled.set()
            task.join(OPERATION_TIMEOUT_S)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """The reference is this program's while the block runs; afterwards the reference source holds."""
        self.take_turn()
        try:
            yield
        except BaseException:
            with contextlib.suppress(ContinuumRobotError):  # what ended the motion says more
                self._give_back()
            raise
        self._give_back()

    def _give_back(self) -> None:
        if self.link.writer == self.link.name:
            self.link.give_back()

    def _settle(self) -> None:
        """Wait until the reference stands still, or there is none."""
        end_s = time.monotonic() + SETTLE_S
        while time.monotonic() < end_s:
            message = self.link.messages["clarke_reference"]
            if message is not None and not np.any(np.asarray(message.velocity)):
                return
            time.sleep(POLL_S)

    def _write(self, task: _Task, at: Callable[[float], ClarkeReference], duration_s: float) -> Vector:
        """Publish references until the time is over; the last position."""
        begun_s = time.monotonic()
        time_s, last = 0.0, self._wanted()
        while True:
            self._check_going(task)
            self.link.check_turn()
            reference = at(min(time_s, duration_s))
            last = self._checked(reference.position)
            over = time_s >= duration_s
            self.link.publish_reference(ClarkeReference.at_rest(last) if over else reference)
            if over:
                return last
            now_s = time.monotonic() - begun_s
            time_s = (math.floor(now_s / REFERENCE_PERIOD_S) + 1) * REFERENCE_PERIOD_S
            time.sleep(max(0.0, time_s - now_s))

    def _check_going(self, task: _Task) -> None:
        if task.cancelled.is_set():
            raise RobotFaultError(task.name, "was cancelled", "Begin it again")
        self._check_up()

    def _arrived(self, task: _Task, goal: Vector, tolerance_m: float | None, begun_s: float) -> MotionResult:
        limits = self.description.limits
        tolerance = tolerance_m or ARRIVED_SHARE * (limits.maximum_displacement_m if limits is not None else math.inf)
        end_s = time.monotonic() + SETTLE_S
        while True:
            measured = self.state.clarke_m
            error_m = float(np.linalg.norm(goal - measured))
            if error_m <= tolerance:
                return MotionResult(measured, error_m, time.monotonic() - begun_s)
            self._check_going(task)
            if time.monotonic() > end_s:
                raise RobotTimeoutError(
                    task.name,
                    f"the coordinates are still {1e3 * error_m:.3g} mm from their goal, more than"
                    f" {1e3 * tolerance:.3g} mm",
                    "See whether tensions are limited or something holds the robot",
                )
            time.sleep(POLL_S)

    def _as_function(
        self, trajectory: str | Path | Reference | Trajectory
    ) -> tuple[Callable[[float], ClarkeReference], float]:
        if isinstance(trajectory, (str, Path)):
            trajectory = read_csv_reference(Path(trajectory).expanduser(), self.description.coordinate_count)
        at = getattr(trajectory, "at", None)
        if at is not None:
            return at, float(getattr(trajectory, "duration_s", math.inf))
        if not callable(trajectory):
            raise ParameterError("trajectory", trajectory, "a CSV file, a reference with at(t_s), or a function of t_s")
        return _Differentiated(trajectory, self._checked), math.inf

    def _while_paused(self, kind: Any, name: str, goal: Any, timeout_s: float) -> Any:
        self._end_task()
        self.link.manage(ManageStack.Request.PAUSE)
        try:
            return self.link.run_action(kind, name, goal, timeout_s)
        finally:
            self.link.manage(ManageStack.Request.RESUME)
            self._held()

    def _held(self) -> RobotState:
        with contextlib.suppress(ContinuumRobotError):
            # Where there is no reference source, nobody moves the robot either.
            wait_for(lambda: self.link.messages["clarke_reference"] is not None, 2.0)
            self.link.trigger(f"{SOURCE}/hold", 2.0)
        return self.state


class _Differentiated:
    """A user's function as a reference: called once an instant, its velocity from one to the next."""

    def __init__(self, function: Trajectory, check: Callable[[ArrayLike], Vector]) -> None:
        self._function, self._check = function, check
        self._before: tuple[float, Vector] | None = None

    def __call__(self, t_s: float) -> ClarkeReference:
        value = self._function(t_s)
        if isinstance(value, ClarkeReference):
            return value
        position = self._check(value)
        velocity = np.zeros_like(position)
        if self._before is not None and t_s > self._before[0]:
            velocity = (position - self._before[1]) / (t_s - self._before[0])
        self._before = t_s, position
        return ClarkeReference(position, velocity, np.zeros_like(position))


def _holding(options: StackOptions, robot: RobotDescription) -> StackOptions:
    """The same stack, whose reference source holds the robot straight, unless its parameters say otherwise."""
    parameters = {name: dict(values) for name, values in options.parameters.items()}
    source = parameters.setdefault(SOURCE, {})
    if not any(name.startswith("reference.") for name in source):
        source |= {"reference.kind": "hold", "reference.amplitude_m": [0.0] * robot.coordinate_count}
    return dataclasses.replace(options, parameters=parameters)


def _values(message: Any, name: str, count: int) -> Vector:
    """A field as an array of its own, NaN where it is not there."""
    values = np.zeros(0) if message is None else np.array(conversions.vector(getattr(message, name)))
    return values if values.size == count else np.full(count, np.nan)


def _point(message: Any) -> Vector:
    return np.array([message.x, message.y, message.z])


def _contact(message: Any) -> ContactState:
    if message is None:
        return ContactState()
    wrench = np.array(conversions.vector(message.wrench))
    known = wrench.size == 6 and message.in_contact
    place = message.place.position
    return ContactState(
        message.state,
        message.in_contact,
        message.arc_length,
        float(np.linalg.norm(wrench[:3])) if known else math.nan,
        _point(place) if known else np.full(3, np.nan),
    )
