# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with string encoders and the force sensor."""

from __future__ import annotations

from continuum_robot.experiments.fault_campaign.kind import TOLERATED, FaultKind, injected

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
            reaction=TOLERATED,
            sensors=True,
            duration_s=duration_s,
            seen=seen,
            cure=cure,
        )
        for name, fault, magnitude, duration_s, detectors, cause, seen, cure in rows
    )


KINDS: tuple[FaultKind, ...] = (
    *_kinds("String encoders", "strings", _STRINGS),
    *_kinds("Force sensor", "force", _FORCE),
)
