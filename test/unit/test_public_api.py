# SPDX-License-Identifier: Apache-2.0
"""Every public symbol reports what it is, with shapes, units, frames, errors and source: a walk over the syntax trees.

What has to be documented of an argument can stand in the entry ``name : ...`` of its own docstring, of its class or
module, of the same method of a base class, or in prose as a word. Names that mean the same everywhere are defined once,
in the docstring of the package; an argument that is named after its class (``reading: TendonReading``) is described
there.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "continuum_robot"
FILES = sorted(PACKAGE.rglob("*.py"))
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Names")

Function = ast.FunctionDef | ast.AsyncFunctionDef

ARRAY = re.compile(r"\b(Vector|Array|ArrayLike|NDArray|Matrix|Mask|Flags|Faces|ndarray)\b")
SHAPE = re.compile(r"\([^()]*\)|\b(scalar|shape|number|matrix|\d x \d)\b")
SHAPE_OF_ALL = re.compile(r"of shape|shape \(|\) each")
NUMBER = re.compile(r"\bfloat\b|\bArrayLike\b|\bVector\b|\bArray\b")
UNIT = re.compile(
    r"(?<![\w])(1|m|mm|um|rad|degrees?|s|ms|ns|N|kg|Hz|A|V|W|J|Pa|rev|turns|seconds|metres|bytes?|bits|percent|units?"
    r"|pixels|dimensionless|fractions?|ratio|factor|weights?|numbers?|count|index|probability|likelihoods?|NaN"
    r"|covariances?|inverse|Jacobians?|derivatives?|directions?|coefficients|matrix|which|rows|samples?)(?![\w])"
)
SUFFIX = re.compile(
    r"(?:^|_)(m|mm|um|s|ms|us|ns|n|nm|nms|rad|deg|hz|a|v|w|k|c|pa|j|kg|g|bps|rev|krpm|percent|fraction|ratio|count|index"
    r"|sigma|per_\w+|nm2|kg_m2)$"
)
# Rotations, and what has its units by convention: poses in m, twists in m and rad, wrenches in N and N.m.
KINDS = {"pose", "rotation", "twist", "wrench", "quaternion", "vector", "matrix", "frames", "tip", "position"}
REFERENCE = re.compile(r"\b(as in|as for|as of|as there|as above|as given|see|of :\w+:|as :\w+:)")
# A docstring that refers a reader to another one for all of its arguments.
ELSEWHERE = re.compile(r"([Ss]ee|[Aa]rguments[\w, ]* (as|of|for)) :(class|func|meth):")
# Folders whose formulas come from somewhere, and what counts as a source: a paper with its place, or a method's name.
WITH_SOURCES = ("rod", "control", "estimation", "mechanisms", "geometry")
SOURCE = re.compile(
    r"\b(muhmann|johnston|rucker|wang|ha)\b[^\n]{0,40}?(\(\d|\d|section|fig|table|eq|figure)"
    r"|\b(Magnus|Newton|Kalman|Dormand|Gauss|Legendre|Chebyshev|Levenberg|Lagrang\w+|Riccati|Christoffel|Prandtl"
    r"|ros2_control|Bayes|Krawczyk|interval arithmetic|Rodrigues|Lie|sdirk|singular values|capstan law"
    r"|Lynch and Park|Webster and Jones|[Dd]erived here|damped least squares|SE\(2\)|SE\(3\)|SO\(3\))"
)
# Modules without a formula of anybody's: they build, draw, compile or measure what others compute.
WITHOUT_FORMULAS = {
    "app/bench/rod_dynamics.py",
    "rod/code/batches.py",
    "rod/code/generated_call.py",
    "rod/code/generation.py",
    "rod/code/library.py",
    "rod/code/splitting.py",
    "rod/code/widening.py",
    "rod/loads.py",
    "rod/code/shared.py",
    "app/bench/rod_statics.py",
    "rod/strain/dynamics.py",
    "rod/friction/resistance.py",
    "app/bench/rod_motion.py",
    "control/cogging.py",
    "control/joint_trajectory.py",
    "estimation/contact/cycle.py",
    "estimation/contact/own_observer.py",
    "control/limits.py",
    "control/tendon_use.py",
    "estimation/contact/states.py",
    "estimation/contact/floor_learning.py",
    "estimation/robot_shape.py",
    "estimation/screw_deviation.py",
    "estimation/sensor_errors.py",
    "estimation/shape_check.py",
    "mechanisms/equilibrium_modulation/building.py",
    "mechanisms/equilibrium_modulation/drawing.py",
    "mechanisms/rolling_joint/benchmark.py",
    "mechanisms/rolling_joint/building.py",
    "mechanisms/rolling_joint/drawing.py",
    "mechanisms/rolling_joint/problems.py",
}


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring taken apart."""

    text: str
    entries: dict[str, str] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)


def parsed(text: str | None) -> Docstring:
    """The prose ("" as section), every section's text, and every entry ``a, b : ...`` of them."""
    lines = (text or "").splitlines()
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for index, line in enumerate(lines):
        below = lines[index + 1].strip() if index + 1 < len(lines) else ""
        if line.strip() in SECTIONS and re.fullmatch("-{3,}", below):
            current = line.strip()
            sections[current] = []
        elif not re.fullmatch("-{3,}", line.strip()):
            sections[current].append(line)
    entries: dict[str, str] = {}
    for part, content in sections.items():
        names: list[str] = []
        for line in content:
            match = re.match(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)\s*:(?:\s|$)(.*)", line)
            if match and part not in ("", "Raises"):
                names = [name.lstrip("*") for name in match[1].split(", ")]
                entries.update({name: f"{entries.get(name, '')} {match[2]}" for name in names})
            elif names and line.strip():
                entries.update({name: f"{entries[name]} {line.strip()}" for name in names})
    return Docstring(text or "", entries, {part: " ".join(content) for part, content in sections.items()})


def docstring(node: ast.AST) -> Docstring:
    return parsed(ast.get_docstring(node))  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


@lru_cache(maxsize=1)
def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@lru_cache(maxsize=1)
def everywhere() -> dict[str, str]:
    """Names that mean the same everywhere, with what they mean."""
    return docstring(trees()[PACKAGE / "__init__.py"]).entries


def public(
    body: list[ast.stmt], prefix: str = ""
) -> Iterator[tuple[str, Function | ast.ClassDef, ast.ClassDef | None]]:
    """Name, node and class of everything public in a module, methods and classes in classes too."""
    for node in body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            owner = classes().get(prefix.rstrip(".").rsplit(".", maxsplit=1)[-1]) if prefix else None
            yield prefix + node.name, node, owner
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, node, None
            yield from public(node.body, f"{prefix}{node.name}.")


def bases(owner: ast.ClassDef, seen: tuple[str, ...] = ()) -> Iterator[ast.ClassDef]:
    """Base classes of the package, the nearest first."""
    for base in owner.bases:
        name = ast.unparse(base).split("[")[0].rsplit(".", maxsplit=1)[-1]
        if name in classes() and name not in seen:
            yield classes()[name]
            yield from bases(classes()[name], (*seen, name))


def method(owner: ast.ClassDef, name: str) -> Function | None:
    return next((node for node in owner.body if isinstance(node, Function) and node.name == name), None)


def named_after_class(name: str, annotation: str) -> bool:
    for word in re.findall(r"[A-Z]\w*", annotation):
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
        last = snake.rsplit("_", maxsplit=1)[-1]
        if not ARRAY.fullmatch(word) and (snake == name or name.rsplit("_", maxsplit=1)[-1] in (last, last + "s")):
            return True
    return False


def problems_of_value(name: str, annotation: str, own: Docstring, entries: dict[str, str]) -> Iterator[str]:
    """What is not said of an argument or field."""
    text = entries.get(name)
    if text is None:
        if name in everywhere() or named_after_class(name, annotation):
            return
        if not re.search(rf"\b{re.escape(name)}\b", own.text):
            yield f"{name} is not named"
            return
        text = own.text
    if REFERENCE.search(text) or "Callable" in annotation:
        return
    head = own.sections.get("", "")
    if ARRAY.search(annotation) and name not in everywhere() and not (SHAPE.search(text) or SHAPE_OF_ALL.search(head)):
        yield f"{name} has no shape"
    exempt = name in everywhere() or name.rsplit("_", maxsplit=1)[-1] in KINDS or bool(SUFFIX.search(name))
    if NUMBER.search(annotation) and not exempt and not UNIT.search(text) and not UNIT.search(head):
        yield f"{name} has no unit"


def every_argument(node: Function) -> Iterator[tuple[str, str]]:
    """Name and annotation of all arguments."""
    given = node.args
    for argument in [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]:
        if argument is not None:
            yield argument.arg, ast.unparse(argument.annotation) if argument.annotation else ""


def of_command_line(annotation: str) -> bool:
    """Whether an argument stands on the command line, where typer shows what it is."""
    return "help=" in annotation or annotation.endswith(("Option", "Argument"))


def arguments(node: Function) -> Iterator[tuple[str, str]]:
    """Name and annotation of the arguments that a caller gives."""
    for name, annotation in every_argument(node):
        if name not in ("self", "cls") and not name.startswith("_") and not of_command_line(annotation):
            yield name, annotation


def raised(node: Function) -> set[str]:
    """Errors that a function itself raises by name."""
    found = (n.exc for n in ast.walk(node) if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call))
    names = {ast.unparse(call.func).rsplit(".", maxsplit=1)[-1] for call in found}
    return {name for name in names if name.endswith("Error")}


def problems_of_function(node: Function, owner: ast.ClassDef | None, module: Docstring) -> Iterator[str]:
    own = docstring(node)
    if ELSEWHERE.search(own.sections[""]):
        return
    inherited = [found for base in bases(owner) if (found := method(base, node.name))] if owner else []
    every = [docstring(part) for part in [*([owner] if owner else []), *inherited]]
    entries = {**module.entries, **{k: v for part in every for k, v in part.entries.items()}, **own.entries}
    whole = Docstring("\n".join([own.text, *(docstring(part).text for part in inherited)]), entries, own.sections)
    for name, annotation in arguments(node):
        yield from problems_of_value(name, annotation, whole, entries)
    returns = ast.unparse(node.returns) if node.returns else ""
    said = " ".join(
        [*(own.sections.get(part, "") for part in ("", "Returns")), *(docstring(i).text for i in inherited)]
    )
    if ARRAY.search(returns) and not (SHAPE.search(said) or REFERENCE.search(said)):
        yield "the result has no shape"
    # A command's docstring is its manual; its errors become exit codes.
    is_command = any(of_command_line(annotation) for _, annotation in every_argument(node))
    for error in sorted(raised(node) if not is_command else ()):
        if error not in whole.text and not any(error in part.text for part in every):
            yield f"{error} is not named"


def problems_of_class(node: ast.ClassDef, module: Docstring) -> Iterator[str]:
    own = docstring(node)
    init = method(node, "__init__")
    entries = {**module.entries, **{k: v for base in bases(node) for k, v in docstring(base).entries.items()}}
    entries.update(own.entries)
    if init is not None:
        text = own.text + (ast.get_docstring(init) or "")
        for name, annotation in arguments(init):
            yield from problems_of_value(name, annotation, Docstring(text, entries, own.sections), entries)
        yield from (f"{error} is not named" for error in sorted(raised(init)) if error not in text)
    generated = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    if generated or any(ast.unparse(base) == "NamedTuple" for base in node.bases):
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                name, annotation = part.target.id, ast.unparse(part.annotation)
                described = part.value is not None and ast.unparse(part.value).startswith("quantity(")
                if not (name.startswith("_") or described or "ClassVar" in annotation):
                    yield from problems_of_value(name, annotation, own, entries)


def problems(file: Path) -> list[str]:
    """What a module leaves unsaid, as ``symbol: what``."""
    tree = trees()[file]
    module = docstring(tree)
    found = [] if module.text else ["no docstring of the module"]
    for name, node, owner in public(tree.body):
        if not ast.get_docstring(node):
            found.append(f"{name}: no docstring")
        elif isinstance(node, ast.ClassDef):
            found += [f"{name}: {problem}" for problem in problems_of_class(node, module)]
        else:
            found += [f"{name}: {problem}" for problem in problems_of_function(node, owner, module)]
    return found


@pytest.mark.parametrize("folder", sorted({file.relative_to(PACKAGE).parts[0] for file in FILES}))
def test_every_public_symbol_is_described(folder: str) -> None:
    files = [file for file in FILES if file.relative_to(PACKAGE).parts[0] == folder]
    found = [f"{file.relative_to(ROOT)}: {problem}" for file in files for problem in problems(file)]
    assert found == [], "\n".join(found)


def test_formulas_have_a_source() -> None:
    """Each module of the folders with formulas names a paper's equation, or the method that it follows."""
    silent = {
        str(file.relative_to(PACKAGE))
        for file in FILES
        if file.relative_to(PACKAGE).parts[0] in WITH_SOURCES
        and file.name != "__init__.py"
        and not SOURCE.search(file.read_text(encoding="utf-8"))
    }
    assert silent - WITHOUT_FORMULAS == set()
    assert {name for name in WITHOUT_FORMULAS if not (PACKAGE / name).exists()} == set()


def test_errors_that_are_named_exist() -> None:
    known = set(classes()) | set(dir(builtins))
    unknown = set()
    for file, tree in trees().items():
        for name, node, _ in public(tree.body):
            for line in (ast.get_docstring(node) or "").partition("Raises\n------\n")[2].splitlines():
                match = re.match(r"(\w+Error(?:, \w+Error)*) :", line)
                for error in match[1].split(", ") if match else ():
                    if error not in known and error not in file.read_text(encoding="utf-8").replace(line, ""):
                        unknown.add(f"{file.name} {name}: {error}")
    assert unknown == set()


SILENT = '''
"""A module."""
class Filter:
    """Smooths.

    Parameters
    ----------
    gain : of the filter
    """
    def __init__(self, gain: float) -> None:
        if gain < 0:
            raise ParameterError("gain", gain, "")
    def update(self, value: Vector, dt: float, speed: Vector) -> Vector:
        """Newest estimate for a value."""
    def plain(self): pass
'''


def test_the_walk_finds_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "silent.py"
    tree = ast.parse(SILENT)
    monkeypatch.setitem(trees(), file, tree)
    assert problems(file) == [
        "Filter: gain has no unit",
        "Filter: ParameterError is not named",
        "Filter.update: value has no shape",
        "Filter.update: value has no unit",
        "Filter.update: speed is not named",
        "Filter.update: the result has no shape",
        "Filter.plain: no docstring",
    ]
