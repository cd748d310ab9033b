# SPDX-License-Identifier: Apache-2.0
"""What a soak does to a running stack: faults of devices, of processes and of people, and plain operation."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from std_msgs.msg import Bool, String

from continuum_robot.app.campaign.runner import Effect, Rng, Stand, killed, stopped_for
from continuum_robot.errors import ContinuumRobotError, DeviceError, ParameterError
from continuum_robot.experiments.fault_campaign.kind import EITHER, SAFE, TOLERATED
from continuum_robot.msg import ClarkeState, DriverStatus, Shape, StackStatus, TendonCommands
from continuum_robot.nodes.base.spinning import wait_for
from continuum_robot.nodes.topics import qos
from continuum_robot.robot.actuation import TensionLimits
from continuum_robot.simulation import faults as devices
from continuum_robot.srv import InjectFault, ManageStack, ReleaseEstop

COOL_C = 25.0
STALL_S = 4.0
"""Of the supervisor: longer than it waits for any node."""
BOARD_TIMEOUTS = 1.5
"""Of limits.command_timeout_s: receive timeout of the boards at level dynamics, as the driver sets it."""
_DISCOVERY_S = 5.0
_FLOOD_S = 2.0
_SHAPE_ARRAYS = ("coefficients", "coefficient_rates", "covariance")
_CLIENT_TIMEOUT_S = 60.0
_JOINED_S = 1.0
"""Both sides know of each other so long after one does; what is published before waits for that."""


@dataclass(frozen=True, slots=True)
class SoakFault:
    """One thing that a soak does."""

    name: str
    weight: float
    reaction: str
    act: Callable[[Stand, Rng], Effect]
    mechanical: bool = False
    truthless: bool = False
    reset: bool = False


# --- devices


def _inject(stand: Stand, fault: str, tendon: int = -1, magnitude: float = 0.0, duration_s: float = 0.0) -> None:
    request = InjectFault.Request(fault=fault, tendon=tendon, magnitude=magnitude, duration_s=duration_s)
    stand.link.ask("inject_fault", InjectFault, request, again_s=None)


def _device(
    fault: str, low: float = 0.0, high: float = 0.0, *, known: Callable[[TensionLimits], float] | None = None
) -> Callable[[Stand, Rng], Effect]:
    def act(stand: Stand, rng: Rng) -> Effect:
        tendon = int(rng.integers(stand.robot.tendon_count))
        magnitude = float(rng.uniform(low, high))
        _inject(stand, fault, tendon, magnitude)
        now_s = time.monotonic()  # the service has answered: it acts from the next step on

        def repair() -> None:
            _inject(stand, "")
            if fault == devices.HOT_MOTOR:
                # What was measured as hot is hot until it is measured as cool.
                _inject(stand, fault, tendon, COOL_C)

        known_s = math.nan if known is None else now_s + known(stand.limits)
        # A tendon that is fastened again where its spool then stands needs another length: that is another robot.
        mechanical = devices.FAULTS[fault].mechanical
        slack_m = magnitude if fault == devices.SLACK_TENDON else 0.0
        done = f"tendon {tendon + 1}, {magnitude:.3g}"
        return Effect(done, known_s=known_s, repair=(lambda: None) if mechanical else repair, slack_m=slack_m)

    return act


# --- processes


def _kill(process: str, known: Callable[[TensionLimits], float] | None = None) -> Callable[[Stand, Rng], Effect]:
    def act(stand: Stand, _rng: Rng) -> Effect:
        now_s = time.monotonic()
        repair = killed(stand, process)
        return Effect(process, known_s=math.nan if known is None else now_s + known(stand.limits), repair=repair)

    return act


def _stop(process: str, low_s: float, high_s: float) -> Callable[[Stand, Rng], Effect]:
    def act(stand: Stand, rng: Rng) -> Effect:
        duration_s = float(rng.uniform(low_s, high_s))
        now_s = time.monotonic()
        resumed_s = stopped_for(stand, [process], duration_s)
        detail = f"{process} for {duration_s:.2f} s"
        board_s = BOARD_TIMEOUTS * stand.limits.command_timeout_s
        if process == "control_loop" and duration_s > board_s:
            return Effect(detail, known_s=now_s + board_s, resumed_s=resumed_s, reaction=SAFE)
        return Effect(detail)

    return act


# --- people and other programs


def _estop_service(stand: Stand, _rng: Rng) -> Effect:
    stand.link.trigger("estop")
    return Effect("service", known_s=time.monotonic())  # it has answered, so it is latched


def estop_by_two(stand: Stand, rng: Rng) -> Effect:
    """Two publishers that have joined press; one releases, and a reset is refused; in the repair the other does."""
    closing = contextlib.ExitStack()
    buttons = [closing.enter_context(stand.link.publisher(Bool, "estop", qos.latched())) for _ in range(2)]
    wait_for(lambda: all(button.get_subscription_count() > 0 for button in buttons), _DISCOVERY_S)
    for button in buttons:
        button.publish(Bool(data=False))
    time.sleep(_JOINED_S)
    known_s = time.monotonic()
    for button in buttons:
        button.publish(Bool(data=True))
    time.sleep(0.3)
    released = int(rng.integers(2))
    buttons[released].publish(Bool(data=False))
    time.sleep(0.2)
    refused = is_refused(lambda: stand.link.trigger("reset_estop"))

    def repair() -> None:
        for button in buttons:
            button.publish(Bool(data=False))
        time.sleep(0.3)
        closing.close()

    if not refused:
        raise ParameterError("reset_estop", "accepted", "refused: one of two publishers still holds the e-stop")
    return Effect("held by two, released by one, reset refused", known_s=known_s, repair=repair)


def foreign_commands(stand: Stand, rng: Rng) -> Effect:
    """Commands without sequence numbers from another program, while the controller is in the cycle."""
    with stand.link.publisher(TendonCommands, "tendon_commands") as publisher:
        tension = rng.uniform(0.0, stand.limits.maximum_n, stand.robot.tendon_count).tolist()
        for _ in range(200):
            publisher.publish(TendonCommands(tension=tension))
            time.sleep(0.005)
    return Effect("200 commands")


def _foreign_references(stand: Stand, rng: Rng) -> Effect:
    """References of a program that has not taken its turn."""
    node = stand.link.node
    with stand.link.publisher(ClarkeState, "clarke_reference") as publisher:
        message = ClarkeState()
        place = rng.uniform(-1, 1, stand.robot.coordinate_count) * stand.limits.maximum_displacement_m
        message.position = place.tolist()
        message.velocity = message.acceleration = [0.0] * stand.robot.coordinate_count
        for _ in range(100):
            message.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(message)
            time.sleep(0.01)
    return Effect("100 references")


def forged_owner(stand: Stand, rng: Rng) -> Effect:
    """Latched topics of the driver and of the reference source, published by another program, then its references."""
    name = stand.link.name
    with contextlib.ExitStack() as stack:
        for kind, topic, message in (
            (String, "reference_writer", String(data=name)),
            (Bool, "reference_holding", Bool(data=True)),
            (StackStatus, "stack_status", StackStatus(state="fault", faults=["one"])),
            (DriverStatus, "driver_status", DriverStatus(state=DriverStatus.INACTIVE, faults=[200, 1], estop=True)),
        ):
            publisher = stack.enter_context(stand.link.publisher(kind, topic, qos.latched()))
            deadline_s = time.monotonic() + _DISCOVERY_S
            while not publisher.get_subscription_count() and time.monotonic() < deadline_s:
                time.sleep(0.02)
            publisher.publish(message)
        time.sleep(_JOINED_S)
        _foreign_references(stand, rng)
    return Effect(f"as if {name} had the turn and the driver had stopped")


def wrong_shapes(stand: Stand, rng: Rng) -> Effect:
    """Shapes whose arrays have other sizes than the robot's."""
    sizes = rng.integers(0, 30, 3).tolist()
    with stand.link.publisher(Shape, "shape") as publisher:
        wait_for(lambda: publisher.get_subscription_count() > 0, _DISCOVERY_S)
        message = Shape(**dict(zip(_SHAPE_ARRAYS, ([0.0] * int(size) for size in sizes), strict=True)))
        for _ in range(60):
            message.header.stamp = stand.link.node.get_clock().now().to_msg()
            publisher.publish(message)
            time.sleep(0.02)
    return Effect(f"sizes {sizes}")


def parameter_flood(stand: Stand, _rng: Rng) -> Effect:
    """The pretension, set to what it is, more often than a node takes changes."""
    link, refused, end_s = stand.link, 0, time.monotonic() + _FLOOD_S
    pretension_n, count = link.get_parameter("clarke_controller", "pretension_n"), 0
    while time.monotonic() < end_s:
        refused += is_refused(lambda: link.set_parameters("clarke_controller", {"pretension_n": pretension_n}))
        count += 1
    return Effect(f"{count} changes in {_FLOOD_S:g} s, {refused} refused")


def hostile_requests(stand: Stand, _rng: Rng) -> Effect:
    """Requests out of range, each of which must be refused. Raises :class:`ParameterError` where one is accepted."""
    link = stand.link
    requests: tuple[tuple[str, Callable[[], object]], ...] = (
        ("inject_fault NaN", lambda: _inject(stand, devices.ENCODER_JUMP, 0, math.nan)),
        ("inject_fault tendon", lambda: _inject(stand, devices.ENCODER_JUMP, 4711, 0.0)),
        ("manage_stack 250", lambda: link.manage(250, 10.0)),
        ("release_estop", lambda: link.ask("release_estop", ReleaseEstop, ReleaseEstop.Request(holder="\0" * 4096))),
        ("limits.maximum_n", lambda: link.set_parameters("tendon_driver", {"limits.maximum_n": 1000.0})),
        ("limits NaN", lambda: link.set_parameters("tendon_driver", {"limits.maximum_n": math.nan})),
    )
    accepted = [name for name, request in requests if not is_refused(request)]
    if accepted:
        raise ParameterError("request", ", ".join(accepted), "a refusal")
    return Effect(f"{len(requests)} requests refused")


def is_refused(request: Callable[[], object]) -> bool:
    """Whether a request ends with an error of this project."""
    try:
        request()
    except ContinuumRobotError:
        return True
    return False


# --- operation


def _client_comes_and_goes(stand: Stand, _rng: Rng) -> Effect:
    """A program of its own, as with people: it asks which controller commands, and leaves."""
    command = [sys.executable, "-m", "continuum_robot.app.command_line", "controller"]
    namespace = ["--namespace", stand.link.namespace] if stand.link.namespace else []
    try:
        asked = subprocess.run(
            [*command, *namespace], capture_output=True, text=True, timeout=_CLIENT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeviceError("client", f"did not end within {_CLIENT_TIMEOUT_S:g} s", "The machine is too busy") from None
    return Effect(asked.stdout.strip() or asked.stderr.strip())


def _pause(stand: Stand, _rng: Rng) -> Effect:
    stand.link.manage(ManageStack.Request.PAUSE)
    return Effect()


def _restart(stand: Stand, _rng: Rng) -> Effect:
    stand.link.manage(ManageStack.Request.SHUTDOWN)
    stand.link.manage(ManageStack.Request.STARTUP)
    return Effect()


def _reset(stand: Stand, _rng: Rng) -> Effect:
    stand.link.manage(ManageStack.Request.RESET)
    return Effect()


def _concurrent_resets(stand: Stand, _rng: Rng) -> Effect:
    """Two operators at once: one of them may be refused."""
    threads = [threading.Thread(target=is_refused, args=(lambda: _reset(stand, _rng),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Effect()


def _at_once(_limits: TensionLimits) -> float:
    return 0.0


def _reading(limits: TensionLimits) -> float:
    return limits.reading_timeout_s


def _board(limits: TensionLimits) -> float:
    return BOARD_TIMEOUTS * limits.command_timeout_s


FAULTS: tuple[SoakFault, ...] = (
    SoakFault("frozen_reading", 4, EITHER, _device(devices.FREEZE_SENSOR)),
    SoakFault("nan_reading", 4, SAFE, _device(devices.NAN_READING, known=_reading)),
    SoakFault("readings_lost", 4, EITHER, _device(devices.DROP_READINGS, 0.1, 1.0)),
    SoakFault("displacement_jump", 4, EITHER, _device(devices.ENCODER_JUMP, -0.01, 0.01)),
    SoakFault("readings_late", 4, EITHER, _device(devices.DELAY_READINGS, 0.0, 0.2)),
    SoakFault("weak_motor", 4, EITHER, _device(devices.SATURATE_CURRENT, 0.0, 0.5)),
    SoakFault("slack_tendon", 4, EITHER, _device(devices.SLACK_TENDON, 0.0, 0.02), mechanical=True),
    SoakFault("stuck_motor", 4, EITHER, _device(devices.STUCK_MOTOR), mechanical=True),
    SoakFault("snapped_tendon", 4, EITHER, _device(devices.SNAPPED_TENDON), mechanical=True),
    SoakFault("device_fault", 4, SAFE, _device(devices.DEVICE_FAULT, known=_at_once)),
    SoakFault("hot_motor", 4, SAFE, _device(devices.HOT_MOTOR, 120.0, 300.0, known=_at_once)),
    SoakFault("control_loop_killed", 1.5, SAFE, _kill("control_loop", _board), reset=True),
    SoakFault("sensing_killed", 1, EITHER, _kill("sensing"), reset=True),
    SoakFault("display_killed", 1, EITHER, _kill("display"), reset=True),
    SoakFault("simulator_killed", 1, SAFE, _kill("simulator"), truthless=True, reset=True),
    SoakFault("control_loop_stopped", 4, EITHER, _stop("control_loop", 0.02, 1.0)),
    SoakFault("sensing_stopped", 4, EITHER, _stop("sensing", 0.05, 2.0)),
    SoakFault("display_stopped", 2, TOLERATED, _stop("display", 0.05, 0.5)),
    SoakFault("simulator_stopped", 3, EITHER, _stop("simulator", 0.02, 1.0)),
    SoakFault("supervisor_stopped", 2, TOLERATED, _stop("supervisor", STALL_S, STALL_S)),
    SoakFault("estop_service", 4, SAFE, _estop_service),
    SoakFault("estop_by_two", 4, SAFE, estop_by_two),
    SoakFault("foreign_commands", 3, TOLERATED, foreign_commands),
    SoakFault("foreign_references", 3, TOLERATED, _foreign_references),
    SoakFault("forged_owner", 3, TOLERATED, forged_owner),
    SoakFault("wrong_shapes", 3, TOLERATED, wrong_shapes),
    SoakFault("parameter_flood", 2, TOLERATED, parameter_flood),
    SoakFault("hostile_requests", 3, TOLERATED, hostile_requests),
    SoakFault("client_comes_and_goes", 4, TOLERATED, _client_comes_and_goes),
    SoakFault("pause", 4, SAFE, _pause),
    SoakFault("shutdown_and_startup", 3, EITHER, _restart),
    SoakFault("reset", 4, EITHER, _reset),
    SoakFault("two_resets_at_once", 2, EITHER, _concurrent_resets),
)
"""Everything that is drawn; processes are killed seldom, so that they live long enough to be seen growing."""


def draw(rng: Rng) -> SoakFault:
    """One of :data:`FAULTS`, by their weights."""
    weights = np.array([fault.weight for fault in FAULTS])
    return FAULTS[int(rng.choice(len(FAULTS), p=weights / weights.sum()))]
