# SPDX-License-Identifier: Apache-2.0
"""A stack in lock-step on its trajectory, which something touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from continuum_robot.msg import Contact, Shape
from ros_probe import Probe, lockstep_stack

from continuum_robot.nodes.composition import ComposedStack


@contextmanager
def touched_stack(
    robot: str,
    contacts: str,
    folder: Path,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Iterator[tuple[ComposedStack, Probe]]:
    """The stack, up, and a probe that hears contacts, the truth about them, and shapes."""
    file = folder / "contacts.yaml"
    file.write_text(contacts)
    given = {"simulator": {"contacts": str(file)}, **(parameters or {})}
    topics = ((Contact, "contact"), (Contact, "simulated_contact"), (Shape, "shape"))
    with lockstep_stack(robot, *topics, **{"contact": True, "start_motion": True, **options}, parameters=given) as both:
        yield both
