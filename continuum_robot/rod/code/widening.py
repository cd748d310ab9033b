# SPDX-License-Identifier: Apache-2.0
"""Lets loops in generated C over columns take four columns at once, in the vectors of GCC and Clang.

A function that CasADi maps over columns is straight-line code of sums, products, quotients and roots. On vectors of
four numbers in place of numbers it does the same to each column, to the last bit. Columns that are left over, and
functions that branch or call others, stay as they are.
"""

from __future__ import annotations

import re

WIDTH = 4
"""Columns at once."""

_PARAMETERS = "const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem"
_LOOP = re.compile(
    r"  for \(i=0; i<(?P<count>\d+); \+\+i\) \{\n"
    r"    if \((?P<name>\w+)\(arg1, res1, iw, w, 0\)\) return 1;\n"
    r"(?P<steps>(?:    if \((?:arg|res)1\[\d+\]\) (?:arg|res)1\[\d+\]\+=\d+;\n)+)"
    r"  \}\n"
)
_STEP = re.compile(r"    if \(((?:arg|res)1)\[(\d+)\]\) \1\[\2\]\+=(\d+);\n")
_READ = re.compile(r"  (a\d+)=arg\[(\d+)\]\? arg\[\2\]\[(\d+)\] : 0;")
_WRITTEN = re.compile(r"  if \(res\[(\d+)\]!=0\) res\[\1\]\[(\d+)\]=(.+);")
_ASSIGNED = re.compile(r"  (a\d+)=(.+);")
_NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?")
# Sums, products, quotients, signs, squares and roots of variables and numbers.
_PLAIN = re.compile(r"(?:a\d+|[\d.]+(?:e[-+]?\d+)?|casadi_sq\(|sqrt\(|[-+*/() ])+")
_TYPES = """
#if defined(__GNUC__)
typedef double casadi_wide __attribute__((vector_size(32)));
static inline casadi_wide casadi_wide_sq(casadi_wide x) { return x*x; }
static inline casadi_wide casadi_wide_sqrt(casadi_wide x) {
  return (casadi_wide){sqrt(x[0]), sqrt(x[1]), sqrt(x[2]), sqrt(x[3])};
}
#endif
"""
_AFTER = "#include <math.h>\n"


def widen_loops(source: str) -> str:
    """C code by CasADi whose loops over columns take :data:`WIDTH` at once where they can; the same to the last bit.

    Parameters
    ----------
    source : of ``casadi.CodeGenerator``
    """
    made: dict[tuple[str, str], str] = {}

    def widened(loop: re.Match[str]) -> str:
        name, steps, count = loop["name"], loop["steps"], int(loop["count"])
        if count < WIDTH:
            return loop[0]
        strides = {(kind, int(which)): int(step) for kind, which, step in _STEP.findall(steps)}
        text = _wide_function(source, name, strides)
        if not text:
            return loop[0]
        made[name, steps] = text
        ahead = _STEP.sub(rf"    if (\1[\2]) \1[\2]+={WIDTH}*\3;\n", steps)
        several = (
            f"#if defined(__GNUC__)\n  for (i=0; i+{WIDTH}<={count}; i+={WIDTH}) {{\n"
            f"    if ({name}_wide(arg1, res1, iw, w, 0)) return 1;\n{ahead}  }}\n#else\n  i=0;\n#endif\n"
        )
        rest = loop[0].replace("for (i=0; ", "for (; ", 1)
        # Where nothing is left over, compilers need not see the function for one column.
        return several + rest if count % WIDTH else several.replace("#else\n  i=0;\n", f"#else\n{loop[0]}")

    text = _LOOP.sub(widened, source)
    for (name, _), code in made.items():
        place = text.index("\n}\n", text.index(f"static int {name}({_PARAMETERS}) {{")) + 3
        text = text[:place] + code + text[place:]
    return text.replace(_AFTER, _AFTER + _TYPES, 1) if made else text


def _wide_function(source: str, name: str, strides: dict[tuple[str, int], int]) -> str:
    """The function on vectors, "" where it does something that they cannot."""
    begin = source.index(f"static int {name}({_PARAMETERS}) {{")
    lines = source[begin : source.index("\n}\n", begin)].split("\n")
    if not lines[1].startswith("  casadi_real a") or lines[-1] != "  return 0;":
        return ""
    wide = [f"static int {name}_wide({_PARAMETERS}) {{", lines[1].replace("casadi_real", "casadi_wide", 1)]
    for line in lines[2:-1]:
        statement = _wide_statement(line, strides)
        if not statement:
            return ""
        wide.append(statement)
    return "\n".join(["#if defined(__GNUC__)", *wide, lines[-1], "}", "#endif", ""])


def _wide_statement(line: str, strides: dict[tuple[str, int], int]) -> str:
    if line.startswith("  casadi_real a"):
        return line.replace("casadi_real", "casadi_wide", 1)
    if found := _READ.fullmatch(line):
        target, which, place = found[1], int(found[2]), int(found[3])
        step = strides["arg1", which]
        values = ", ".join(f"arg[{which}][{place + k * step}]" for k in range(WIDTH))
        return f"  {target}=arg[{which}]? (casadi_wide){{{values}}} : (casadi_wide){{0}};"
    if found := _WRITTEN.fullmatch(line):
        which, place, value = int(found[1]), int(found[2]), found[3]
        if not _PLAIN.fullmatch(value):
            return ""
        step = strides["res1", which]
        stores = " ".join(f"res[{which}][{place + k * step}]=x[{k}];" for k in range(WIDTH))
        return f"  if (res[{which}]!=0) {{ casadi_wide x={_on_vectors(value)}; {stores} }}"
    if (found := _ASSIGNED.fullmatch(line)) and _PLAIN.fullmatch(found[2]):
        return f"  {found[1]}={_on_vectors(found[2])};"
    return ""


def _on_vectors(value: str) -> str:
    if _NUMBER.fullmatch(value):
        return f"(casadi_wide){{{', '.join([value] * WIDTH)}}}"
    return value.replace("casadi_sq(", "casadi_wide_sq(").replace("sqrt(", "casadi_wide_sqrt(")
