# SPDX-License-Identifier: Apache-2.0
"""Simulated motor boards in a process of their own, in real time, for measurements of a driver."""

from __future__ import annotations

import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from types import TracebackType

from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.control_thread import ControlThread
from continuum_robot.runtime.periodic import (
    FrozenGarbage,
    ask_for_short_slices,
    simulator_settings,
    use_exact_timers,
)
from continuum_robot.simulation.effects import WIRE
from continuum_robot.simulation.simulator import STEP_NS, Simulator

START_TIMEOUT_S = 120.0
"""The plant may have to be compiled."""
ANSWER_TIMEOUT_S = 5.0


class SimulatedBoards:
    """A context in which another process simulates a robot to the bytes on its CAN channels."""

    def __init__(self, robot: Robot, namespace: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_simulate, args=(robot, namespace, there), daemon=True)
        self._process.start()
        there.close()
        try:
            self._answer(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def processor_s(self) -> float:
        """Processor time that the process has used, s."""
        self._here.send(None)
        return self._answer(ANSWER_TIMEOUT_S)

    def close(self) -> None:
        """End the process."""
        self._here.close()
        self._process.join(ANSWER_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()

    def __enter__(self) -> SimulatedBoards:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, timeout_s: float) -> float:
        try:
            if self._here.poll(timeout_s):
                return float(self._here.recv())
        except (EOFError, OSError):
            pass
        raise DeviceError("simulated motor boards", "do not answer", "Their process reports why on the terminal.")


def _simulate(robot: Robot, namespace: str, asked: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks for it ends it
    use_exact_timers()
    ask_for_short_slices()
    simulator = Simulator(robot, WIRE, namespace=namespace)
    simulator.open()
    loop = ControlThread(
        "simulated boards",
        STEP_NS * 1e-9,
        lambda now_s, _elapsed_s, _missed: simulator.step(now_s),
        on_failure=lambda _error: asked.close(),
        realtime=simulator_settings(),
    )
    FrozenGarbage.hold()
    loop.start()
    try:
        asked.send(time.process_time())
        while True:
            asked.recv()
            asked.send(time.process_time())
    except (EOFError, OSError):
        loop.stop()
        simulator.close()
