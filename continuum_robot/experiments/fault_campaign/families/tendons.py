# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a motor and the rod."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.kind import EITHER, FOUND, HOME, SAFE, FaultKind, injected

GROUP = "Tendons and motors"

KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        name="tendon_slack",
        group=GROUP,
        cause="a tendon is suddenly longer by 10 mm: it slipped off its spool or its clamp",
        action=injected("slack_tendon", 0.010),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`, when the motor has spooled 2 mm more than the shape allows",
        cure="look at the tendon; end the stack, home, start again",
    ),
    FaultKind(
        name="tendon_snapped",
        group=GROUP,
        cause="a tendon breaks",
        action=injected("snapped_tendon"),
        detectors=("tendon_safety:",),
        reaction=SAFE,
        detectable=FOUND,
        spared=True,
        refastened=True,
        recovery=HOME,
        seen="`inconsistent_displacement`: the motor winds up what nothing holds",
        cure="replace the tendon; end the stack, home, start again",
    ),
    FaultKind(
        name="motor_stuck",
        group=GROUP,
        cause="a motor does not turn any more",
        action=injected("stuck_motor"),
        detectors=("tendon_safety:",),
        reaction=EITHER,
        detectable=FOUND,
        spared=True,
        seen="`frozen_reading` or `inconsistent_displacement`, as soon as the robot should move",
        cure="free the gear, then reset",
    ),
)
