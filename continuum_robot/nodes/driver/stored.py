# SPDX-License-Identifier: Apache-2.0
"""What is stored of a robot's motors: the homing and the cogging, read at configuration, and how hot they were."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from continuum_robot.drivers.protocols import CountsFromPowerOn, TendonActuators
from continuum_robot.drivers.safety.heat_watch import HeatWatch
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.identification.procedures.record import (
    CALIBRATE_FIRST,
    HOME_FIRST,
    HomingRecord,
    cogging_path,
    forget_angles,
    load_cogging,
    load_record,
    record_path,
)
from continuum_robot.nodes.base.diagnostics import Level, StatusBuilder
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.cycle.driver_loop import DriverLoop

COGGING = "cogging"
WRITE_PERIOD_S = 5.0
"""A driver that is killed forgets at most this much of the motors' heat."""


class StoredHoming:
    """From where displacements count."""

    def __init__(self, context: DriverContext) -> None:
        self._context, self._node = context, context.node
        self.missing = ""
        self._was_aligned = False

    @property
    def required(self) -> bool:
        """Whether a stored homing is needed to be activated."""
        policy = self._node.parameters.get("homing")
        return policy == "required" or (policy == "auto" and not self._node.simulated)

    def read(self, loop: DriverLoop) -> None:
        """Take the stored homing over, or note why there is none. Before the loop runs."""
        inner = loop.actuators
        self._was_aligned = isinstance(inner, CountsFromPowerOn) and inner.aligned
        self.missing = ""
        loop.safety.positions_known = not self.required
        if not self.required:
            return
        try:
            record = load_record(loop.robot, record_path(loop.robot, self._context.folder))
            self._require_power(inner)
        except ContinuumRobotError as error:
            self.missing = str(error)
            self._node.get_logger().warning(self.missing)
            return
        self._use(record, loop)

    def take(self, record: HomingRecord) -> None:
        """Count displacements from a homing from now on. Raises :class:`DeviceError` while not configured."""
        loop = self._context.configured
        loop.call(lambda: self._use(record, loop))
        inner = loop.actuators
        if not self._node.simulated and isinstance(inner, CountsFromPowerOn) and not self._was_aligned:
            self._was_aligned = True
            if forget_angles(loop.robot, self._context.folder):
                loop.compensate_cogging(on=False)
                self._node.get_logger().warning("the motors were aligned again: calibrate their cogging again")
        self._context.publish_status()

    def require(self, actuators: TendonActuators) -> None:
        """Raise :class:`DeviceError` where a homing is needed and missing."""
        if self.missing:
            raise DeviceError("tendon_driver", self.missing.removesuffix(f" {HOME_FIRST}").rstrip("."), HOME_FIRST)
        self._require_power(actuators)

    def _use(self, record: HomingRecord, loop: DriverLoop) -> None:
        loop.cycle.set_zero(record.zero.tolist())
        loop.safety.positions_known = True
        self.missing = ""
        self._node.get_logger().info(f"homed on {record.date} at {record.tension_n:g} N")

    def _require_power(self, actuators: TendonActuators) -> None:
        """A board that was switched off since forgot its alignment, and where it stood."""
        if not isinstance(actuators, CountsFromPowerOn):
            return
        expected = self.required or self._was_aligned
        if actuators.zero_lost.any() or (expected and not actuators.aligned):
            raise DeviceError("motor boards", "one lost its power, or its position, since the homing", HOME_FIRST)


class StoredCogging:
    """Feed-forward of the motors' cogging."""

    def __init__(self, context: DriverContext) -> None:
        self._context, self._node = context, context.node
        self.missing, self.date = "", ""
        self._node.parameters.add_check(self._check)

    def _check(self, values: Mapping[str, Any]) -> None:
        if values.get(COGGING) == "on" and self.missing and self._context.loop is not None:
            raise ParameterError(COGGING, "on", f"auto or off: {self.missing}")

    @property
    def desired(self) -> bool:
        """Whether the parameter wants it: ``auto`` on hardware."""
        policy = self._node.parameters.get(COGGING)
        return policy == "on" or (policy == "auto" and not self._node.simulated)

    def read(self, loop: DriverLoop) -> None:
        """Take the stored table over, or note why there is none. Before the loop runs."""
        self.missing, self.date = "", ""
        try:
            record = load_cogging(loop.robot, cogging_path(loop.robot, self._context.folder))
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
        self._context.publish_status()

    @property
    def _asked_in_vain(self) -> bool:
        return self._node.parameters.get(COGGING) == "on" and bool(self.missing)

    def diagnose(self, status: StatusBuilder) -> None:
        """Say whether it is on, and what it adds."""
        loop = self._context.loop
        on = loop is not None and loop.cycle.cogging.on
        status.add("cogging_compensation", on)
        status.add("cogging_measured", self.date)
        status.add("cogging_n", np.array(loop.cycle.cogging.forces()) if loop is not None else [])
        if loop is not None and self._asked_in_vain:
            status.summary(Level.WARN, self.missing)


class StoredHeat:
    """Writes the model's temperatures beside the homings, now and then, and reads them at the first configuration.

    What is assumed: motors cooled without a current since the file was written, by the time that the wall clock
    reports, or not at all where that ran backwards. Real motors of which there is no file begin at the warning
    temperature, simulated ones at the ambient one.
    """

    def __init__(self, context: DriverContext) -> None:
        self._context, self._node = context, context.node
        self._path: Path | None = None
        self._written_s = -math.inf

    def begin(self, robot: Robot, heat: HeatWatch) -> None:
        """Give a model that has just been made what is known."""
        if self._node.simulated or not heat.modelled or robot.actuators is None:
            return
        try:
            path = record_path(robot, self._context.folder)
        except ContinuumRobotError:
            return  # without a section hardware there are no real motors
        self._path = path.with_name(path.name.replace(".homing.yaml", ".heat.json"))
        known = self._read(self._path, robot.tendon_count)
        if known is None:
            warm = [robot.actuators.temperature_warn_c] * robot.tendon_count
            heat.take(warm, warm, 0.0)
            self._node.get_logger().info(
                f"nothing is known of the motors' temperatures: they count as {warm[0]:g} degC, the warning temperature"
            )
            return
        written_s, winding_c, housing_c = known
        heat.take(winding_c, housing_c, max(0.0, time.time() - written_s))
        self._node.get_logger().info(f"motor temperatures go on from {max(heat.winding()):.0f} degC, by {self._path}")

    def keep(self, loop: DriverLoop | None, *, now: bool = False) -> None:
        """Write the temperatures where it is time."""
        if loop is None or self._path is None or (not now and time.monotonic() - self._written_s < WRITE_PERIOD_S):
            return
        self._written_s = time.monotonic()
        heat = loop.safety.heat
        text = json.dumps({"time_s": time.time(), "winding_c": heat.winding(), "housing_c": heat.housing()})
        part = self._path.with_suffix(".part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(self._path)  # in one step: a kill in between leaves the older one
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(part)
            self._node.get_logger().warning(
                f"the motors' temperatures cannot be kept for a restart: {error}", throttle_duration_sec=60.0
            )

    def _read(self, path: Path, count: int) -> tuple[float, list[float], list[float]] | None:
        """When the file was written, and the temperatures of windings and housings; None where it cannot be used."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            written_s = float(values["time_s"])
            winding_c, housing_c = ([float(value) for value in values[key]] for key in ("winding_c", "housing_c"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            self._node.get_logger().warning(f"{path} is not used: {error!r}")
            return None
        numbers = [written_s, *winding_c, *housing_c]
        if len(winding_c) == len(housing_c) == count and all(-100 < number < 1e12 for number in numbers):
            return written_s, winding_c, housing_c
        self._node.get_logger().warning(f"{path} is not used: it is not of this robot's {count} motors")
        return None
