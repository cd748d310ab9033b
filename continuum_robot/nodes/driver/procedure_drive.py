# SPDX-License-Identifier: Apache-2.0
"""A procedure drives the tendons in the loop, instead of commands: how it takes them over and lets go of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.errors import DeviceError
from continuum_robot.identification.procedures.procedure import Procedure
from continuum_robot.identification.procedures.run import ProcedureRun
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.driver_loop import DriverLoop, configured

PROCEDURE_TIMEOUT_S = 600.0


class ProcedureDrive:
    """Runs one procedure at a time, in the thread of who asks for it.

    Parameters
    ----------
    node : the driver: its state and its log
    loop : gives the loop, None while not configured
    publish_status : publishes ``driver_status``
    """

    def __init__(
        self, node: ManagedNode, loop: Callable[[], DriverLoop | None], publish_status: Callable[[], None]
    ) -> None:
        self._node, self._loop, self._publish_status = node, loop, publish_status

    @property
    def robot(self) -> Robot:
        """The robot as configured. Raises :class:`DeviceError` where it is not."""
        return configured(self._loop()).robot

    @property
    def newest_reading(self) -> TendonReading | None:
        """The newest reading, None before the first and while not configured."""
        loop = self._loop()
        return None if loop is None else loop.reading

    def begin(self, procedure: Procedure) -> ProcedureRun:
        """Switch the torque on and let a procedure drive the tendons; not in the executor's thread.

        Raises
        ------
        DeviceError : the driver is not inactive, a fault is latched, or a device cannot be enabled
        """
        loop = configured(self._loop())
        if self._node.state != "inactive":
            raise DeviceError(
                "tendon_driver", f"is {self._node.state}", "Procedures need it inactive: deactivate it first"
            )
        refuse_procedure(loop)
        loop.safety.refuse_faults()
        run = ProcedureRun(procedure, loop.safety)
        self._zero = loop.cycle.zero
        try:
            loop.switch_on()
            loop.begin_procedure(run)
        except BaseException:
            loop.call(loop.power_off)
            raise
        self._publish_status()
        return run

    def finish(self, run: ProcedureRun, cancelled: threading.Event) -> None:
        """Wait until a procedure has ended and let go of the tendons; not in the executor's thread.

        Parameters
        ----------
        cancelled : set by who cancels it
        """
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
            if not run.succeeded and not run.problem:
                run.problem = "the driver's loop ended"
            self._publish_status()

    def end(self, loop: DriverLoop | None) -> None:
        """The node is brought down meanwhile: ramp to the safe tension and let go.

        Parameters
        ----------
        loop : of the node, None where it is not configured
        """
        if loop is None or loop.procedure is None:
            return
        if loop.running:
            loop.ramp_down(self._node.get_logger().warning)
        loop.procedure = None


def refuse_procedure(loop: DriverLoop) -> None:
    """Raise :class:`DeviceError` where a procedure is under way.

    Parameters
    ----------
    loop : of the driver
    """
    if loop.procedure is not None:
        raise DeviceError("tendon_driver", "a procedure is under way", "Wait for it, or cancel it")
