# SPDX-License-Identifier: Apache-2.0
"""Inspection of machines that never were: /proc and /sys made of files, and wake-ups made of numbers."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
from pathlib import Path

import pytest
from rich.console import Console

from continuum_robot.app.running import realtime
from continuum_robot.runtime import machine
from continuum_robot.runtime.machine import Right, Verdict
from continuum_robot.runtime.timer_jitter import busy_cores, lateness, measure_lateness

FIT, RESERVE, UNFIT = Verdict.FIT, Verdict.RESERVE, Verdict.UNFIT
CPU = "sys/devices/system/cpu"
GOOD = {
    "proc/sys/kernel/osrelease": "6.12.1-rt5\n",
    "proc/sys/kernel/version": "#1 SMP PREEMPT_RT Mon\n",
    "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
    "proc/self/timerslack_ns": "50000\n",
    "proc/cpuinfo": "model name : A\nflags : fpu tsc\n",
    "sys/kernel/realtime": "1\n",
    f"{CPU}/online": "0-3\n",
    f"{CPU}/isolated": "2-3\n",
    f"{CPU}/nohz_full": "2-3\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpuidle/current_driver": "intel_idle\n",
    f"{CPU}/cpu0/cpuidle/state1/latency": "2\n",
    f"{CPU}/cpu0/cpuidle/state1/disable": "0\n",
    f"{CPU}/cpu0/cpuidle/state4/latency": "890\n",
    f"{CPU}/cpu0/cpuidle/state4/disable": "1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
    "boot/config-6.12.1-rt5": "CONFIG_HIGH_RES_TIMERS=y\nCONFIG_HZ=1000\n",
}


def root_with(folder: Path, **changes: str) -> Path:
    """A root folder: that of a good machine with other contents in some files, by the end of their names."""
    files = dict(GOOD)
    for end, text in changes.items():
        names = [name for name in GOOD if name.rsplit("/", maxsplit=1)[-1] == end]
        assert len(names) == 1, end
        files[names[0]] = text
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_good_machine_is_fit_in_every_line(tmp_path: Path) -> None:
    findings = machine.inspect_machine(root_with(tmp_path))
    assert {finding.name: finding.verdict for finding in findings if finding.verdict is not FIT} == {}
    assert all(not finding.cure for finding in findings)
    assert machine.kernel(tmp_path).value == "6.12.1-rt5, PREEMPT_RT"
    assert machine.isolated_cores(tmp_path).value == "2, 3"
    assert machine.idle_states(tmp_path).value == "driver intel_idle, up to 2 us to wake up"


@pytest.mark.parametrize(
    ("look", "changes", "verdict", "found", "cure"),
    [
        (machine.kernel, {"realtime": "0", "version": "#1 SMP PREEMPT_DYNAMIC"}, RESERVE, "unknown", "PREEMPT_RT"),
        (machine.kernel, {"realtime": "", "version": "#1 SMP PREEMPT"}, RESERVE, "preemption full", "PREEMPT_RT"),
        (machine.tick, {"nohz_full": ""}, RESERVE, "1000 Hz", "nohz_full"),
        (machine.tick, {"config-6.12.1-rt5": "CONFIG_HZ=100\n"}, UNFIT, "no high-res", "CONFIG_HIGH_RES_TIMERS"),
        (machine.cores, {"online": "0"}, UNFIT, "1", "two cores"),
        (machine.cores, {"online": "0-1"}, RESERVE, "2", "four cores"),
        (machine.isolated_cores, {"isolated": "\n"}, RESERVE, "none", "isolcpus=3"),
        (machine.governor, {"scaling_governor": "powersave"}, RESERVE, "powersave", "cpupower"),
        (machine.clock_source, {"current_clocksource": "hpet"}, RESERVE, "hpet", "tsc"),
        (machine.virtual_machine, {"sys_vendor": "QEMU"}, RESERVE, "QEMU", "host"),
        (machine.virtual_machine, {"cpuinfo": "flags : fpu hypervisor tsc"}, RESERVE, "yes", "host"),
        (machine.timer_slack, {"timerslack_ns": "4000000"}, RESERVE, "4000 us", "rt.priority"),
    ],
)
def test_each_lack_has_its_verdict_and_its_cure(look, changes, verdict, found, cure, tmp_path: Path) -> None:
    finding = look(root_with(tmp_path, **changes))
    assert finding.verdict is verdict
    assert found in finding.value
    assert cure in finding.cure


def test_deep_idle_states_are_found(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    (root / CPU / "cpu0/cpuidle/state4/disable").write_text("0", encoding="utf-8")
    finding = machine.idle_states(root)
    assert finding.verdict is RESERVE
    assert "890 us" in finding.value


@pytest.mark.parametrize(
    ("debug", "command_line", "built", "model"),
    [
        ("none (voluntary) full lazy", "preempt=none", "", "voluntary"),
        ("", "quiet preempt=full", "CONFIG_PREEMPT_NONE=y", "full"),
        ("", "", "CONFIG_PREEMPT_NONE=y\n# CONFIG_PREEMPT is not set", "none"),
        ("", "", "CONFIG_PREEMPT_LAZY=y", "lazy"),
    ],
)
def test_the_preemption_model_is_what_runs_then_what_was_asked_then_what_was_built(
    debug: str, command_line: str, built: str, model: str, tmp_path: Path
) -> None:
    root = root_with(tmp_path, realtime="0", version="#1 SMP PREEMPT_DYNAMIC")
    (root / "boot/config-6.12.1-rt5").unlink()
    (root / "proc/config.gz").write_bytes(gzip.compress(built.encode()))
    (root / "proc/cmdline").write_text(command_line, encoding="utf-8")
    (root / "sys/kernel/debug/sched").mkdir(parents=True)
    (root / "sys/kernel/debug/sched/preempt").write_text(debug, encoding="utf-8")
    assert machine.kernel(root).value == f"6.12.1-rt5, preemption {model}"


def test_a_machine_that_reports_nothing_is_unknown_and_not_unfit(tmp_path: Path) -> None:
    findings = machine.inspect_machine(tmp_path)
    assert machine.worst(finding.verdict for finding in findings) is RESERVE
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(b"no gzip")
    assert "unknown" in machine.kernel(tmp_path).value


@pytest.mark.parametrize(
    ("text", "cpus"), [("", []), ("3\n", [3]), ("0-2,5", [0, 1, 2, 5]), ("(null)", []), ("1,4-5\n", [1, 4, 5])]
)
def test_lists_of_cores(text: str, cpus: list[int]) -> None:
    assert machine.cpu_list(text) == cpus


def test_rights_that_are_refused_have_a_cure(tmp_path: Path) -> None:
    root = root_with(tmp_path)
    assert machine.scheduler_rights(Right(98, ""), root).verdict is FIT
    refused = machine.scheduler_rights(Right(0, "Operation not permitted"), root)
    assert (refused.verdict, "hardware/limits.conf" in refused.cure) == (RESERVE, True)
    assert machine.memory_lock(Right(-1, "")).verdict is FIT
    assert machine.memory_lock(Right(8 << 20, "Cannot allocate memory")).verdict is RESERVE


def test_the_tries_leave_the_process_as_it_was() -> None:
    before = os.sched_getscheduler(0)
    assert isinstance(machine.try_real_time_scheduler(), Right)
    assert isinstance(machine.try_memory_lock(), Right)
    assert os.sched_getscheduler(0) == before
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    assert "VmLck:\t       0 kB" in status


def test_the_worst_verdict_counts() -> None:
    assert machine.worst([]) is FIT
    assert machine.worst([FIT, RESERVE]) is RESERVE
    assert machine.worst([UNFIT, FIT, RESERVE]) is UNFIT


def test_lateness_of_wake_ups() -> None:
    found = lateness([10_000] * 98 + [50_000, 3_200_000], 1_000_000)
    assert (found.deadlines, found.missed) == (103, 3)
    assert found.p50_us == 10
    assert found.maximum_us == 3200
    assert found.missed_percent == pytest.approx(300 / 103)
    assert math.isnan(lateness([], 1_000_000).p99_us)


@pytest.mark.parametrize(
    ("late_us", "verdict"),
    [
        ([20.0] * 1000, FIT),
        ([20.0] * 950 + [300.0] * 50, RESERVE),
        ([20.0] * 999 + [1500.0], RESERVE),
        ([20.0] * 900 + [700.0] * 100, UNFIT),
        ([20.0] * 990 + [1500.0] * 10, UNFIT),
    ],
)
def test_verdicts_on_the_timer(late_us: list[float], verdict: Verdict) -> None:
    measured = lateness([round(1e3 * value) for value in late_us], 1_000_000)
    assert realtime.judge_timer("timer", measured).verdict is verdict


@pytest.mark.parametrize(("cost_us", "verdict"), [(40.0, FIT), (450.0, RESERVE), (900.0, UNFIT)])
def test_verdicts_on_the_cycle(cost_us: float, verdict: Verdict) -> None:
    assert realtime.judge_cycle(cost_us).verdict is verdict


def test_busy_processes_end_whatever_happens() -> None:
    def fails(ids: list[int]) -> None:
        seen.extend(ids)
        os.kill(ids[0], 0)  # it is there
        raise RuntimeError

    seen: list[int] = []
    with pytest.raises(RuntimeError), busy_cores(sorted(os.sched_getaffinity(0))[:1]) as processes:
        fails(processes)
    assert len(seen) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


def test_the_thread_ends_with_its_measurement() -> None:
    released = []
    found = measure_lateness(lambda: released.append(1), period_s=1e-4)
    assert released
    assert found.missed >= 0


@pytest.mark.parametrize(("late_us", "code"), [(20.0, 0), (5000.0, 1)])
def test_the_command_writes_every_line_and_its_verdict(late_us, code, tmp_path: Path, monkeypatch) -> None:
    measured = lateness([round(1e3 * late_us)] * 100, 1_000_000, real_time=True)
    monkeypatch.setattr(realtime.timer_jitter, "measure_lateness", lambda *_, **__: measured)
    monkeypatch.setattr(realtime.time, "sleep", lambda _s: None)
    monkeypatch.setattr(realtime, "cycle_cost_us", lambda _wait: 100.0)
    console = Console(file=io.StringIO(), width=200)
    file = tmp_path / "realtime.json"
    assert realtime.run_realtime(2.0, file, root=root_with(tmp_path), console=console) == code
    numbers = json.loads(file.read_text(encoding="utf-8"))
    assert numbers["verdict"] in [verdict.value for verdict in Verdict]
    assert numbers["kernel_verdict"] == "fit"
    assert numbers["timer_idle_late_p99_us"] == pytest.approx(late_us)
    assert numbers["timer_loaded_verdict"] == ("fit" if code == 0 else "not fit")
    assert "docs/how-to/realtime.md" in console.file.getvalue()  # type: ignore[attr-defined]
