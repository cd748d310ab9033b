# SPDX-License-Identifier: Apache-2.0
"""Many robots in one call: how many steps and equilibria a second of processor time makes.

Each robot of a batch is pulled by waves of its own size at its tendons, from its straight shape on, and moves by the
implicit method of the simulated robots. Numbers are those of this machine: ``real_time_factor_total`` is the simulated
time of all robots over the time that they take where each thread has a processor of its own, ``by_clock`` that over the
time that went by. The same motions on one thread must give the same bits.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from continuum_robot.experiments.experiment import Figures, Progress, experiment
from continuum_robot.experiments.plotting import COLOURS, REFERENCE
from continuum_robot.robot.basis import Basis
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.schema import quantity
from continuum_robot.rod.rod import Rod

SOFT_COLUMN = "soft_column"
_LARGEST_N = {"opencr_five_tendon": 5.0, "two_segment": 5.0, "vanderbilt_two_segment": 100.0, SOFT_COLUMN: 6.0}
LANES = 8
"""Robots that a processor computes side by side."""
_WAVE_HZ = 2.0
_DAMPING_S = 0.02


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """Options of the experiment."""

    robots: int = quantity("in each batch", default=1024, ge=1, le=100000)
    steps: int = quantity("of each robot", default=100, ge=1, le=100000)
    step_s: float = quantity("length of a step", "s", default=1e-3, gt=0, le=0.1)
    threads: int = quantity("that share the robots out; 0: one a processor", default=0, ge=0, le=1024)
    seed: int = quantity("of the waves' sizes", default=0, ge=0, le=2**31)


def soft_column() -> Robot:
    """A silicone column of 3 cm on the tendons of opencr_five_tendon, with 16 coefficients."""
    robot = load_robot("opencr_five_tendon")
    segment = robot.segments[0]
    backbone = dataclasses.replace(
        segment.backbone,
        youngs_modulus_pa=2e5,
        poisson_ratio=0.45,
        density_kg_per_m3=1070,
        outer_diameter_m=0.03,
        inner_diameter_m=0.0,
    )
    column = dataclasses.replace(
        segment,
        backbone=backbone,
        basis=Basis(kind="chebyshev", bending_order=4, torsion_order=1, shear_order=0, extension_order=1),
        bending_damping_nms=_DAMPING_S * backbone.bending_stiffness_nm2 / segment.length_m,
    )
    return robot.changed(name=SOFT_COLUMN, segments=(column,), strings=(), control=None, reference=None)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call took, s: by the clock, and of all processors."""

    clock_s: float
    processor_s: float


def _timed(call: Callable[[], Any]) -> tuple[Any, Taken]:
    clock_s, processor_s = time.perf_counter(), time.process_time()
    result = call()
    return result, Taken(time.perf_counter() - clock_s, time.process_time() - processor_s)


def _measure(name: str, settings: BatchSettings, threads: int, progress: Progress) -> dict[str, float | bool]:
    robots, steps, step_s = settings.robots, settings.steps, settings.step_s
    rod = Rod(soft_column() if name == SOFT_COLUMN else load_robot(name))
    sizes = np.random.default_rng(settings.seed).uniform(0.3, 1.0, (robots, 1, 1))
    phases = 2 * np.pi * np.arange(rod.tendon_count) / rod.tendon_count
    wave = (1 + np.sin(2 * np.pi * _WAVE_HZ * step_s * np.arange(steps)[:, None] + phases)) / 2
    tension, still = _LARGEST_N[name] * sizes * wave, np.zeros((robots, rod.n))

    def report(done: float) -> None:
        progress(f"{name}: {100 * done:.0f} % of {robots} robots")

    (c, v), motion = _timed(lambda: rod.motions(still, still, tension, step_s, threads=threads, progress=report))
    few = min(robots, 64)
    alone = rod.motions(still[:few], still[:few], tension[:few], step_s, threads=1)
    _, statics = _timed(lambda: rod.equilibria(tension[:, 0], threads=threads))
    processors = min(threads, os.cpu_count() or 1, -(-robots // LANES))
    return {
        "coefficients": rod.n,
        "robot_steps_per_cpu_second": robots * steps / motion.processor_s,
        "real_time_factor_total": robots * steps * step_s / motion.processor_s * processors,
        "real_time_factor_by_clock": robots * steps * step_s / motion.clock_s,
        "equilibria_per_cpu_second": robots / statics.processor_s,
        "same_bits_on_one_thread": alone[0].tobytes() == c[:few].tobytes() and alone[1].tobytes() == v[:few].tobytes(),
        "largest_bend_or_strain": float(np.abs(c * rod.scale).max()),
    }


@experiment(
    "rod.batch",
    "robot files of this package, and a soft column of 16 coefficients",
    not_stored="its numbers are times of the machine",
)
def batch(progress: Progress, settings: BatchSettings) -> Any:
    """Steps and equilibria of many robots in one call, a second of processor time, and over real time."""
    threads = settings.threads or os.cpu_count() or 1
    by_robot = {name: _measure(name, settings, threads, progress) for name in _LARGEST_N}
    numbers: dict[str, Any] = {
        "robots": settings.robots, "steps": settings.steps, "step_s": settings.step_s, "threads": threads
    }  # fmt: skip
    for key in by_robot[SOFT_COLUMN]:
        numbers[key] = {name: values[key] for name, values in by_robot.items()}
    return numbers, partial(_draw, numbers)


def _draw(result: Mapping[str, Any], figure: Figures) -> None:
    factors = result["real_time_factor_total"]
    title = f"{result['robots']} robots at once, {result['threads']} threads, steps of {1e3 * result['step_s']:g} ms"
    with figure(title, size=(6.0, 3.0)) as (_, axis):
        axis.barh(list(factors), list(factors.values()), color=COLOURS[0])
        axis.axvline(1.0, color=REFERENCE, linewidth=0.9)
        axis.set_xscale("log")
        axis.set_xlabel("simulated time of all robots over computing time")
        axis.invert_yaxis()
