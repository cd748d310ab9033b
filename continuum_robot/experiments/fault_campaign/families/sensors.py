# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with string encoders and the force sensor."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.contact_reaction import ContactReaction, ContactSense
from continuum_robot.control.references import ClarkeReference, Reference
from continuum_robot.experiments.fault_campaign.kind import Action, FaultKind, injected
from continuum_robot.experiments.fault_campaign.virtual_robot import VirtualRobot
from continuum_robot.robot.reaction_settings import RETRACT, ReactionSettings
from continuum_robot.runtime.cycle.assembly import PERIOD_S
from validation.tip_stamps import LATE, QUEUE, StampSettings, run

Vector = NDArray[np.float64]
GROUP = "Tracker and contacts"
RETRACTS_S = 0.3

Row = tuple[str, str, float, float, tuple[str, ...], str, str, str]
"""Name, the simulated device's fault, its magnitude, its duration (s), who finds it, cause, what is seen, cure."""

_STRINGS: tuple[Row, ...] = (
    (
        "jump",
        "jump",
        2000.0,
        0.0,
        ("string_encoder_serial:",),
        "a counter jumps by half a turn",
        "the board's fault of the channel; the string is NaN until it is zeroed",
        "home again, which zeroes strings too",
    ),
    (
        "frozen",
        "freeze",
        0.0,
        0.0,
        (),
        "a counter stands still",
        "the estimator's residual rises as the robot moves, and warns at 1 mm",
        "check the magnet and the pulley, home again",
    ),
    (
        "magnet",
        "magnet_fault",
        0.0,
        0.0,
        ("string_encoder_serial:",),
        "a magnet is out of reach of its encoder",
        "the board's fault of the channel; the string is NaN",
        "put the magnet back, home again",
    ),
    (
        "silent",
        "silence",
        0.0,
        10.0,
        ("string_encoder_serial:",),
        "the board sends nothing",
        "strings are NaN, `board silent`",
        "check the board's supply and firmware",
    ),
    (
        "flipped",
        "flip",
        0.1,
        10.0,
        (),
        "a bit is wrong in every tenth frame",
        "`frames_rejected` rises in `/diagnostics`: the CRC refuses them",
        "check cable and shield",
    ),
    (
        "garbage",
        "garbage",
        0.3,
        10.0,
        (),
        "random bytes between the frames",
        "`frames_rejected` rises in `/diagnostics`",
        "check cable and shield",
    ),
    (
        "babble",
        "babble",
        0.0,
        10.0,
        ("string_encoder_serial:",),
        "nothing but random bytes, as with a wrong baud rate",
        "strings are NaN, `board silent`",
        "correct the baud rate, or the port",
    ),
    (
        "stalled",
        "stall",
        0.0,
        0.2,
        (),
        "frames are held back for 200 ms and come all at once",
        "strings are NaN meanwhile; the burst is stamped by the board's clock",
        "set the adapter's latency to 1 ms",
    ),
    (
        "rebooted",
        "reboot",
        0.0,
        0.0,
        ("string_encoder_serial:",),
        "the board starts again",
        "strings are NaN: their zero is gone",
        "home again",
    ),
    (
        "unplugged",
        "hang_up",
        0.0,
        0.0,
        ("string_encoder_serial:",),
        "the plug is pulled out, and later put in again",
        "strings are NaN, the port is named",
        "plug it in: it is opened again by itself",
    ),
)
_FORCE: tuple[Row, ...] = (
    (
        "silent",
        "silence",
        0.0,
        10.0,
        ("rokubi_serial:",),
        "the sensor sends nothing",
        "the wrench is NaN, `sensor silent`",
        "check its supply",
    ),
    (
        "overrange",
        "overrange",
        0.0,
        0.0,
        ("rokubi_serial:",),
        "the load is beyond its range",
        "`overrange` in the fault of the reading",
        "unload it",
    ),
    (
        "invalid",
        "invalid",
        0.0,
        0.0,
        ("rokubi_serial:",),
        "a gauge is open",
        "the measurement is invalid, and reported it",
        "have it repaired",
    ),
    (
        "corrupted",
        "flip",
        0.1,
        10.0,
        (),
        "a bit is wrong in every tenth frame",
        "frames that the CRC refuses, in `/diagnostics`",
        "check cable and shield",
    ),
    (
        "rebooted",
        "reboot",
        0.0,
        0.0,
        ("rokubi_serial:",),
        "the sensor starts again",
        "the wrench is NaN until it is set up again, by itself",
        "tare again",
    ),
    (
        "unplugged",
        "hang_up",
        0.0,
        0.0,
        ("rokubi_serial:",),
        "the plug is pulled out, and later put in again",
        "the wrench is NaN, the port is named",
        "plug it in: it is opened again by itself",
    ),
)


def _kinds(group: str, device: str, rows: tuple[Row, ...]) -> tuple[FaultKind, ...]:
    return tuple(
        FaultKind(
            name=f"{device}_{name}",
            group=group,
            cause=cause,
            action=injected(f"{device}.{fault}", magnitude, duration_s, target=0),
            detectors=detectors,
            sensors=True,
            duration_s=duration_s,
            seen=seen,
            cure=cure,
        )
        for name, fault, magnitude, duration_s, detectors, cause, seen, cure in rows
    )


def _stamps(kind: str) -> Action:
    """A tracker beside the robot: the simulated one has none."""

    def act(robot: VirtualRobot, _tendon: int) -> None:
        settings = StampSettings(stamps=kind, figure="circle", duration_s=8.0, learning_s=4.0)
        fused_m, model_m = run(settings).rms_m(settings.learning_s)
        if fused_m <= model_m:
            robot.tell("tracked_tip: not worse", f"the tip is {1e3 * fused_m:.1f} mm off, {1e3 * model_m:.1f} without")

    return act


class _Retracting(Reference):
    """Back the way that the robot came, from something that is felt all the time; ``forward_m``: towards it all the
    same.
    """

    def __init__(self, robot: VirtualRobot) -> None:
        self._robot, self._now_s, self.forward_m = robot, 0.0, -math.inf
        self._reaction = ContactReaction(robot.robot, ReactionSettings(strategy=RETRACT))
        self._touched_m = robot.truth.clarke_m[-1]
        sense = ContactSense(False, np.zeros_like(self._touched_m))
        for place, desired in zip(robot.truth.clarke_m, robot.truth.reference_m, strict=True):
            if np.isfinite(desired).all():
                self._answer = ClarkeReference.at_rest(desired)
                self._reaction.update(self._answer, sense, place, PERIOD_S)
        self._sense = ContactSense(True, -self._touched_m / np.linalg.norm(self._touched_m))

    def at(self, t_s: float) -> ClarkeReference:
        """The reference at a time, s, which does not go back."""
        if t_s > self._now_s:
            place = self._robot.truth.clarke_m[-1]
            if self._now_s == 0:
                self._touched_m = place
            self._answer = self._reaction.update(self._answer, self._sense, place, t_s - self._now_s).reference
            self._now_s = t_s
            ahead_m = float((self._touched_m - self._answer.position) @ self._sense.force)
            self.forward_m = max(self.forward_m, ahead_m)
        return self._answer


def _retract(robot: VirtualRobot, _tendon: int) -> None:
    reaction = _Retracting(robot)
    robot.follow(reaction)
    robot.run(RETRACTS_S)
    if reaction.forward_m <= 0:
        robot.tell("contact_reaction: retracts", "something touches: the robot goes back the way it came")


KINDS: tuple[FaultKind, ...] = (
    *_kinds("String encoders", "strings", _STRINGS),
    *_kinds("Force sensor", "force", _FORCE),
    *(
        FaultKind(
            name=f"tracker_{name}",
            group=GROUP,
            cause=f"a tracker of the tip stamps its poses {cause}",
            action=_stamps(stamps),
            detectors=("tracked_tip: not worse",),
            seen=f"{seen}; the tip is never worse than that of the shape alone",
            cure="stamp the exposure, or state `latency_s`",
        )
        for name, stamps, cause, seen in (
            ("late", LATE, "30 ms late", "`delay_s` of the tip: it is found and taken out"),
            ("bunched", QUEUE, "on receipt, behind a line that is blocked now and then", "poses that are refused"),
        )
    ),
    FaultKind(
        name="contact_retract",
        group=GROUP,
        cause="something touches the robot in its motion, and `reaction.strategy` is retract",
        action=_retract,
        detectors=("contact_reaction: retracts",),
        seen="the reference goes back the way that the robot came, and never nearer to what touches it",
        cure="remove what touches it, then resume",
    ),
)
