# SPDX-License-Identifier: Apache-2.0
"""Thresholds of the tendon driver's state machine."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.robot.schema import quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySettings:
    """Thresholds of the driver's safety logic that do not stand in the robot's limits."""

    command_fraction: float = quantity(
        "how far a command may lie outside of the limits to be limited and not refused, as a fraction of maximum_n, or"
        " of maximum_displacement_m",
        default=1.0,
        gt=0,
        le=1e3,
    )
    soft_fraction: float = quantity(
        "fraction of maximum_n above which a tension rises slowly while its motor swings on its elastic tendon",
        default=0.5,
        gt=0,
        le=1,
    )
    soft_time_s: float = quantity(
        "time constant with which a tension then approaches its highest, and with which swings are taken to decay",
        default=0.2,
        gt=0,
        le=10,
    )
    swing_fraction: float = quantity(
        "fraction of maximum_n by which motors may swing in motion; within it, tensions rise freely",
        default=0.1,
        ge=0,
        le=1,
    )
    headroom_fraction: float = quantity(
        "fraction of maximum_n that commands leave to what swinging adds to them", default=0.05, ge=0, lt=1
    )
    activation_grace_s: float = quantity(
        "added to the command timeout until the first command after activation", default=2.0, ge=0, le=60
    )
    frozen_time_s: float = quantity("how long a displacement must repeat to be frozen", default=0.1, gt=0, le=10)
    maximum_speed_m_per_s: float = quantity("fastest believable tendon", default=2.0, gt=0, le=100)
    jump_m: float = quantity("change of a displacement that is never a jump", default=5e-4, gt=0, le=0.1)
    tension_margin_n: float = quantity(
        "how far a measured tension may lie outside 0 to maximum_n", default=2.0, gt=0, le=1e3
    )
    current_mismatch_time_s: float = quantity(
        "how long currents must disagree, servos lag, or loads be too high or too low without a break, and at least"
        " five periods",
        default=0.05,
        ge=0,
        le=10,
    )
    safe_within_s: float = quantity(
        "longest ramp to the safe tension after a fault: faster than limits.safe_rate_n_per_s where that takes longer",
        default=0.06,
        gt=0,
        le=10,
    )
    maximum_step_s: float = quantity(
        "longest time step of a release and of disagreeing currents, or two periods: a stall counts as no more",
        default=0.01,
        gt=0,
        le=1,
    )
    credit_periods: float = quantity(
        "periods for which the rate limit counts the time since the previous command, at most: a stall gives no credit "
        "for its whole length",
        default=3.0,
        ge=1,
        le=1000,
    )
    late_latency_s: float = quantity(
        "age of a state beyond which the command that answers it is late; 0: the delay that the robot's control loop "
        "bears, or half of limits.command_timeout_s where that is unknown",
        default=0.0,
        ge=0,
        le=5,
    )
    late_time_s: float = quantity(
        "for how long every command must be late to make the loop too slow, and at least for four cycles",
        default=0.02,
        gt=0,
        le=10,
    )
    missed_fraction: float = quantity(
        "fraction of the cycles of a second that, missed, make the loop too slow", default=0.2, gt=0, le=1
    )
