# SPDX-License-Identifier: Apache-2.0
"""Who holds the e-stop: publishers and buttons each by itself, also those that have gone or fallen silent."""

from __future__ import annotations

from continuum_robot.runtime.estop_inputs import GONE_S, EstopInputs

TIMEOUT_S = 0.5
A, B = b"a" * 16, b"b" * 16
NAMES = {A: "/left", B: "/right"}


def held(inputs: EstopInputs, now_s: float) -> list[str]:
    return [holder.name for holder in inputs.holders(now_s)]


def beat(inputs: EstopInputs, sequence: int, now_s: float, *, pressed: bool = False, sender: bytes = A) -> None:
    inputs.button("door", sender, pressed=pressed, sequence=sequence, now_s=now_s)
    inputs.judge(now_s)


def test_a_false_releases_only_its_own_publisher() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    inputs.switch(A, pressed=True)
    inputs.switch(B, pressed=False)
    inputs.see(NAMES, 0.0)
    assert held(inputs, 0.0) == ["/left"]
    inputs.switch(B, pressed=True)
    inputs.switch(A, pressed=False)
    inputs.see(NAMES, 0.1)
    assert held(inputs, 0.1) == ["/right"]
    inputs.switch(B, pressed=False)
    assert not inputs.holders(0.1)
    assert inputs.known
    inputs.see({}, 0.2)
    assert not inputs.known  # who let go before it left is forgotten


def test_a_publisher_that_has_gone_holds_on_until_it_is_released_by_name() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    inputs.switch(A, pressed=True)
    assert held(inputs, 0.0) == ["publisher " + A.hex(".")]  # the graph knows it later
    inputs.see(NAMES, 0.0)
    assert "release it there" in inputs.release("/left", 0.0)
    assert "'/nobody'" in inputs.release("/nobody", 0.0)
    inputs.see({}, 1.0)
    assert inputs.release("/left", 1.0)  # not yet: the graph may be late
    gone_s = 1.0 + GONE_S
    (holder,) = inputs.holders(gone_s)
    assert not holder.there
    assert "has gone" in str(holder)
    assert "release_estop" in str(holder)
    assert inputs.release("/left", gone_s) == ""
    assert not inputs.holders(gone_s)
    assert "nobody" in inputs.release("/left", gone_s)


def test_publishers_without_a_gid_are_one() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    inputs.switch(b"", pressed=True)
    inputs.see({}, 0.0)
    inputs.see({}, 100.0)
    (holder,) = inputs.holders(100.0)
    assert holder.there
    inputs.switch(b"", pressed=False)
    assert not inputs.holders(100.0)


def test_a_button_holds_while_it_is_pressed_and_when_its_heartbeat_is_lost() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    for number in range(10):
        beat(inputs, number, 0.1 * number)
        assert not inputs.holders(0.1 * number)
    beat(inputs, 10, 1.0, pressed=True)
    assert held(inputs, 1.0) == ["door"]
    assert "pressed" in str(inputs.holders(1.0)[0])
    beat(inputs, 11, 1.1)
    assert not inputs.holders(1.1)
    for tenth in range(1, 8):
        inputs.judge(1.1 + 0.1 * tenth)
        assert bool(inputs.holders(0.0)) == (0.1 * tenth > TIMEOUT_S)
    assert "lost" in str(inputs.holders(0.0)[0])
    beat(inputs, 12, 2.0)  # back, and not pressed
    assert not inputs.holders(2.0)


def test_a_number_that_stands_still_is_no_heartbeat() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    for tenth in range(8):
        beat(inputs, 7, 0.1 * tenth)
    assert held(inputs, 0.7) == ["door"]
    assert inputs.release("door", 0.7) == ""
    assert not inputs.holders(0.7)
    beat(inputs, 0, 0.8)  # a sender that was started again counts from the beginning
    assert not inputs.holders(0.8)
    beat(inputs, 0, 0.8, pressed=True)  # but a press counts in any case
    assert held(inputs, 0.8) == ["door"]
    assert "release it there" in inputs.release("door", 0.8)


def test_two_senders_of_one_button_count_as_pressed() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    beat(inputs, 1, 0.0)
    beat(inputs, 1, 0.1, sender=B)
    assert "2 senders" in str(inputs.holders(0.1)[0])
    for tenth in range(2, 8):
        beat(inputs, tenth, 0.1 * tenth, sender=B)
    assert not inputs.holders(0.7)  # the first has fallen silent: it was replaced


def test_a_button_that_is_needed_holds_until_it_is_heard() -> None:
    inputs = EstopInputs(TIMEOUT_S, ["door"])
    inputs.judge(100.0)
    (holder,) = inputs.holders(100.0)
    assert "never heard" in str(holder)
    assert not holder.latches
    assert inputs.release("door", 100.0)
    beat(inputs, 1, 100.0)
    assert not inputs.holders(100.0)
    for tenth in range(1, 8):
        inputs.judge(100.0 + 0.1 * tenth)
    (holder,) = inputs.holders(100.7)
    assert holder.latches


def test_after_a_gap_of_its_own_it_reads_what_waits_before_it_judges() -> None:
    inputs = EstopInputs(TIMEOUT_S)
    beat(inputs, 1, 0.0)
    inputs.judge(0.1)
    inputs.judge(5.0)
    assert not inputs.holders(5.0)
    inputs.judge(5.1)  # nothing waited
    assert held(inputs, 5.1) == ["door"]
