# SPDX-License-Identifier: Apache-2.0
"""Which program seems to be gone, and that the gaps of its judge do not count."""

from __future__ import annotations

from continuum_robot.nodes.supervision import Presence
from continuum_robot.runtime.hang_watch import OwnGap


def test_silence_and_services_that_vanish() -> None:
    presence = Presence(4.0, 1.2)
    assert not presence.seems_gone(100.0, listed=True)  # was never heard: nothing is known
    presence.heard(100.0)
    assert not presence.seems_gone(104.0, listed=True)
    assert presence.seems_gone(104.1, listed=True)
    presence.forget()
    assert not presence.seems_gone(110.0, listed=True)
    presence.heard(110.0)
    assert not presence.seems_gone(110.5, listed=False)
    assert not presence.seems_gone(111.0, listed=True)  # back for a moment: counts from the start
    assert not presence.seems_gone(111.5, listed=False)
    assert presence.seems_gone(112.8, listed=False)


def test_a_gap_of_the_judge_counts_as_nobodys_silence() -> None:
    gap, presence = OwnGap(1.0), Presence(4.0, 1.2)
    suspected = []
    for now_s in (0.0, 0.5, 1.0, 5.5, 6.0, 6.5, 9.0, 9.5):  # away from 1.0 to 5.5, and from 6.5 to 9.0
        if now_s <= 1.0:
            presence.heard(now_s)
        if gap.look(now_s):
            presence.forgive(now_s)
        elif presence.seems_gone(now_s, listed=True):
            suspected.append(now_s)
    assert suspected == []
    for now_s in (10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 13.0, 13.5):
        assert not gap.look(now_s)
        if presence.seems_gone(now_s, listed=True):
            suspected.append(now_s)
    assert suspected == [13.5]  # silent since the gap


def test_gaps_in_a_row_do_not_put_the_judgement_off_for_ever() -> None:
    gap = OwnGap(1.0)
    assert [gap.look(5.0 * number) for number in range(6)] == [False, True, False, True, False, True]
