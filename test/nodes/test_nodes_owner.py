# SPDX-License-Identifier: Apache-2.0
"""One owner for a topic: who has it, when it is given back, what a name is worth, and what is no handover."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: the nodes need ROS 2")

from continuum_robot.nodes.topics.owned_topic import NOBODY, Owner

A, B = b"a" * 16, b"b" * 16


class Node:
    """What an owner needs of a node; ``errors`` are the lines of its log."""

    def __init__(self):
        self.errors = []

    def get_logger(self):
        return self

    def error(self, text):
        self.errors.append(text)

    def resolve_topic_name(self, topic):
        return f"/{topic}"

    def get_publishers_info_by_topic(self, _topic):
        return []


@pytest.fixture
def node():
    return Node()


@pytest.fixture
def owner(node):
    return Owner(node, "shape", silence_s=0.05)


def test_the_first_publisher_has_it_until_it_is_silent(owner):
    for k in range(100):
        assert owner.admits(A, 0.01 * k)
        assert not owner.admits(B, 0.01 * k + 0.005)
    assert owner.refused == 100
    assert owner.contested
    assert owner.admits(B, 1.05)
    assert not owner.contested
    assert not owner.admits(A, 1.06)


def test_a_name_is_the_first_publishers_that_writes_under_it(owner, node):
    assert owner.admits(A, 1.0, "a")
    owner.give("b", 1.0)
    assert not owner.admits(A, 1.0, "a")
    assert owner.admits(B, 1.01, "b")
    for k in range(60):
        assert not owner.admits(A, 1.02 + 0.01 * k, "b"), "another program of that name"
        assert owner.admits(B, 1.02 + 0.01 * k, "b")
    owner.give("b", 1.62)  # announced again
    assert not owner.admits(A, 1.63, "b")
    assert owner.admits(A, 1.7, "b"), "the program that had it is silent, and started again"
    (error,) = node.errors
    assert error.startswith("another program that calls itself b writes shape beside b: refused")


def test_what_was_given_for_good_is_no_other_names_however_long_it_is_silent(owner):
    owner.give("a", 1.0, for_good=True)
    assert not owner.admits(B, 100.0, "b")
    assert owner.admits(A, 200.0, "a")
    assert not owner.admits(B, 300.0, "b")
    owner.give("", 300.0)
    assert owner.admits(B, 300.0, "b")


def test_publishers_that_are_not_known_are_one(owner):
    """As in lock-step, before the middleware tells of them."""
    assert owner.admits(NOBODY, 1.0, "a")
    assert owner.admits(A, 1.0, "a")
    assert owner.admits(NOBODY, 1.0, "a")
    assert not owner.admits(B, 1.0, "a")


def test_one_overlap_is_a_handover_and_two_are_a_fight(owner, node):
    sequence = [A, A, B, A]  # the last message of the first comes after the first of the second
    assert [owner.admits(gid, 0.001 * k) for k, gid in enumerate(sequence)] == [True, True, False, True]
    assert not owner.contested
    owner.admits(B, 0.005)
    owner.admits(A, 0.006)
    assert owner.contested
    assert not node.errors, "so short an overlap is not named"
    owner.settle()
    assert not owner.contested
