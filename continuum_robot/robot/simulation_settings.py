# SPDX-License-Identifier: Apache-2.0
"""What the simulated robot adds to the description: damping of the tendons, and the sensors' imperfections."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringErrors:
    """What is otherwise on a simulated robot than its driver believes; lists in the order of the driver's tendons.

    With a transmission the motors' lists are in the order of its columns. An empty list: as believed.
    """

    pulls_tendon: tuple[int, ...] = quantity(
        "number from 1 of the tendon that each motor really pulls, or of the motor whose tendons it pulls; each once",
        default=(),
        ge=1,
        le=1000,
    )
    polarity: tuple[int, ...] = quantity("-1 where a motor turns the other way, else 1", default=(), ge=-1, le=1)
    spool_ratio: tuple[float, ...] = quantity(
        "tendon that a turn really winds over what is believed: a wrong spool or gear ratio", default=(), gt=0, le=100
    )
    current_gain: tuple[float, ...] = quantity("measured over true current", default=(), gt=0, le=10)
    current_offset_a: tuple[float, ...] = quantity("what comes on top of it", default=(), ge=-10, le=10)
    slack_m: tuple[float, ...] = quantity(
        "length that each tendon has too much on the straight robot at the start", default=(), ge=-0.1, le=0.1
    )

    def __post_init__(self) -> None:
        if any(one not in (-1, 1) for one in self.polarity):
            raise refuse("polarity", self.polarity, "-1 or 1 for each motor")
        if self.pulls_tendon and sorted(self.pulls_tendon) != list(range(1, len(self.pulls_tendon) + 1)):
            raise refuse("pulls_tendon", self.pulls_tendon, "each number of a tendon once")


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
    no_load_speed_rad_per_s: float = quantity(
        "speed at which the supply's voltage drives no more current through a motor that takes tensions: its largest"
        " current falls linearly to none there; 0: no such limit",
        default=0.0,
        ge=0,
        le=1e4,
    )
    backlash_m: float = quantity(
        "play between a motor and the spools that it turns, as tendon; only where motors pull two tendons against each"
        " other, because a tendon alone keeps its gear on one flank",
        default=0.0,
        ge=0,
        le=0.01,
    )
    reading_delay_s: float = quantity("delay of the actuators' readings; at level dynamics", default=0.0, ge=0, le=1)
    reading_jitter_s: float = quantity(
        "by how much more a reading may be late, each by another time; at level dynamics", default=0.0, ge=0, le=0.5
    )
    command_delay_s: float = quantity("delay of the commands on the bus; at level dynamics", default=0.0, ge=0, le=1)
    command_jitter_s: float = quantity(
        "by how much more a command may be late, each by another time; at level dynamics", default=0.0, ge=0, le=1
    )
    truth: str = quantity(
        "robot file of what is simulated in place of this one, beside this file or by name; empty: this one", default=""
    )
    wiring_errors: WiringErrors = quantity("what its driver does not know", factory=WiringErrors)
