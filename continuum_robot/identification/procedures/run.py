# SPDX-License-Identifier: Apache-2.0
"""A procedure under the driver's safety logic: how it begins, ends, is cancelled, and lets go of the tendons."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety.displacement_rules import DisplacementRules
from continuum_robot.drivers.safety.tendon_safety import ACTIVE, TendonSafety
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.identification.procedures.procedure import Procedure, ProcedureError, Step, Vector

CANCELLED = "cancelled"


class ProcedureRun:
    """Runs a procedure in the driver's cycle, which reads the devices, asks :meth:`desired`, lets the safety logic
    limit it, and writes; after :attr:`finished` it switches the torque off and calls
    :meth:`restore`. Whatever ends the run, the tendons are released first: tensions ramp to ``limits.safe_n``, or
    servos pay out.
    """

    def __init__(self, procedure: Procedure[Any], safety: TendonSafety) -> None:
        self.procedure, self._safety = procedure, safety
        self.step: Step | None = None
        self.succeeded, self.problem = False, ""
        self._cancelled = False
        self._known_before = safety.positions_known

    def begin(self, reading: TendonReading, now_s: float) -> None:
        """Take the tendons over, without a jump. Raises :class:`DeviceError` where the driver cannot be activated."""
        self._safety.positions_known = False
        self._safety.run_procedure(on=True)
        try:
            self._safety.activate(reading, now_s)
        except ContinuumRobotError:
            self.restore()
            raise

    def desired(self, reading: TendonReading | None, dt: float) -> Vector | None:
        """The command that the procedure wants in this cycle, shape (N,), N or m; None once it lets go; ``dt`` as in
        the procedure.
        """
        if self.succeeded or self.problem:
            return None
        safety = self._safety
        if safety.state != ACTIVE:
            devices = () if reading is None else reading.device_faults
            meanings = "; ".join([*(f"{name}: {safety.explain(name)}" for name in safety.faults), *devices])
            self.problem = f"the driver stopped it ({meanings})" if meanings else CANCELLED
            return None
        if reading is None:
            return None  # the driver's safety logic decides how long that may last
        needed = [reading.displacement_m, reading.velocity_m_per_s]
        if not np.isfinite([*needed, reading.current_a] if self.procedure.needs_currents else needed).all():
            return None
        try:
            self.step = step = self.procedure.update(reading, dt)
        except ContinuumRobotError as error:
            self.problem = str(error)
            safety.deactivate()
            return None
        if step.done:
            if self.procedure.straight_m is not None and isinstance(safety.rules, DisplacementRules):
                safety.rules.straighten(self.procedure.straight_m)
            self.succeeded, self.problem = not self._cancelled, CANCELLED if self._cancelled else ""
            safety.deactivate()
            return None
        return step.command

    def cancel(self) -> None:
        """End it early: a hung weight is put down first, tensions ramp to the safe one."""
        self._cancelled = True
        self.procedure.stop()

    def conclude(self) -> Any:
        """What the procedure found, None where it did not come to its end: see :attr:`problem`. Not in the cycle."""
        try:
            return self.procedure.result if self.succeeded else None
        except ProcedureError as error:
            self.succeeded, self.problem = False, str(error)
            return None

    @property
    def finished(self) -> bool:
        """Whether it has ended and the tendons are at their safe tension, so that the torque may go off."""
        return bool(self.succeeded or self.problem) and self._safety.released

    def restore(self) -> None:
        """Let the driver judge displacements as before."""
        self._safety.positions_known = self._known_before
        self._safety.run_procedure(on=False)
