# SPDX-License-Identifier: Apache-2.0
"""Whether a machine is fit for a 1 kHz cycle, by what its /proc and /sys report and its limits allow. No ROS.

Every inspection takes the root folder below which proc/ and sys/ are, and answers with a :class:`Finding`. What a
machine does not tell is "unknown", which is never a reason to call it unfit.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import gzip
import os
import re
import resource
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SYSTEM_ROOT = Path("/")
UNKNOWN = "unknown"

CURE_LIMITS = (
    "sudo groupadd -f realtime && sudo usermod -aG realtime $USER && sudo cp hardware/limits.conf "
    "/etc/security/limits.d/continuum_robot.conf, then log in again"
)
LEAST_LOCKED_BYTES = 2**31
LATEST_WAKE_UP_US = 100
LONGEST_TIMER_SLACK_NS = 50_000

_MCL_CURRENT_AND_FUTURE = 3
_GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")


class Verdict(str, enum.Enum):
    """How a finding bears on a 1 kHz cycle."""

    FIT = "fit"
    RESERVE = "with reserve"
    UNFIT = "not fit"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a machine."""

    name: str
    value: str
    verdict: Verdict
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """A right of the process: its limit, and what came of a try."""

    limit: int
    refused: str


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts; fit where there are none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.FIT)


def inspect_machine(root: Path = SYSTEM_ROOT) -> list[Finding]:
    """All findings that need no measurement and no right, in the order in which they are shown; ``root`` of
    the system.
    """
    looks = (kernel, tick, cores, isolated_cores, governor, idle_states, clock_source, virtual_machine, timer_slack)
    return [look(root) for look in looks]


def kernel(root: Path = SYSTEM_ROOT) -> Finding:
    """Release and preemption model of the kernel below ``root``."""
    release = _text(root, "proc/sys/kernel/osrelease") or UNKNOWN
    version = _text(root, "proc/sys/kernel/version")
    if _text(root, "sys/kernel/realtime") == "1" or "PREEMPT_RT" in version:
        return Finding("kernel", f"{release}, PREEMPT_RT", Verdict.FIT)
    model = _preemption(root, version)
    cure = "install a PREEMPT_RT kernel (Debian: linux-image-rt-amd64; Ubuntu: pro enable realtime-kernel)"
    if model != "full":
        cure += "; until then boot with preempt=full"
    return Finding("kernel", f"{release}, preemption {model}", Verdict.RESERVE, cure)


def tick(root: Path = SYSTEM_ROOT) -> Finding:
    """Cores without a periodic tick, and high-resolution timers, of the kernel below ``root``."""
    full = cpu_list(_text(root, "sys/devices/system/cpu/nohz_full"))
    config = _config(root)
    timers = config.get("CONFIG_HIGH_RES_TIMERS")
    if timers is None and (listed := _text(root, "proc/timer_list")):
        timers = "y" if "hres_active    : 1" in listed or ".hres_active : 1" in listed else None
    if config and timers != "y":
        cure = "a kernel with CONFIG_HIGH_RES_TIMERS: without, a sleep ends with the next tick"
        return Finding("tick", "no high-resolution timers", Verdict.UNFIT, cure)
    rate = config.get("CONFIG_HZ", UNKNOWN)
    kind = f"tickless on cores {_listed(full)}" if full else "tick on busy cores"
    cure = "" if full else "boot with nohz_full=CORES for the cores of the loop"
    return Finding("tick", f"{kind}, {rate} Hz", Verdict.FIT if full else Verdict.RESERVE, cure)


def cores(root: Path = SYSTEM_ROOT) -> Finding:
    """Number of cores that are online below ``root``."""
    count = len(cpu_list(_text(root, "sys/devices/system/cpu/online")))
    if not count:
        return Finding("cores", UNKNOWN, Verdict.RESERVE, "see that two cores are left for the driver and the rest")
    if count == 1:
        return Finding("cores", "1", Verdict.UNFIT, "two cores or more: driver and everything else share this one")
    few = count < 4
    cure = "four cores or more: one for the loop, one for DDS, the rest for estimators, recorder and page"
    return Finding("cores", str(count), Verdict.RESERVE if few else Verdict.FIT, cure if few else "")


def isolated_cores(root: Path = SYSTEM_ROOT) -> Finding:
    """Cores on which the scheduler below ``root`` puts nothing by itself."""
    found = cpu_list(_text(root, "sys/devices/system/cpu/isolated"))
    if found:
        return Finding("isolated cores", _listed(found), Verdict.FIT)
    count = len(cpu_list(_text(root, "sys/devices/system/cpu/online")))
    last = max(1, count - 1)
    cure = f"boot with isolcpus={last} nohz_full={last} rcu_nocbs={last}, and set rt.cpu_affinity to [{last}]"
    return Finding("isolated cores", "none", Verdict.RESERVE, cure)


def governor(root: Path = SYSTEM_ROOT) -> Finding:
    """Frequency governors of the cores below ``root``."""
    files = sorted(root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
    found = sorted({file.read_text(encoding="utf-8").strip() for file in files})
    if not found:
        return Finding("governor", "none: the frequency is not this system's to choose", Verdict.FIT)
    if found == ["performance"]:
        return Finding("governor", "performance", Verdict.FIT)
    return Finding("governor", ", ".join(found), Verdict.RESERVE, "sudo cpupower frequency-set --governor performance")


def idle_states(root: Path = SYSTEM_ROOT) -> Finding:
    """Idle driver below ``root``, and how long a core takes at most to wake up from what is not disabled."""
    driver = _text(root, "sys/devices/system/cpu/cpuidle/current_driver")
    latencies_us = [
        int(value)
        for state in root.glob("sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*")
        if (value := _text(state, "latency")).isdigit() and _text(state, "disable") != "1"
    ]
    if not latencies_us:
        return Finding("idle states", f"driver {driver}" if driver else UNKNOWN, Verdict.FIT)
    latest_us = max(latencies_us)
    value = f"driver {driver or UNKNOWN}, up to {latest_us} us to wake up"
    if latest_us <= LATEST_WAKE_UP_US:
        return Finding("idle states", value, Verdict.FIT)
    cure = f"sudo cpupower idle-set --disable-by-latency {LATEST_WAKE_UP_US}, or boot with processor.max_cstate=1"
    return Finding("idle states", value, Verdict.RESERVE, cure)


def clock_source(root: Path = SYSTEM_ROOT) -> Finding:
    """Clock of the kernel below ``root``."""
    found = _text(root, "sys/devices/system/clocksource/clocksource0/current_clocksource") or UNKNOWN
    if found in _GOOD_CLOCKS or found == UNKNOWN:
        return Finding("clock source", found, Verdict.FIT)
    cure = "boot with tsc=reliable if the processor's counter is constant: each look at this clock takes microseconds"
    return Finding("clock source", found, Verdict.RESERVE, cure)


def virtual_machine(root: Path = SYSTEM_ROOT) -> Finding:
    """Hints below ``root`` that the machine is a virtual one."""
    hints = [_text(root, f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    named = " ".join(hint for hint in hints if hint)
    known = re.search(r"QEMU|KVM|VMware|VirtualBox|Xen|Virtual Machine|Amazon EC2|Google Compute|Parallels", named)
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", _text(root, "proc/cpuinfo"), re.MULTILINE)
    hypervisor = _text(root, "sys/hypervisor/type")
    if not (known or flags or hypervisor):
        return Finding("virtual machine", "no sign of one", Verdict.FIT)
    cure = "a robot wants a machine of its own: the host stops a virtual one for as long as it likes"
    return Finding("virtual machine", f"yes ({named or hypervisor or 'hypervisor flag'})", Verdict.RESERVE, cure)


def timer_slack(root: Path = SYSTEM_ROOT) -> Finding:
    """How late the kernel may end a sleep of this process, as reported below ``root``; SCHED_FIFO has none."""
    slack = _text(root, "proc/self/timerslack_ns")
    if not slack.isdigit():
        return Finding("timer slack", UNKNOWN, Verdict.FIT)
    late = int(slack) > LONGEST_TIMER_SLACK_NS
    value = f"{int(slack) / 1000:g} us for ordinary threads"
    cure = "start the program with 50 us or less (it inherits this), or set rt.priority"
    return Finding("timer slack", value, Verdict.RESERVE if late else Verdict.FIT, cure if late else "")


def scheduler_rights(right: Right, root: Path = SYSTEM_ROOT) -> Finding:
    """Whether SCHED_FIFO is allowed, and how much of a second the kernel leaves to it."""
    value = f"RLIMIT_RTPRIO {_limit(right.limit)}, SCHED_FIFO {right.refused or 'allowed'}"
    if right.refused:
        return Finding("scheduler rights", value, Verdict.RESERVE, CURE_LIMITS)
    runtime_us = _text(root, "proc/sys/kernel/sched_rt_runtime_us")
    return Finding("scheduler rights", f"{value}, {runtime_us or UNKNOWN} us of each second", Verdict.FIT)


def memory_lock(right: Right) -> Finding:
    """Whether memory can be locked."""
    value = f"RLIMIT_MEMLOCK {_limit(right.limit)}, mlockall {right.refused or 'allowed'}"
    small = right.limit >= 0 and right.limit < LEAST_LOCKED_BYTES and os.geteuid() != 0
    unlocked = bool(right.refused) or small
    return Finding("memory lock", value, Verdict.RESERVE if unlocked else Verdict.FIT, CURE_LIMITS if unlocked else "")


def try_real_time_scheduler(priority: int = 1) -> Right:
    """Ask for SCHED_FIFO in a thread that ends at once."""
    refused = []

    def ask() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except OSError as error:
            refused.append(error.strerror or str(error))

    thread = threading.Thread(target=ask, name="scheduler rights")
    thread.start()
    thread.join()
    return Right(resource.getrlimit(resource.RLIMIT_RTPRIO)[0], "".join(refused))


def allowed_priority(priority: int) -> int:
    """SCHED_FIFO priority that the system allows: ``priority``, or 0, the ordinary scheduler."""
    return 0 if try_real_time_scheduler(priority).refused else priority


def try_memory_lock() -> Right:
    """Lock all memory of this process as ``rt.lock_memory`` does, and unlock it."""
    library = ctypes.CDLL(None, use_errno=True)
    refused = ""
    if library.mlockall(_MCL_CURRENT_AND_FUTURE) != 0:
        refused = os.strerror(ctypes.get_errno() or errno.EPERM)
    library.munlockall()
    return Right(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], refused)


def cpu_list(text: str) -> list[int]:
    """Numbers of cores in the kernel's form: "0-2,5" is [0, 1, 2, 5]; empty where there are none."""
    found: list[int] = []
    for part in text.strip().split(","):
        ends = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if ends:
            found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def _preemption(root: Path, version: str) -> str:
    switch = re.search(r"\((\w+)\)", _text(root, "sys/kernel/debug/sched/preempt"))
    asked = re.search(r"\bpreempt=(\w+)", _text(root, "proc/cmdline"))
    if switch or asked:
        return (switch or asked)[1]  # type: ignore[index]
    built = _config(root)
    for name, option in (("full", "PREEMPT"), ("lazy", "PREEMPT_LAZY"), ("voluntary", "PREEMPT_VOLUNTARY")):
        if built.get(f"CONFIG_{option}") == "y":
            return name
    if built.get("CONFIG_PREEMPT_NONE") == "y":
        return "none"
    return "dynamic, model unknown" if "PREEMPT_DYNAMIC" in version else "full" if "PREEMPT" in version else UNKNOWN


def _config(root: Path) -> dict[str, str]:
    """Options with which the kernel was built; empty where they are not published."""
    release = _text(root, "proc/sys/kernel/osrelease")
    text = _text(root, f"boot/config-{release}")
    if not text:
        try:
            text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode("utf-8", "replace")
        except (OSError, EOFError):
            return {}
    return dict(re.findall(r"^(CONFIG_\w+)=(\S+)$", text, re.MULTILINE))


def _text(root: Path, name: str) -> str:
    """A file's text without the white space about it; empty where it cannot be read."""
    try:
        return (root / name).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)
