# SPDX-License-Identifier: Apache-2.0
"""How fast environments are, through gymnasium's vector interface.

A step is a millisecond of one robot: plant, simulated devices, driver, safety logic and controller. Every
``steps_per_second`` is of the clock, and holds for this machine with nothing else running. Times are of processors, and
hold on a busy machine too; ``steps_per_second_on_free_processors`` follows from them, if each thread has a processor of
its own. Robots whose cycles need Python code (servos, mechanisms, contacts) run one after the other, and are few here:
their speed does not depend on how many there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.robot.schema import quantity
from continuum_robot.testing.virtual_stack import VirtualStack, load_controlled_robot

SOROMOX = {
    "times_real_time_one_robot": 0.118,
    "times_real_time_256_robots": 28.7,
    "times_real_time_1024_robots": 78.7,
}
"""One spatial segment of constant strain, 6 coordinates, explicit steps of 0.1 ms, on an RTX 5090: the plant alone."""
_PERIOD_S = 0.02


@dataclass(frozen=True, kw_only=True)
class SpeedSettings:
    """Options of the experiment."""

    robots: tuple[str, ...] = quantity(
        "names or files",
        default=(
            *("opencr_five_tendon", "two_segment", "vanderbilt_segment", "vanderbilt_two_segment", "mixed_routing"),
            *("rucker", "three_segment_servo", "rolling_five_link", "crem_segment"),
        ),
    )
    num_envs: int = quantity("robots of an environment", default=256, ge=1, le=100000)
    slow_num_envs: int = quantity("the same, of robots whose cycles need Python code", default=8, ge=1, le=100000)
    threads: int = quantity("of an environment", default=2, ge=1, le=1024)
    seconds: float = quantity("for which each is measured, by the clock", "s", default=5.0, gt=0, le=3600)
    tasks: bool = quantity("measure all tasks of the first robot too", default=True)
    seed: int = quantity("of episodes and actions", default=0, ge=0, le=2**31)


class _Meter:
    """Time of the clock, of all processors, and of this thread in and outside of the simulation."""

    def __init__(self, envs: Any) -> None:
        self.steps, self._in_run_s, self._run = 0, 0.0, envs._stacks.run
        envs._stacks.run = self._timed_run
        self._envs = envs
        self._begun = time.perf_counter(), time.process_time(), time.thread_time()

    def _timed_run(self, *given: Any) -> None:
        begun_s = time.thread_time()
        self._run(*given)
        self._in_run_s += time.thread_time() - begun_s

    def end(self) -> dict[str, float]:
        now = time.perf_counter(), time.process_time(), time.thread_time()
        clock_s, processor_s, thread_s = (end - begin for begin, end in zip(self._begun, now, strict=True))
        self._envs._stacks.run = self._run
        wrapper_us = 1e6 * (thread_s - self._in_run_s) / self.steps
        simulated_us = 1e6 * processor_s / self.steps - wrapper_us
        return {"steps_per_second": self.steps / clock_s, "simulated_us": simulated_us, "wrapper_us": wrapper_us}


def _stepped(envs: Any, seconds: float, rng: np.random.Generator) -> dict[str, float]:
    """Random actions within an episode."""
    shape, per_action = envs.action_space.shape, round(_PERIOD_S * 1e3) * envs.num_envs
    envs.step(rng.uniform(-1, 1, shape))
    meter, end_s, left = _Meter(envs), time.perf_counter() + seconds, envs._last - 2
    while (time.perf_counter() < end_s or not meter.steps) and left:
        envs.step(rng.uniform(-1, 1, shape))
        meter.steps += per_action
        left -= 1
    return meter.end()


def _plant_us(envs: Any, seconds: float) -> float:
    """Processor time of a step of the plant alone, in the kernel; NaN where Python code has a part in it."""
    stacks = envs._stacks
    stacks.release()
    bodies = [None if stack.plant is None else stack.plant.ordinary_body for stack in stacks.stacks]
    moving = [body.moving for body in bodies if body is not None]
    if len(moving) < len(bodies) or not moving[0].keeps_nothing:
        return math.nan
    count, steps = round(_PERIOD_S * 1e3), 0
    begun_s, end_s = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        for one in moving:
            one.step(_PERIOD_S, count)
        steps += count * len(moving)
    return 1e6 * (time.process_time() - begun_s) / steps


def _timed(call: Callable[[], object], times: int) -> float:
    begun_s = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begun_s) / times


def _measured(name: str, settings: SpeedSettings, make: Callable[..., Any]) -> dict[str, float]:
    robot, rng = load_controlled_robot(name), np.random.default_rng(settings.seed)
    stack = VirtualStack(robot)
    stack.activate()
    stack.run(_PERIOD_S)
    free = stack.free_run is not None and stack.steer(stack.free_run) and stack.free_run.run(1) == 1
    stack.close()
    count = settings.num_envs if free else settings.slow_num_envs
    envs = make(robot=robot, num_envs=count, threads=settings.threads)
    begun_s = time.process_time()
    envs.reset(seed=settings.seed)
    reset_s = (time.process_time() - begun_s) / count
    found = _stepped(envs, settings.seconds, rng)
    plant_us = _plant_us(envs, settings.seconds / 5)
    envs.close()
    one = make(robot=robot, num_envs=1, threads=1)
    one.reset(seed=settings.seed)
    alone = _stepped(one, settings.seconds / 5, rng)
    one.close()
    threads = settings.threads if free else 1
    # Of an episode, whose beginning one thread works at.
    steps, fast = one._last * round(_PERIOD_S * 1e3), found["steps_per_second"]
    return {
        "num_envs": count,
        "steps_per_second": fast,
        "steps_per_second_with_resets": steps / (steps / fast + reset_s),
        "steps_per_second_on_free_processors": 1e6 / (found["simulated_us"] / threads + found["wrapper_us"]),
        "steps_per_second_one_env": alone["steps_per_second"],
        "processor_us_per_step": found["simulated_us"] + found["wrapper_us"],
        "plant_alone_us_per_step": plant_us,
        "devices_driver_controller_us_per_step": found["simulated_us"] - plant_us,
        "wrapper_us_per_step": found["wrapper_us"],
        "wrapper_percent_of_plant": 100 * found["wrapper_us"] / plant_us,
        "reset_ms": 1e3 * reset_s,
    }


@experiment(
    "learn.speed",
    "SoRoMoX 0.4.0: paper_results/secIVb_parallel_rollouts_gpu/data/parallel_rollout_benchmark.csv of tud-phi/soromox",
    paper=SOROMOX,
    package="gymnasium",
    not_stored="its numbers are times of the machine",
)
def speed(progress: Progress, settings: SpeedSettings) -> Any:
    """Steps of 1 ms a second of environments of many robots, of one, and of the plant alone."""
    from continuum_robot.envs import TASKS, RobotVectorEnv  # noqa: PLC0415  # needs an extra

    by_robot = {}
    for name in settings.robots:
        progress(name)
        by_robot[name] = _measured(name, settings, RobotVectorEnv)
    numbers: dict[str, Any] = {"threads": settings.threads, "period_s": _PERIOD_S}
    for key in by_robot[settings.robots[0]]:
        numbers[key] = {name: values[key] for name, values in by_robot.items() if not math.isnan(values[key])}
    first = numbers["steps_per_second"][settings.robots[0]] * 1e-3
    numbers |= {
        "times_real_time": first,
        "times_real_time_one_robot": numbers["steps_per_second_one_env"][settings.robots[0]] * 1e-3,
    }
    if settings.tasks:
        by_task = {}
        for task in TASKS:
            progress(f"{task} of {settings.robots[0]}")
            count = settings.num_envs if task in ("Reach", "FollowPath") else settings.slow_num_envs
            envs = RobotVectorEnv(task, settings.robots[0], count, threads=settings.threads)
            envs.reset(seed=settings.seed)
            by_task[task] = _stepped(envs, settings.seconds / 2, np.random.default_rng(settings.seed))
            envs.close()
        numbers["steps_per_second_by_task"] = {task: one["steps_per_second"] for task, one in by_task.items()}
    return numbers, partial(_draw, numbers)


def _draw(numbers: Mapping[str, Any], figure: Figures) -> None:
    many, one = numbers["steps_per_second"], numbers["steps_per_second_one_env"]
    with figure(f"Steps of 1 ms a second, {numbers['threads']} threads", size=(6.0, 3.6)) as (_, axis):
        places = np.arange(len(many))
        axis.barh(places - 0.2, list(many.values()), 0.4, color=COLOURS[0], label="through the vector interface")
        axis.barh(places + 0.2, list(one.values()), 0.4, color=COLOURS[1], label="one robot")
        axis.axvline(1e3, color=REFERENCE, linewidth=0.9)
        axis.set_yticks(places, list(many))
        axis.set_xscale("log")
        axis.set_xlabel("robots times milliseconds, a second (line: real time of one)")
        axis.invert_yaxis()
        axis.legend()
