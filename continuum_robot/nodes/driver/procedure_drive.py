# SPDX-License-Identifier: Apache-2.0
"""A procedure drives the tendons in the loop, instead of commands: how it takes them over and lets go of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError
from continuum_robot.identification.procedures.procedure import Procedure, ProcedureRun
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.nodes.topics.turned_gravity import TurnedGravity
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.driver_loop import DriverLoop, configured
from continuum_robot.runtime.periodic import FrozenGarbage

PROCEDURE_TIMEOUT_S = 600.0
ACTIVATION = "an activation"


class ProcedureDrive:
    """Runs one procedure at a time, in the thread of who asks for it, and none beside an activation."""

    def __init__(
        self, node: ManagedNode, loop: Callable[[], DriverLoop | None], publish_status: Callable[[], None]
    ) -> None:
        self._node, self._loop, self._publish_status = node, loop, publish_status
        self.owner = ""
        self.gravity = TurnedGravity(node, lambda _gravity: None)
        self._lock = threading.Lock()

    def reserve(self, owner: str) -> contextlib.ExitStack:
        """Before anything is zeroed or switched on, which takes a while: nobody else begins meanwhile."""
        with self._lock:
            if self.owner:
                raise DeviceError("tendon_driver", f"{self.owner} is under way", "Wait for its end, or cancel it")
            self.owner = owner
        reservation = contextlib.ExitStack()
        reservation.callback(self.free)
        return reservation

    def free(self) -> None:
        """Let others begin. Safe to call twice."""
        self.owner = ""

    @property
    def robot(self) -> Robot:
        """The robot as configured. Raises :class:`DeviceError` where it is not."""
        return self.gravity.turned(configured(self._loop()).robot)

    @property
    def newest_reading(self) -> TendonReading | None:
        """The newest reading, None before the first and while not configured."""
        loop = self._loop()
        return None if loop is None else loop.reading

    def begin(self, procedure: Procedure[Any]) -> ProcedureRun:
        """Switch the torque on and let a procedure drive the tendons, once reserved; not in the executor's thread."""
        loop = configured(self._loop())
        if self._node.state != "inactive":
            raise DeviceError(
                "tendon_driver", f"is {self._node.state}", "Procedures need it inactive: deactivate it first"
            )
        loop.safety.refuse_faults()
        run = ProcedureRun(procedure, loop.safety)
        self._zero = loop.cycle.zero
        FrozenGarbage.hold()
        try:
            loop.switch_on()
            loop.begin_procedure(run)
        except BaseException:
            FrozenGarbage.release()
            loop.call(loop.power_off)
            raise
        self._publish_status()
        return run

    def finish(self, run: ProcedureRun, cancelled: threading.Event) -> None:
        """Wait until a procedure has ended and let go of the tendons; not in the executor's thread."""
        loop = configured(self._loop())

        def over() -> bool:
            return run.finished or loop.procedure is not run

        try:
            loop.pace.wait(lambda: over() or cancelled.is_set(), PROCEDURE_TIMEOUT_S)
            if loop.running and not over():
                loop.call(run.cancel)
                loop.pace.wait(over, PROCEDURE_TIMEOUT_S)
        finally:
            loop.end_procedure(run, self._zero)
            FrozenGarbage.release()
            if not run.succeeded and not run.problem:
                run.problem = "the driver's loop ended"
            self._publish_status()

    def end(self, loop: DriverLoop | None) -> None:
        """The node is brought down meanwhile: ramp to the safe tension and let go."""
        if loop is None or loop.procedure is None:
            return
        if loop.running and not loop.hangs:
            loop.ramp_down(self._node.get_logger().warning)
        loop.procedure = None
