# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import numpy as np
import pytest
from crc_oracle import crc_ccitt_false
from hypothesis import given, settings
from hypothesis import strategies as st

from continuum_robot.drivers.string_encoder_serial import codec
from continuum_robot.drivers.string_encoder_serial.codec import BoardFrame, CommandFrame, CountsFrame, Status
from continuum_robot.errors import FrameError, ParameterError

U8, U16, U32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
I32 = st.integers(-(2**31), 2**31 - 1)
COUNTS = st.builds(CountsFrame, U16, U32, st.tuples(I32, I32, I32, I32), U16)
BOARDS = st.builds(BoardFrame, U16, U32, U32, U32, U32, st.tuples(U8, U8, U8, U8), U32)
COMMANDS = st.builds(CommandFrame, U8, U8)
FRAMES = st.one_of(COUNTS, BOARDS, COMMANDS)

GOLDEN = [
    (
        CountsFrame(0x0102, 0x0A0B0C0D, (1, -1, 256, 2**31 - 1), codec.status_word(Status.ZEROED | Status.JUMP_1, 3)),
        "11 0201 0D0C0B0A 01000000 FFFFFFFF 00010000 FFFFFF7F 201C",
        # The zeros of the payload are gone from what goes over the line.
        "09 11 02 01 0D 0C 0B 0A 01 01 01 05 FF FF FF FF 02 01 01 09 FF FF FF 7F 20 1C",
    ),
    (
        BoardFrame(7, 1_000_000, 0x010203, 60, 5, (1, 2, 3, 255), 0xABCDEF),
        "21 0700 40420F00 03020100 3C000000 05000000 010203FF EFCDAB00",
        None,
    ),
    (CommandFrame(1, 9), "81 01 09", None),
]


@pytest.mark.parametrize(("frame", "body", "coded"), GOLDEN, ids=["counts", "board", "command"])
def test_golden_bytes(frame: codec.Frame, body: str, coded: str | None) -> None:
    expected = bytes.fromhex(body)
    # The check value by its definition.
    expected += struct.pack("<H", crc_ccitt_false(expected))
    assert codec.encode_payload(frame) == expected
    assert codec.decode_payload(expected) == frame
    wire = codec.encode(frame)
    assert codec.decode(wire[:-1]) == frame
    if coded is not None:
        assert wire == bytes.fromhex(coded) + expected[-2:] + b"\x00"
        assert 0 not in expected[-2:]


def test_the_lengths_of_the_layout() -> None:
    zero = CountsFrame(0, 0, (0, 0, 0, 0), 0)
    assert (len(codec.encode_payload(zero)), len(codec.encode(zero))) == (27, 29)
    assert codec.COMMAND_BYTES == 5


@given(FRAMES)
def test_round_trip(frame: codec.Frame) -> None:
    assert codec.decode_payload(codec.encode_payload(frame)) == frame
    assert codec.decode(codec.encode(frame)[:-1]) == frame


@given(COUNTS, st.integers(0, 15))
def test_the_status_word_holds_flags_and_the_number_of_zeros(frame: CountsFrame, zeros: int) -> None:
    word = codec.status_word(frame.status, zeros)
    assert codec.zero_number(word) == zeros
    for flag in Status:
        assert bool(word & flag) == bool(frame.status & flag)


@pytest.mark.parametrize(
    "frame",
    [
        CountsFrame(1 << 16, 0, (0, 0, 0, 0), 0),
        CountsFrame(0, 0, (1 << 31, 0, 0, 0), 0),
        BoardFrame(0, 0, 0, 0, -1, (0, 0, 0, 0), 0),
        CommandFrame(256, 0),
    ],
)
def test_numbers_that_do_not_fit_are_refused(frame: codec.Frame) -> None:
    with pytest.raises(ParameterError, match="fit their fields"):
        codec.encode_payload(frame)


def test_another_version_is_told_from_noise() -> None:
    body = bytes([0x12]) + codec.encode_payload(CountsFrame(0, 0, (0, 0, 0, 0), 0))[1:-2]
    payload = body + struct.pack("<H", crc_ccitt_false(body))
    with pytest.raises(codec.OtherVersionError) as caught:
        codec.decode_payload(payload)
    assert caught.value.version == 2
    with pytest.raises(FrameError):
        codec.decode_payload(b"\x31" + payload[1:])


@given(st.binary(max_size=64))
def test_any_payload_is_a_frame_or_the_declared_error(data: bytes) -> None:
    try:
        frame = codec.decode_payload(data)
    except FrameError:
        return
    assert codec.encode_payload(frame) == data


def stream_of(count: int) -> list[CountsFrame]:
    rng = np.random.default_rng(3)
    return [
        CountsFrame(
            index, index * 1000, tuple(int(value) for value in rng.integers(-(2**31), 2**31, 4)), codec.status_word(0)
        )
        for index in range(count)
    ]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_a_stream_may_come_in_any_pieces(sizes: list[int], seed: int) -> None:
    frames = stream_of(20)
    wire = b"".join(map(codec.encode, frames))
    stream, found, place = codec.FrameStream(), [], 0
    sizes = [*sizes, len(wire)]
    for size in sizes:
        found += stream.feed(wire[place : place + size])
        place += size
    assert found == frames
    assert (stream.accepted, stream.rejected) == (20, 0)


def damage(kind: str, wire: bytearray, rng: np.random.Generator) -> bytearray:
    place = int(rng.integers(len(wire)))
    if kind == "flip":
        wire[place] ^= 1 << int(rng.integers(8))
    elif kind == "delete":
        del wire[place]
    elif kind == "truncate":
        del wire[max(1, place) :]
    elif kind == "unterminated":
        del wire[-1]
    elif kind == "insert":
        wire.insert(place, int(rng.integers(256)))
    return wire


@pytest.mark.parametrize("kind", ["flip", "delete", "truncate", "unterminated", "insert"])
def test_a_fault_costs_one_frame_and_resynchronisation_none(kind: str) -> None:
    """Every 10th of 5000 frames is damaged: all others arrive, and no damaged one as something else."""
    rng = np.random.default_rng(7)
    frames = stream_of(5000)
    wires = [bytearray(codec.encode(frame)) for frame in frames]
    damaged = set(range(5, 5000, 10))
    stream = codec.FrameStream()
    found: list[codec.Frame] = []
    for index, wire in enumerate(wires):
        found += stream.feed(bytes(damage(kind, wire, rng) if index in damaged else wire))
    assert set(found) <= set(frames)
    lost = set(frames) - set(found)
    assert len(found) == len(set(found))
    # A frame whose zero at the end is gone sticks to the next one; then both are cut out whole.
    assert len(lost) <= len(damaged)
    assert lost <= {frames[index] for index in damaged}
    if kind == "unterminated":
        assert not lost


def test_garbage_between_frames_costs_no_frame() -> None:
    rng = np.random.default_rng(11)
    frames = stream_of(500)
    stream = codec.FrameStream()
    found: list[codec.Frame] = []
    for frame in frames:
        found += stream.feed(rng.bytes(int(rng.integers(0, 200))) + codec.encode(frame))
    assert found == frames


def test_opening_in_the_middle_of_a_frame_is_no_error() -> None:
    first, second = (codec.encode(frame) for frame in stream_of(2))
    stream = codec.FrameStream()
    assert stream.feed(first[9:] + second) == stream_of(2)[1:]
    assert stream.rejected == 0


def test_noise_without_a_delimiter_does_not_fill_the_memory() -> None:
    stream = codec.FrameStream()
    for _ in range(1000):
        assert stream.feed(b"\x55" * 1000) == []
    assert len(stream._rest) <= 4096
    frame = stream_of(1)[0]
    assert stream.feed(b"\x00" + codec.encode(frame)) == [frame]


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(st.one_of(st.binary(max_size=80), FRAMES.map(codec.encode)), max_size=30))
def test_a_stream_never_raises_and_loses_no_whole_frame(chunks: list[bytes]) -> None:
    stream = codec.FrameStream()
    for chunk in chunks:
        for frame in stream.feed(chunk):
            assert isinstance(frame, CountsFrame | BoardFrame | CommandFrame)
    last = CountsFrame(1, 2, (3, 4, 5, 6), 7)
    assert stream.feed(b"\x00" + codec.encode(last))[-1] == last


def test_every_flipped_bit_of_a_payload_is_found() -> None:
    payload = codec.encode_payload(stream_of(1)[0])
    for bit in range(8 * len(payload)):
        data = bytearray(payload)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            codec.decode_payload(bytes(data))
