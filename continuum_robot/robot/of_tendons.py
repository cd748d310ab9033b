# SPDX-License-Identifier: Apache-2.0
"""What all tendons have in common, and what some have of their own: one form for actuators and for limits."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import RobotFileError
from continuum_robot.robot.schema import quantity, refuse

Kind = TypeVar("Kind", bound="OfTendons")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Base of an entry: values of some tendons, instead of the common ones."""

    tendons: tuple[int, ...] = quantity("numbers of these tendons, from 1, in tendon order", ge=1, le=640)

    @property
    def stated(self) -> dict[str, Any]:
        """The values by their keys."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "tendons"}
        return {name: value for name, value in values.items() if value is not None}


def own(kind: type[Any], key: str) -> Any:
    """A field of an entry: a value that ``kind`` states for all, with the same unit and range; None: the common one."""
    (field,) = [one for one in dataclasses.fields(kind) if one.name == key]
    return dataclasses.field(default=None, metadata=field.metadata)


class OfTendons:
    """Base of dataclasses whose values hold for every tendon but those that entries of ``tendons`` name."""

    __slots__ = ()
    tendons: tuple[Any, ...]

    def of(self: Kind, number: int) -> Kind:
        """The values of a tendon."""
        if not self.tendons:
            return self
        values: dict[str, Any] = next((entry.stated for entry in self.tendons if number in entry.tendons), {})
        return cast("Kind", dataclasses.replace(cast("Any", self), tendons=(), **values))

    def each(self, key: str, count: int) -> NDArray[np.float64]:
        """A value of every tendon, (N,)."""
        if not self.tendons:
            return np.full(count, float(getattr(self, key)))
        return np.array([getattr(self.of(number), key) for number in range(1, count + 1)], dtype=float)

    def smallest(self, key: str, count: int) -> float:
        """The smallest of :meth:`each`."""
        return float(self.each(key, count).min())

    def largest(self, key: str, count: int) -> float:
        """The largest of :meth:`each`."""
        return float(self.each(key, count).max())

    def key_of(self, key: str, number: int) -> str:
        """Where the value of a tendon stands, a dotted key within this section."""
        for index, entry in enumerate(self.tendons):
            if number in entry.tendons and key in entry.stated:
                return f"tendons[{index}].{key}"
        return key

    @property
    def common(self: Kind) -> Kind:
        """The common values alone."""
        return cast("Kind", dataclasses.replace(cast("Any", self), tendons=()))

    def lowered(self: Kind, common: Kind) -> Kind:
        """These values with other common ones: where one is lower than it was, it bounds those of single
        tendons too.
        """
        entries = []
        for entry in self.tendons:
            values: dict[str, Any] = {}
            for key, value in entry.stated.items():
                now = getattr(common, key)
                kept = min(value, now) if now != getattr(self, key) else value
                values |= {} if kept == now else {key: kept}
            entries += [type(entry)(tendons=entry.tendons, **values)] if values else []
        return cast("Kind", dataclasses.replace(cast("Any", common), tendons=tuple(entries)))

    @property
    def all_values(self: Kind) -> tuple[Kind, ...]:
        """The common values, and those of the first tendon of each entry."""
        return (self, *(self.of(entry.tendons[0]) for entry in self.tendons))

    def check_own(self) -> None:
        """Refuse entries without effect, two for one tendon, and values that do not fit the others."""
        taken: set[int] = set()
        for index, entry in enumerate(self.tendons):
            key = f"tendons[{index}]"
            if not entry.tendons or len({*taken, *entry.tendons}) < len(taken) + len(entry.tendons):
                raise refuse(f"{key}.tendons", list(entry.tendons), "at least one tendon, each in one entry and once")
            taken.update(entry.tendons)
            if not entry.stated:
                names = [one.name for one in dataclasses.fields(entry) if one.name != "tendons"]
                raise refuse(key, list(entry.tendons), f"at least one of the keys {', '.join(names)} too")
            for name, value in entry.stated.items():
                if value == getattr(self, name):
                    raise refuse(f"{key}.{name}", value, "another value than all tendons have, or none")
            try:
                self.of(entry.tendons[0])
            except RobotFileError as error:
                raise refuse(f"{key}.{error.key}", error.value, error.expected) from None

    def check_numbers(self, section: str, count: int) -> None:
        """Refuse a tendon that is not there."""
        for index, entry in enumerate(self.tendons):
            if max(entry.tendons) > count:
                expected = f"tendons of 1 to {count}"
                raise refuse(f"{section}.tendons[{index}].tendons", list(entry.tendons), expected)
