# SPDX-License-Identifier: Apache-2.0
"""docs/faults.md from the tables of the drivers and from faults.yaml."""

from __future__ import annotations

import dataclasses
from itertools import groupby

from continuum_robot.drivers.named_faults import FAULT_TEXTS, FaultText, device_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.robot.schema import quantity_of
from faults.campaign import SERVO_FRACTION, TENSION_FRACTION
from faults.growth import ALLOWED_PER_H, MINIMUM_S, WARM_UP_S
from faults.judge import DEVIATION_M, HELD_M, SLACK_N, SLACK_S, TIME_TO_SAFE_S, TORQUE_MARGIN_N
from faults.kinds import INJECTION_TIMES, KINDS, KNOWN, MOVE_S, SERVOS, Kind

_UNITS = {"rss_mib": "MiB of RSS", "handles": "handles", "threads": "thread"}
INTRODUCTION = """\
# Faults: what they look like, and what to do

<!-- Written by `make pages`. -->

    make faults ARGS="--json faults.json"   # in a clone: break everything once, half an hour
    make faults ARGS=--list
    make faults ARGS="--kinds tendon_snapped,driver_killed"
    make soak HOURS=1 ARGS="--seed 3"             # an hour of random faults and resets: see Soak below

A fault latches: `driver_status`, `/diagnostics` and `stack_status.faults` name it until somebody clears it. Nothing has
to be restarted: remove the cause, then reset the stack (`manage_stack` command 3: down, clear, up again). Where the
table reports *home*, the zero of the displacements is lost: `continuum-robot home` before.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([INTRODUCTION, *_names(), *_criteria(), *_kinds(), *_servos(), *_soak()])


def _names() -> list[str]:
    lines = ["## Names of the driver's faults", "", "| fault | meaning |", "|---|---|"]
    lines += [f"| [`{name}`](faults/{name}.md) | {meaning} |" for name, meaning in FAULTS.items()]
    lines += ["", "With `device_fault`, `/diagnostics` names what the motors report: `<place>: <name>`."]
    for kind, texts in device_faults().items():
        lines += ["", f"| `{kind}` | meaning |", "|---|---|"]
        lines += [f"| [`{name}`](faults/{name}.md) | {text.meaning} |" for name, text in texts.items()]
    lines += ["", "The supervisor's own, in `stack_status.faults`, and two of the driver:", ""]
    lines += ["| fault | meaning |", "|---|---|"]
    lines += [f"| [`{name}`](faults/{name}.md) | {texts[0].meaning} |" for name, texts in _others().items()]
    lines += ["", "What sensors say: [faults of sensors](faults/sensors.md)."]
    lines += ["", "## Thresholds", "", "Beside those of the robot file's `limits` and `hardware`:", ""]
    lines += ["| threshold | unit | allowed | default | meaning |", "|---|---|---|---|---|"]
    for field in dataclasses.fields(SafetySettings):
        quantity = quantity_of(field)
        allowed = dataclasses.replace(quantity, unit="").expected().replace("a number in ", "")
        lines.append(f"| `{field.name}` | {quantity.unit} | {allowed} | `{field.default}` | {quantity.doc} |")
    return [*lines, ""]


def _others() -> dict[str, tuple[FaultText, ...]]:
    elsewhere = {*FAULTS, *(name for texts in device_faults().values() for name in texts)}
    return {name: texts for name, texts in FAULT_TEXTS.items() if name not in elsewhere}


def _criteria() -> list[str]:
    injection_times = ", ".join(f"{name} (after {time_s:g} s)" for name, time_s in INJECTION_TIMES.items())
    return [
        "## How the campaign judges",
        "",
        f"The robot moves to {100 * TENSION_FRACTION:.0f} % of `limits.maximum_displacement_m` in {MOVE_S:g} s and"
        f" stays there. Each fault begins at three times: {injection_times}. Devices are simulated to the"
        " byte, the drivers, the safety logic and the controller are those that run on a robot. Judged is what the"
        " simulated robot really does, not what the driver reports:",
        "",
        "- No tendon ever has more than `limits.maximum_n`, in the recovery neither.",
        f"- A fault that must stop the robot: at the latest {1e3 * TIME_TO_SAFE_S:.0f} ms after it can be known, no"
        f" motor pulls with more than `limits.safe_n` and {TORQUE_MARGIN_N:g} N; off is as good. In the end the"
        " tendons have no more than that and what a motor without current holds by its friction.",
        f"- Under control no tendon is slack (less than {SLACK_N:g} N) for more than {1e3 * SLACK_S:.0f} ms, but one"
        " that broke or slipped itself. In the safe state tendons may be slack: the safe tension is less than the"
        " motors' friction, and a bent robot springs back. The next activation takes the slack up, slowly.",
        f"- A fault that is *tolerated* leaves the robot within {1e3 * DEVIATION_M:g} mm of its reference. In the"
        " processes of `up` a busy computer may stop the robot meanwhile: the record says so, and counts as safe.",
        "- Who must find it, found it; afterwards the robot moves again in the same process.",
        "",
        "Faults between processes, and those caused by other programs, pages or operators, are injected into the"
        " processes started by `up` (except hot motors and robot files). The simulated"
        " robot's boards have a receive timeout there, and its truth is read from outside. Times"
        " are those that the simulated robot lived through: what it left out since the computer was busy does not"
        " count. Its place is not judged there, nor the time of a stop that was not asked for.",
        "",
        "The time counts from when the fault can be known:",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in KNOWN.items()),
        "",
    ]


def _servos() -> list[str]:
    return [
        "## Robots of servos that take displacements",
        "",
        '    make faults ARGS="--robot three_segment_servo"',
        "",
        f"The robot moves to {100 * SERVO_FRACTION:.0f} % of `limits.maximum_displacement_m`. Kinds whose"
        " name begins with `bus_` run on emulated servos, by their bytes, and those that the robot's servos can have;"
        " the others on devices that are simulated in the process. In a safe robot no servo pulls in any more"
        f" {1e3 * TIME_TO_SAFE_S:.0f} ms and `speed_m_per_s` / `acceleration_m_per_s2` after the fault can be known."
        " No tendon ever has more than a servo at `limits.maximum_n` may measure, and in the end none has more than a"
        " motor without current holds by its friction; where the stop can only hold the robot, no spool winds in more"
        f" than {1e3 * HELD_M:g} mm. A robot that goes on is within"
        f" {1e3 * DEVIATION_M:g} mm and the servos' lag of its reference. A fault that is there before the start, and"
        " of those that last each reset before the cure, is refused in a sentence that names it. Where a servo's zero"
        " is lost the robot is homed. Some kinds run in the processes of `up` as well, in lock-step, with the driver at"
        " a pseudo-terminal: there the end is judged, and no time.",
        "",
        "| fault | cause | begins | becomes | found as | cure |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{kind.name}`{' *' * kind.up} | {kind.cause} | {', '.join(kind.times)} |"
            f" {kind.becomes}{_held(kind)} | {', '.join(f'`{name}`' for name in kind.found_by)} | {kind.cure} |"
            for kind in SERVOS
        ),
        "",
        "\\* in the processes of `up` too",
        "",
    ]


def _held(kind: Kind) -> str:
    return ", holds its place" if kind.holds else ""


def _soak() -> list[str]:
    allowed = ", ".join(f"{value:g} {_UNITS[name]}" for name, value in ALLOWED_PER_H.items() if name in _UNITS)
    return [
        f"""\
## Soak

`make soak HOURS=1 ARGS="--seed N --out DIR"` brings a simulated robot up as `up` does and does one thing
after another to it, drawn by the seed: faults of devices, kills and stops of processes, the e-stop, forged commands and
requests, resets, pauses, clients that come and go. Each time:

- No tendon has more than `limits.maximum_n`, in any millisecond. Slack of some millimetres that a fault makes is taken
  up by a motor at speed before anybody can know: the tendon then takes the work that the motor did on the way, too,
  √(2 k T s) with k its stiffness, T the motor's tension, s the slack. That is listed as a shock; more is unsafe.
- What must stop the robot has stopped it
  {1e3 * TIME_TO_SAFE_S:.0f} ms after it could be known, on the simulated robot's clock; where the control loop itself
  was stopped, also that long after it goes on. A fault whose time is not known (a frozen reading) must leave the motors
  at the safe tension in the end.
- Where anything latched or was killed, a reset brings the stack up, and nothing moves before a start.
- A stop that was not drawn, of a busy computer, is listed and no failure; it has to be recovered as any other.

`usage.csv` has memory (PSS and RSS), open handles and threads of each process over time, `soak.png` draws them,
`faults.jsonl` has a line for each fault, `soak.json` everything. A process grows where the 95 % interval of its robust
slope (Theil-Sen, over medians, without the first {WARM_UP_S:g} s of each process) lies above {allowed} an hour; less
than {MINIMUM_S / 60:g} minutes are not judged, and neither is the soak's own program (`client`): it keeps what it
saw, and its middleware some tenths of a MiB of each program that came and went.
Ctrl-C ends a soak with the same report. Exit code 1: something was unsafe, not recovered, not as asked, or grew.
"""
    ]


def _kinds() -> list[str]:
    lines = []
    for group, kinds in groupby(KINDS, key=lambda kind: kind.group):
        lines += [
            f"## {group}",
            "",
            "| fault | cause | becomes | known | what is seen | cure |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| `{kind.name}` | {kind.cause} | {kind.becomes} | {kind.known} | {kind.seen} | {kind.cure} |"
            for kind in kinds
        ]
        lines.append("")
    return lines
