# SPDX-License-Identifier: Apache-2.0
"""Messages as plain numbers hold what rclpy's own message objects hold, or refuse."""

from __future__ import annotations

import array
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.msg import TendonCommands, TendonStates
from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.serialization import deserialize_message, serialize_message

from continuum_robot.nodes.topics import conversions
from continuum_robot.nodes.topics.flat_messages import CanonicalBytes, FlatLayout, commands_layout, states_layout

VECTORS = ("displacement", "velocity", "tension", "current", "temperature", "age", "commanded_tension")
NUMBERS = st.floats(allow_nan=False)


def filled_states(data: st.DataObject, count: int) -> TendonStates:
    message = TendonStates(simulated=data.draw(st.booleans()), sequence=data.draw(st.integers(0, 2**64 - 1)))
    message.header.stamp.sec = data.draw(st.integers(-(2**31), 2**31 - 1))
    message.header.stamp.nanosec = data.draw(st.integers(0, 2**32 - 1))
    for field in VECTORS:
        setattr(message, field, array.array("d", data.draw(st.lists(NUMBERS, min_size=count, max_size=count))))
    message.limited = array.array("B", data.draw(st.binary(min_size=count, max_size=count)))
    return message


@given(data=st.data(), count=st.integers(1, 12), padding=st.integers(0, 3))
def test_states_are_read_and_written_as_rclpy_does(data: st.DataObject, count: int, padding: int) -> None:
    layout, message = states_layout(count), filled_states(data, count)
    numbers = layout.numbers(serialize_message(message) + bytes(padding))
    place = layout.place
    assert (numbers[place["sec"]], numbers[place["nanosec"]]) == (
        message.header.stamp.sec,
        message.header.stamp.nanosec,
    )
    assert (numbers[place["sequence"]], numbers[place["simulated"]]) == (message.sequence, message.simulated)
    for field in (*VECTORS, "limited"):
        assert list(numbers[place[field]]) == list(getattr(message, field))
    assert deserialize_message(layout.to_bytes(list(numbers)), TendonStates) == message


@pytest.mark.parametrize("displacements", [False, True])
def test_what_is_unknown_stays_unknown(displacements: bool) -> None:
    layout = states_layout(3, displacements=displacements)
    values = layout.editable()
    assert all(math.isnan(value) for value in values[layout.place["tension"]])
    read = deserialize_message(layout.to_bytes(values), TendonStates)
    sent, empty = read.commanded_tension, read.commanded_displacement
    sent, empty = (empty, sent) if displacements else (sent, empty)
    assert all(math.isnan(value) for value in sent)
    assert (len(sent), len(empty)) == (3, 0)
    assert len(conversions.commanded(read)) == 3


@pytest.mark.parametrize("count", [3, 5, 9])
@pytest.mark.parametrize("displacements", [False, True])
def test_commands_are_read_and_written_as_rclpy_does(count: int, displacements: bool) -> None:
    layout = commands_layout(count, displacements=displacements)
    taken, empty = ("displacement", "tension") if displacements else ("tension", "displacement")
    values = layout.editable()
    values[layout.place["sequence"]] = 12345678901
    values[layout.place[taken]] = [0.5 + j for j in range(count)]
    read = deserialize_message(layout.to_bytes(values), TendonCommands)
    assert (read.sequence, list(getattr(read, taken))) == (12345678901, [0.5 + j for j in range(count)])
    assert not len(getattr(read, empty))
    assert layout.numbers(serialize_message(read)) == tuple(values)


def test_other_layouts_are_left_to_rclpy() -> None:
    layout = commands_layout(5)
    named = TendonCommands(sequence=7, tension=array.array("d", [1.0] * 5))
    named.header.frame_id = "base"
    for message in (named, TendonCommands(tension=array.array("d", [1.0] * 4)), TendonCommands()):
        data = serialize_message(message)
        assert layout.numbers(data) == ()
        assert layout.message(data) == message
    whole = serialize_message(TendonCommands(tension=array.array("d", [1.0] * 5)))
    assert layout.numbers(whole)
    # The middleware adds bytes behind.
    cut = whole[: len(layout.to_bytes(layout.editable())) - 1]
    assert layout.numbers(cut) == layout.numbers(b"") == layout.numbers(bytes(len(whole))) == ()
    big_endian = b"\0\0" + whole[2:]
    assert layout.numbers(big_endian) == ()


@pytest.mark.parametrize("text", ["", "a", "abcd", "a broken sensor"])
def test_canonical_bytes_are_the_message_and_nothing_else(text):
    from continuum_robot.msg import Contact, PidState, Shape, TipState  # noqa: PLC0415

    messages = [
        Shape(problem=text, coefficients=[1.0, 2.0], residual=3.0),
        Contact(invalid_reason=text, state="clear", wrench=[1.0] * 6),
        PidState(saturated=[True, False, True]),
        TipState(state=text),
    ]
    for message in messages:
        canonical = CanonicalBytes()
        data = canonical.of(message)
        assert len(data) % 4 == 0
        assert deserialize_message(data, type(message)) == message
        # The middleware's own bytes differ in the gaps from one call to the next.
        assert canonical.of(deserialize_message(data, type(message))) == data == canonical.of(data)
        # The second of a layout is read past rclpy.
        reader = CanonicalBytes()
        first, second = (reader.message(data, type(message)) for _ in range(2))
        assert first == second == message
        assert canonical.of(second) == data


def test_an_array_of_a_fixed_length_is_read_and_written_as_rclpy_does() -> None:
    message = PoseWithCovarianceStamped()
    message.header.frame_id = "base"
    message.pose.covariance = np.arange(36.0)
    layout = FlatLayout(message)
    numbers = layout.numbers(serialize_message(message))
    assert list(numbers[layout.place["pose.covariance"]]) == list(message.pose.covariance)
    assert deserialize_message(layout.to_bytes(list(numbers)), PoseWithCovarianceStamped) == message
