# SPDX-License-Identifier: Apache-2.0
"""Who is found gone, and that a judge who was away himself asks again first."""

from __future__ import annotations

from continuum_robot.nodes.supervision.managed import Presence
from continuum_robot.runtime.own_gap import OwnGap


def test_silence_and_services_that_vanish() -> None:
    presence = Presence(4.0, 1.2)
    assert not presence.lose(100.0, listed=True)  # was never heard: nothing is known
    presence.heard(100.0)
    assert not presence.lose(104.0, listed=True)
    assert presence.lose(104.1, listed=True)
    assert presence.lost
    assert not presence.lose(110.0, listed=True)  # said once
    presence.back()
    presence.heard(110.0)
    assert not presence.lose(110.5, listed=False)
    assert not presence.lose(111.0, listed=True)  # back for a moment: counts from the start
    assert not presence.lose(111.5, listed=False)
    assert presence.lose(112.8, listed=False)


def test_a_gap_of_the_judge_counts_as_nobodys_silence() -> None:
    gap, presence = OwnGap(1.0), Presence(4.0, 1.2)
    now_s = 0.0
    lost = []
    for now_s in (0.0, 0.5, 1.0, 5.5, 6.0, 6.5, 9.0, 9.5):  # away from 1.0 to 5.5, and from 6.5 to 9.0
        if now_s <= 1.0:
            presence.heard(now_s)
        if gap.look(now_s):
            presence.ask_again(now_s)
        elif presence.lose(now_s, listed=True):
            lost.append(now_s)
    assert lost == []
    for now_s in (10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 13.0, 13.5):
        assert not gap.look(now_s)
        if presence.lose(now_s, listed=True):
            lost.append(now_s)
    assert lost == [13.5]  # it was asked at 9.0 and said nothing: now it counts


def test_gaps_in_a_row_do_not_put_the_judgement_off_for_ever() -> None:
    gap = OwnGap(1.0)
    assert [gap.look(5.0 * number) for number in range(6)] == [False, True, False, True, False, True]


def test_one_that_speaks_for_another_is_found_and_a_short_confusion_is_not():
    presence = Presence(4.0, 1.2, replaced_s=2.5)
    for now_s in (0.0, 1.0):
        presence.heard(now_s)
    for now_s in (2.0, 3.0, 4.0):
        presence.heard(now_s, same=False)
        assert not presence.lose(now_s, listed=True)
    presence.heard(4.5)  # beside a second stack of this name both report
    for now_s in (5.0, 6.0, 7.0):
        presence.heard(now_s, same=False)
        assert not presence.lose(now_s, listed=True)
    presence.heard(8.0, same=False)
    assert presence.lose(8.0, listed=True)
    assert presence.lost
