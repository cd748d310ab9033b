# SPDX-License-Identifier: Apache-2.0
"""Dotted keys of a robot file's plain values, e.g. ``segments[0].length_m``."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

_WORD = re.compile(r"\.?(\w+)|\[(\d{1,9})\]", re.ASCII)
_NOTHING = object()


def place_of(values: Any, key: str, *, make: bool = False) -> tuple[Any, Any] | None:
    """The mapping or list, and the name or index in it, that a dotted key means; None where there is no such place."""
    words = [name or int(index) for name, index in _WORD.findall(key)]
    if not words or "".join(match.group() for match in _WORD.finditer(key)) != key:
        return None
    *way, last = words
    for word in way:
        if make and isinstance(values, dict):
            values.setdefault(word, {})
        values = _inner(values, word)
    there = _inner(values, last) is not _NOTHING or (isinstance(values, dict) and isinstance(last, str))
    return (values, last) if there else None


def value_at(values: Any, key: str) -> Any:
    """What stands at a dotted key, None where nothing does."""
    place = place_of(values, key)
    found = _NOTHING if place is None else _inner(*place)
    return None if found is _NOTHING else found


def _inner(values: Any, word: str | int) -> Any:
    if isinstance(word, int):
        return values[word] if isinstance(values, (list, tuple)) and word < len(values) else _NOTHING
    if isinstance(values, dict):
        return values.get(word, _NOTHING)
    known = dataclasses.is_dataclass(values) and word in {field.name for field in dataclasses.fields(values)}
    return getattr(values, word) if known else _NOTHING
