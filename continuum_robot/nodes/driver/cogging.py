# SPDX-License-Identifier: Apache-2.0
"""The stored cogging of the motors in the driver: read at configuration, fed forward on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import CountsFromPowerOn
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.identification.procedures.cogging_record import CALIBRATE_FIRST, cogging_path, load_cogging
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.base.lifecycle import ManagedNode
from continuum_robot.runtime.cycle.driver_loop import DriverLoop

PARAMETER = "cogging"


class StoredCogging:
    """Feed-forward of the motors' cogging."""

    def __init__(
        self,
        node: ManagedNode,
        loop: Callable[[], DriverLoop | None],
        folder: Callable[[], Path],
        publish_status: Callable[[], None],
    ) -> None:
        self._node, self._loop, self._folder, self._publish_status = node, loop, folder, publish_status
        self.missing, self.date = "", ""
        node.parameters.add_check(self._check)

    def _check(self, values: Mapping[str, Any]) -> None:
        if values.get(PARAMETER) == "on" and self.missing and self._loop() is not None:
            raise ParameterError(PARAMETER, "on", f"auto or off: {self.missing}")

    @property
    def desired(self) -> bool:
        """Whether the parameter wants it: ``auto`` on hardware."""
        policy = self._node.parameters.get(PARAMETER)
        return policy == "on" or (policy == "auto" and not self._node.simulated)

    def read(self, loop: DriverLoop) -> None:
        """Take the stored table over, or note why there is none. Before the loop runs."""
        self.missing, self.date = "", ""
        try:
            record = load_cogging(loop.robot, cogging_path(loop.robot, self._folder()))
            inner = loop.actuators
            if isinstance(inner, CountsFromPowerOn) and not (inner.aligned or self._node.simulated):
                self.missing = (
                    f"{loop.robot.name}: its motors were switched off since their calibration. {CALIBRATE_FIRST}"
                )
            else:
                loop.feed_cogging_forward(record.force_n, record.m_per_turn)
                self.date = record.date
        except ContinuumRobotError as error:
            self.missing = str(error)
        self.apply(loop)

    def apply(self, loop: DriverLoop | None) -> None:
        """Do what the parameter states now."""
        if loop is None:
            return
        on = self.desired and not self.missing
        if on != loop.cycle.cogging.on:
            loop.compensate_cogging(on=on)
            self._node.get_logger().info(
                f"cogging of the motors is {f'fed forward, as measured on {self.date}' if on else 'not fed forward'}"
            )
        elif self._asked_in_vain:
            self._node.get_logger().warning(self.missing)
        self._publish_status()

    @property
    def _asked_in_vain(self) -> bool:
        return self._node.parameters.get(PARAMETER) == "on" and bool(self.missing)

    def diagnose(self, status: StatusBuilder) -> None:
        """Say whether it is on, and what it adds."""
        loop = self._loop()
        on = loop is not None and loop.cycle.cogging.on
        status.add("cogging_compensation", on)
        status.add("cogging_measured", self.date)
        status.add("cogging_n", np.array(loop.cycle.cogging.forces()) if loop is not None else [])
        if loop is not None and self._asked_in_vain:
            status.summary(Level.WARN, self.missing)
