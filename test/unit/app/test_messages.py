# SPDX-License-Identifier: Apache-2.0
"""Messages that were built from other definitions are refused with the command that builds them again."""

from __future__ import annotations

import pytest

from continuum_robot import messages


def test_messages_of_other_definitions_are_refused_with_the_command(monkeypatch):
    wanted = messages.packages()
    assert {"msg/Shape.msg", "srv/ManageStack.srv", "action/HomeTendons.action"} <= set(wanted[0].definitions)
    monkeypatch.setattr(messages, "_installed", lambda: messages._version(wanted))
    messages.check()
    changed = wanted[0].definitions | {"msg/Shape.msg": "float64 other\n"}
    monkeypatch.setattr(messages, "packages", lambda: [wanted[0]._replace(definitions=changed), *wanted[1:]])
    with pytest.raises(messages.MessagesError, match=r"Run: python -m continuum_robot\.messages"):
        messages.check()


def test_messages_that_colcon_built_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(messages, "_installed", lambda: None)
    messages.check()


def test_without_a_compiler_the_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(messages.MessagesError, match=r"no C\+\+ compiler.*apt install g\+\+"):
        messages._call("CXX", folder=tmp_path)
