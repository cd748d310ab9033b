# SPDX-License-Identifier: Apache-2.0
"""The shipped driver and controller cycle on a simulated robot in virtual time, for experiments on any plant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.procedures.cogging_calibration import CoggingCalibration
from continuum_robot.identification.procedures.homing import Homed
from continuum_robot.identification.procedures.procedure import Procedure
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.models.making import robot_model
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle.assembly import QuietWatcher, cycle_period_s, make_loop, make_safety
from continuum_robot.runtime.cycle.controller_cycle import ControllerCycle
from continuum_robot.runtime.cycle.foreign_controller import controller_of
from continuum_robot.runtime.cycle.forms import INTERPRETED, interpreted_form
from continuum_robot.runtime.cycle.reference_input import ReferenceInput
from continuum_robot.runtime.pace import VirtualPace
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant

Array = NDArray[np.float64]
Way = Callable[[float], ClarkeReference]
Look = Callable[["VirtualStack"], None]

LONGEST_PROCEDURE_S = 600.0


def load_controlled_robot(name: str) -> Robot:
    """Load a robot that has all that a stack needs."""
    robot = load_robot(name)
    if robot.actuators is None or robot.control is None or robot.limits is None:
        raise ParameterError("robot", name, "a robot whose file has actuators, limits and control")
    return robot


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


class VirtualStack(QuietWatcher):
    """A robot under its shipped control loop; time passes in :meth:`run` and :meth:`follow` only."""

    def __init__(
        self,
        robot: Robot,
        plant: Plant | None,
        *,
        believed: Robot | None = None,
        seed: int = 1,
        actuators: Any = None,
    ) -> None:
        self.robot, self.plant = believed or robot, plant
        self.actuators = actuators or SimulatedTendonActuators(robot, plant, np.random.default_rng(seed))
        self.faults: list[tuple[float, str]] = []
        self._way: Way | None = None
        self._way_from_s = 0.0
        self._look: Look | None = None
        self.period_s = cycle_period_s(self.robot)
        self._pace = VirtualPace(self.period_s, 0.0, self._on_step)
        self._input = ReferenceInput(robot.coordinate_count, blend_s=0.0)
        self.actuators.open()
        self.actuators.read(0.0)
        form = interpreted_form("virtual time")
        safety = make_safety(self.robot, form, period_s=self.period_s)
        self.loop = make_loop(self.robot, self.actuators, self, self._pace, form=form, safety=safety)
        self.controller = controller_of(self.robot, INTERPRETED, robot_model(self.robot).feedforward)
        control = self.robot.control
        timeout_s = 0.02 if control is None else control.state_timeout_s
        self.loop.cycle.attach(ControllerCycle(self.controller, self._input, timeout_s, self.period_s))
        self.loop.start()
        self._pace.run_one()

    @property
    def now_s(self) -> float:
        """Time, s."""
        return self._pace.now_s()

    @property
    def desired(self) -> ClarkeReference | None:
        """The reference now, None before the first."""
        return None if self._way is None else self._way(self.now_s - self._way_from_s)

    @property
    def measured_tension(self) -> Array:
        """Newest measured tensions, shape (N,), N; NaN where the devices could not be read."""
        reading = self.loop.reading
        return np.full(self.robot.tendon_count, np.nan) if reading is None else reading.tension_n

    def drive(self, procedure: Procedure[Any]) -> None:
        """Run a procedure to its end, then switch the torque off; after a homing displacements count from its zero."""
        run = ProcedureRun(procedure, self.loop.safety)
        self.loop.switch_on()
        self._pace.run(0.05)  # the currents of a procedure before fade
        self.loop.begin_procedure(run)
        self._pace.wait(lambda: run.finished, LONGEST_PROCEDURE_S)
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

    def activate(self) -> None:
        """Switch on, take up slack and let the controller hold where the robot is."""
        self.loop.switch_on()
        self.loop.take_up_slack(0.25, lambda _sentence: None)
        self.loop.obey()
        self.loop.cycle.control_now(on=True)

    def deactivate(self) -> None:
        """Ramp the tensions down and switch off."""
        self.loop.cycle.control_now(on=False)
        self.loop.ramp_down(lambda _sentence: None)
        self.loop.power_off()

    def follow(self, way: Way, duration_s: float, look: Look | None = None) -> None:
        """Let the controller follow a reference for a while."""
        self._way, self._way_from_s, self._look = way, self.now_s, look
        self._pace.run(duration_s)
        self._look = None
        if self.faults:
            time_s, name = self.faults[0]
            raise ContinuumRobotError(f"{name} latched at {time_s:.3f} s")

    def close(self) -> None:
        """End."""
        self.loop.stop()
        self.loop.close()

    # What happens in the loop

    def _on_step(self, now_s: float) -> None:
        if self._way is not None:
            self._input.receive(self._way(now_s - self._way_from_s), now_s)

    def on_change(self, new_faults: Sequence[str]) -> None:
        """Note faults."""
        self.faults += [(self.now_s, name) for name in new_faults]

    def on_row(self, row: list[float]) -> None:  # noqa: ARG002
        """Let the experiment look."""
        if self._look is not None:
            self._look(self)
