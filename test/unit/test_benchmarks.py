# SPDX-License-Identifier: Apache-2.0
"""The scripts of benchmarks/ that need valgrind or a compiler: what can be looked at without them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from continuum_robot.drivers.odri_can import protocol
from continuum_robot.rod import Rod
from continuum_robot.rod.kernel import library as kernel

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("count_instructions",)


def loaded(path: str) -> ModuleType:
    file = ROOT / "benchmarks" / f"{path}.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_prints_its_help_and_refuses_an_unknown_name(script: str) -> None:
    helped = run(script, "--help")
    assert helped.returncode == 0
    assert "usage" in helped.stdout
    refused = run(script, "fortran")
    assert refused.returncode == 2
    assert "fortran" in refused.stderr


def test_contacts_are_counted() -> None:
    few = ("--methods", "gmo", "--seeds", "1", "--seconds", "0.1", "--pushes", "1")
    done = run("contact_rates", "vanderbilt_segment", *few)
    assert "gmo: 0 false alarms" in done.stdout, done.stderr
    assert "of 1 pushes detected" in done.stdout


def test_the_speed_of_models_is_printed() -> None:
    numbers = json.loads(run("models", "codecs", "joints").stdout)
    assert {"codec_odri_can_decode_us", "rolling_joint_5_links_median_us"} <= set(numbers)
    assert run("models", "cobol").returncode == 2


def test_without_valgrind_the_counting_script_says_how_to_get_it() -> None:
    done = run("count_instructions", PATH="")
    assert done.returncode == 1
    assert "apt-get install valgrind" in done.stderr


def test_simulated_boards_answer_over_sockets_when_the_counted_program_lets_time_pass() -> None:
    counting = loaded("count_instructions")
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(1 + counting.CHANNELS)]
    ours, theirs = [pair[0] for pair in pairs], [pair[1].detach() for pair in pairs]

    def simulate() -> None:
        try:
            counting.simulate(*ours, in_memory=False)
        finally:
            for one in ours:
                one.close()

    boards = threading.Thread(target=simulate, daemon=True)
    boards.start()
    stand = counting.Stand(theirs, in_memory=False)

    def received() -> list[set[int]]:
        found: list[set[int]] = [set() for _ in stand.sockets]
        for end, identifiers in zip(stand.sockets, found, strict=True):
            with contextlib.suppress(BlockingIOError):
                while True:
                    identifiers.add(counting._FRAME.unpack(end.recv(64))[0])
        return found

    try:
        statuses = set()
        for _ in range(1100):
            stand.sleep(0.001)
            statuses |= {number for number, found in enumerate(received()) if protocol.STATUS_ID in found}
        assert statuses == set(range(counting.CHANNELS))
        stand.idle()
        assert not any(received())
    finally:
        stand._sync.close()
        boards.join(10)
        for end in stand.sockets:
            end.close()
    assert not boards.is_alive()


def test_the_table_of_the_loop_has_median_range_and_faults(tmp_path):
    table = loaded("loop_table")
    runs = [{key: value for _, key, _, _ in table.ROWS} for value in (1.0, 3.0, 2.0)]
    runs[1]["with_client_faults"] = ["loop_too_slow"]
    del runs[2]["with_page_missed_cycles_percent"]
    for number, numbers in enumerate(runs):
        (tmp_path / f"{number}.json").write_text(json.dumps(numbers))
    done = run(
        "loop_table", "--idle", *(str(tmp_path / f"{n}.json") for n in range(3)), "--loaded", str(tmp_path / "0.json")
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2] == (
        "| missed cycles, bare loop | 2.00 % (1.00 to 3.00) | 1.00 % | `bare_loop_missed_cycles_percent` |"
    )
    assert any(line.startswith("| … and the page | 2.00 % (1.00 to 3.00) | 1.00 %") for line in lines)
    assert lines[-1] == "| faults | loop_too_slow (with client) | none | `…_faults` |"
    assert run("loop_table").returncode == 2


@pytest.mark.skipif(kernel.load(kernel.NAME) is None, reason="the kernel's library was not built")
def test_the_soft_column_falls_as_sorosims_does() -> None:
    """The end of SoRoSim's published curve; over the whole of it the two differ by 0.073 mm at most."""
    column = loaded("soft_column")
    tips = column.fall(Rod(column.column()), "sdirk", column.STEP_S)
    assert tips[0] == pytest.approx([0.0, 0.0, 0.6])
    assert tips[-1] == pytest.approx([-0.29659, 0.29659, 0.37773], abs=1e-4)
