# SPDX-License-Identifier: Apache-2.0
"""Lines of a serial CAN adapter: frames that a bus can carry, and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("can")

from continuum_robot.drivers.odri_can.slcan import frame_of


@pytest.mark.parametrize(
    ("line", "identifier", "data"),
    [
        (b"t0108" + b"0011223344556677", 0x010, bytes.fromhex("0011223344556677")),
        (b"t7FF0", 0x7FF, b""),
        (b"T1FFFFFFF2aAbB", 0x1FFFFFFF, b"\xaa\xbb"),
        (b"r0108", 0x010, b""),
    ],
)
def test_a_line_of_a_frame_is_that_frame(line, identifier, data):
    message = frame_of(line)
    assert (message.arbitration_id, bytes(message.data)) == (identifier, data)
    assert message.dlc == int(line[9:10] if line[:1] == b"T" else line[4:5])


@pytest.mark.parametrize(
    "line",
    [
        b"t9020",  # 11 bits end at 7FF
        b"TFFFFFFFF0",  # 29 bits at 1FFFFFFF
        b"t-110",
        b"t+1 0",
        b"t1_10",
        b"t 10",
        b"t0109" + b"00" * 9,
        b"r0109",
        b"r0101FF",  # a remote frame has no data
        b"t0102FF",
        b"t0101 F",
        b"t0101F F",
        b"t0101F",
        b"t010",
        b"t",
        b"T00000000",
        "t0101é".encode(),
    ],
)
def test_a_line_that_no_bus_carries_is_refused(line):
    with pytest.raises(ValueError, match="slcan adapter"):
        frame_of(line)


@pytest.mark.parametrize("line", [b"z", b"Z", b"V1013", b"NA123", b""])
def test_what_the_adapter_says_of_itself_is_no_frame(line):
    assert frame_of(line) is None
