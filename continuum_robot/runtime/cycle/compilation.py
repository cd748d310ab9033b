# SPDX-License-Identifier: Apache-2.0
"""The compiled form of the cycle: the modules of stepped code as one C file, built when the package is installed.

Where the sources changed since, or the installation had no compiler, it is built at first use and kept in the user's
cache.

The modules stand one after the other in one source, without their imports of each other, so that the C compiler sees
calls from one to the next. Floats are not contracted or reordered: both forms give the same bits.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType

import continuum_robot
from continuum_robot.errors import ContinuumRobotError
from continuum_robot.runtime.cycle.cache import cached_library

_BEFORE_DEVICES = (
    "stepped.buffers",
    "stepped.products",
    "stepped.system_calls",
    "stepped.mailbox",
    "drivers.reading_buffer",
    "control.limits",
    "drivers.safety.fault_codes",
    "drivers.safety.reading_watch",
    "drivers.safety.command_watch",
    "drivers.safety.heat_watch",
    "drivers.safety.stop_action",
    "drivers.safety.actuation_rules",
    "drivers.safety.tension_rules",
    "drivers.safety.cycle",
    "drivers.safety.tendon_safety",
    "control.pid",
    "control.tendon_forces",
    "control.cogging",
    "rod.kernel.call",
    "rod.payload",
    "rod.holding_force",
    "rod.friction.maxwell_slip",
    "rod.friction.hysteresis",
    "rod.friction.resistance",
    "control.cycle_controller",
    "control.friction_force",
    "control.clarke_controller",
    "control.inverse_dynamics",
    "control.blending",
    "drivers.tendon_currents",
    "drivers.cycle_device",
    "drivers.handed_device",
    "simulation.devices.board_step",
)
_AFTER_DEVICES = (
    "runtime.cycle.reference_input",
    "runtime.cycle.controller_cycle",
    "runtime.timing",
    "runtime.cycle.log",
    "runtime.cycle.driver_cycle",
    "runtime.cycle.loop",
    "runtime.cycle.virtual_run",
)

NAME = "continuum_robot_cycle"
SWITCH = "CONTINUUM_ROBOT_CYCLE"
"""Environment variable: ``interpreted`` keeps the compiled form from being used."""
# At 1 kHz the code is never warm: -O2 takes a tenth more time a cycle than -O1, and as much in a tight loop. Without
# NDEBUG, Python's own assertions take seconds of compiling.
_FLAGS = ["-O1", "-DNDEBUG", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off", "-fno-strict-aliasing", "-w"]
_DIRECTIVES = {
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "nonecheck": False,
    "language_level": 3,
    "auto_pickle": False,
    "binding": False,
    "emit_code_comments": False,
}
# One library for every Python from 3.11, the first whose stable interface has buffers.
_STABLE = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
_SUFFIX = f".abi3-{sysconfig.get_platform()}.so" if _STABLE else str(sysconfig.get_config_var("EXT_SUFFIX"))
if _STABLE:
    _FLAGS.append("-DPy_LIMITED_API=0x030b0000")
_STEPPED = "@cython.cfunc\n{0}@cython.nogil\n{0}@cython.exceptval(check=False)"


_DECLARATIONS = """cdef extern from *:
    void __sync_synchronize() nogil

cdef extern from "math.h":
    double rint(double) nogil

ctypedef void (*RodDynamics)(void*, void*, double*, double*, double*, void*, double*) noexcept nogil
ctypedef long (*RodPlantRun)(void*, void*, double, int, double*) noexcept nogil
"""


_ROOT = Path(__file__).resolve().parents[2]


def modules() -> tuple[str, ...]:
    """Modules of stepped code below ``continuum_robot``, each behind those that it imports."""
    return (*_BEFORE_DEVICES, *_of_devices(), *_AFTER_DEVICES)


def _of_devices() -> Iterator[str]:
    """Those in ``CYCLE_MODULES`` of each device; read and not imported, since a build has none of its libraries."""
    for file in sorted(_ROOT.glob("drivers/*/device.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CYCLE_MODULES":
                yield from (f"drivers.{file.parent.name}.{name}" for name in ast.literal_eval(node.value))


class NotCompiledError(ContinuumRobotError):
    """The compiled form cannot be had; the message says why."""


def compiled_cycle(progress: Callable[[str], None] | None = None) -> ModuleType:
    """The compiled modules as one: every class and function of :func:`modules` by its name."""
    if os.environ.get(SWITCH, "").strip().lower() == "interpreted":
        raise NotCompiledError(f"{SWITCH} is set to interpreted")
    return _loaded(progress)


@functools.cache
def _loaded(progress: Callable[[str], None] | None) -> ModuleType:
    source = amalgamated()
    name = _file_name(source)
    if (library := _installed(name)) is not None:
        with contextlib.suppress(ImportError):  # of another C library: it is built again
            return _module(str(library))

    def build(folder: Path) -> Path:
        if progress is not None:
            progress("compiling the control cycle (once) ...")
        return _compile(source, folder)

    try:
        return cached_library(name, build, _module)
    except (OSError, ImportError) as error:
        raise NotCompiledError(str(error)) from error


def _file_name(source: str) -> str:
    """Of the library of this source: another one where anything in it is different."""
    made_of = (source, *_FLAGS, str(_DIRECTIVES), _DECLARATIONS)
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:20]
    return f"{NAME}-{key}{_SUFFIX}"


def _installed(name: str) -> Path | None:
    """The library that was built with the package, whose built half may lie beside a checkout."""
    found = (Path(folder, "runtime", "cycle", name) for folder in continuum_robot.__path__)
    return next((file for file in found if file.is_file()), None)


def _module(path: str) -> ModuleType:
    loader = ExtensionFileLoader(NAME, path)
    module = importlib.util.module_from_spec(ModuleSpec(NAME, loader, origin=path))
    loader.exec_module(module)
    return module


def amalgamated() -> str:
    """The modules as one source: imports of each other taken out, ``@stepped`` spelt as Cython's own decorators."""
    names = modules()
    own = {f"continuum_robot.{name}" for name in names}
    parts = ["from __future__ import annotations"]
    for name in names:
        text = _ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and (node.module in own or node.module == "__future__"):
                for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[number] = ""
        parts.append(f"# --- continuum_robot.{name}")
        parts += [_in_cython(one) for one in lines]
    return "\n".join(parts) + "\n"


def _in_cython(line: str) -> str:
    spelt = re.sub(r"^(\s*)@stepped$", lambda found: found[1] + _STEPPED.format(found[1]), line)
    return re.sub(r"\bin indices\(", "in range(", spelt)


def _compile(source: str, folder: Path) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise NotCompiledError("there is no C compiler (looked for cc and gcc)")
    headers = sysconfig.get_paths()["include"]
    if not Path(headers, "Python.h").exists():
        raise NotCompiledError(f"the headers of Python are not installed ({headers}/Python.h)")
    try:
        from Cython.Compiler.Main import CompilationOptions  # noqa: PLC0415 - only where it has to be compiled
        from Cython.Compiler.Main import compile as to_c  # noqa: PLC0415
    except ImportError as error:
        raise NotCompiledError("Cython is not installed: pip install cython") from error
    written = Path(folder, f"{NAME}.py")
    written.write_text(source, encoding="utf-8")
    written.with_suffix(".pxd").write_text(_DECLARATIONS, encoding="utf-8")
    messages = Path(folder, "messages")
    with messages.open("w", encoding="utf-8") as stream, contextlib.redirect_stderr(stream):
        options = CompilationOptions(compiler_directives=_DIRECTIVES, language_level=3)
        made = to_c(str(written), options, full_module_name=NAME, output_file=str(written.with_suffix(".c")))
    if made.num_errors:
        raise NotCompiledError(f"Cython refuses the source:\n{messages.read_text(encoding='utf-8')}")
    library = written.with_suffix(".so")
    command = [compiler, *_FLAGS, "-I", headers, str(written.with_suffix(".c")), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotCompiledError(f"{compiler} failed: {done.stderr.strip()[-2000:]}")
    return library


def main() -> int:
    """Compile the cycle into a folder, for an installation; a line says where it cannot be had."""
    folder, source = Path(sys.argv[1]), amalgamated()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory(prefix="continuum_robot_") as work:
            shutil.copy(_compile(source, Path(work)), folder / _file_name(source))
    except NotCompiledError as error:
        print(f"the control cycle will run interpreted: {str(error).partition(chr(10))[0]}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
