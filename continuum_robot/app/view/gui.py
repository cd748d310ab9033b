# SPDX-License-Identifier: Apache-2.0
"""What the controls share: notes, and the difference between a hand and the program that moves a control."""

from __future__ import annotations

import html
import threading
from collections.abc import Sequence
from typing import Any


def note(text: str) -> str:
    """A sentence as small print, as HTML; empty where there is none."""
    return f'<div class="cr-note">{html.escape(text)}</div>' if text else ""


def show(handle: Any, name: str, value: Any) -> None:
    """Set an attribute of a control where it changes: nothing is sent to the browser otherwise."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)


class Program:
    """Moves controls without acting as if a hand did it."""

    def __init__(self) -> None:
        self._state = threading.local()

    @property
    def moves(self) -> bool:
        """Whether the callback that asks follows from :meth:`move`: it comes in its thread, before it returns."""
        return getattr(self._state, "moves", False)

    def move(self, handle: Any, value: Any, *, options: Sequence[str] = (), seen: Any = None) -> None:
        """Set the value of a control."""
        self._state.moves = True
        try:
            if options:
                handle.options = options
            if seen is None or seen not in options or handle.value == seen:
                handle.value = value
        finally:
            self._state.moves = False
