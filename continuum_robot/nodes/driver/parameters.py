# SPDX-License-Identifier: Apache-2.0
"""The tendon driver's own parameters; limits and thresholds of its safety are declared from their dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from continuum_robot.errors import ParameterError
from continuum_robot.nodes.base.parameters import ParameterServer
from continuum_robot.nodes.base.settings import Settings
from continuum_robot.nodes.recordings.records import RecordFolder
from continuum_robot.nodes.stack.choices import HOLD_TENSION, HOMING_POLICIES, SIMULATION_LEVELS, TIP
from continuum_robot.robot.actuation import Actuators, Limits
from continuum_robot.robot.schema import Quantity
from continuum_robot.runtime.machine import allowed_priority
from continuum_robot.runtime.periodic import FIFO_PRIORITY, RealtimeSettings

TAKE_UP_FRACTION = 0.25
TEMPERATURES = ("temperature_warn_c", "temperature_error_c")


def declare_parameters(parameters: ParameterServer) -> None:
    """Declare them."""
    declare = parameters.declare
    declare("rate_hz", 1000.0, "rate of the driver's cycle", rules=Quantity("", "Hz", ge=20, le=4000), read_only=True)
    declare(
        "decimated_rate_hz",
        100.0,
        "rate of tendon_states_decimated, for estimators and viewers that need not see every cycle",
        rules=Quantity("", "Hz", ge=1, le=4000),
        read_only=True,
    )
    declare(
        "joint_states_rate_hz",
        100.0,
        "rate of joint_states, for ros2_control and rviz",
        rules=Quantity("", "Hz", ge=1, le=4000),
        read_only=True,
    )
    declare("prefix", "", "put in front of the tendons' names in joint_states and joint_commands", read_only=True)
    declare(
        "simulation_level",
        "dynamics",
        "how much of the robot is simulated, as of the node simulator: dynamics, or wire, where the real driver"
        " speaks to simulated motor boards",
        rules=Quantity("", choices=SIMULATION_LEVELS),
        read_only=True,
    )
    declare(
        "cycle",
        "auto",
        "form of the cycle; auto: compiled where that can be had",
        rules=Quantity("", choices=("auto", "interpreted")),
        read_only=True,
    )
    declare(
        "lockstep.run_s",
        0.0,
        "in lock-step, how long time passes once the stack is up; 0: without end",
        rules=Quantity("", "s", ge=0, le=1e6),
        read_only=True,
    )
    declare(
        "homing",
        "auto",
        "whether a stored homing of this robot and robot file is needed to be activated; auto: on hardware",
        rules=Quantity("", choices=HOMING_POLICIES),
        read_only=True,
    )
    declare(
        "cogging",
        "auto",
        "whether the cogging of the motors that calibrate-cogging stored is fed forward; auto: on hardware",
        rules=Quantity("", choices=("auto", "on", "off")),
    )
    declare(
        "estop_button_timeout_s",
        0.5,
        "time without a heartbeat after which a button of the topic estop_button counts as pressed",
        rules=Quantity("", "s", ge=0.2, le=10),
        read_only=True,
    )
    declare(
        "estop_buttons",
        "",
        "names of buttons of estop_button, separated by commas, without which the driver is not activated",
        read_only=True,
    )
    declare(
        "second_writer",
        "fault",
        "what follows where a second program writes tendon_commands too; it is refused in any case. fault: two_writers"
        " latches; refuse: nothing more",
        rules=Quantity("", choices=("fault", "refuse")),
    )
    declare(
        "start_controller",
        "",
        "after each configuration. hold_tension: the driver holds the tensions as they are until switch_controller lets"
        " the controller command; tip: the tip is held where it is; empty: the controller commands at once",
        rules=Quantity("", choices=("", TIP, HOLD_TENSION)),
        read_only=True,
    )
    parameters.declare_settings("", RecordFolder(), quiet=True)
    declare("can_interface", "", "python-can interface instead of the robot file's, empty: that", read_only=True)
    declare(
        "take_up_fraction",
        TAKE_UP_FRACTION,
        "tension that takes up slack at activation, as a fraction of what a tendon may carry when all carry the same",
        rules=Quantity("", "", ge=0, le=1),
        read_only=True,
    )
    declare(
        "rt.priority",
        -1,
        f"SCHED_FIFO priority, 0: none; -1: {FIFO_PRIORITY} where the system allows it, the controller is in the loop"
        " and nothing else in its process",
        rules=Quantity("", ge=-1, le=98),
        read_only=True,
    )
    declare("rt.cpu_affinity", [-1], "CPUs for the loop, -1: any", read_only=True)
    declare("rt.lock_memory", False, "keep the process's memory from being swapped out", read_only=True)


def refuse_of_tensions(parameters: ParameterServer) -> None:
    """Refuse what has no effect where the actuators take displacements."""
    fraction, cogging = parameters.get("take_up_fraction"), parameters.get("cogging")
    if fraction != TAKE_UP_FRACTION:
        raise ParameterError("take_up_fraction", fraction, f"{TAKE_UP_FRACTION}: servos take up no slack by a tension")
    if cogging == "on":
        raise ParameterError("cogging", cogging, "auto or off: servos compensate it by their own loop")


def realtime_settings(parameters: ParameterServer, *, own_process: bool) -> RealtimeSettings:
    """What the parameters want the loop to ask of the operating system."""
    get = parameters.get
    cpus = tuple(int(cpu) for cpu in get("rt.cpu_affinity") if cpu >= 0)
    priority = int(get("rt.priority"))
    if priority < 0:
        priority = allowed_priority(FIFO_PRIORITY) if own_process else 0
    return RealtimeSettings(priority, cpus, bool(get("rt.lock_memory")))


def declare_limits(parameters: ParameterServer, limits: Limits) -> Limits:
    """Declare the limits of the robot file; a parameter can only lower them, those of single tendons too."""
    every = [field.name for field in dataclasses.fields(limits)]
    settings = parameters.declare_settings("limits", limits.common, leave_out=["tendons"], only_lower=every)
    return limits.lowered(settings.value)


def declare_temperatures(
    parameters: ParameterServer, actuators: Actuators, take: Callable[[Actuators, set[str]], None]
) -> Settings:
    """Declare the motors' warning and error temperature, live; as :func:`declare_limits`."""
    others = [field.name for field in dataclasses.fields(actuators) if field.name not in TEMPERATURES]
    return parameters.declare_settings("", actuators, leave_out=others, only_lower=TEMPERATURES, take=take)
