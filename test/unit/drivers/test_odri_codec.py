# SPDX-License-Identifier: Apache-2.0
"""Frames of the ODRI boards: exact bytes, round trips, refusals, and the same numbers from hardware/odri.dbc."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import cantools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuum_robot.drivers.odri_can import codec, protocol
from continuum_robot.drivers.odri_can.protocol import (
    Adc,
    Command,
    CommandCode,
    Current,
    CurrentReference,
    EncoderIndex,
    ErrorCode,
    Position,
    Status,
    Velocity,
)
from continuum_robot.errors import FrameError, ParameterError

DBC = Path(__file__).resolve().parents[3] / "hardware" / "odri.dbc"
LSB = 2.0**-24

# The firmware's documentation shows the first four (doc/can/can_connection.rst), the others follow its tables.
GOLDEN = [
    (Command(CommandCode.ENABLE_SYSTEM, 1), 0x000, "00000001 00000001"),
    (Command(CommandCode.SEND_ALL, 1), 0x000, "00000001 00000014"),
    (Command(CommandCode.ENABLE_MOTOR_1, 1), 0x000, "00000001 00000002"),
    (Command(CommandCode.ENABLE_MOTOR_2, 1), 0x000, "00000001 00000003"),
    (Command(CommandCode.RECEIVE_TIMEOUT_MS, 1000), 0x000, "000003e8 0000001e"),
    (Command(CommandCode.RECEIVE_TIMEOUT_MS, 0xFFFFFFFF), 0x000, "ffffffff 0000001e"),
    (Command(CommandCode.ENABLE_ROLLOVER_ERROR, 0), 0x000, "00000000 0000001f"),
    (CurrentReference(0.0, 0.0), 0x005, "00000000 00000000"),
    (CurrentReference(1.0, -1.0), 0x005, "01000000 ff000000"),
    (CurrentReference(-0.5, LSB), 0x005, "ff800000 00000001"),
    (CurrentReference(-128.0, 128.0 - LSB), 0x005, "80000000 7fffffff"),
    (Status(True, False, False, False, False, ErrorCode.NONE), 0x010, "01"),
    (Status(True, True, False, False, False, ErrorCode.NONE), 0x010, "03"),
    (Status(True, True, False, True, False, ErrorCode.NONE), 0x010, "0b"),
    (Status(True, True, True, True, True, ErrorCode.NONE), 0x010, "1f"),
    (Status(False, False, True, False, True, ErrorCode.RECEIVE_TIMEOUT), 0x010, "54"),
    (Status(False, False, True, False, True, ErrorCode.ENCODER), 0x010, "34"),
    (Status(False, False, True, False, True, ErrorCode.NONE), 0x010, "14"),
    (Current(2.25, -LSB), 0x020, "02400000 ffffffff"),
    (Position(100.0, -100.0), 0x030, "64000000 9c000000"),
    (Velocity(0.25, -7.2 // LSB * LSB), 0x040, "00400000 f8cccccc"),
    (Adc(0.5, 1.0 - LSB), 0x050, "00800000 00ffffff"),
    (EncoderIndex(-3.0, 1), 0x060, "fd000000 00"),
    (EncoderIndex(3.0, 2), 0x060, "03000000 01"),
]


@pytest.mark.parametrize(("frame", "identifier", "text"), GOLDEN)
def test_exact_bytes_in_both_directions(frame: protocol.Frame, identifier: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert codec.encode(frame) == (identifier, data)
    decoded = codec.decode(identifier, data)
    assert decoded == frame
    assert type(decoded) is type(frame)


q24 = st.integers(-(1 << 31), (1 << 31) - 1).map(lambda counts: counts * LSB)
position = st.integers(-100 << 24, 100 << 24).map(lambda counts: counts * LSB)
frames = st.one_of(
    st.sampled_from([code for code in CommandCode if code != CommandCode.RECEIVE_TIMEOUT_MS]).flatmap(
        lambda code: st.builds(Command, st.just(code), st.integers(0, 1))
    ),
    st.builds(Command, st.just(CommandCode.RECEIVE_TIMEOUT_MS), st.integers(0, (1 << 32) - 1)),
    st.builds(CurrentReference, q24, q24),
    st.builds(Status, *[st.booleans()] * 5, st.sampled_from(ErrorCode)),
    st.builds(Current, q24, q24),
    st.builds(Position, position, position),
    st.builds(Velocity, q24, q24),
    st.builds(Adc, q24, q24),
    st.builds(EncoderIndex, position, st.integers(1, 2)),
)


@given(frames)
def test_every_frame_survives_the_round_trip(frame: protocol.Frame) -> None:
    assert codec.decode(*codec.encode(frame)) == frame


@given(st.floats(-127.9, 127.9), st.floats(-127.9, 127.9))
def test_currents_are_rounded_to_the_nearest_step(first: float, second: float) -> None:
    data = codec.encode(protocol.CurrentReference(first, second))[1]
    assert data == struct.pack(">ii", round(first * 2**24), round(second * 2**24))
    decoded = codec.decode(protocol.CURRENT_REFERENCE_ID, data)
    assert decoded == pytest.approx((first, second), abs=LSB / 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 128.0, 128.0 - LSB / 4, -128.0 - LSB, 1e300])
def test_what_the_wire_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ParameterError, match="motor_2_a"):
        codec.encode(protocol.CurrentReference(0.0, value))[1]
    with pytest.raises(ParameterError):
        codec.encode(Velocity(value, 0.0))


@pytest.mark.parametrize(
    "frame",
    [
        Command(CommandCode.ENABLE_SYSTEM, 2),
        Command(CommandCode.RECEIVE_TIMEOUT_MS, 1 << 32),
        Command(CommandCode.RECEIVE_TIMEOUT_MS, -1),
        Position(100.5, 0.0),
        Position(0.0, math.nan),
        EncoderIndex(0.0, 0),
        EncoderIndex(0.0, 3),
        EncoderIndex(-101.0, 1),
    ],
)
def test_values_outside_of_the_protocol_are_not_encoded(frame: protocol.Frame) -> None:
    with pytest.raises(ParameterError):
        codec.encode(frame)


@pytest.mark.parametrize(
    ("identifier", "text", "problem"),
    [
        (0x001, "00", "identifier"),
        (0x100, "0000000000000000", "identifier"),
        (0x000, "00000001 00000006", "unknown command code 6"),
        (0x000, "00000002 00000001", "neither 0 nor 1"),
        (0x030, "64000001 00000000", "beyond 100"),
        (0x030, "00000000 9bffffff", "beyond 100"),
        (0x060, "00000000 02", "motor 2"),
        (0x060, "64000001 00", "beyond 100"),
        (0x010, "", "0 bytes"),
        (0x010, "1f00", "2 bytes"),
        (0x020, "00000000", "4 bytes"),
        (0x060, "00000000 00 00", "6 bytes"),
    ],
)
def test_frames_that_no_board_sends_are_refused_with_a_reason(identifier: int, text: str, problem: str) -> None:
    with pytest.raises(FrameError, match=problem):
        codec.decode(identifier, bytes.fromhex(text))


@settings(max_examples=4 * settings().max_examples)
@given(st.one_of(st.sampled_from(sorted(protocol.KINDS)), st.integers(0, 0x7FF)), st.binary(max_size=12))
def test_any_bytes_decode_or_are_refused_and_what_decodes_encodes_again(identifier: int, data: bytes) -> None:
    try:
        frame = codec.decode(identifier, data)
    except FrameError:
        return
    assert codec.encode(frame) == (identifier, data)


# --- the database

SIGNALS = {
    CurrentReference: ("ReferenceMotor1", "ReferenceMotor2"),
    Current: ("CurrentMotor1", "CurrentMotor2"),
    Position: ("PositionMotor1", "PositionMotor2"),
    Velocity: ("VelocityMotor1", "VelocityMotor2"),
    Adc: ("AdcA6", "AdcB6"),
    Status: ("SystemEnabled", "Motor1Enabled", "Motor1Ready", "Motor2Enabled", "Motor2Ready", "ErrorCode"),
}


DATABASE = cantools.database.load_file(DBC, strict=True)


def signals_of(frame: protocol.Frame) -> dict[str, float]:
    """The same values as the database names them."""
    if isinstance(frame, Command):
        # RECEIVE_TIMEOUT_MS is ReceiveTimeout: the unit stands beside it in the database.
        name = "".join(word.capitalize() for word in frame.code.name.removesuffix("_MS").split("_"))
        return {"Code": int(frame.code), name: frame.value}
    if isinstance(frame, EncoderIndex):
        return {"IndexPosition": frame.position_rev, "IndexMotor": frame.motor - 1}
    return {name: float(value) for name, value in zip(SIGNALS[type(frame)], frame, strict=True)}


@given(frames)
def test_the_database_reads_the_same_values(frame: protocol.Frame) -> None:
    identifier, data = codec.encode(frame)
    message = DATABASE.get_message_by_frame_id(identifier)
    assert message.length == len(data)
    read = message.decode(data, decode_choices=False)
    assert read == pytest.approx(signals_of(frame), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("frame", "identifier", "text"), GOLDEN)
def test_the_database_writes_the_same_bytes(frame: protocol.Frame, identifier: int, text: str) -> None:
    message = DATABASE.get_message_by_frame_id(identifier)
    assert message.encode(signals_of(frame), strict=False) == bytes.fromhex(text)


def test_the_database_has_exactly_the_frames_of_the_codec() -> None:
    lengths = {layout.identifier: layout.fields.size for layout in protocol.LAYOUTS.values()}
    assert {message.frame_id: message.length for message in DATABASE.messages} == lengths
    command = DATABASE.get_message_by_name("Command")
    assert set(command.signal_tree[0]["Code"]) == {int(code) for code in CommandCode}
    names = {int(code): code.name.lower() for code in ErrorCode}
    choices = DATABASE.get_message_by_name("Status").get_signal_by_name("ErrorCode").choices
    assert {number: str(name) for number, name in choices.items()} == names
