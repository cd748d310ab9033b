# SPDX-License-Identifier: Apache-2.0
"""How much of the robot is simulated: to the byte on the wire, where this machine keeps up, measured."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from continuum_robot.drivers.backends import on_wires
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.periodic import SIMULATOR_PRIORITY
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.hardware import SimulatedHardware

AUTO, WIRE, DYNAMICS, MUJOCO = "auto", "wire", "dynamics", "mujoco"
REAL, LOCKSTEP = "real", "lockstep"
CYCLE_S = 0.001
CYCLES = 300
# The simulated robot has a process of its own, but not a processor.
LONGEST_MEDIAN_S = 0.75e-3
LONGEST_MOST_S = 1.5e-3
LARGEST_FRACTION = 0.8
LARGEST_FRACTION_GENERAL = 0.5
"""Of a processor, which the simulated robot may take in real time."""
LARGEST_FRACTION_WORLD = 0.25
"""Of what is measured with nothing touching: each contact is more for MuJoCo's solver."""


@dataclass(frozen=True)
class SimulationLevel:
    """A level, and why it was chosen."""

    name: str
    reason: str
    us_per_ms: float = math.nan
    allowed_us_per_ms: float = LARGEST_FRACTION * 1000.0

    @property
    def keeps_up(self) -> bool:
        """Whether this machine simulates the robot in real time, as far as was measured."""
        return not self.us_per_ms > self.allowed_us_per_ms


def choose_level(desired: str, robot: Robot, *, real_time: bool = True, world: str = "") -> SimulationLevel:
    """The level that is desired, or the one that this machine can do."""
    if robot.traits.without_boards:
        if desired not in (AUTO, DYNAMICS):
            raise ParameterError(
                "simulation_level", desired, f"{DYNAMICS} or {AUTO} for a mechanism, which has no other plant"
            )
        return SimulationLevel(DYNAMICS, f"dynamics ({robot.traits.kind})")
    if robot.transmission is not None and desired != WIRE:
        if desired not in (AUTO, DYNAMICS):
            expected = f"{WIRE}, {DYNAMICS} or {AUTO}: the others simulate a motor for each tendon, and no transmission"
            raise ParameterError("simulation_level", desired, expected)
        return SimulationLevel(DYNAMICS, "dynamics (motors behind a transmission)")
    if desired == MUJOCO:
        mujoco_library()
        us_per_ms = 1e6 * measure_plant(robot, make=MujocoPlant)[1] if real_time else math.nan
        fraction = LARGEST_FRACTION_WORLD if world else LARGEST_FRACTION_GENERAL
        return SimulationLevel(MUJOCO, "mujoco, wire", us_per_ms, fraction * 1000.0)
    uneven = bool(robot.traits.nonlinear_lengths)
    if robot.takes_displacements and robot.hardware is None:
        if desired in (WIRE, MUJOCO):
            expected = f"{DYNAMICS} or {AUTO}: the robot file names no servos"
            raise ParameterError("simulation_level", desired, expected)
        if desired == AUTO:
            desired = DYNAMICS
    if not on_wires(robot):
        kind = "" if robot.hardware is None else robot.hardware.tendon_actuators.kind
        if desired in (WIRE, MUJOCO):
            raise ParameterError(
                "simulation_level", desired, f"{DYNAMICS} or {AUTO}: motors of kind {kind} are not simulated"
            )
        if desired == AUTO and not uneven:
            us_per_ms = 1e6 * measure_plant(robot)[0] if real_time else math.nan
            return SimulationLevel(DYNAMICS, f"dynamics (no {kind} motors to the byte)", us_per_ms)
    if uneven and desired in (AUTO, DYNAMICS):
        if not real_time:
            return SimulationLevel(DYNAMICS, "dynamics of a general rod, in lock-step")
        return _general_rod(robot)
    if desired != AUTO and not real_time:
        return SimulationLevel(desired, desired)
    if desired != AUTO:
        return SimulationLevel(desired, desired, 1e6 * measure_plant(robot)[0])
    if not real_time:
        return SimulationLevel(WIRE, "wire, in lock-step")
    processors = len(os.sched_getaffinity(0))
    if processors < 2:
        reason = f"dynamics (wire needs 2 processors, here is {processors})"
        return SimulationLevel(DYNAMICS, reason, 1e6 * measure_plant(robot)[0])
    try:
        median_s, most_s = measure_wire(robot)
    except ContinuumRobotError as error:
        return SimulationLevel(DYNAMICS, f"dynamics ({error})")
    if median_s <= LONGEST_MEDIAN_S and most_s <= LONGEST_MOST_S:
        return SimulationLevel(WIRE, f"wire, {1e3 * median_s:.2f} ms a cycle", 1e6 * median_s)
    reason = f"dynamics, wire takes {1e3 * median_s:.2f} to {1e3 * most_s:.2f} ms a cycle"
    return SimulationLevel(DYNAMICS, reason, 1e6 * measure_plant(robot)[0])


def _general_rod(robot: Robot) -> SimulationLevel:
    median_s, most_s = measure_plant(robot)
    reason = f"dynamics of a general rod, {1e3 * median_s:.2f} to {1e3 * most_s:.2f} ms a cycle"
    # Single cycles take several times the 95th percentile, where tendons become slack or motors begin to turn.
    return SimulationLevel(DYNAMICS, reason, 1e6 * most_s, LARGEST_FRACTION_GENERAL * 1000.0)


def _clock() -> Callable[[], float]:
    """What counts as a cycle's time: processor time alone where the simulated robot may run before everything else."""
    return time.thread_time if allowed_priority(SIMULATOR_PRIORITY) else time.perf_counter


def measure_plant(robot: Robot, cycles: int = CYCLES, *, make: Callable[[Robot], Plant] = Plant) -> tuple[float, float]:
    """Median and 95th percentile of the time that the plant takes for a cycle while its tendons are pulled, s."""
    plant, durations, used_s = make(robot), [], _clock()
    largest_n = 0.2 * robot.limits.smallest("maximum_n", robot.tendon_count) if robot.limits is not None else 1.0
    for k in range(cycles):
        tension = largest_n * (0.5 + 0.5 * np.sin(0.02 * k + np.arange(robot.tendon_count)))
        begun_s = used_s()
        plant.advance(tension, CYCLE_S)
        durations.append(used_s() - begun_s)
    return float(np.median(durations)), float(np.quantile(durations, 0.95))


def measure_wire(robot: Robot, cycles: int = CYCLES) -> tuple[float, float]:
    """Median and 95th percentile of the time for a cycle of the driver on simulated boards, s."""
    hardware, now_s, used_s = SimulatedHardware(robot), 0.0, _clock()

    def clock() -> float:
        return now_s

    def sleep(duration_s: float) -> None:
        nonlocal now_s
        now_s += duration_s

    hardware.open()
    actuators = hardware.tendon_actuators(clock=clock, sleep=sleep)
    try:
        actuators.open()
        actuators.enable()
        tension = np.full(robot.tendon_count, 1.0)
        durations = []
        for _ in range(cycles):
            now_s += CYCLE_S
            begun_s = used_s()
            actuators.read(now_s)
            actuators.write(tension, now_s)
            durations.append(used_s() - begun_s)
    finally:
        actuators.close()
        hardware.close()
    return float(np.median(durations)), float(np.quantile(durations, 0.95))


def choose_clock(desired: str, level: SimulationLevel) -> tuple[str, str]:
    """The clock of a simulated run, and a sentence where it was chosen for the user; "" where not."""
    if level.keeps_up or desired == LOCKSTEP:
        return (REAL if desired == AUTO else desired), ""
    slow = (
        f"the simulated robot takes {1e-3 * level.us_per_ms:.2f} ms a millisecond here, which is too slow for real time"
    )
    if desired == AUTO:
        return LOCKSTEP, f"{slow}: it runs in lock-step, where time waits for it (--clock real: it falls behind)"
    return REAL, f"{slow}: it will fall behind (--clock lockstep: time waits for it)"
