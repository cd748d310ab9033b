# SPDX-License-Identifier: Apache-2.0
"""Dotted keys of a robot file's plain values, e.g. ``segments[0].length_m``."""

from __future__ import annotations

import re
from typing import Any

_WORD = re.compile(r"\.?(\w+)|\[(\d{1,9})\]")


def place_of(values: Any, key: str, *, make: bool = False) -> tuple[Any, Any] | None:
    """The mapping or list, and the name or index in it, that a dotted key means; None where there is no such place.

    Parameters
    ----------
    values : mappings and lists in each other
    key : dotted; the last name may be missing in its mapping
    make : the mappings on the way that are missing
    """
    words = [name or int(index) for name, index in _WORD.findall(key)]
    if not words or "".join(match.group() for match in _WORD.finditer(key)) != key:
        return None
    *way, last = words
    for word in way:
        if make and isinstance(values, dict) and isinstance(word, str):
            values.setdefault(word, {})
        if not _has(values, word):
            return None
        values = values[word]
    return (values, last) if _has(values, last) or (isinstance(values, dict) and isinstance(last, str)) else None


def value_at(values: Any, key: str) -> Any:
    """What stands at a dotted key, None where nothing does.

    Parameters
    ----------
    values : mappings and lists in each other
    key : dotted
    """
    place = place_of(values, key)
    return place[0][place[1]] if place is not None and _has(*place) else None


def _has(values: Any, word: str | int) -> bool:
    if isinstance(word, int):
        return isinstance(values, list) and word < len(values)
    return isinstance(values, dict) and word in values
