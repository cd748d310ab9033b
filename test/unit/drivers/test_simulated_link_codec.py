# SPDX-License-Identifier: Apache-2.0
"""Datagrams of the simulated link: golden bytes, round trips, and what is refused."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.simulated_link import codec
from continuum_robot.drivers.simulated_link.codec import Command, CommandKind
from continuum_robot.errors import FrameError, ParameterError

GOLDEN_READING = bytes.fromhex(
    "43527231 0200 0000 0200000000000000 000000000000e03f"
    "000000000000f03f 000000000000f0bf"
    "0000000000000040 00000000000000c0"
    "0000000000000840 0000000000001040"
    "000000000000d03f 000000000000e03f"
    "000000000000f87f 000000000000f87f"
    "0000000000000000 000000000000f07f"
)
GOLDEN_COMMANDS = [
    (
        Command(CommandKind.TENSIONS, (1.0, 0.5)),
        "43526331 0200 0100 0000000000000000 000000000000f03f 000000000000e03f",
    ),
    (Command(CommandKind.ENABLE, (0.0,)), "43526331 0100 0200 0000000000000000 0000000000000000"),
    (Command(CommandKind.DISABLE, (0.0,)), "43526331 0100 0300 0000000000000000 0000000000000000"),
    (Command(CommandKind.CLEAR_FAULTS, (0.0,)), "43526331 0100 0400 0000000000000000 0000000000000000"),
    (Command(CommandKind.RECEIVE_TIMEOUT, (0.0,), 0.25), "43526331 0100 0500 000000000000d03f 0000000000000000"),
]

numbers = st.floats(allow_nan=True, allow_infinity=True)
finite = st.floats(allow_nan=False, allow_infinity=False)


def reading(rows, stamp_s=0.5, faults=()):
    return TendonReading(stamp_s, *(np.array(row, dtype=float) for row in rows), faults)


def same(one: TendonReading, other: TendonReading) -> bool:
    arrays = ("displacement_m", "velocity_m_per_s", "tension_n", "current_a", "temperature_c", "age_s")
    equal = all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in arrays)
    return equal and one.stamp_s == other.stamp_s and one.device_faults == other.device_faults


def test_a_reading_is_these_bytes():
    rows = [[1, -1], [2, -2], [3, 4], [0.25, 0.5], [math.nan, math.nan], [0, math.inf]]
    made = reading(rows, faults=(codec.device_fault(1),))
    assert codec.encode_reading(made) == GOLDEN_READING
    assert same(codec.decode_reading(GOLDEN_READING), made)


@pytest.mark.parametrize(("command", "golden"), GOLDEN_COMMANDS)
def test_a_command_is_these_bytes(command, golden):
    assert codec.encode_command(command) == bytes.fromhex(golden)
    assert codec.decode_command(bytes.fromhex(golden)) == command


@given(st.data(), st.integers(1, codec.MOST_TENDONS), finite)
def test_every_reading_comes_back(data, count, stamp_s):
    rows = [data.draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(codec.READING_ROWS)]
    faulty = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    made = reading(rows, stamp_s, tuple(codec.device_fault(j) for j in faulty))
    datagram = codec.encode_reading(made)
    assert len(datagram) <= codec.LARGEST_DATAGRAM
    assert same(codec.decode_reading(datagram), made)


@given(st.lists(finite, min_size=1, max_size=codec.MOST_TENDONS), st.sampled_from(CommandKind), st.floats(1e-3, 10))
def test_every_command_comes_back(tension, kind, timeout_s):
    command = Command(kind, tuple(tension), timeout_s if kind == CommandKind.RECEIVE_TIMEOUT else 0.0)
    assert codec.decode_command(codec.encode_command(command)) == command


@given(st.binary(max_size=200))
def test_bytes_that_are_no_datagram_are_refused(data):
    with pytest.raises(FrameError):
        codec.decode_reading(data)
    with pytest.raises(FrameError):
        codec.decode_command(data)


@given(st.integers(0, len(GOLDEN_READING) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_gives_a_reading_of_as_many_tendons(place, change):
    data = bytearray(GOLDEN_READING)
    data[place] ^= change
    try:
        changed = codec.decode_reading(bytes(data))
    except FrameError:
        return
    assert len(changed.displacement_m) == 2
    assert math.isfinite(changed.stamp_s)


@pytest.mark.parametrize(
    "data",
    [
        GOLDEN_READING[:-1],
        GOLDEN_READING + b"\0",
        GOLDEN_READING[:8] + struct.pack("<Qd", 4, 0.5) + GOLDEN_READING[24:],  # a fault of a third tendon
        GOLDEN_READING[:16] + struct.pack("<d", math.nan) + GOLDEN_READING[24:],
    ],
)
def test_readings_that_contradict_themselves_are_refused(data):
    with pytest.raises(FrameError):
        codec.decode_reading(data)


def test_what_cannot_be_sent_is_a_parameter_error():
    with pytest.raises(ParameterError, match="1 to 64"):
        codec.encode_command(Command(CommandKind.TENSIONS, (0.0,) * 65))
    with pytest.raises(ParameterError, match="finite"):
        codec.encode_command(Command(CommandKind.TENSIONS, (math.nan,)))
    with pytest.raises(ParameterError, match="receive_timeout_s"):
        codec.encode_command(Command(CommandKind.RECEIVE_TIMEOUT, (0.0,)))
    with pytest.raises(ParameterError, match="device_faults"):
        codec.encode_reading(reading([[0.0]] * 6, faults=("tendon 1: motor board fault",)))
    with pytest.raises(ParameterError):
        codec.encode_reading(reading([[0.0]] * 5 + [[0.0, 1.0]]))


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<4sHHd", b"CRc1", 1, 9, 0.0),
        struct.pack("<4sHHd", b"CRc1", 1, 1, 0.5),
        struct.pack("<4sHHd", b"CRc1", 1, 5, 0.0),
        struct.pack("<4sHHd", b"CRc1", 2, 1, 0.0),
    ],
)
def test_commands_that_make_no_sense_are_refused(head):
    with pytest.raises(FrameError):
        codec.decode_command(head + struct.pack("<d", 1.0))
