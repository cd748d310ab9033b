# SPDX-License-Identifier: Apache-2.0
"""One owner for a topic: who has it, when it is given back, and what is no handover."""

from continuum_robot.runtime.writer_claim import WriterClaim

A, B = "a", "b"


def test_the_first_writer_has_it_while_it_writes():
    claim = WriterClaim(0.05)
    for k in range(100):
        assert claim.admits(A, 0.01 * k)
        assert not claim.admits(B, 0.01 * k + 0.005)
    assert (claim.holder, claim.intruder, claim.refused) == (A, B, 100)
    assert claim.contested


def test_silence_gives_it_back():
    claim = WriterClaim(0.05)
    assert claim.admits(A, 1.0)
    assert not claim.admits(B, 1.04)
    assert claim.admits(B, 1.06)
    assert not claim.admits(A, 1.07)
    assert not claim.contested


def test_release_gives_it_back_at_once():
    claim = WriterClaim(10.0)
    assert claim.admits(A, 1.0)
    claim.release()
    assert claim.holder is None
    assert claim.admits(B, 1.0)


def test_who_takes_over_has_it_at_once_and_for_good_however_long_it_is_silent():
    claim = WriterClaim(0.05)
    assert claim.admits(A, 1.0)
    claim.take(B, 1.0)
    assert not claim.admits(A, 1.01)
    assert claim.admits(B, 1.02)
    assert claim.admits(A, 1.1), "silent"
    claim.take(B, 1.1, for_good=True)
    assert not claim.admits(A, 100.0)
    assert claim.admits(B, 200.0)
    assert not claim.admits(A, 300.0)


def test_one_overlap_is_a_handover_and_two_are_a_fight():
    claim = WriterClaim(0.05)
    sequence = [A, A, B, A]  # the last message of the first comes after the first of the second
    admitted = [claim.admits(gid, 0.001 * k) for k, gid in enumerate(sequence)]
    assert admitted == [True, True, False, True]
    assert not claim.contested
    claim.admits(B, 0.005)
    claim.admits(A, 0.006)
    assert claim.contested
    claim.settle()
    assert not claim.contested
    assert claim.holder == A
