# SPDX-License-Identifier: Apache-2.0
"""Messages of the 1 kHz loop as plain numbers, past rclpy's message objects.

To make a message object of received bytes takes rclpy longer than everything else in a cycle of the controller. Of a
message whose arrays keep their lengths, every number has a fixed place in the serialised bytes (CDR, little-endian).
Bytes of any other layout, e.g. of a sender with another frame_id, go through rclpy as ever.
"""

from __future__ import annotations

import array
import functools
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from continuum_robot.errors import ParameterError
from continuum_robot.msg import TendonCommands, TendonStates
from continuum_robot.nodes.topics import conversions

_HEADER = "std_msgs/Header"
_SIZES = {
    "uint64": ("Q", 8),
    "int64": ("q", 8),
    "boolean": ("?", 1),
    "double": ("d", 8),
    "uint8": ("B", 1),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "sequence<double>": ("d", 8),
    "sequence<uint8>": ("B", 1),
    "sequence<uint64>": ("Q", 8),
    "sequence<boolean>": ("?", 1),
}
_ENCAPSULATION = 4


_PER_TENDON = ("displacement", "velocity", "tension", "current", "temperature", "age")


class FlatLayout:
    """Where the numbers of a message stand, as one tuple and as bytes."""

    def __init__(self, message: Any) -> None:
        self._type, self._message = type(message), copy_of(message)
        self.place: dict[str, Any] = {}
        self._format, self._size, self._count = "<I", _ENCAPSULATION, 1
        self._fixed = [0]
        for name, kind in message.get_fields_and_field_types().items():
            self._add(name, kind, getattr(message, name))
        self._struct = struct.Struct(self._format)
        self._values = list(self._struct.unpack_from(serialize_message(message)))
        self._shape: Callable[[Any], tuple[Any, ...]] = itemgetter(*self._fixed)
        self._expected = self._shape(self._values)

    def _add(self, name: str, kind: str, value: Any) -> None:
        if kind == _HEADER:
            self.place["sec"], self.place["nanosec"] = self._put("i", 4), self._put("I", 4)
            self._add_text(value.frame_id)
            return
        if kind == "string":
            self._add_text(value)
            return
        if kind == "sequence<string>":
            self._fixed.append(self._put("I", 4))
            for text in value:
                self._add_text(text)
            return
        if "/" in kind and "[" not in kind and "<" not in kind:
            for inner, inner_kind in value.get_fields_and_field_types().items():
                self._add(f"{name}.{inner}", inner_kind, getattr(value, inner))
            return
        one, _, rest = kind.partition("[")
        code, size = _SIZES[one]
        if not rest and not kind.startswith("sequence"):
            self.place[name] = self._put(code, size)
            return
        if not rest:  # an array of a fixed length does not say how long it is
            self._fixed.append(self._put("I", 4))
        first = self._count
        for _ in range(len(value)):
            self._put(code, size)
        self.place[name] = slice(first, self._count)

    def _add_text(self, text: str) -> None:
        length = len(text.encode()) + 1
        self._fixed.append(self._put("I", 4))
        self._fixed.append(self._put(f"{length}s", length, 1))

    def _put(self, code: str, size: int, alignment: int | None = None) -> int:
        """Append a number at its own alignment, counted from behind the encapsulation; its index in the tuple."""
        padding = (_ENCAPSULATION - self._size) % (alignment or size)
        self._format += "x" * padding + code
        self._size += padding + size
        self._count += 1
        return self._count - 1

    def numbers(self, data: bytes) -> tuple[Any, ...]:
        """The tuple of numbers of received bytes; empty where their layout is another one."""
        # The middleware may add bytes behind; that nothing else stands there follows from the lengths, all compared.
        if len(data) < self._size:
            return ()
        values = self._struct.unpack_from(data)
        return values if self._shape(values) == self._expected else ()

    def message(self, data: bytes) -> Any:
        """Bytes of whatever layout as a message object."""
        message = conversions.message_of(data, self._type)
        if message is None:
            raise ParameterError("message", f"{len(data)} bytes", f"a serialised {self._type.__name__}")
        return message

    def filled(self, values: Sequence[Any]) -> Any:
        """The numbers of a message, as of :meth:`numbers`, as a message object of its own."""
        made = copy_of(self._message)
        for at, (owner_of, slot, make) in self._slots.items():
            setattr(owner_of(made), slot, make(values[self.place[at]]))
        return made

    @cached_property
    def _slots(self) -> dict[str, tuple[Callable[[Any], Any], str, Callable[[Any], Any]]]:
        """Where each place's numbers go: the message that has the slot, the slot, and what makes its value of them."""
        slots: dict[str, tuple[Callable[[Any], Any], str, Callable[[Any], Any]]] = {}
        for name in self.place:
            path = {"sec": "header.stamp.sec", "nanosec": "header.stamp.nanosec"}.get(name, name)
            owner, _, field = path.rpartition(".")
            owner_of: Callable[[Any], Any] = attrgetter(owner) if owner else _itself
            value = getattr(owner_of(self._message), field)
            make: Callable[[Any], Any] = _itself
            if isinstance(value, array.array):
                make = functools.partial(array.array, value.typecode)
            elif isinstance(value, np.ndarray):
                make = functools.partial(np.array, dtype=value.dtype)
            elif isinstance(value, list):
                make = list
            slots[name] = owner_of, f"_{field}", make
        return slots

    def editable(self) -> list[Any]:
        """The numbers of the message that the layout was made of, to be changed at their places."""
        return list(self._values)

    def to_bytes(self, values: Sequence[Any]) -> bytes:
        """Bytes that a publisher takes instead of a message object."""
        return self._struct.pack(*values)


def _itself(value: Any) -> Any:
    return value


def copy_of(message: Any) -> Any:
    """A message whose arrays and inner messages are its own; what nobody can change is shared."""
    kind: Any = type(message)
    return _copier(kind)(message)


@functools.cache
def _copier(kind: Any) -> Callable[[Any], Any]:
    """The function that copies messages of a type: written out slot by slot, a third of a loop's time."""
    names = {"new": object.__new__, "copy_of": copy_of}
    lines = ["def copy(message):", *_copied(kind(), "message", "made", names), "    return made"]
    exec("\n".join(lines), names)  # nothing of it is given from outside
    copy: Callable[[Any], Any] = names["copy"]
    return copy


def _copied(of: Any, source: str, made: str, names: dict[str, Any]) -> list[str]:
    """Lines that make a copy of the message ``source`` of the type of ``of``; what they use is put into ``names``."""
    kind = names[f"kind_of_{made}"] = type(of)
    types = {f"_{name}": one for name, one in kind.get_fields_and_field_types().items()}
    lines = [f"    {made} = new(kind_of_{made})"]
    for slot in kind.__slots__:
        value, field = f"{source}.{slot}", types.get(slot, "")
        if "[" in field or "<" in field:
            shallow = f"{value}[:]" if field.startswith("sequence<") else f"{value}.copy()"
            value = f"[copy_of(one) for one in {value}]" if "/" in field else shallow
        elif "/" in field:
            inner = f"{made}{slot}"
            lines += [f"    {inner}_source = {value}", *_copied(getattr(of, slot), f"{inner}_source", inner, names)]
            value = inner
        lines.append(f"    {made}.{slot} = {value}")
    return lines


class CanonicalBytes:
    """Serialises messages of one type to bytes that depend on their values only.

    The middleware leaves the gaps of alignment as it finds them in memory, and some transports fill the last four
    bytes; here all of these are 0.
    """

    def __init__(self) -> None:
        self._layout: FlatLayout | None = None

    def of(self, message: Any) -> bytes:
        """The bytes."""
        if isinstance(message, bytes):
            data = message
        else:
            found = serialize_message(message)
            layout = self._layout
            numbers = layout.numbers(found) if layout is not None else ()
            if layout is None or not numbers:
                layout = self._layout = FlatLayout(message)
                numbers = layout.numbers(found)
            data = layout.to_bytes(numbers)
        return data + bytes(-len(data) % 4)

    def message(self, data: bytes, kind: Any) -> Any:
        """The message of received bytes, past rclpy where they have the layout of those before; None of no message."""
        layout = self._layout
        numbers = layout.numbers(data) if layout is not None else ()
        if layout is not None and numbers:
            return layout.filled(numbers)
        message = conversions.message_of(data, kind)
        if message is not None:
            self._layout = FlatLayout(message)
        return message


def states_layout(tendon_count: int, *, displacements: bool = False) -> FlatLayout:
    """The layout of TendonStates; all numbers of the tendons are NaN in it."""
    message = TendonStates()
    for field in (*_PER_TENDON, conversions.commanded_field(displacements=displacements)):
        conversions.preallocate(message, field, tendon_count)
    conversions.preallocate_bytes(message, "limited", tendon_count)
    return FlatLayout(message)


def commands_layout(tendon_count: int, *, displacements: bool = False, writer: str = "") -> FlatLayout:
    """The layout of TendonCommands."""
    message = TendonCommands(writer=writer)
    conversions.preallocate(message, conversions.command_field(displacements=displacements), tendon_count)
    return FlatLayout(message)
