# SPDX-License-Identifier: Apache-2.0
"""Splits long straight-line C functions into short ones, which compilers can take.

What gcc spends on a function at -O1 grows faster than the function: a flat expression of 45,000 operations takes it
8 s, and 140,000 minutes. In parts of a few hundred operations the time grows with the length alone (3 s and 8 s), and
the code is no slower. Each part keeps its own variables; those that later parts read go through one array.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PARAMETERS = "const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem"
_HEADER = re.compile(r"static int (\w+)\(" + re.escape(_PARAMETERS) + r"\) \{")
_ASSIGNED = re.compile(r"  (a\d+) ?=")
_STATEMENT = re.compile(r"  (a\d+ ?=|w\[|if \(|arg\[|res\[)")
_VARIABLE = re.compile(r"\ba\d+\b")
_DECLARED = re.compile(r"  (casadi_real|casadi_wide) a")
_END = "  return 0;"


@dataclass
class _Part:
    """Some statements; ``reads`` are the variables that come from earlier parts, ``stored`` those that later ones read.

    ``last`` is the index of the statement that assigns a variable for the last time.
    """

    lines: list[str]
    reads: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for index, line in enumerate(self.lines):
            target, used = _split(line)
            self.reads.update(name for name in used if name not in self.last)
            if target:
                self.last[target] = index

    def code(self, name: str, place: dict[str, int], kind: str) -> list[str]:
        """As a function; ``place`` of a variable, of a ``kind``, in the array that the parts share."""
        declared = sorted({*self.reads, *self.last})
        text = [f"static int {name}({_PARAMETERS}, {kind}* kept) {{"]
        if declared:
            text.append(f"  {kind} {', '.join(declared)};")
        waiting = set(self.reads)
        for index, line in enumerate(self.lines):
            target, used = _split(line)
            # As late and as early as can be, so that no register holds a value that nobody wants yet.
            for variable in used:
                if variable in waiting:
                    waiting.discard(variable)
                    text.append(f"  {variable} = kept[{place[variable]}];")
            text.append(line)
            if target in self.stored and self.last[target] == index:
                text.append(f"  kept[{place[target]}] = {target};")
        return [*text, _END, "}"]


def split_functions(source: str, statements: int = 250) -> str:
    """C code by CasADi with its long straight-line functions in parts; it computes the same to the last bit.

    Parameters
    ----------
    source : of ``casadi.CodeGenerator``
    statements : of a part

    Returns
    -------
    the source; functions that hold anything but a list of assignments and calls stay as they are
    """
    lines, text, index = source.split("\n"), list[str](), 0
    while index < len(lines):
        header = _HEADER.fullmatch(lines[index])
        if header is None:
            text.append(lines[index])
            index += 1
            continue
        end = lines.index("}", index)
        text += _split_function(header.group(1), lines[index : end + 1], statements)
        index = end + 1
    return "\n".join(text)


def _split_function(name: str, lines: list[str], statements: int) -> list[str]:
    first = 1
    kind = "casadi_real"
    while declared := _DECLARED.match(lines[first]):
        first, kind = first + 1, declared[1]
    body = lines[first:-2]
    flat = lines[-2] == _END and all(_STATEMENT.match(line) for line in body)
    if first == 1 or not flat or len(body) < 2 * statements:
        return lines
    parts = [_Part(body[k : k + statements]) for k in range(0, len(body), statements)]
    desired: set[str] = set()
    for part in reversed(parts):
        part.stored = desired & part.last.keys()
        desired = (desired - part.last.keys()) | part.reads
    place = {variable: k for k, variable in enumerate(sorted(set().union(*(part.stored for part in parts))))}
    text: list[str] = []
    for k, part in enumerate(parts):
        text += part.code(f"{name}_part{k}", place, kind)
    calls = [f"  if ({name}_part{k}(arg, res, iw, w, mem, kept)) return 1;" for k in range(len(parts))]
    return [*text, lines[0], f"  {kind} kept[{max(len(place), 1)}];", *calls, _END, "}"]


def _split(line: str) -> tuple[str, list[str]]:
    """The variable that a statement assigns ("" for none), and those that it reads."""
    names, assigned = _VARIABLE.findall(line), _ASSIGNED.match(line)
    return (names[0], names[1:]) if assigned else ("", names)
