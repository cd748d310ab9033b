# SPDX-License-Identifier: Apache-2.0
"""A stack in lock-step on its trajectory, which something touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from continuum_robot.msg import Contact, Shape
from ros_probe import SIMULATED_STEP_S, Probe

from continuum_robot.nodes.composition import ComposedStack
from continuum_robot.nodes.stack.options import StackOptions


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
    settings: dict[str, Any] = {"contact": True, "start_motion": True, **options}
    stack_options = StackOptions(
        robot=robot,
        visualize=False,
        clock="lockstep",
        seed=1,
        run_s=SIMULATED_STEP_S,
        parameters={"simulator": {"contacts": str(file)}, **(parameters or {})},
        **settings,
    )
    with ComposedStack(stack_options) as stack, Probe(stack=stack) as probe:
        probe.listen_to_stack()
        probe.listen(Contact, "contact")
        probe.listen(Contact, "simulated_contact")
        probe.listen(Shape, "shape")
        stack.wait_until_up(120.0)
        yield stack, probe
