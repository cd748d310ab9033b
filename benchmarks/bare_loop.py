# SPDX-License-Identifier: Apache-2.0
"""The floor under the 1 kHz loop: the same messages between two processes in which nothing is computed.

What this loop misses, the machine and the middleware miss; the stack's own part is the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
from continuum_robot.msg import TendonCommands, TendonStates
from rclpy.node import Node

from continuum_robot.app.running.processes import processor_time_s
from continuum_robot.errors import DeviceError
from continuum_robot.nodes.base.spinning import Spinner, StopRequest, initialize, shut_down_at_end, wait_for
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.round_trips import RoundTripStatistics

PERIOD_S = 0.001
TENDONS = 5
_STATES, _COMMANDS = "bare_loop_states", "bare_loop_commands"
_DISCOVERY_TIMEOUT_S = 15.0
_SETTLING_S = 1.0


def measure_bare_loop(seconds: float, stop: StopRequest) -> dict[str, Any]:
    """Publish states of five tendons at 1 kHz to another process that answers each with a command."""
    answerer = subprocess.Popen([sys.executable, __file__])
    try:
        initialize(args=[])
        with shut_down_at_end():
            return _measure(seconds, stop, answerer.pid)
    finally:
        answerer.terminate()
        try:
            answerer.wait(5.0)
        except subprocess.TimeoutExpired:
            answerer.kill()
            answerer.wait()


def _measure(seconds: float, stop: StopRequest, answerer: int) -> dict[str, Any]:
    node = Node("bare_loop", cli_args=[])
    trips = RoundTripStatistics(PERIOD_S)
    message = TendonStates(simulated=True)
    for name in ("displacement", "velocity", "tension", "current", "temperature", "age", "commanded_tension"):
        conversions.preallocate(message, name, TENDONS)
    conversions.preallocate_bytes(message, "limited", TENDONS)
    publisher = node.create_publisher(TendonStates, _STATES, qos.state_publisher())

    def received(command: TendonCommands) -> None:
        trips.received(command.sequence, time.monotonic_ns())

    node.create_subscription(TendonCommands, _COMMANDS, received, qos.command_subscription())

    def cycle(_now_s: float, _elapsed_s: float, _missed: int) -> None:
        message.sequence += 1
        trips.published(message.sequence, time.monotonic_ns())
        publisher.publish(message)

    spinner = Spinner([node])

    def failed(error: BaseException) -> None:
        node.get_logger().error(repr(error))

    loop = ControlThread("bare_loop", PERIOD_S, cycle, on_failure=failed)
    spinner.start()
    try:
        loop.start()
        if not wait_for(lambda: trips.commands > 0, _DISCOVERY_TIMEOUT_S):
            raise DeviceError("bare loop", "the other process does not answer", "Is DDS allowed on the loopback?")
        stop.wait(_SETTLING_S)
        loop.statistics.reset()
        trips.reset()
        pids = (os.getpid(), answerer)
        before_s, before = time.monotonic(), sum(processor_time_s(pid) for pid in pids)
        stop.wait(seconds)
        fraction = 100.0 * (sum(processor_time_s(pid) for pid in pids) - before) / (time.monotonic() - before_s)
        report, round_trip = loop.statistics.report(), trips.report()
    finally:
        loop.stop()
        spinner.stop()
        node.destroy_node()
    return {
        "loop_rate_hz": report.rate_hz,
        "missed_cycles_percent": report.missed_percent,
        "round_trip_p50_us": round_trip.p50_us,
        "round_trip_p99_us": round_trip.p99_us,
        "round_trip_max_us": round_trip.maximum_us,
        "processor_percent": fraction,
    }


def main() -> int:
    """Answer every state with a command of its sequence, until SIGTERM."""
    initialize(args=[])
    with shut_down_at_end(), StopRequest(last=True) as stop:
        node = Node("bare_loop_answerer", cli_args=[])
        command = TendonCommands()
        tension = conversions.preallocate(command, "tension", TENDONS)
        publisher = node.create_publisher(TendonCommands, _COMMANDS, qos.command_publisher())

        def answer(states: TendonStates) -> None:
            command.sequence = states.sequence
            tension[:] = np.asarray(states.tension)
            publisher.publish(command)

        node.create_subscription(TendonStates, _STATES, answer, qos.newest_state())
        spinner = Spinner([node])
        spinner.start()
        while not stop.wait(1.0):
            pass
        spinner.stop()
        node.destroy_node()
    return 0


if __name__ == "__main__":
    sys.exit(main())
