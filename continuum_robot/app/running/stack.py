# SPDX-License-Identifier: Apache-2.0
"""What the demo, ``up``, the client and the launch files share before a start: checks, and how much is simulated."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from continuum_robot.app.output import say
from continuum_robot.drivers import backends
from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.nodes.base.spinning import BRING_DOWN_S
from continuum_robot.nodes.stack.choices import AUTO, LOCKSTEP, MUJOCO
from continuum_robot.nodes.stack.options import StackOptions
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.shipped_files import shipped_file
from continuum_robot.robot.loading import find_robot_file, load_robot
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.periodic import SIMULATOR_PRIORITY
from continuum_robot.simulation.mujoco.body import MujocoPlant
from continuum_robot.simulation.mujoco.library import mujoco_library
from continuum_robot.simulation.mujoco.world import load_world
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.truth import NO_TRUTH, shipped_truths, true_robot, truth_file
from continuum_robot.simulation.wire.hardware import SimulatedHardware

WIRE, DYNAMICS, REAL = "wire", "dynamics", "real"
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
    if not backends.on_wires(robot):
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


SUPERVISOR = "supervisor"
STOP_S = 2 * BRING_DOWN_S
"""For all but the ramp that a program does before it ends, on a busy machine too."""


def load_for_stack(options: StackOptions) -> Robot:
    """The robot of a stack with what its tip carries, checked for what the stack needs."""
    robot = load_robot(options.robot)
    if options.payload_kg >= 0:
        robot = robot.carrying(options.payload_kg)
    needed = ["actuators", "limits", *(["control"] if options.controller != "none" else [])]
    missing = [section for section in needed if getattr(robot, section) is None]
    if missing:
        raise ParameterError(
            "robot", robot.file_name or robot.name, f"a robot file with the sections {', '.join(missing)}"
        )
    if not options.simulated:
        backends.hardware_of(robot)
    return robot


def tell_truth(options: StackOptions, robot: Robot, console: Console) -> str:
    """Say which robot is simulated, the robot file's or another one."""
    if not options.simulated:
        return NO_TRUTH
    file = truth_file(robot, options.truth) if true_robot(robot, options.truth) is not robot else NO_TRUTH
    line = f"simulated is {file}, which driver and controller do not know"
    if file == NO_TRUTH:
        shipped = robot.name in shipped_truths()
        other = f"; --truth {robot.name}: one with errors of the size of a real robot's" if shipped else ""
        line = f"simulated is the robot file itself{other}"
    say(console, line)
    return file


def with_simulation_level(options: StackOptions, robot: Robot) -> tuple[StackOptions, str, str]:
    """The same stack with a level and a clock that its nodes know in place of auto, and its devices in words.

    Where this machine is too slow for real time a sentence about it comes third, else an empty one.
    """
    if options.simulated:
        name, world = with_world(options.simulation_level, options.world)
        options = dataclasses.replace(options, simulation_level=name, world=world)
        level = choose_level(options.simulation_level, robot, real_time=options.clock != LOCKSTEP, world=world)
        clock, sentence = choose_clock(options.clock, level)
        return (
            dataclasses.replace(options, simulation_level=level.name, clock=clock),
            f"simulated: {level.reason}",
            sentence,
        )
    # The level is about simulated hardware only; the nodes take one all the same.
    name = DYNAMICS if options.simulation_level == AUTO else options.simulation_level
    return dataclasses.replace(options, simulation_level=name, clock=REAL), "hardware", ""


def with_world(simulation_level: str, world: str) -> tuple[str, str]:
    """Level and world file of a simulated stack, the file by its whole path and checked."""
    if not world:
        return simulation_level, world
    if simulation_level not in (AUTO, MUJOCO):
        raise ParameterError("world", world, f"no world at level {simulation_level}: obstacles need {MUJOCO}")
    file = Path(world)
    if not file.is_file() and file.name == world:
        file = shipped_file(f"worlds/{file.name if file.suffix else file.name + '.yaml'}")
    load_world(file)
    return MUJOCO, str(file.resolve())


def stop_grace_s(robot: Robot) -> float:
    """How long a program of the stack may take from a signal to its end: the ramp to the safe tension has to
    fit in, s.
    """
    ramp_s = 0.0 if robot.limits is None else robot.limits.longest_ramp_s
    return STOP_S + ramp_s


def absolute_robot(options: StackOptions) -> StackOptions:
    """The same stack with its robot's file by its whole path: a process may be started in another folder."""
    return dataclasses.replace(options, robot=str(find_robot_file(options.robot).resolve()))


def node_parameters(options: StackOptions) -> dict[str, dict[str, object]]:
    """ROS parameters of every node when each is a process, the supervisor last."""
    options = absolute_robot(options)
    parameters = {node: options.parameters_of(node) for node in (*options.node_names, SUPERVISOR)}
    parameters[SUPERVISOR]["exit_on_failed_start"] = True
    return parameters
