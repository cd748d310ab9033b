# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a run were given, from a recording whose order is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recordings import SyntheticRun, typestore
from rosbags.rosbag2 import Reader, StoragePlugin, Writer

from continuum_robot.app.recordings.comparison import compare, comparison_numbers
from continuum_robot.app.recordings.inputs import Given, State, read_inputs
from continuum_robot.app.recordings.reading import read_recording
from continuum_robot.errors import RecordingError

DRIVER_STATES = ("unconfigured", "inactive", "active", "safe")


def driver_status(store, state: int):
    types = store.types
    time = types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    none = np.zeros(0, np.uint8)
    return types["continuum_robot/msg/DriverStatus"](
        header=types["std_msgs/msg/Header"](stamp=time, frame_id=""),
        state=state,
        faults=none,
        **dict.fromkeys(("level", "controller", "stop_action", "last_fault", "activated_ns"), 0),
        **dict.fromkeys(("message", "defect", "estop_reason"), ""),
        estop_holders=[],
        **dict.fromkeys(
            ("fallback_holds", "estop", "simulated", "powered", "commanded", "homed", "time_is_over"), False
        ),
    )


def copy(source: Path, target: Path, leave_out=lambda topic, number: False, statuses=()) -> Path:
    """A bag without the messages for which ``leave_out`` (topic, number on that topic from 0) reports it.

    ``statuses`` are added: (time in ns, state of the driver).
    """
    with Reader(source) as reader, Writer(target, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        made, count = {}, {}
        for connection, time_ns, data in reader.messages():
            topic = connection.topic
            count[topic] = count.get(topic, -1) + 1
            if leave_out(topic, count[topic]):
                continue
            if topic not in made:
                made[topic] = writer.add_connection(
                    topic, connection.msgtype, msgdef=connection.msgdef.data, rihs01=connection.digest or "RIHS01_0"
                )
            writer.write(made[topic], time_ns, data)
        if statuses:
            store = typestore()
            kind = "continuum_robot/msg/DriverStatus"
            status = writer.add_connection("/driver_status", kind, typestore=store)
            for time_ns, state in statuses:
                message = driver_status(store, DRIVER_STATES.index(state))
                writer.write(status, time_ns, store.serialize_cdr(message, kind))
    return target


def test_a_reference_that_came_before_the_answer_goes_in_before_the_state(tmp_path: Path) -> None:
    bag = SyntheticRun(duration_s=0.1).write(tmp_path / "bag")
    inputs = read_inputs(bag)
    assert inputs.answered == {"tendon_commands", "clarke_state"}
    assert (inputs.tendon_count, inputs.state_count) == (5, 101)
    assert [step.sequence for step in inputs.steps if isinstance(step, State)] == list(range(1, 102))
    # It comes with the state of its cycle, which is answered 0.3 ms later.
    for index, step in enumerate(inputs.steps):
        if isinstance(step, Given):
            following = inputs.steps[index + 1]
            assert step.topic == "clarke_reference"
            assert isinstance(following, State)
            assert following.time_ns - step.time_ns == 300_000


def test_states_without_an_answer_were_passed_over(tmp_path: Path) -> None:
    source = SyntheticRun(duration_s=0.1).write(tmp_path / "source")
    # Numbers 10 to 12 on tendon_commands; number 12 is a cycle with a clarke_state, so the controller had seen it.
    bag = copy(source, tmp_path / "bag", lambda topic, number: topic == "/tendon_commands" and number in (10, 11, 12))
    states = [step for step in read_inputs(bag).steps if isinstance(step, State)]
    assert [state.sequence for state in states if not state.controlled] == [11, 12]
    assert [state.sequence for state in states if "tendon_commands" not in state.answers] == [11, 12, 13]


def test_the_end_of_active_is_placed_after_the_last_answer(tmp_path: Path) -> None:
    source = SyntheticRun(duration_s=0.1).write(tmp_path / "source")
    answers = [step for step in read_inputs(source).steps if isinstance(step, State)]
    # The recorder heard that it was over long before the controller did: no answer may be lost to that.
    said = [(answers[place].time_ns, state) for place, state in ((0, "inactive"), (40, "active"), (60, "inactive"))]
    steps = read_inputs(copy(source, tmp_path / "bag", statuses=said)).steps
    order = ["state" if isinstance(step, State) else step.topic for step in steps]
    order = [what for what in order if what != "clarke_reference"]
    assert order == ["driver_status"] * 2 + ["state"] * 101 + ["driver_status"]


def test_a_bag_without_states_or_answers_says_what_it_has(tmp_path: Path) -> None:
    source = SyntheticRun(duration_s=0.05).write(tmp_path / "source")
    without_states = copy(source, tmp_path / "a", lambda topic, number: topic == "/tendon_states")
    with pytest.raises(RecordingError, match=r"no messages on tendon_states \(there are: .*tendon_commands"):
        read_inputs(without_states)
    states_only = copy(source, tmp_path / "b", lambda topic, number: topic != "/tendon_states")
    with pytest.raises(RecordingError, match="no messages on tendon_commands, shape"):
        read_inputs(states_only)


def test_a_comparison_finds_the_one_number_that_changed(tmp_path: Path) -> None:
    topics = ("tendon_states", "tendon_commands", "clarke_state")
    then = read_recording(SyntheticRun(duration_s=0.5).write(tmp_path / "then"), topics)
    same = comparison_numbers(compare(then, then))
    assert same["tendon_commands_compared"] == same["tendon_commands_same_stamp"] == 501
    assert same["tendon_commands_tension_largest_difference_n"] == 0
    assert same["tendon_commands_tension_agree_to_rounding_percent"] == 100
    assert same["tendon_commands_tension_largest_recorded_n"] == pytest.approx(1.9)

    other = SyntheticRun(duration_s=0.5)
    other.error_m = other.error_m + np.array([0.0, 1e-5])
    now = read_recording(other.write(tmp_path / "now"), topics)
    numbers = comparison_numbers(compare(then, now))
    assert numbers["clarke_state_position_largest_difference_m"] == pytest.approx(1e-5)
    assert numbers["clarke_state_position_agree_to_rounding_percent"] == 0
    assert numbers["tendon_commands_tension_agree_to_rounding_percent"] == 100
