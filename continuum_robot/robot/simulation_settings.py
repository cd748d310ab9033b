# SPDX-License-Identifier: Apache-2.0
"""What the simulated robot adds to the description: damping of the tendons, and the sensors' imperfections."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """Settings of the plant and of the simulated sensors; noise is Gaussian and seeded."""

    seed: int = quantity("seed of every random generator", default=1, ge=0, le=2**31)
    tendon_stiffening_per_n: float = quantity(
        "growth of a tendon's stiffness with its tension, relative to that without tension; ropes stiffen",
        default=0.0,
        ge=0,
        le=100,
    )
    tendon_damping_ns_per_m: float = quantity("axial damping of a tendon", default=20.0, ge=0, le=1e6)
    method: str = quantity(
        "implicit steps of the rod: in sdirk vibrations faster than the step die out; midpoint conserves what is"
        " conserved, and neither resolves nor damps them",
        default="sdirk",
        choices=("sdirk", "midpoint"),
    )
    substep_s: float = quantity("longest step of the plant's integrator", default=1e-3, gt=0, le=1e-2)
    current_noise_a: float = quantity("standard deviation of the measured current", default=0.0, ge=0, le=10)
    string_noise_m: float = quantity("standard deviation of a string reading", default=2e-5, ge=0, le=0.1)
    string_resolution_m: float = quantity("quantum of a string reading", default=2.3e-5, ge=0, le=0.1)
    string_mean_error_m: float = quantity(
        "mean size of a string reading's systematic error over the stroke, 0: none", default=0.0, ge=0, le=0.1
    )
    string_largest_error_m: float = quantity("its largest size", default=2.7e-4, ge=0, le=0.1)
    string_stroke_m: float = quantity("stroke of a string, of which home is the middle", default=0.12, gt=0, le=10)
    string_counts_per_turn: int = quantity("positions of a turn of a string's encoder", default=4096, ge=4, le=2**24)
    reading_delay_s: float = quantity("delay of the actuators' readings", default=0.0, ge=0, le=1)
    command_delay_s: float = quantity("delay of the commands on the wire", default=0.0, ge=0, le=1)
