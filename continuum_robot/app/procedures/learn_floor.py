# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot learn-floor``: a running stack's contact monitor learns from free motion, with progress."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress

from continuum_robot.action import LearnFloor
from continuum_robot.app.client.stack_link import StackLink


def run_learn_floor(duration_s: float, namespace: str, *, only_if_missing: bool) -> int:
    """Learn, and say what."""
    console = Console()
    link = StackLink(namespace, "learn_floor_command")
    try:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("free motion", total=1.0)

            def tell(feedback: LearnFloor.Feedback) -> None:
                state = feedback.state or "waiting"
                bar.update(
                    task, completed=feedback.progress, description=f"{state}, {feedback.ratio:.2f} of the threshold"
                )

            result = link.learn_floor(duration_s, only_if_missing=only_if_missing, on_feedback=tell)
    finally:
        link.close()
    console.print(result.message, markup=False, highlight=False, soft_wrap=True)
    return 0
