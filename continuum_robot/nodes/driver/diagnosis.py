# SPDX-License-Identifier: Apache-2.0
"""The driver's health: on ``driver_status`` at every change, on ``/diagnostics`` now and then."""

from __future__ import annotations

import dataclasses
import math

from continuum_robot.drivers.protocols import CountsFromPowerOn
from continuum_robot.msg import DriverStatus
from continuum_robot.nodes.base.diagnostics import Level, LoopThresholds, StatusBuilder
from continuum_robot.nodes.driver.commands import CommandInput
from continuum_robot.nodes.driver.context import DriverContext
from continuum_robot.nodes.driver.faults import DOES, DriverFaults
from continuum_robot.nodes.driver.slot import ControllerSwitch
from continuum_robot.nodes.driver.stored import StoredCogging, StoredHoming
from continuum_robot.nodes.stack.choices import HOLD_TENSION, TIP
from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.driver_status import CONTROLLERS, FAULT_CODES, STATES, STOPS, values_of_status
from continuum_robot.robot.stop_policy import RELEASE
from continuum_robot.runtime.cycle.driver_loop import DriverLoop


class DriverDiagnosis:
    """Adds the driver's tasks to its diagnostics."""

    def __init__(
        self,
        context: DriverContext,
        thresholds: LoopThresholds,
        *,
        faults: DriverFaults,
        homing: StoredHoming,
        cogging: StoredCogging,
        commands: CommandInput,
        controllers: ControllerSwitch,
    ) -> None:
        self._context, self._node, self._thresholds = context, context.node, thresholds
        self._faults, self._homing, self._commands = faults, homing, commands
        self._controllers, self._cogging = controllers, cogging
        self.activated_ns = 0
        for name, task in (
            ("driver", self._diagnose_driver),
            ("loop", self._diagnose_loop),
            ("round_trip", self._diagnose_round_trip),
            ("bus", self._diagnose_bus),
        ):
            self._node.diagnostics.add_task(name, task)

    def driver_status(self) -> DriverStatus:
        """The status that is latched on ``driver_status``."""
        builder = StatusBuilder("", "")
        self._summarize(builder)
        faults, loop = self._faults, self._context.loop
        status = DriverStatus(
            state=STATES.index(faults.state),
            level=int(builder.level),
            message=builder.message,
            controller=CONTROLLERS.index(self._controllers.active),
            stop_action=STOPS.index(faults.stop_action),
            fallback_holds=faults.fallback_holds,
            faults=[FAULT_CODES.index(name) for name in faults.names],
            last_fault=FAULT_CODES.index(faults.last_fault),
            defect=self._node.defect,
            estop=faults.estop_latched,
            estop_reason=faults.estop_reason,
            estop_holders=[holder.name for holder in faults.estop_holders],
            simulated=self._node.simulated,
            activated_ns=self.activated_ns,
            powered=loop is not None and loop.powered and not loop.hangs,
            commanded=self._commands.heard,
            homed=not self._homing.missing,
            time_is_over=loop is not None and bool(getattr(loop.pace, "done", False)),
        )
        conversions.set_stamp(status.header.stamp, self._node.clock.now_ns())
        return status

    def _summarize(self, status: StatusBuilder) -> None:
        faults, missing, controller = self._faults, self._homing.missing, self._controllers.active
        names, reason, state = faults.names, faults.estop_reason, faults.state
        if names:
            action, fallback = faults.stop_action, faults.fallback_holds
            does = f"; {'fallback holds: ' if fallback else ''}{DOES[action]}" if action not in ("", RELEASE) else ""
            status.summary(Level.ERROR, "safe state: " + ", ".join(names) + (f" ({reason})" if reason else "") + does)
        if state == "active" and controller == HOLD_TENSION:
            status.summary(Level.OK, "active, the driver holds")
        if state == "active" and controller == TIP:
            status.summary(Level.OK, "active, the tip is controlled")
        status.summary(Level.OK, state)
        self._cogging.diagnose(status)
        if missing:
            status.summary(Level.WARN, missing)

    def _diagnose_driver(self, status: StatusBuilder) -> None:
        message = self.driver_status()
        status.summary(Level(message.level), message.message)
        status.add_all(values_of_status(message))
        self._cogging.diagnose(status)

    def _diagnose_loop(self, status: StatusBuilder) -> None:
        loop = self._context.loop
        report = None if loop is None else loop.pace.report()
        if loop is not None and report is None:
            status.summary(Level.OK, "in lock-step")
            form = self._context.form
            status.add("real_time_factor", getattr(loop.pace, "real_time_factor", math.nan))
            status.add("cycles", loop.cycle.cycles)
            status.add("missed_cycles", 0)
            status.add("missed_cycles_percent", 0.0)
            status.add("cycle", form.name)
            status.add("cycle_reason", form.reason)
            return
        if loop is None or report is None or not report.cycles:
            status.summary(Level.OK, "the loop does not run")
            return
        if loop.hangs:
            status.summary(Level.ERROR, f"no cycle has begun for {loop.standing_s:.1f} s")
            report = dataclasses.replace(report, rate_hz=0.0)
        self._thresholds.diagnose(status, report, loop.period_s)
        safety = loop.safety
        if safety.late_warning:
            status.summary(Level.WARN, f"late: {safety.lateness}")
        status.add("missed_fraction", safety.missed_fraction)
        status.add("worst_latency_s", safety.worst_latency_s)
        status.add("late_latency_s", safety.late_latency_s)
        form = self._context.form
        status.add("cycle", form.name)
        status.add("cycle_reason", form.reason)
        status.add("states_not_published", loop.rows_lost)
        responses = loop.pace.response_report()
        if responses is not None:
            status.add("responses", responses.count)
            for key in ("p50_us", "p99_us", "mean_us"):
                status.add(f"response_{key}", getattr(responses, key))
            status.add("response_max_us", responses.maximum_us)

    def _diagnose_round_trip(self, status: StatusBuilder) -> None:
        report = self._commands.report()
        publishers = self._commands.publishers
        if publishers > 1:
            status.summary(Level.WARN, f"{publishers} publishers on tendon_commands and joint_commands")
        intruder = self._commands.owner.named
        if intruder:
            status.summary(Level.WARN, f"{intruder} wrote tendon_commands too: refused")
        drivers = self._node.count_publishers("tendon_states")
        if drivers > 1:
            status.summary(Level.WARN, f"{drivers} publishers on tendon_states")
        if report is None:
            status.summary(Level.OK, "the controller is in the cycle, or nothing is configured")
            return
        status.summary(Level.OK, f"p99 {report.p99_us:.0f} us" if report.commands else "no commands")
        status.add("states_published", report.states)
        status.add("commands_received", report.commands)
        status.add("commands_late", report.late)
        status.add("commands_unsequenced", report.unsequenced)
        status.add("commands_unknown", report.unknown)
        status.add("commands_invalid", self._commands.invalid)
        owner = self._commands.owner
        status.add("commands_writer", owner.writer)
        status.add("commands_refused", owner.refused)
        status.add("refused_writer", owner.named)
        status.add("round_trip_p50_us", report.p50_us)
        status.add("round_trip_p99_us", report.p99_us)
        status.add("round_trip_mean_us", report.mean_us)
        status.add("round_trip_max_us", report.maximum_us)

    def _diagnose_heat(self, status: StatusBuilder, loop: DriverLoop) -> None:
        """Name the hottest motor, and those of which the temperature is not known: they are not cool for that."""
        heat, names = loop.safety.heat, loop.robot.tendon_names
        temperatures, level, sentences = heat.temperatures(), Level.OK, []
        hot = [name for name, is_hot in zip(names, heat.hot_motors(), strict=True) if is_hot]
        if hot:
            level = Level.ERROR
            sentences.append(f"too hot: the motor of {', '.join(hot)}")
        known = [(value, name) for value, name in zip(temperatures, names, strict=True) if math.isfinite(value)]
        hottest_c, hottest = max(known, default=(math.nan, ""))
        if hottest_c >= self._node.parameters.get("temperature_warn_c"):
            level = max(level, Level.WARN)
            sentences.append(f"the motor of {hottest} is at {hottest_c:.0f} degC")
        unknown = [name for value, name in zip(temperatures, names, strict=True) if not math.isfinite(value)]
        if unknown:
            level = max(level, Level.WARN)
            sentences.append(f"temperature unknown: {', '.join(unknown)}")
        if sentences:
            status.summary(level, "; ".join(sentences))
        status.add("temperature_c", temperatures)
        status.add("temperature_modelled", bool(heat.modelled))

    def _diagnose_bus(self, status: StatusBuilder) -> None:
        loop = self._context.loop
        reading = None if loop is None else loop.reading
        if self._faults.bus_problem:
            status.summary(Level.ERROR, self._faults.bus_problem)
        if loop is None or reading is None:
            status.summary(Level.OK, "not configured")
            return
        if reading.device_faults:
            status.summary(Level.ERROR, "devices report " + ", ".join(reading.device_faults))
        self._diagnose_heat(status, loop)
        status.summary(Level.OK, "ok")
        status.add("age_s", reading.age_s)
        status.add("tension_n", reading.tension_n)
        status.add("current_a", reading.current_a)
        status.add("measured_temperature_c", reading.temperature_c)
        status.add("device_faults", list(reading.device_faults))
        inner = loop.actuators
        if isinstance(inner, CountsFromPowerOn):
            for channel, counters in inner.counters().items():
                for name, value in counters.items():
                    status.add(f"{channel}.{name}", value)
