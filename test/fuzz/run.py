# SPDX-License-Identifier: Apache-2.0
"""Looks for inputs that break a reader, guided by coverage: python test/fuzz/run.py all --minutes 60.

Needs atheris, Google's fuzzer for Python (libFuzzer underneath, which keeps every input that reaches new code and
changes those it has): pip install 'continuum-robot[fuzz]', CPython 3.11 to 3.13 on Linux. Inputs that were found go to
runs/fuzz/TARGET, what breaks a target to runs/fuzz/TARGET/findings, one file for each place in the code; a finding
becomes a unit test and a file in test/fuzz/corpus/TARGET, which the tests replay without atheris. --merge adds to that
corpus what was found that goes another way through the code than all that is there; it needs no atheris.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_targets import CORPUS, TARGETS, load

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "continuum_robot")
LONGEST_CPU_S = 1.0
"""No input may take longer, s of processor time."""
LONGEST_BYTES = {"robot_file": 96, "cobs_frame": 300, "slcan_line": 200, "dynamixel": 256, "page_message": 256}
FRACTIONS = {"robot_file": 3, "robot_text": 2, "mcap": 3, "mcap_records": 3, "metadata_yaml": 2}
"""Of the time, 1 for all others: these take milliseconds an input."""
INSTRUMENTED = ["continuum_robot", "rosbags.rosbag2", "rosbags.highlevel", "dynamixel_sdk"]
_DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+)")


def place_of(error: BaseException) -> str:
    """The kind of an error and the innermost line of this project that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(ROOT))]
    file, line = (Path(frames[-1].filename).stem, frames[-1].lineno) if frames else ("unknown", 0)
    return f"{type(error).__name__}-{file}-{line}"


class Judge:
    """Gives a target inputs and notes what it does not bear, each place once.

    Parameters
    ----------
    target : its name
    findings : folder for inputs that break it
    """

    def __init__(self, target: str, findings: Path) -> None:
        self._function = load(target)
        self._findings = findings
        self._seen = {file.name for file in findings.glob("*")}

    def __call__(self, data: bytes) -> None:
        begin_s = time.process_time()
        try:
            self._function(data)
        except Exception as error:
            self._note(place_of(error), data, "".join(traceback.format_exception(error)))
        spent_s = time.process_time() - begin_s
        if spent_s > LONGEST_CPU_S:
            self._note("slow", data, f"{spent_s:.2f} s of processor time\n")

    def _note(self, place: str, data: bytes, text: str) -> None:
        if place not in self._seen:
            self._seen.add(place)
            self._findings.mkdir(parents=True, exist_ok=True)
            (self._findings / place).write_bytes(data)
            print(f"FOUND {place}: {data[:200]!r}\n{text}", flush=True)


def fuzz_one(target: str, work: Path, arguments: list[str]) -> None:
    """Fuzz a target in this process, which ends with it."""
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=INSTRUMENTED):
        judge = Judge(target, work / "findings")
    atheris.Setup([__file__, *arguments], judge)
    atheris.Fuzz()


def libfuzzer_arguments(target: str, work: Path, seconds: int, seed: int) -> list[str]:
    """Options of libFuzzer, and the folders: where new inputs go, then those that are only read."""
    folders = [work / "inputs", CORPUS / target]
    if target == "robot_text":
        folders.append(ROOT / "config" / "robots")
    for folder in folders[:2]:
        folder.mkdir(parents=True, exist_ok=True)
    return [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_BYTES.get(target, 8192)}",
        f"-seed={seed}",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        f"-artifact_prefix={work}/",
        *map(str, folders),
    ]


def run(targets: list[str], minutes: float, seed: int, work: Path) -> int:
    """Fuzz targets one after the other and print how far each came; 1 where something was found."""
    found = 0
    fraction_s = 60 * minutes / sum(FRACTIONS.get(target, 1) for target in targets)
    for target in targets:
        seconds = max(1, round(fraction_s * FRACTIONS.get(target, 1)))
        folder = work / target
        arguments = libfuzzer_arguments(target, folder, seconds, seed)
        log = folder / "log.txt"
        begin_s = time.monotonic()
        with log.open("wb") as stream:
            command = [sys.executable, __file__, target, "--work", str(work), "--child", *arguments]
            code = subprocess.run(command, stdout=stream, stderr=stream, check=False).returncode
        done = _DONE.search(log.read_text(encoding="utf-8", errors="replace"))
        counts = "inputs {}, coverage {} edges, {} features".format(*done.groups()) if done else f"ended with {code}"
        findings = sorted(file.name for file in (folder / "findings").glob("*"))
        findings += sorted(file.name for file in folder.glob("*-*") if file.is_file())  # of libFuzzer itself
        found += len(findings)
        print(
            f"{target}: {time.monotonic() - begin_s:.0f} s, {counts}; found: {', '.join(findings) or 'nothing'}",
            flush=True,
        )
    return int(found > 0)


def lines_reached(function: Callable[[bytes], None], data: bytes) -> set[tuple[str, int, int]]:
    """Steps from line to line of the package that an input takes: file, and both lines."""
    steps: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        file, last = frame.f_code.co_filename, frame.f_code.co_firstlineno
        if not file.startswith(PACKAGE):
            return None

        def line(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal last
            if event == "line":
                steps.add((file, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    sys.settrace(trace)
    try:
        function(data)
    except Exception as error:  # a finding, which is kept as such
        print(f"FOUND {place_of(error)}")
    finally:
        sys.settrace(None)
    return steps


def merge(target: str, work: Path) -> None:
    """Add to the corpus what was found that takes steps which nothing in it takes, the smallest first."""
    function, corpus = load(target), CORPUS / target
    reached: set[tuple[str, int, int]] = set()
    added = 0
    found = sorted((work / target / "inputs").glob("*"), key=lambda file: file.stat().st_size)
    for file in [*sorted(corpus.iterdir()), *found]:
        data = file.read_bytes()
        steps = lines_reached(function, data)
        if steps <= reached:
            continue
        reached |= steps
        if file.parent != corpus:
            (corpus / file.name[:12]).write_bytes(data)
            added += 1
    print(f"{target}: {added} inputs added, {len(reached)} steps from line to line in all", flush=True)


def main() -> int:
    """Run from the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("target", choices=["all", *TARGETS])
    options.add_argument("--minutes", type=float, default=60.0, help="in all")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--work", type=Path, default=ROOT / "runs" / "fuzz", help="folder for what is found")
    options.add_argument("--merge", action="store_true", help="add what was found to the corpus instead")
    options.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    targets = list(TARGETS) if chosen.target == "all" else [chosen.target]
    if chosen.child is not None:
        fuzz_one(chosen.target, chosen.work / chosen.target, chosen.child)
        return 0
    if chosen.merge:
        for target in targets:
            merge(target, chosen.work)
        return 0
    try:
        import atheris  # noqa: F401, PLC0415
    except ImportError:
        print(
            "atheris is not installed here. It is a fuzzer guided by coverage: pip install 'continuum-robot[fuzz]'"
            " (CPython 3.11 to 3.13, Linux). The corpus is replayed without it: pytest test/fuzz",
            file=sys.stderr,
        )
        return 2
    return run(targets, chosen.minutes, chosen.seed, chosen.work)


if __name__ == "__main__":
    sys.exit(main())
