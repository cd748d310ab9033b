# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from crc_oracle import crc_x25
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.rokubi_serial import codec
from continuum_robot.drivers.rokubi_serial.codec import ForceFrame, Status
from continuum_robot.errors import FrameError, ParameterError

F32 = st.floats(width=32, allow_nan=False)
FRAMES = st.builds(
    ForceFrame,
    st.integers(0, 2**16 - 1),
    st.tuples(F32, F32, F32, F32, F32, F32),
    st.integers(0, 2**32 - 1),
    F32,
)


def test_golden_bytes() -> None:
    frame = ForceFrame(int(Status.OVERRANGE), (1.0, -2.0, 0.5, 0.0, 0.25, -0.125), 1_000_000, 28.5)
    body = bytes.fromhex(
        "0200 0000803F 000000C0 0000003F 00000000 0000803E 000000BE 40420F00 0000E441"  # IEEE 754, little-endian
    )
    data = codec.encode(frame)
    assert data == b"\xaa" + body + struct.pack("<H", crc_x25(body))
    assert len(data) == 37
    assert codec.decode(data) == frame


@given(st.binary(max_size=100))
def test_the_crc_is_that_of_its_definition(data: bytes) -> None:
    assert codec.crc(data) == crc_x25(data)


@given(FRAMES)
def test_round_trip(frame: ForceFrame) -> None:
    assert codec.decode(codec.encode(frame)) == frame


def test_numbers_that_are_none_arrive_as_such() -> None:
    frame = ForceFrame(0, (math.nan, math.inf, -math.inf, 0.0, 0.0, 0.0), 0, math.nan)
    assert np.isnan(codec.decode(codec.encode(frame)).wrench[0])


@pytest.mark.parametrize("frame", [ForceFrame(-1, (0.0,) * 6, 0, 0.0), ForceFrame(0, (1e300,) * 6, 0, 0.0)])
def test_numbers_that_do_not_fit_are_refused(frame: ForceFrame) -> None:
    with pytest.raises(ParameterError, match="fit their fields"):
        codec.encode(frame)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_the_declared_error(data: bytes) -> None:
    try:
        frame = codec.decode(data)
    except FrameError:
        return
    assert len(frame.wrench) == 6


def test_every_flipped_bit_is_found() -> None:
    data = codec.encode(ForceFrame(0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 123, 20.0))
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            codec.decode(bytes(damaged))


def stream_of(count: int) -> list[ForceFrame]:
    rng = np.random.default_rng(4)
    frames = []
    for index in range(count):
        # Floats whose bytes are 0xAA: a header everywhere.
        wrench = rng.standard_normal(6).astype(np.float32).tolist() if index % 2 else [-3.0316488e-13] * 6
        frames.append(codec.decode(codec.encode(ForceFrame(0, tuple(wrench), index * 5000, 25.0))))
    return frames


def test_headers_within_numbers_do_not_confuse() -> None:
    assert codec.encode(stream_of(1)[0]).count(0xAA) == 25
    frames = stream_of(200)
    stream = codec.FrameStream()
    wire = b"".join(map(codec.encode, frames))
    # From within the first frame on, in pieces of 11 bytes.
    found = [frame for place in range(5, len(wire), 11) for frame in stream.feed(wire[place : place + 11])]
    assert found == frames[1:]
    assert stream.rejected == 0


@pytest.mark.parametrize("kind", ["flip", "delete", "truncate", "insert"])
def test_a_fault_costs_one_frame(kind: str) -> None:
    rng = np.random.default_rng(8)
    frames = stream_of(3000)
    stream, found = codec.FrameStream(), []
    damaged = set(range(5, 3000, 10))
    for index, frame in enumerate(frames):
        wire = bytearray(codec.encode(frame))
        place = int(rng.integers(1, len(wire)))
        if index in damaged:
            if kind == "flip":
                wire[place] ^= 1 << int(rng.integers(8))
            elif kind == "delete":
                del wire[place]
            elif kind == "truncate":
                del wire[place:]
            else:
                wire.insert(place, int(rng.integers(256)))
        found += stream.feed(bytes(wire))
    assert set(found) <= set(frames)
    assert len(found) == 3000 - len(damaged)
    assert stream.rejected == len(damaged)


@given(st.lists(st.one_of(st.binary(max_size=80), FRAMES.map(codec.encode)), max_size=20))
def test_a_stream_never_raises_and_finds_the_next_whole_frame(chunks: list[bytes]) -> None:
    stream = codec.FrameStream()
    for chunk in chunks:
        stream.feed(chunk)
    last = codec.encode(ForceFrame(0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 77, 20.0))
    assert stream.feed(bytes(40) + last)[-1:] == [codec.decode(last)]


def test_commands() -> None:
    assert codec.configure() == b"C"
    assert codec.run() == b"R"
    assert codec.hard_reset() == b"#"
    assert codec.set_filter(256) == b"f,256,0,0,1"
    assert codec.set_filter(64, chop=True, fast=True, fir=True) == b"f,64,1,1,0"
    assert codec.set_communication(460800) == b"c,0,1,0,4"
    assert codec.set_communication(9600, temperature_compensation=True, calibration=False) == b"c,1,0,0,0"
    with pytest.raises(ParameterError):
        codec.set_filter(63)
    with pytest.raises(ParameterError):
        codec.set_communication(19200)


def test_acknowledgements_among_frames() -> None:
    found = codec.Acknowledgements()
    found.feed(b"\xaa\x00r,0,C,0\r\n\x01r,0,")
    assert found.code(b"C") == 0
    assert found.code(b"f,256,0,0,1") is None
    found.feed(b"f,3\r\n")
    assert found.code(b"f,256,0,0,1") == 3
    found.clear()
    assert found.code(b"C") is None


def test_status_bits_have_names() -> None:
    assert codec.fault_names(0) == ()
    named = codec.fault_names(int(Status.OVERRANGE | Status.RAW))
    assert [text.split(":")[0] for text in named] == ["load beyond the sensor's range", "sensor sends raw gauge values"]
    assert len(codec.fault_names(0xFFFF)) == 4
