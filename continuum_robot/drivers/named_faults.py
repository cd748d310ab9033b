# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each named fault, on the pages of docs/ and in the browser: why, how noticed, what to do.

It stands in ``faults.yaml``, here and in a device's folder.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from continuum_robot.robot.doors import TENDON_ACTUATORS, shipped

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class FaultText:
    """A fault as its page and the browser show it."""

    name: str
    told_by: str
    meaning: str
    causes: tuple[str, ...]
    noticed: str
    cure: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """The cure in one line of plain text."""
        return _plain(" ".join(_SHORT.get(step, step) for step in self.cure))

    @property
    def plain_meaning(self) -> str:
        """The meaning without marks."""
        return _plain(self.meaning)


def _plain(text: str) -> str:
    return text.replace("`", "")


def _read(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return values


_TABLE = _read(_HERE / "faults.yaml")
_STEPS: dict[str, str] = {key: step["long"] for key, step in _TABLE["steps"].items()}
_SHORT = {step["long"]: step["short"] for step in _TABLE["steps"].values() if "short" in step}
HOME = _STEPS["home"]


def _texts(where: str, faults: dict[str, Any]) -> dict[str, FaultText]:
    return {
        name: FaultText(
            name,
            where.format(name=name),
            one["meaning"],
            tuple(one["causes"]),
            one["noticed"],
            tuple(_STEPS.get(step, step) for step in one["cure"]),
        )
        for name, one in faults.items()
    }


DRIVER_FAULTS = _texts(**_TABLE["driver"])
_STACK_FAULTS = _texts(**_TABLE["stack"])


@functools.cache
def faults_of(kind: str) -> dict[str, FaultText]:
    """The faults that motors of a kind report: those of its folder, or, without that file, those of all servos."""
    servos, file = _TABLE["servos"], _HERE / kind / "faults.yaml"
    if not file.exists():
        return _texts(**servos)
    own = _read(file)
    shared = {name: servos["faults"][name] for name in own.get("of_servos", ())}
    return _texts(own["where"], shared | own["faults"])


def device_faults() -> dict[str, dict[str, FaultText]]:
    """The faults that each kind of motors reports, by kind."""
    return {kind: faults_of(kind) for kind in shipped(TENDON_ACTUATORS)}


def _all() -> dict[str, tuple[FaultText, ...]]:
    found: dict[str, tuple[FaultText, ...]] = {name: (text,) for name, text in DRIVER_FAULTS.items()}
    for texts in device_faults().values():
        for name, text in texts.items():
            if text not in (known := found.get(name, ())):
                found[name] = (*known, text)
    return found | {name: (text,) for name, text in _STACK_FAULTS.items()}


FAULT_TEXTS: dict[str, tuple[FaultText, ...]] = _all()
"""By name: the fault as each of its tellers has it, the driver first. A name of driver and board is one page."""
