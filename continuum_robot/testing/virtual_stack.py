# SPDX-License-Identifier: Apache-2.0
"""The shipped driver, safety logic and controller on a simulated robot in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.controller import Controller
from continuum_robot.control.references import ClarkeReference
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_safety import TendonSafety
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.states import ContactEstimate
from continuum_robot.identification.procedures.cogging import CoggingCalibration
from continuum_robot.identification.procedures.homing import Homed
from continuum_robot.identification.procedures.procedure import Procedure, ProcedureRun
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.assembly import QuietWatcher, cycle_period_s, make_loop, make_safety
from continuum_robot.runtime.cycle.foreign_controller import ForeignController, controller_of
from continuum_robot.runtime.cycle.forms import Form, compiled_form, interpreted_form
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.bodies.mechanisms import mechanism_body
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.testing.free_run import FreeRun

Array = NDArray[np.float64]
Way = Callable[[float], ClarkeReference]
Look = Callable[["VirtualStack"], None]

DYNAMICS, WIRE = "dynamics", "wire"
LONGEST_PROCEDURE_S = 600.0
SENSE_EVERY = 10
"""Cycles between two estimates of shape and contacts, a hundred a second at 1 kHz as in the nodes."""
TAKE_UP_FRACTION = 0.25
"""As the driver's node: tension that takes up slack, of what a tendon may carry when all carry the same."""


def load_controlled_robot(name: str) -> Robot:
    """Load a robot that has all that a stack needs."""
    robot = load_robot(name)
    if robot.actuators is None or robot.control is None or robot.limits is None:
        raise ParameterError("robot", name, "a robot whose file has actuators, limits and control")
    return robot


@dataclass(frozen=True)
class SteadyReference:
    """A reference that moves at a steady velocity from a position: both (n,), m and m/s."""

    position: Array
    velocity: Array

    def __call__(self, time_s: float) -> ClarkeReference:
        """Where it is after a time, s."""
        return ClarkeReference(self.position + time_s * self.velocity, self.velocity, np.zeros(self.position.size))


class SlowReference:
    """A reference that is computed again after every period, and extrapolated by its velocity in between."""

    def __init__(self, make: Way, period_s: float, resting: ClarkeReference) -> None:
        self._make, self._period_s = make, period_s
        self._reference, self._at_s, self._next_s = resting, 0.0, 0.0

    def at(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, later than at the call before."""
        if time_s >= self._next_s - 1e-9:
            self._reference, self._at_s = self._make(time_s), time_s
            self._next_s += self._period_s
        made = self._reference
        return ClarkeReference(made.position + (time_s - self._at_s) * made.velocity, made.velocity, made.acceleration)


@dataclass(frozen=True)
class StackState:
    """What a cycle of the driver read, computed and wrote; N tendons, n coordinates. Unknown values are NaN.

    Attributes
    ----------
    time_s : virtual time, s
    displacement_m, velocity_m_per_s, tension_n : measured, (N,), m, m/s, N
    commanded : written to the motors after all limits, (N,), N, or m where the actuators take displacements
    clarke_m, clarke_rate_m_per_s : coordinates that the controller saw, (n,), m and m/s
    force_n : generalised force that it asked for, (n,), N
    limited : whether a limit changed the command
    safety : state of the safety logic: "inactive", "active" or "safe"
    faults : latched faults, by their names in docs/reference/faults.md
    """

    time_s: float
    displacement_m: Array
    velocity_m_per_s: Array
    tension_n: Array
    commanded: Array
    clarke_m: Array
    clarke_rate_m_per_s: Array
    force_n: Array
    limited: bool
    safety: str
    faults: tuple[str, ...]


class VirtualStack(QuietWatcher):
    """A robot under its control loop in virtual time: driver, safety logic, controller, reference and devices.

    The parts are those that run on hardware. Time passes in the methods alone, as fast as the computer allows, and a
    run with the same arguments gives the same numbers. The robot starts straight, with its torque off.

    Parameters
    ----------
    robot : what the devices and the plant are: a :class:`Robot`, a file, or the name of a shipped one
    plant : what moves; None: one of the robot. None for a mechanism, whose body its devices make
    level : "dynamics": devices simulated in the process; "wire": the shipped drivers on devices emulated to the byte
    believed : the description that driver, safety logic and controller use; None: ``robot``
    controller : in the place of the one that the robot file names
    estimator : of the shape, such as ``robot_model(robot).shape_estimator(WatchSettings())``; fills :attr:`shape` every
        tenth cycle
    monitor : of contacts; fills :attr:`contact`, and needs an estimator
    hardware : devices of the level "wire", not open; None: those of the robot
    safety_settings : None: the defaults
    seed : of the devices' noise
    on_cycle : called with this object after every cycle

    Attributes
    ----------
    robot, plant, seed : as above
    loop : the driver's loop, with its safety logic and power
    controller : in the cycle, as the cycle calls it; control : its cycle
    actuators : the driver of the motors
    hardware : None at level "dynamics"
    pace : virtual time
    faults : (s, name) of each fault that latched
    shape, contact : newest estimates, None before the first
    on_cycle : as above, to be changed at any time

    Raises
    ------
    ParameterError : a robot without actuators, limits and control, or arguments that exclude each other

    Examples
    --------
    A controller of your own on a shipped robot, and what it does when a tendon breaks::

        import numpy as np
        from continuum_robot import load_robot
        from continuum_robot.control.references import ClarkeReference
        from continuum_robot.control.tendon_forces import distribute
        from continuum_robot.robot.coordinates import clarke_manifold
        from continuum_robot.testing import VirtualStack

        class Springs:
            def __init__(self, robot):
                self.manifold = clarke_manifold(robot)

            def reset(self, reading, command, reference):
                pass

            def update(self, reading, reference, dt):
                error_m = reference.position - self.manifold.clarke(reading.displacement_m)
                rate_m_per_s = self.manifold.clarke(reading.velocity_m_per_s)
                return distribute("shift", 8000.0 * error_m - 250.0 * rate_m_per_s, self.manifold, pretension_n=4.0)

        robot = load_robot("opencr_five_tendon")
        goal = ClarkeReference.at_rest(np.array([0.005, 0.0]))
        with VirtualStack(robot, controller=Springs(robot)) as stack:
            stack.activate()
            stack.follow(lambda time_s: goal, duration_s=1.0)
            print(stack.state.clarke_m, stack.state.commanded)
            stack.inject("snapped_tendon", tendon=0)
            stack.run_until(lambda: stack.faults, timeout_s=1.0)
            print(stack.faults)
    """

    def __init__(
        self,
        robot: Robot | str,
        plant: Plant | None = None,
        *,
        level: str = DYNAMICS,
        believed: Robot | None = None,
        controller: Controller | None = None,
        estimator: Any = None,
        monitor: ContactMonitor | None = None,
        hardware: SimulatedHardware | None = None,
        safety_settings: SafetySettings | None = None,
        seed: int = 1,
        on_cycle: Look | None = None,
    ) -> None:
        robot = load_controlled_robot(robot) if isinstance(robot, str) else robot
        if level not in (DYNAMICS, WIRE):
            raise ParameterError("level", level, f"{DYNAMICS} or {WIRE}")
        if monitor is not None and estimator is None:
            raise ParameterError("monitor", "alone", "an estimator of the shape beside it")
        self.robot = believed or robot
        self.on_cycle = on_cycle
        self._simulated, self._estimator, self._monitor = robot, estimator, monitor
        self._safety_settings = safety_settings
        self.period_s = cycle_period_s(self.robot)
        self.hardware, self.plant = hardware, plant
        self._given = plant is not None
        if level == WIRE and hardware is None:
            rng = np.random.default_rng(seed)
            self.hardware = SimulatedHardware(robot, plant, rng, strings=estimator is not None and bool(robot.strings))
        self._form = self._make_form(controller)
        self.controller: Any
        if controller is None:
            self.controller = controller_of(self.robot, self._form.parts, robot_model(self.robot).feedforward)
        else:
            self.controller = ForeignController(controller, self.robot)
        self._begin(seed)

    def _begin(self, seed: int) -> None:
        """Everything anew but the controller, and a plant that there is."""
        robot, self.seed, plant = self._simulated, seed, self.plant
        self.faults: list[tuple[float, str]] = []
        self.shape: Any = None
        self.contact: ContactEstimate | None = None
        self._way: Way | None = None
        self._way_from_s = 0.0
        self._command: Array | None = None
        self._look: Look | None = None
        self._row: list[float] = []
        self.pace = VirtualPace(self.period_s, 0.0, self.on_step)
        rng = np.random.default_rng(seed)
        self.actuators: Any
        if self.hardware is None:
            if plant is None and mechanism_body(robot) is None:
                plant = Plant(robot, rng=rng)
            elif plant is not None and not self._given:
                plant.restart(rng)
            self.actuators = SimulatedTendonActuators(robot, plant, rng)
        else:
            self.hardware.open()
            self.hardware.step(0.0)
            plant = self.hardware.plant
            self.actuators = self.hardware.tendon_actuators(clock=self.pace.now_s, sleep=self.pace.pass_time)
        self.plant = plant
        self._strings: Any = None
        self.actuators.open()
        if self.hardware is None:
            self.actuators.read(0.0)  # its time begins
        form = self._form
        safety = make_safety(self.robot, form, self._safety_settings, period_s=self.period_s)
        self.loop = make_loop(self.robot, self.actuators, self, self.pace, form=form, safety=safety)
        timeout_s = self.robot.control_settings.state_timeout_s
        self._input = form.parts.ReferenceInput(self.robot.coordinate_count, blend_s=0.0)
        self.control = form.parts.ControllerCycle(self.controller, self._input, timeout_s, self.period_s)
        self.loop.cycle.attach(self.control)
        self.free_run: FreeRun | None = None
        own = type(self).on_step is VirtualStack.on_step and type(self).on_row is VirtualStack.on_row
        if own and form.compiled and isinstance(self.actuators, SimulatedTendonActuators):
            self.free_run = FreeRun(form.parts, self.loop, self.pace, self.actuators, self._input)
        if self._estimator is not None and robot.strings:
            self._strings = self._string_encoders(robot)
            self._strings.open()
        self.loop.start()
        self.step()

    def restart(self, seed: int, robot: Robot | None = None) -> None:
        """Be a new stack at time 0: to the last bit what one of that seed would be, in a tenth of the time.

        A controller of your own goes on; its ``reset`` is called when it starts.

        Parameters
        ----------
        seed : of the devices' noise and the rotors' angles
        robot : what the devices and the plant are from now on; None: what they were

        Raises
        ------
        ParameterError : at level "wire", with an estimator or with a plant of yours: make a new stack
        """
        if self.hardware is not None or self._estimator is not None or self._given:
            raise ParameterError("restart", "wired, with an estimator or a plant of yours", "a new VirtualStack")
        self.loop.stop()
        self.loop.close()
        if robot is not None:
            self._simulated = robot
        if self.plant is not None and self.plant.robot is not self._simulated:
            self.plant = None
        self._begin(seed)

    def _make_form(self, controller: Controller | None) -> Form:
        """Compiled where all that is in the cycle can be."""
        robot = self.robot
        reason = robot.traits.without_compiled_cycle or ("" if controller is None else "the controller is Python code")
        return interpreted_form(reason) if reason or self.hardware is not None else compiled_form()

    def _string_encoders(self, robot: Robot) -> Any:
        if self.hardware is not None:
            return self.hardware.string_encoders(answer_timeout_s=0.0)
        source, rng = self.actuators.string_source, np.random.default_rng([self.seed, 1])
        return SimulatedStringEncoders(robot, source, rng=rng)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- what is known

    @property
    def now_s(self) -> float:
        """Virtual time, s."""
        return self.pace.now_s()

    @property
    def state(self) -> StackState:
        """What the newest cycle read, computed and wrote."""
        row, at, safety = self._row, self.loop.row, self.loop.safety
        return StackState(
            time_s=row[at.now_s],
            displacement_m=np.array(row[at.displacement]),
            velocity_m_per_s=np.array(row[at.velocity]),
            tension_n=np.array(row[at.tension]),
            commanded=np.array(row[at.commanded]),
            clarke_m=np.array(row[at.clarke]),
            clarke_rate_m_per_s=np.array(row[at.clarke_rate]),
            force_n=np.array(row[at.force]),
            limited=any(row[at.limited]),
            safety=safety.state,
            faults=tuple(safety.faults),
        )

    @property
    def newest_row(self) -> list[float]:
        """All numbers of the newest cycle; ``loop.row`` states what stands where."""
        return self._row

    @property
    def reading(self) -> TendonReading | None:
        """Newest reading, displacements from home; None where the devices could not be read."""
        return self.loop.reading

    @property
    def measured_tension(self) -> Array:
        """Newest measured tensions, shape (N,), N; NaN where the devices could not be read."""
        reading = self.loop.reading
        return np.full(self.robot.tendon_count, np.nan) if reading is None else reading.tension_n

    @property
    def safety(self) -> TendonSafety:
        """The driver's safety logic."""
        return self.loop.safety

    @property
    def desired(self) -> ClarkeReference | None:
        """The reference now, None before the first."""
        return None if self._way is None else self._way(self.now_s - self._way_from_s)

    # --- time

    def step(self) -> None:
        """Let one cycle run."""
        self.pace.run_one()

    def run(self, duration_s: float) -> None:
        """Let cycles run for a time, s; where nothing in them needs Python code, they run compiled alone."""
        left = round(duration_s / self.period_s)
        while left > 0 and self.loop.running:
            done = self.free_run.run(left) if self.free_run is not None and self.steer(self.free_run) else 0
            if not done:
                self.step()
            left -= done or 1

    def steer(self, free: FreeRun) -> bool:
        """Let cycles that run free follow or obey what this stack's do; False where they need Python code for it."""
        if self.on_cycle is not None or self._look is not None or self._estimator is not None:
            return False
        if self._command is not None:
            free.cycles.obey(self._command)
        elif self._way is None:
            free.cycles.leave()
        elif isinstance(self._way, SteadyReference):
            free.cycles.follow(np.array([*self._way.position, *self._way.velocity, self._way_from_s]))
        else:
            return False
        return True

    def run_until(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Let cycles run until the condition holds, ``timeout_s`` (s) at most; whether it does."""
        return self.pace.wait(lambda: bool(condition()), timeout_s)

    def stall(self, duration_s: float) -> None:
        """Let time pass (s) without a cycle, as if the computer stood still; the devices go on."""
        self.pace.pass_time(duration_s)

    # --- what a user does

    def activate(self, *, take_up: bool = True) -> None:
        """Switch on, take up slack and let the controller hold where the robot is. Raises :class:`DeviceError`.

        Without ``take_up`` the controller itself pulls: a simulated robot that was not moved yet has no slack.
        """
        self.loop.switch_on()
        if take_up:
            self.loop.take_up_slack(TAKE_UP_FRACTION, lambda _sentence: None)
        self.loop.obey()
        self.loop.cycle.control_now(on=True)

    def deactivate(self) -> None:
        """Ramp the tensions down and switch off."""
        self.loop.cycle.control_now(on=False)
        self.loop.ramp_down(lambda _sentence: None)
        self.loop.power_off()

    def follow(
        self, way: Way | None, duration_s: float = 0.0, look: Look | None = None, *, since_s: float | None = None
    ) -> None:
        """Let the controller follow a reference, by the time since this call, from now on and for a while.

        Parameters
        ----------
        way : time, s -> reference of the Clarke coordinates, m, such as :class:`SteadyReference`, with which cycles
            run without Python code between them; None: there is none from now on
        duration_s : lets so much time pass, s; 0: none, the motion only begins
        look : called with this object after every cycle meanwhile, beside ``on_cycle``
        since_s : when the reference's time began, s; None: now

        Raises
        ------
        ContinuumRobotError : a fault latched meanwhile or before
        """
        self._way, self._way_from_s = way, self.now_s if since_s is None else since_s
        if duration_s <= 0:
            return
        self._look = look
        self.run(duration_s)
        self._look = None
        if self.faults:
            time_s, name = self.faults[0]
            raise ContinuumRobotError(f"{name} latched at {time_s:.3f} s")

    def command(self, command: Array | None) -> None:
        """Command the tendons in the controller's place from now on, as a program of your own does over
        ``tendon_commands``, within all limits.

        Parameters
        ----------
        command : (N,), N, or m where the actuators take displacements; in every cycle the answer to the newest state;
            None: the controller commands again
        """
        given = None if command is None else np.array(command, dtype=float)
        if given is not None and given.shape != (self.robot.tendon_count,):
            raise ParameterError("command", command, f"{self.robot.tendon_count} values, one a tendon")
        if (given is None) != (self._command is None):
            self.loop.cycle.attach(self.control if given is None else None)
            self.loop.cycle.control_now(on=given is None)
        self._command = given

    def inject(self, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
        """Let a device or a tendon fail from the next step on.

        Parameters
        ----------
        fault : of ``simulation.faults.FAULTS``, at level "wire" of ``simulation.wire.hardware.catalog()``; "": end all
        tendon : from 0; -1: all of them
        magnitude : in the fault's own unit
        duration_s : s; 0: until it is ended
        """
        (self.hardware or self.actuators).inject(fault, tendon, magnitude, duration_s)

    def drive(self, procedure: Procedure[Any]) -> None:
        """Run a procedure to its end, then switch the torque off; after a homing displacements count from its zero."""
        run = ProcedureRun(procedure, self.loop.safety)
        self.loop.switch_on()
        self.run(0.05)  # the currents of a procedure before fade
        self.loop.begin_procedure(run)
        self.pace.wait(lambda: run.finished, LONGEST_PROCEDURE_S)
        found = run.conclude()
        zero_m = found.zero_m.tolist() if isinstance(found, Homed) else [0.0] * self.robot.tendon_count
        self.loop.end_procedure(run, zero_m)
        if found is None:
            raise ContinuumRobotError(f"the procedure ended early: {run.problem}")

    def calibrate_cogging(self, progress: Callable[[str], None]) -> CoggingCalibration:
        """Measure the motors' cogging as ``calibrate-cogging`` does, and feed it forward from now on."""
        known, self.loop.safety.positions_known = self.loop.safety.positions_known, False
        calibration = CoggingCalibration(self.robot)
        while (sweep := calibration.sweep) is not None:
            progress(calibration.title)
            self.drive(sweep)
            if sweep.result is None:
                raise ContinuumRobotError("the sweep left no readings")
            fit = calibration.take(sweep.result)
            self.loop.feed_cogging_forward(fit.force_n, calibration.m_per_turn)
            self.loop.compensate_cogging(on=True)
        self.loop.safety.positions_known = known
        return calibration

    def close(self) -> None:
        """End the loop and the devices; the plant stays as it is."""
        self.loop.stop()
        self.loop.close()
        if self._strings is not None:
            self._strings.close()
        if self.hardware is not None:
            self.hardware.close()

    # --- what happens in the loop

    def on_step(self, now_s: float) -> None:
        """Time has come to ``now_s``, s; called before each cycle, and while the driver waits for a device."""
        if self.hardware is not None and self.hardware.motors is not None:
            self.hardware.step(now_s)
        if self._command is not None:
            cycle = self.loop.cycle
            cycle.command(self._command.tolist(), now_s, cycle.cycles)
        elif self._way is not None:
            self._input.receive(self._way(now_s - self._way_from_s), now_s)

    def on_change(self, new_faults: Sequence[str]) -> None:
        """Note faults."""
        self.faults += [(self.now_s, name) for name in new_faults]

    def on_row(self, row: list[float]) -> None:
        """A cycle has ended: estimate, then let the user look."""
        self._row = row
        if self._estimator is not None and int(row[self.loop.row.number]) % SENSE_EVERY == 0:
            self._sense(SENSE_EVERY * self.period_s)
        for look in (self.on_cycle, self._look):
            if look is not None:
                look(self)

    def _sense(self, dt: float) -> None:
        reading = self.loop.reading
        if reading is None:
            return
        extension = None if self._strings is None else self._strings.read(self.now_s).extension_m
        self.shape = shape = self._estimator.update(
            reading.displacement_m, reading.velocity_m_per_s, extension, dt, reading.tension_n
        )
        if self._monitor is not None:
            size = self.robot.coefficient_count
            rates = slice(size, 2 * size)
            self.contact = self._monitor.update(
                shape.coefficients, shape.coefficient_rates, shape.covariance, dt,
                tension=reading.tension_n, tendon_displacement=reading.displacement_m,
                c_rate_covariance=None if shape.motion is None else shape.motion.covariance[rates, rates],
            )  # fmt: skip
