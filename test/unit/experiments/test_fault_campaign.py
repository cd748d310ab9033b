# SPDX-License-Identifier: Apache-2.0
"""The campaign of faults: its table is complete, its judge is strict, and a few of its runs end safe."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from faults import __main__ as command
from faults import actions
from faults import kinds as table
from faults.actions import HOSTILE_FILES, ROBOTS
from faults.judge import judge, passive_tension_n
from faults.kinds import INJECTION_TIMES, KINDS, SERVOS, UP, VIRTUAL, by_name, moments
from faults.page import page
from faults.runner import FaultRecord, summary
from faults.virtual import run_virtual, virtual_runs
from rich.console import Console

from continuum_robot.drivers.emulated_sensor import PLUGS
from continuum_robot.drivers.odri_can import emulator as odri_board
from continuum_robot.drivers.rokubi_serial.emulator import SimulatedRokubi
from continuum_robot.drivers.safety import tendon_faults
from continuum_robot.drivers.string_encoder_serial.emulator import SimulatedStringEncoderBoard
from continuum_robot.errors import ParameterError, RobotFileError
from continuum_robot.robot.loading import load_robot

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROBOT = load_robot("opencr_five_tendon")
LIMITS = ROBOT.limits
assert LIMITS is not None
N = ROBOT.tendon_count

# What hardware can do, and what users of other stacks complained about: each must have a kind.
KNOWN_FAULTS = {
    "lost frame": "frame_lost",
    "lost frames": "frames_lost",
    "late frames": "frames_late",
    "duplicated frames": "frames_duplicated",
    "corrupted frames": "frames_corrupted",
    "reordered frames": "frames_reordered",
    "silent board": "board_silent",
    "wrong board": "wrong_board",
    "two boards on a channel": "second_board",
    "two hosts": "other_host",
    "bus-off": "bus_off",
    "noise on the line": "noise",
    "unplug and replug of the adapter": "adapter_unplugged",
    "unplug and replug of the string board": "strings_unplugged",
    "unplug and replug of the force sensor": "force_unplugged",
    "reboot of a motor board": "board_rebooted",
    "reboot of the string board": "strings_rebooted",
    "reboot of the force sensor": "force_rebooted",
    "encoder jump": "encoder_jump",
    "encoder freeze": "encoder_frozen",
    "encoder error": "encoder_error",
    "soft e-stop": "board_estop",
    "position rollover": "position_rollover",
    "receive timeout": "receive_timeout",
    "latched mailbox": "mailbox_latched",
    "current mismatch": "current_mismatch",
    "slack tendon": "tendon_slack",
    "snapped tendon": "tendon_snapped",
    "stuck motor": "motor_stuck",
    "host stall of 50 ms": "stall_50ms",
    "host stall of 500 ms": "stall_500ms",
    "slow host": "host_slow",
    "controller killed": "controller_killed",
    "estimator killed": "estimator_killed",
    "driver killed": "driver_killed",
    "clock step": "clock_stepped",
    "full disk": "disk_full",
    "parameter set in the run": "limit_set",
    "gains set in the run": "gains_changed",
    "two writers": "two_writers",
    "command storm": "command_storm",
    "NaN command": "command_nan",
    "infinite command": "command_infinite",
    "negative command": "command_negative",
    "command too large": "command_too_large",
    "command too old": "command_too_old",
    "command of the wrong size": "command_wrong_size",
    "e-stop by service": "estop_service",
    "e-stop by topic": "estop_topic",
    "e-stop in a ramp": "estop_in_ramp",
    "e-stop with a brake": "estop_with_brake_in_safe",
    "robot held against its limits": "robot_held",
    "hanging cycle": "cycle_hangs",
    "late call": "late_call",
    "damaged cache of code": "damaged_cache",
    "stiction": "motors_stick",
    "late stamps of a tracker": "tracker_late",
    "bunched stamps of a tracker": "tracker_bunched",
    "retract from a contact": "contact_retract",
    "string counter jump": "strings_jump",
    "string counter freeze": "strings_frozen",
    "magnet out of reach": "strings_magnet",
    "string board silent": "strings_silent",
    "string frames flipped": "strings_flipped",
    "string garbage": "strings_garbage",
    "string wrong baud rate": "strings_babble",
    "string burst after a stall": "strings_stalled",
    "force sensor silent": "force_silent",
    "force sensor overrange": "force_overrange",
    "page of another origin": "cross_origin",
    "limit lowered in the file": "stale_file",
    "reset that moves": "reset_moves_nothing",
    "e-stop held by two": "estop_by_two",
    "second writer without sequence": "unsequenced_writer",
    "hot motor": "motor_overheated",
    "driver killed and respawned": "driver_killed",
    "controller killed and respawned": "controller_killed",
    "supervisor stalled": "supervisor_stalled",
    "setting that an own controller does not take": "own_controller_refuses",
    "defect in an own observer": "own_observer_fails",
    "two procedures at once": "two_procedures",
    "idle connections to the page": "page_connections",
    "long message to the page": "page_message",
    "forged owner of references": "forged_owner",
    "shape of another size": "wrong_shapes",
    "flood of parameters": "parameter_flood",
    "recording that vanishes": "recording_vanishes",
    "hostile robot file": "hostile_robot_file",
    "hostile request": "hostile_request",
}


# --- the table


@pytest.mark.parametrize("fault", KNOWN_FAULTS)
def test_every_known_fault_has_a_kind(fault: str) -> None:
    assert by_name(KINDS, KNOWN_FAULTS[fault])


def test_kinds_are_many_unique_and_complete() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 40
    for kind in KINDS:
        assert kind.known in table.KNOWN
        assert kind.group
        assert kind.seen
        assert kind.cure
        assert bool(kind.inject) != bool(kind.action)
        assert kind.becomes != table.SAFE or kind.found_by, kind.name


def functions_of(module: ModuleType) -> set[str]:
    """What a module names for others."""
    own = {name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__}
    return {name for name in own if not name.startswith("_") and inspect.isfunction(getattr(module, name))}


def test_every_action_and_robot_that_a_kind_names_is_there_and_used() -> None:
    virtual = [kind for kind in (*KINDS, *SERVOS) if kind.runs == VIRTUAL]
    assert {kind.call[0] for kind in virtual if kind.action} == functions_of(actions) - {"happen", "on_bus"}
    assert {kind.robot for kind in virtual if kind.robot} == ROBOTS.keys()
    on_up = pytest.importorskip("faults.up_actions", reason="rclpy is not installed")
    others = [kind for kind in (*KINDS, *table.SOAK) if kind.runs == UP and kind.action]
    named = {kind.call[0] for kind in others} | {kind.call[1]["action"] for kind in others if "action" in kind.call[1]}
    assert named == functions_of(on_up) - {"happen", "killed", "stopped_for", "is_refused"}


@pytest.mark.parametrize("text", HOSTILE_FILES)
def test_each_hostile_robot_file_is_refused_as_the_campaign_says(tmp_path: Path, text: str) -> None:
    file = tmp_path / "robot.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RobotFileError, match=r"robot\.yaml"):
        load_robot(str(file))


def test_the_simulated_faults_are_all_used() -> None:
    used = {str(kind.inject["fault"]) for kind in KINDS if kind.inject}
    # The plant's own stuck motor is used: it stays stuck without the board.
    assert {f"board.{name}" for name in odri_board.FAULTS} - used == {"board.stuck_motor"}
    for name in (*SimulatedStringEncoderBoard.faults, *SimulatedRokubi.faults, *PLUGS):
        assert used & {f"strings.{name}", f"force.{name}"} or name == "power_cycle"


def test_every_fault_of_the_driver_is_documented_and_the_page_is_current() -> None:
    written = (DOCS / "reference" / "faults.md").read_text(encoding="utf-8")
    assert written == page(), "run: make pages"
    for name in tendon_faults.FAULTS:
        assert f"`{name}`" in written
    for kind in KINDS:
        assert f"| `{kind.name}` |" in written


def test_unknown_kinds_and_moments_are_refused() -> None:
    with pytest.raises(ParameterError, match="driver_killed"):
        by_name(KINDS, "no_such_fault")
    with pytest.raises(ParameterError, match="1 to 3"):
        moments(KINDS[0], 4)


# --- the judge


def truth(*, tension: float = 3.0, motor: float = 3.0, rows: int = 1000, off_after: int = 0) -> dict[str, Any]:
    result = {
        "time_s": np.arange(rows) * 1e-3,
        "tension_n": np.full((rows, N), tension),
        "spool_m": np.zeros((rows, N)),
        "commanded": np.full((rows, N), tension),
        "motor_n": np.full((rows, N), motor),
        "clarke_m": np.zeros((rows, 2)),
        "reference_m": np.zeros((rows, 2)),
    }
    if off_after:
        result["tension_n"][off_after:] = result["motor_n"][off_after:] = 0.5
    return result


def judged(values: dict[str, Any], stopped_s: float = math.nan, spared: int = -1) -> Any:
    assert LIMITS is not None
    return judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=stopped_s, spared=spared)


def test_a_robot_that_goes_on_is_safe_within_its_limits() -> None:
    result = judged(truth())
    assert result.problems == ()
    assert math.isnan(result.time_to_safe_s)
    assert result.tension_peak_n == 3.0


def test_one_millisecond_above_the_maximum_is_not_safe() -> None:
    values = truth()
    assert LIMITS is not None
    values["tension_n"][500, 2] = LIMITS.maximum_n + 0.1
    assert "more than its maximum" in judged(values).problems[0]
    astray = judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=math.nan, astray=True)
    assert astray.problems == ()  # friction holds that much
    values["tension_n"][500, 2] = LIMITS.maximum_n + passive_tension_n(ROBOT) + 0.1
    assert judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=math.nan, astray=True).problems


@pytest.mark.parametrize(("milliseconds", "safe"), [(90, True), (110, False)])
def test_the_time_to_the_safe_state_counts_until_the_last_motor_is_quiet(milliseconds: int, safe: bool) -> None:
    result = judged(truth(off_after=milliseconds), stopped_s=0.0)
    assert (not result.problems) == safe
    assert result.time_to_safe_s == pytest.approx((milliseconds - 1) * 1e-3)


def test_motors_that_go_on_pulling_are_not_safe() -> None:
    assert any("did not come" in problem for problem in judged(truth(), stopped_s=0.0).problems)


def test_slack_under_control_is_not_safe_but_for_the_tendon_that_broke() -> None:
    values = truth()
    values["tension_n"][200:500, 3] = 0.0
    assert any("slack for 299 ms" in problem for problem in judged(values).problems)
    assert judged(values, spared=3).problems == ()


def test_what_friction_holds_may_be_left_and_not_more() -> None:
    assert LIMITS is not None
    held = LIMITS.safe_n + passive_tension_n(ROBOT)
    assert 1.0 < passive_tension_n(ROBOT) < 2.0
    values = truth(off_after=50)
    values["tension_n"][50:] = held
    assert judged(values, stopped_s=0.0).problems == ()
    values["tension_n"][50:] = held + 0.5
    assert any("left on the tendons" in problem for problem in judged(values, stopped_s=0.0).problems)


def test_a_tolerated_fault_must_leave_the_robot_near_its_reference() -> None:
    values = truth()
    values["clarke_m"][700, 1] = 0.006
    assert any("6.0 mm away" in problem for problem in judged(values).problems)


# --- runs in virtual time


@pytest.fixture(scope="module")
def records() -> list[FaultRecord]:
    names = "frame_lost,tendon_slack"
    return [run_virtual(run) for run in virtual_runs(ROBOT, by_name(KINDS, names), 1, seed=7)]


def test_a_few_faults_end_safe_and_recover(records: list[FaultRecord]) -> None:
    assert len(records) == 2
    for record in records:
        assert record.ended_safe, (record.fault, record.problems)
        assert record.recovered_without_restart, (record.fault, record.problems)


@pytest.mark.long
@pytest.mark.parametrize("name", [kind.name for kind in KINDS if kind.runs == VIRTUAL])
def test_each_kind_in_virtual_time_ends_safe_and_recovers(name: str) -> None:
    (run,) = virtual_runs(ROBOT, by_name(KINDS, name), 1)
    record = run_virtual(run)
    assert record.ended_safe, record.problems
    assert record.recovered_without_restart, record.problems


def test_the_records_say_who_found_it_and_what_was_told(records: list[FaultRecord]) -> None:
    by_name = {record.fault: record for record in records}
    assert by_name["frame_lost"].reaction == table.TOLERATED
    assert by_name["frame_lost"].detected_by == ()
    slack = by_name["tendon_slack"]
    assert slack.reaction == table.SAFE
    assert slack.detected_by[0] == "tendon_safety: inconsistent_displacement"
    assert slack.time_to_safe_ms <= 100
    assert any("Clarke manifold" in sentence for sentence in slack.reported)


@pytest.mark.long
def test_the_same_seed_gives_the_same_record(records: list[FaultRecord]) -> None:
    (run,) = virtual_runs(ROBOT, by_name(KINDS, "frame_lost"), 1, seed=7)
    again = run_virtual(run)
    assert repr(again) == repr(records[0])


def test_the_summary_counts() -> None:
    values = {field.name: 0.0 for field in dataclasses.fields(FaultRecord)}
    one = FaultRecord(**(values | {"ended_safe": True, "time_to_safe_ms": 12.0}))  # type: ignore[arg-type]
    two = FaultRecord(**(values | {"ended_safe": False, "time_to_safe_ms": math.nan}))  # type: ignore[arg-type]
    numbers = summary([one, two])
    assert numbers["n_runs"] == 2
    assert numbers["n_safe"] == 1
    assert numbers["worst_time_to_safe_ms"] == 12.0


def test_the_command_writes_records_and_its_exit_code_tells(
    records: list[FaultRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "faults.json"
    console = Console(file=(tmp_path / "out").open("w", encoding="utf-8"), width=160)
    safe = records[1]
    monkeypatch.setattr(command, "run_virtual", lambda _: safe)
    code = command.run_faults("opencr_five_tendon", kinds=safe.fault, count=1, json_file=file, console=console)
    assert code == 0
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["n_runs"] == data["n_safe"] == 1
    record = data["records"][0]
    assert record["fault"] == "tendon_slack"
    assert record["injection_time"] in INJECTION_TIMES
    assert record["detected_by"] == list(safe.detected_by)
    assert record["ended_safe"] is True
    monkeypatch.setattr(command, "run_virtual", lambda _: dataclasses.replace(safe, ended_safe=False, problems=("x",)))
    assert command.run_faults("opencr_five_tendon", kinds=safe.fault, count=1, console=console) == 1


def test_the_list_names_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    command.print_kinds(Console(width=200))
    listed = capsys.readouterr().out
    for kind in (*KINDS, *SERVOS):
        assert kind.name in listed


# --- the time to the safe state, and what a machine left out


def pulled(pulling: Any) -> dict[str, Any]:
    values = truth(rows=len(pulling))
    values["motor_n"] = np.where(pulling, 5.0, 0.5)[:, None] * np.ones(N)
    values["tension_n"][:] = 0.5
    return values


def test_a_pull_that_comes_back_counts_but_from_where_a_stopped_program_went_on() -> None:
    assert LIMITS is not None
    index = np.arange(800)
    values = pulled((index < 20) | ((index > 400) & (index < 430)))
    late = judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=0.0)
    assert late.time_to_safe_s == pytest.approx(0.429, abs=0.0015)
    resumed = judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=0.0, resumed_s=0.4)
    assert resumed.time_to_safe_s == pytest.approx(0.029, abs=0.0015)
    unknown = judge(ROBOT, LIMITS, values, known_s=math.nan, stopped_s=0.0)
    assert math.isnan(unknown.time_to_safe_s)
    assert unknown.problems == ()


def test_slack_that_a_motor_takes_up_may_shock_a_tendon_as_far_as_its_energy_goes() -> None:
    assert LIMITS is not None
    values = truth(motor=4.0)
    values["tension_n"][500, 2] = LIMITS.maximum_n + 20.0
    # 4 N over 4 mm are 16 mJ, which stretch a tendon of 20 kN/m until it has 25 N.
    assert judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=math.nan, slack_m=0.004).problems == ()
    assert judge(ROBOT, LIMITS, values, known_s=0.0, stopped_s=math.nan, slack_m=0.001).problems
