# SPDX-License-Identifier: Apache-2.0
"""Builds the ROS 2 messages of this package where ROS 2 comes from PyPI: python -m continuum_robot.messages

colcon builds them by CMakeLists.txt. Here only what Python and Fast DDS use is made: no C++ messages, no CMake. The
result is installed like a distribution ``continuum-robot-messages``, so that pip lists and removes it; its version
names what it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import io
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from pkgutil import extend_path
from typing import Any, NamedTuple

import continuum_robot
from continuum_robot.errors import ContinuumRobotError, missing_package

DISTRIBUTION = "continuum-robot-messages"
COMMAND = "python -m continuum_robot.messages"
# Not on PyPI; where ROS 2 proper is, it has the same.
_TF2_MSGS = "geometry_msgs/TransformStamped[] transforms\n"
_KINDS = ("msg", "srv", "action")
_GENERATORS = {
    "rosidl_generator_c": "GenerateC",
    "rosidl_typesupport_introspection_c": "GenerateIntrospectionCTypesupport",
    "rosidl_typesupport_fastrtps_c": "GenerateFastRTPSCTypesupport",
    "rosidl_typesupport_c": "GenerateCTypesupport",
    "rosidl_generator_py": "GeneratePython",
}
_COMPILERS = {"CC": ("cc", "gcc", "clang"), "CXX": ("c++", "g++", "clang++")}
# A message is read and written field by field by calls of Python: optimising further takes time and gives none.
_FLAGS = ("-O1", "-DNDEBUG", "-fPIC", "-w")


class MessagesError(ContinuumRobotError, RuntimeError):
    """The messages could not be built; the text says why and what to do."""


class Package(NamedTuple):
    """A package of messages: its name, and each definition by its path, such as ``msg/Shape.msg``."""

    name: str
    definitions: dict[str, str]


def packages() -> list[Package]:
    """What is to be built here."""
    checkout = Path(__file__).resolve().parents[1]
    share = checkout if (checkout / "msg").is_dir() else _prefix() / "share" / "continuum_robot"
    files = [file for kind in _KINDS for file in sorted((share / kind).glob(f"*.{kind}"))]
    own = {file.relative_to(share).as_posix(): file.read_text(encoding="utf-8") for file in files}
    if not own:
        raise MessagesError(f"the definitions of the messages are missing in {share}: install continuum-robot again")
    found = [Package("continuum_robot", own)]
    spec = importlib.util.find_spec("tf2_msgs")
    if spec is None or spec.origin is None:  # what is built here has no __init__.py
        found.append(Package("tf2_msgs", {"msg/TFMessage.msg": _TF2_MSGS}))
    return found


def check() -> None:
    """Raise :class:`MessagesError` where the messages are of other definitions. Those of colcon are not looked at."""
    installed = _installed()
    if installed is not None and installed != _version(packages()):
        raise MessagesError(f"the ROS 2 messages were built by another version of continuum_robot. Run: {COMMAND}")


def build(say: Callable[[str], object]) -> None:
    """Build the messages and install them in this environment; nothing where they are there."""
    if importlib.util.find_spec("rclpy") is None:
        raise missing_package(ModuleNotFoundError(name="rclpy"))
    wanted = packages()
    version = _version(wanted)
    if _installed() == version:
        return
    remove()
    say("Building the ROS 2 messages (once, about half a minute) ...")
    with tempfile.TemporaryDirectory(prefix="continuum_robot_") as folder, _generators():
        stage = Path(folder, "stage")
        try:
            for package in wanted:
                _build(package, Path(folder, package.name), stage)
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        _install(stage, version, [package.name for package in wanted])
    importlib.invalidate_caches()
    continuum_robot.__path__ = extend_path(continuum_robot.__path__, "continuum_robot")


def _prefix() -> Path:
    """The environment, as ROS 2 sees it."""
    return Path(sysconfig.get_path("data"))


def _site_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


_INSIDE = _site_packages().relative_to(_prefix())


def _installed() -> str | None:
    """Version of what an earlier call installed in this environment."""
    found = next(iter(importlib.metadata.distributions(name=DISTRIBUTION, path=[str(_site_packages())])), None)
    return None if found is None else found.version


def _version(wanted: list[Package]) -> str:
    """Another one where a definition, the way of building, or the ROS 2 that is built against differs."""
    made_of = [repr(wanted), Path(__file__).read_text(encoding="utf-8")]
    for name in ("ros-rclpy", "ros-rosidl-runtime-c", "ros-std-msgs"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            made_of.append(importlib.metadata.version(name))
    return f"0+{hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]}"


def _build(package: Package, work: Path, stage: Path) -> None:
    """Write and compile a package's code in ``work``, and lay what is to be installed into ``stage``."""
    source = work / package.name
    for path, text in package.definitions.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text, encoding="utf-8")
    idl, hashes = _described(package.name, [f"{source}:{path}" for path in package.definitions], source)
    described = [*package.definitions, *(one.partition(":")[2] for one in idl)]
    for path in described:
        target = stage / "share" / package.name / path
        if not (_prefix() / target.relative_to(stage)).exists():  # a wheel brings the definitions themselves
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / path, target)
    index = stage / "share" / "ament_index" / "resource_index"
    for kind, lines in (("packages", []), ("rosidl_interfaces", sorted(described))):
        (index / kind).mkdir(parents=True, exist_ok=True)
        (index / kind / package.name).write_text("\n".join(lines), encoding="utf-8")

    jobs = os.cpu_count() or 1
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as processes:
        made = {name: processes.submit(_generate, name, package.name, idl, hashes, work) for name in _GENERATORS}
        for one in made.values():
            one.result()
    with ThreadPoolExecutor(jobs) as threads:
        compiled = {name: threads.submit(_compile, name, package.name, work) for name in _GENERATORS}
        objects = {name: one.result() for name, one in compiled.items()}
    _link(package.name, objects, stage)
    modules = work / "rosidl_generator_py" / package.name
    for file in modules.rglob("*.py"):
        target = stage / _INSIDE / package.name / file.relative_to(modules)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


@contextlib.contextmanager
def _generators() -> Iterator[None]:
    """Have them find their templates, and read a definition once: seven times take longer than all else they do."""
    parser = importlib.import_module("rosidl_parser.parser")
    parse, parsed = parser.parse_idl_file, {}

    def parse_once(locator: Any) -> Any:
        path = locator.get_absolute_path()
        if path not in parsed:
            parsed[path] = parse(locator)
        return parsed[path]

    before = os.environ.get("AMENT_PREFIX_PATH")
    os.environ["AMENT_PREFIX_PATH"] = os.pathsep.join(filter(None, (str(_prefix()), before)))
    parser.parse_idl_file = parse_once
    try:
        yield
    finally:
        parser.parse_idl_file = parse
        if before is None:
            del os.environ["AMENT_PREFIX_PATH"]
        else:
            os.environ["AMENT_PREFIX_PATH"] = before


def _described(name: str, files: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """The definitions in IDL, and the files with their hashes."""
    from rosidl_adapter.cli import TranslateActionToIDL, TranslateMsgToIDL, TranslateSrvToIDL  # noqa: PLC0415
    from rosidl_generator_type_description.cli import HashTypeDescription  # noqa: PLC0415

    translators = {".msg": TranslateMsgToIDL, ".srv": TranslateSrvToIDL, ".action": TranslateActionToIDL}
    idl: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()):
        for file in files:
            idl += translators[Path(file).suffix]("").translate(name, [file], [], folder)
    return idl, HashTypeDescription("").generate_type_hashes(name, idl, [str(_prefix() / "share")], folder)


def _generate(generator: str, name: str, idl: list[str], hashes: list[str], work: Path) -> None:
    module = importlib.import_module(f"{generator}.cli")
    options: dict[str, Any] = {"type_description_files": hashes} if generator == "rosidl_generator_c" else {}
    made = getattr(module, _GENERATORS[generator])("")
    made.generate(name, idl, [str(_prefix() / "share")], work / generator / name, **options)


def _compile(generator: str, name: str, work: Path) -> list[Path]:
    """The objects of what a generator wrote, most of it in one: to read the same headers again and again takes long."""
    files = sorted((work / generator / name).rglob("*.c*"))
    alone = [file for file in files if file.name.endswith("__description.c") or ".ep." in file.name]
    together = work / generator / f"together{files[0].suffix}"
    together.write_text("".join(f'#include "{file}"\n' for file in files if file not in alone), encoding="utf-8")
    include = _prefix() / "include"
    folders = [*(work / one for one in _GENERATORS), include, *include.iterdir(), Path(sysconfig.get_path("include"))]
    if generator == "rosidl_generator_py":
        folders.append(Path(importlib.import_module("numpy").get_include()))
    compiler = "CXX" if together.suffix == ".cpp" else "CC"
    _call(compiler, "-c", together, *alone, *(f"-I{folder}" for folder in folders), folder=work / generator)
    return sorted((work / generator).glob("*.o"))


def _link(name: str, objects: dict[str, list[Path]], stage: Path) -> None:
    """The libraries by the names by which ROS 2 looks for them, and an extension module for each type support."""
    theirs = [file for file in (_prefix() / "lib").glob("lib*.so") if not file.name.startswith(f"lib{name}__")]
    libraries: list[Path] = []

    def link(target: Path, *files: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        options = ["-shared", "-Wl,--as-needed", f"-Wl,-soname,{target.name}", "-o"]
        _call("CXX", *options, target, *files, *libraries, *theirs, folder=stage)

    for generator, files in objects.items():
        library = stage / "lib" / f"lib{name}__{generator}.so"
        link(library, *(file for file in files if ".ep." not in file.name))
        libraries.append(library)
    for file in objects["rosidl_generator_py"]:
        if ".ep." in file.name:
            support = file.name.split(".")[-2]
            link(stage / _INSIDE / name / f"{name}_s__{support}.so", file)


def _call(variable: str, *arguments: Path | str, folder: Path) -> None:
    """Call the compiler that a variable of the environment names, or the first that is there."""
    found = next(filter(shutil.which, _COMPILERS[variable]), _COMPILERS[variable][0])
    command = [*shlex.split(os.environ.get(variable, found)), *_FLAGS, *map(str, arguments)]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MessagesError(
            f"the ROS 2 messages are built once on each computer, and this one has no C++ compiler ({error.filename})."
            f" Install one (apt install g++), then run: {COMMAND}"
        ) from None
    if done.returncode:
        raise MessagesError(f"the ROS 2 messages could not be built: {command[0]} failed: {done.stderr.strip()[:2000]}")


def _install(stage: Path, version: str, names: list[str]) -> None:
    """Move what was built into the environment, in place of what an earlier call installed there; as pip would."""
    prefix, site = _prefix(), _site_packages()
    info = stage / _INSIDE / f"{DISTRIBUTION.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    summary = f"ROS 2 messages that continuum_robot built in this environment: {', '.join(names)}"
    metadata = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version}\nSummary: {summary}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "INSTALLER").write_text("continuum-robot\n", encoding="utf-8")
    (info / "RECORD").touch()
    files = [file.relative_to(stage) for file in sorted(stage.rglob("*")) if file.is_file()]
    lines = "".join(f"{os.path.relpath(prefix / file, site)},,\n" for file in files)
    (info / "RECORD").write_text(lines, encoding="utf-8")
    try:
        shutil.copytree(stage, prefix, dirs_exist_ok=True)
    except OSError as error:
        raise MessagesError(f"the ROS 2 messages cannot be written into {prefix}: {error}") from error


def remove() -> None:
    """Remove what an earlier call installed."""
    for distribution in importlib.metadata.distributions(name=DISTRIBUTION, path=[str(_site_packages())]):
        for file in distribution.files or []:
            Path(file.locate()).unlink(missing_ok=True)


def main() -> int:
    """Build the messages; tells what was done on standard output."""
    try:
        build(print)
    except ContinuumRobotError as error:
        print(f"continuum-robot: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
