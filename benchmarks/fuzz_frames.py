# SPDX-License-Identifier: Apache-2.0
"""Throws random and damaged bytes at every frame parser: python benchmarks/fuzz_frames.py --inputs 1000000.

Fails where a parser raises anything but its declared error, where a stream loses a sound frame behind noise, or where
damaged frames are accepted more often than a 16-bit CRC lets through. test/fuzz/run.py looks for inputs by coverage.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from continuum_robot.drivers.odri_can import codec as odri
from continuum_robot.drivers.odri_can import protocol as odri_frames
from continuum_robot.drivers.rokubi_serial import codec as rokubi
from continuum_robot.drivers.string_encoder_serial import codec as strings
from continuum_robot.errors import FrameError

CRC_MISSES = 2.0**-16
GOOD_EVERY = 16
LONGEST_NOISE = 80


@dataclass
class Parser:
    """A parser under test.

    Attributes
    ----------
    name : of the parser
    parse : takes bytes; raises FrameError for what is no frame
    sound : makes a sound frame
    guarded : a CRC of 16 bits guards the frame
    stream : it takes any bytes and returns frames; raises nothing
    """

    name: str
    parse: Callable[[bytes], Any]
    sound: Callable[[random.Random], bytes]
    guarded: bool = False
    stream: bool = False
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("inputs", "damaged", "accepted", "missed"), 0)
    )
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def allowed_misses(self) -> float:
        """Noise and damaged frames that a CRC may let through: the expectation and five deviations."""
        expected = self.counts["inputs"] * CRC_MISSES
        return expected + 5 * math.sqrt(expected) + 1


def counts_frame(rng: random.Random) -> bytes:
    """A coded frame of the string-encoder board, its delimiter taken off."""
    numbers = [rng.choice((0, rng.randrange(-(2**31), 2**31))) for _ in range(4)]
    frame = strings.CountsFrame(rng.randrange(1 << 16), rng.randrange(1 << 32), tuple(numbers), rng.randrange(1 << 16))
    return strings.encode(frame)[:-1]


def force_frame(rng: random.Random) -> bytes:
    """A frame of the force sensor."""
    wrench = tuple(rng.choice((0.0, rng.gauss(0, 10))) for _ in range(6))
    return rokubi.encode(rokubi.ForceFrame(rng.randrange(16), wrench, rng.randrange(1 << 32), 25.0))


def can_frame(rng: random.Random) -> bytes:
    """Identifier (two bytes) and data of a CAN frame of a motor board."""
    identifier = rng.choice(tuple(odri_frames.KINDS))
    return identifier.to_bytes(2, "big") + rng.randbytes(odri_frames.LENGTHS[identifier])


def parse_can(data: bytes) -> Any:
    """As :func:`can_frame` makes it; numbers in an accepted frame are finite."""
    frame = odri.decode(int.from_bytes(data[:2], "big"), data[2:])
    if not all(math.isfinite(value) for value in frame):
        raise AssertionError(f"accepted {data.hex()} as {frame}")
    return frame


def parsers() -> list[Parser]:
    """All of them, with state of their own."""
    return [
        Parser("string_encoder.unstuffed", strings.unstuffed, counts_frame),
        Parser("string_encoder.decode", strings.decode, counts_frame, guarded=True),
        Parser(
            "string_encoder.decode_payload",
            strings.decode_payload,
            lambda rng: strings.unstuffed(counts_frame(rng)),
            guarded=True,
        ),
        Parser(
            "string_encoder.FrameStream",
            strings.FrameStream().feed,
            lambda rng: b"\0" + counts_frame(rng) + b"\0",
            stream=True,
        ),
        Parser("rokubi.decode", rokubi.decode, force_frame, guarded=True),
        # What looks like the beginning of a frame has to be over before a sound one can begin.
        Parser(
            "rokubi.FrameStream",
            rokubi.FrameStream().feed,
            lambda rng: bytes(rokubi.FRAME_BYTES) + force_frame(rng),
            stream=True,
        ),
        Parser("odri_can.decode", parse_can, can_frame),
    ]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A frame with one to four faults."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind <= 1 and place < len(changed):
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 2 and place < len(changed):
            changed[place] = rng.randrange(256)
        elif kind == 3:
            del changed[place : place + rng.randint(1, 3)]
        elif kind == 4:
            changed[place:place] = rng.randbytes(rng.randint(1, 3))
        elif kind == 5:
            del changed[place:]
    return bytes(changed)


def attempt(parser: Parser, data: bytes) -> Any:
    """What a parser makes of an input; None where it refuses. Notes an error that was not declared."""
    try:
        return parser.parse(data)
    except FrameError:
        if parser.stream:
            parser.failures.append(f"raised FrameError: {data.hex()}")
    except Exception as error:
        parser.failures.append(f"{error!r}: {data.hex()}")
    return None


def fuzz(parser: Parser, inputs: int, rng: random.Random) -> None:
    """Give a parser as many inputs, half of them noise, half damaged frames."""
    begin_s = time.perf_counter()
    for index in range(inputs):
        sound = b""
        if index % 2:
            sound = parser.sound(rng)
            data = damaged(sound, rng)
            parser.counts["damaged"] += data != sound
        else:
            data = rng.randbytes(rng.randrange(LONGEST_NOISE))
        parser.counts["inputs"] += 1
        found = attempt(parser, data)
        if found is not None and found != []:
            parser.counts["accepted"] += 1
            if parser.guarded and data != sound and (not sound or found != parser.parse(sound)):
                parser.counts["missed"] += 1
        if parser.stream and index % GOOD_EVERY == 0:
            good = parser.sound(rng)
            if not attempt(parser, good):
                parser.failures.append(f"lost a sound frame: {good.hex()}")
    parser.seconds = time.perf_counter() - begin_s
    if parser.counts["missed"] > parser.allowed_misses():
        parser.failures.append(f"{parser.counts['missed']} damaged frames accepted")


def run(inputs: int, seed: int) -> int:
    """Give each parser as many inputs and print what happened; 1 where one failed."""
    tested = parsers()
    for index, parser in enumerate(tested):
        fuzz(parser, inputs, random.Random(seed + index))
    report = {
        "inputs": sum(parser.counts["inputs"] for parser in tested),
        "parsers": {
            parser.name: {
                **parser.counts,
                "allowed_misses": round(parser.allowed_misses(), 1) if parser.guarded else None,
                "us_an_input": round(parser.seconds / max(1, parser.counts["inputs"]) * 1e6, 2),
                "failures": parser.failures[:10],
            }
            for parser in tested
        },
    }
    print(json.dumps(report, indent=2))
    return int(any(parser.failures for parser in tested))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--inputs", type=int, default=1_000_000, help="for each parser")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    sys.exit(run(chosen.inputs, chosen.seed))
