# SPDX-License-Identifier: Apache-2.0
"""Compares tools that compile a control cycle from one Python source: python benchmarks/one_source.py.

The same task for each, in benchmarks/one_source/: PID with back-calculation on the two Clarke coordinates of a
segment, force shifting to five tendons, limits (not finite, absolute, total, rate), over 10^5 random cycles with NaN
and infinity among them. Tools that are not installed are left out. The numbers of docs/adr/0010 come from here.

Columns:
- loop: a cycle in a loop of the same form, µs; the median of blocks of 100
- call, p99: a cycle called from Python, with the 0.1 µs of the clock, µs; median and 99th percentile
- 1 kHz: what a loop with absolute deadlines in a thread reaches alone, and beside a thread that
  is busy with Python, Hz; the best of six half seconds, since other programs take time from both
- cold, warm: from the start of a process to its first cycle with nothing compiled, and with the cache, s
- MB: highest resident memory of that process
- bits: results of which the bits are those of the interpreted form, of all
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCES = Path(__file__).resolve().parent / "one_source"
CYCLES = 100_000
BLOCK = 100
GIVEN, MADE = 13, 15
PACED_S, PACED_TRIES = 0.5, 6
RUNS = (
    ("cython", "interpreted"),
    ("cython", "compiled"),
    ("mypyc", "interpreted"),
    ("mypyc", "compiled"),
    ("numba", "interpreted"),
    ("numba", "interpreted-records"),
    ("numba", "compiled"),
)
NEEDS = {"cython": "Cython", "mypyc": "mypy", "numba": "numba"}
INSTALLED = {"cython": ("Cython",), "mypyc": ("mypy", "mypy_extensions", "librt"), "numba": ("numba", "llvmlite")}
SETTINGS = (2e4, 1.5e5, 460.0, 1e-3, 18.0, 25.0, 3.0, 1.5, 20.0, 2000.0, 60.0)
_FLAGS = ("-O2", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off", "-fno-strict-aliasing", "-w")
_STEPPED = "{0}@cython.cfunc\n{0}@cython.nogil\n{0}@cython.exceptval(check=False)"


def matrix() -> list[float]:
    """M_P of muhmann for five tendons, row after row."""
    return [2 / 5 * turn(2 * math.pi * j / 5) for turn in (math.cos, math.sin) for j in range(5)]


def random_cycles(count: int, seed: int = 11) -> list[float]:
    """Displacements (5), velocities (5), reference (2) and time step of each cycle; one of 50 has NaN or infinity."""
    rng = random.Random(seed)
    given: list[float] = []
    for _ in range(count):
        row = [rng.uniform(-0.02, 0.02) for _ in range(5)] + [rng.uniform(-0.05, 0.05) for _ in range(5)]
        row += [rng.uniform(-0.01, 0.01) for _ in range(2)] + [rng.uniform(5e-4, 2e-3)]
        if rng.random() < 0.02:
            row[rng.randrange(12)] = rng.choice((math.nan, math.inf, -math.inf))
        given += row
    return given


# --- building


def build(tool: str, folder: Path) -> None:
    """Compile a prototype into a folder; numba does it when it is called."""
    source = SOURCES / f"with_{tool}.py"
    if tool == "mypyc":
        shutil.copy(source, folder)
        done = subprocess.run(
            [sys.executable, "-m", "mypyc", source.name], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"mypyc failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (folder / source.name).unlink()
    elif tool == "cython":
        from Cython.Compiler.Main import CompilationOptions  # noqa: PLC0415 - where it is installed
        from Cython.Compiler.Main import compile as to_c  # noqa: PLC0415

        written = folder / source.name
        text = source.read_text(encoding="utf-8")
        written.write_text(re.sub(r"^(\s*)@stepped$", lambda found: _STEPPED.format(found[1]), text, flags=re.M))
        options = {"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
        made = to_c(str(written), CompilationOptions(compiler_directives=options, language_level=3))
        if made.num_errors:
            raise SystemExit("Cython refuses the source")
        library = folder / f"with_cython{sysconfig.get_config_var('EXT_SUFFIX')}"
        headers = sysconfig.get_paths()["include"]
        subprocess.run(
            ["cc", *_FLAGS, "-I", headers, str(written.with_suffix(".c")), "-o", str(library), "-lm"], check=True
        )
        written.unlink()


# --- measuring, in a process of its own


def load(tool: str, form: str, folder: Path) -> ModuleType:
    """The prototype, interpreted from its source or compiled from a folder."""
    name = f"with_{tool}"
    path = SOURCES / f"{name}.py"
    if form == "compiled" and tool != "numba":
        path = next(folder.glob(f"{name}.*.so"))
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba looks there for what it cached
    spec.loader.exec_module(module)
    return module


def new_cycle(module: ModuleType) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What runs rows of a new cycle, and what runs it with deadlines."""
    if hasattr(module, "Cycle"):
        cycle = module.Cycle(SETTINGS, matrix())
        return cycle.run, cycle.run_paced
    state = module.make(SETTINGS, matrix())
    return (lambda *rows: module.run(state, *rows)), (lambda *rows: module.run_paced(state, *rows))


def measure(tool: str, form: str, folder: Path, begun_ns: int, cycles: int) -> dict[str, Any]:
    """All numbers of a form; the results' bits go into a file of the folder."""
    module = load(tool, form, folder)
    run, run_paced = new_cycle(module)
    few = random_cycles(1000)
    given, made = module.vector(few), module.vector([0.0] * MADE * 1000)
    run(given, made, 0, 1)
    found: dict[str, Any] = {"ready_s": (time.monotonic_ns() - begun_ns) * 1e-9}
    # Not getrusage, whose maximum is the parent's at first.
    highest = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    found["resident_mb"] = math.nan if highest is None else int(highest[1]) / 1024
    if cycles == 0:
        return found

    run_paced(given, made, 0)  # compiles what is not
    run, run_paced = new_cycle(module)
    given, made = module.vector(random_cycles(cycles)), module.vector([0.0] * MADE * cycles)
    blocks = []
    for first in range(0, cycles, BLOCK):
        begun = time.perf_counter_ns()
        run(given, made, first, first + BLOCK)
        blocks.append((time.perf_counter_ns() - begun) / BLOCK * 1e-3)
    array("d", list(made)).tofile((folder / f"{tool}-{form}").open("wb"))
    calls = []
    for row in range(cycles):
        begun = time.perf_counter_ns()
        run(given, made, row, row + 1)
        calls.append((time.perf_counter_ns() - begun) * 1e-3)
    found["loop_us"] = statistics.median(blocks)
    found["call_us"], found["call_p99_us"] = statistics.median(calls), sorted(calls)[cycles * 99 // 100]

    def paced() -> float:
        rates = [run_paced(given, made, time.monotonic_ns() + round(PACED_S * 1e9)) for _ in range(PACED_TRIES)]
        return max(rates) / PACED_S

    found["paced_hz"] = in_thread(paced)
    with busy():
        found["paced_beside_hz"] = in_thread(paced)
    return found


def in_thread(task: Callable[[], float]) -> float:
    """What a task gives that runs in a thread of its own."""
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(task()))
    thread.start()
    thread.join()
    return results[0]


@contextlib.contextmanager
def busy() -> Any:
    """A thread that does nothing but Python."""
    stop = False

    def work() -> None:
        number = 0
        while not stop:
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop = True
        thread.join()


# --- all together


def in_process(tool: str, form: str, folder: Path, cycles: int, begun_ns: int | None = None) -> dict[str, Any]:
    """Measure in a new process, whose caches are in the folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba"), "ONE_SOURCE_RECORDS": "0"}
    if tool == "numba" and form != "compiled":
        environment |= {"NUMBA_DISABLE_JIT": "1", "ONE_SOURCE_RECORDS": str(int(form.endswith("records")))}
    begun_ns = time.monotonic_ns() if begun_ns is None else begun_ns
    program = [sys.executable, __file__, "--measure", tool, form, str(folder), str(begun_ns), "--cycles", str(cycles)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tool} {form} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(tool: str, folder: Path, cycles: int) -> dict[str, dict[str, Any]]:
    """All forms of a tool."""
    rows: dict[str, dict[str, Any]] = {}
    begun_ns = time.monotonic_ns()
    if tool != "numba":
        subprocess.run([sys.executable, __file__, "--build", tool, str(folder)], check=True, stdout=subprocess.DEVNULL)
    cold = in_process(tool, "compiled", folder, 0, begun_ns)
    warm = in_process(tool, "compiled", folder, 0)
    for form in (form for name, form in RUNS if name == tool):
        rows[form] = in_process(tool, form, folder, cycles)
    rows["compiled"] |= {"cold_s": cold["ready_s"], "warm_s": warm["ready_s"], "resident_mb": warm["resident_mb"]}
    oracle = array("q")
    oracle.frombytes((folder / f"{tool}-interpreted").read_bytes())
    for form, row in rows.items():
        bits = array("q")
        bits.frombytes((folder / f"{tool}-{form}").read_bytes())
        row["same_bits"] = sum(one == other for one, other in zip(bits, oracle, strict=True))
        row["results"] = len(oracle)
    shutil.copy(folder / f"{tool}-interpreted", folder.parent / tool)
    return rows


def installed_mb(tool: str) -> float:
    """Size of the packages of a tool and of those that it brings, without NumPy, which is there anyway."""
    size = 0
    for name in INSTALLED[tool]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(name) or ():
                with contextlib.suppress(OSError):
                    size += Path(file.locate()).stat().st_size
    return size / 1e6


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="One source, interpreted and compiled: Cython, mypyc, numba")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"of {', '.join(NEEDS)}; all when left out")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="random cycles, a multiple of 100")
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--build", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.build:
        build(asked.build[0], Path(asked.build[1]))
        return
    if asked.measure:
        tool, form, folder, begun_ns = asked.measure
        print(json.dumps(measure(tool, form, Path(folder), int(begun_ns), asked.cycles)))
        return
    unknown = [tool for tool in asked.tools if tool not in NEEDS]
    if unknown or asked.cycles < BLOCK or asked.cycles % BLOCK:
        parser.error(f"unknown tool {', '.join(unknown)}" if unknown else f"--cycles is a multiple of {BLOCK}")
    found: dict[str, Any] = {"load": os.getloadavg()[0], "python": sys.version.split()[0]}
    with tempfile.TemporaryDirectory() as root:
        for tool in asked.tools or NEEDS:
            if importlib.util.find_spec({"cython": "Cython", "mypyc": "mypyc"}.get(tool, tool)) is None:
                print(f"{tool}: {NEEDS[tool]} is not installed (pip install {NEEDS[tool].lower()})")
                continue
            folder = Path(root, f"of_{tool}")
            folder.mkdir()
            found[tool] = compare(tool, folder, asked.cycles)
            version, size = importlib.metadata.version(NEEDS[tool]), installed_mb(tool)
            found[tool] |= {"version": version, "installed_mb": size}
            print(f"{NEEDS[tool]} {version}: {size:.0f} MB installed ({', '.join(INSTALLED[tool])})")
        made = [Path(root, tool).read_bytes() for tool in NEEDS if tool in found]
    print(f"the interpreted forms agree with each other: {all(one == made[0] for one in made)}")
    print_table(found)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def print_table(found: dict[str, Any]) -> None:
    """A line for each form."""
    print(
        f"{'tool':7s}{'form':21s}{'loop':>8s}{'call':>8s}{'p99':>8s}{'1 kHz':>8s}{'beside':>8s}"
        f"{'cold':>7s}{'warm':>7s}{'MB':>6s}  bits"
    )
    for tool, form in RUNS:
        if tool not in found:
            continue
        row = found[tool][form]
        print(
            f"{tool:7s}{form:21s}{row['loop_us']:8.3f}{row['call_us']:8.2f}{row['call_p99_us']:8.2f}"
            f"{row['paced_hz']:8.0f}{row['paced_beside_hz']:8.0f}"
            f"{row.get('cold_s', math.nan):7.2f}{row.get('warm_s', row['ready_s']):7.2f}{row['resident_mb']:6.0f}"
            f"  {row['same_bits']} of {row['results']}"
        )


if __name__ == "__main__":
    main()
