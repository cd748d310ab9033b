# SPDX-License-Identifier: Apache-2.0
"""docs/faults: a page for each fault that has a name, with its causes and cure, and what the campaign tried of it."""

from __future__ import annotations

from faults.kinds import KINDS, Kind

from continuum_robot.drivers.named_faults import FAULT_TEXTS, FaultText
from pages.text import WRITTEN_BY, table


def pages() -> dict[str, str]:
    """Every page by its path below docs/."""
    return {f"faults/{name}.md": _page(name, texts) for name, texts in FAULT_TEXTS.items()}


def _page(name: str, texts: tuple[FaultText, ...]) -> str:
    lines = [f"# {name}", "", WRITTEN_BY, ""]
    for text in texts:
        if len(texts) > 1:
            lines += [f"## {'Of a device' if '<' in text.told_by else 'Of the driver'}: {text.meaning}", ""]
        else:
            lines += [f"{text.meaning[0].upper()}{text.meaning[1:]}.", ""]
        lines += [f"**Where it is named:** {text.told_by}", "", "**Causes**", ""]
        lines += [f"- {cause}" for cause in text.causes]
        lines += ["", f"**How it is noticed:** {text.noticed}", "", "**Cure**", ""]
        lines += [f"{number}. {step}" for number, step in enumerate(text.cure, start=1)]
        lines.append("")
    kinds = [kind for kind in KINDS if _leads_to(kind, name)]
    if kinds:
        lines += [
            "## What was tried of it",
            "",
            "`make faults` makes these happen to a simulated robot and judges what follows from it:",
            "",
            *table(
                ("fault of the campaign", "cause", "becomes", "what is seen", "cure"),
                [(f"`{kind.name}`", kind.cause, kind.becomes, kind.seen, kind.cure) for kind in kinds],
            ),
            "",
        ]
    common = "[faults](../reference/faults.md), [safety](../explanation/safety.md)"
    lines += [f"What all faults have in common, and the safe state: {common}."]
    return "\n".join(lines) + "\n"


def _leads_to(kind: Kind, name: str) -> bool:
    return f"`{name}`" in kind.seen or any(detector.endswith(f": {name}") for detector in kind.found_by)
