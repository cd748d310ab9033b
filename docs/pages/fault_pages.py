# SPDX-License-Identifier: Apache-2.0
"""docs/faults: a page for each fault that has a name: what it means, where it is seen, what to do."""

from __future__ import annotations

from faults.kinds import KINDS, Kind

from continuum_robot.drivers.named_faults import FAULT_TEXTS, FaultText
from pages.text import WRITTEN_BY


def pages() -> dict[str, str]:
    """Every page by its path below docs/."""
    return {f"faults/{name}.md": _page(name, texts) for name, texts in FAULT_TEXTS.items()}


def _page(name: str, texts: tuple[FaultText, ...]) -> str:
    lines = [f"# {name}", "", WRITTEN_BY, ""]
    alike: dict[str, list[FaultText]] = {}
    for text in texts:
        alike.setdefault(text.meaning, []).append(text)
    for meaning, same in alike.items():
        text, seen = same[0], " or ".join(one.told_by for one in same)
        of_device = "<" in seen
        if len(alike) > 1:
            lines += [f"## {'Of a device' if of_device else 'Of the driver'}: {meaning}", ""]
        else:
            lines += [f"{meaning[0].upper()}{meaning[1:]}.", ""]
        if of_device:
            seen = f"`/diagnostics` of tendon_driver as {seen}, with [device_fault](device_fault.md)"
        lines += [f"**Seen in:** {seen}.", ""]
        lines += [f"**Causes:** {'; '.join(text.causes)}.", "", f"**Detection:** {text.noticed}", ""]
        lines += ["**Remedy:**", "", *(f"{number}. {step}" for number, step in enumerate(text.cure, start=1)), ""]
    kinds = [f"`{kind.name}`" for kind in KINDS if _leads_to(kind, name)]
    if kinds:
        lines += [f"`make faults` provokes it in simulation: {', '.join(kinds)}.", ""]
    lines += ["More: [all faults](../reference/faults.md), [safety](../explanation/safety.md)."]
    return "\n".join(lines) + "\n"


def _leads_to(kind: Kind, name: str) -> bool:
    return f"`{name}`" in kind.seen or any(detector.endswith(f": {name}") for detector in kind.found_by)
