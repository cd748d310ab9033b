# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.drivers.string_encoder_serial.codec import stuffed, unstuffed
from continuum_robot.errors import FrameError, ParameterError


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        ("00", "01 01 00"),
        ("00 00", "01 01 01 00"),
        ("11 22 00 33", "03 11 22 02 33 00"),
        ("11 22 33 44", "05 11 22 33 44 00"),
        ("11 00 00 00", "02 11 01 01 01 00"),
    ],
)
def test_the_examples_of_the_method(data: str, frame: str) -> None:
    assert stuffed(bytes.fromhex(data)) == bytes.fromhex(frame)
    assert unstuffed(bytes.fromhex(frame)[:-1]) == bytes.fromhex(data)


def test_the_longest_frame() -> None:
    data = bytes(range(1, 255))
    assert stuffed(data) == b"\xff" + data + b"\x00"
    assert unstuffed(b"\xff" + data) == data


@given(st.binary(min_size=1, max_size=254))
def test_round_trip(data: bytes) -> None:
    frame = stuffed(data)
    assert frame.endswith(b"\x00")
    assert frame.count(0) == 1
    assert len(frame) == len(data) + 2
    assert unstuffed(frame[:-1]) == data


@given(st.binary(max_size=300))
def test_any_bytes_are_data_or_the_declared_error(frame: bytes) -> None:
    try:
        data = unstuffed(frame)
    except FrameError:
        return
    # What is accepted has one code only.
    assert stuffed(data) == frame + b"\x00"


@pytest.mark.parametrize("size", [0, 255])
def test_data_that_does_not_fit_is_refused(size: int) -> None:
    with pytest.raises(ParameterError):
        stuffed(bytes(size))
