# SPDX-License-Identifier: Apache-2.0
"""What a user learns of each named fault, on the pages of docs/ and in the browser: why, how noticed, what to do."""

from __future__ import annotations

from dataclasses import dataclass

from continuum_robot.drivers.backends import device_faults
from continuum_robot.drivers.fault_text import HOME, RESET
from continuum_robot.drivers.safety.tendon_faults import FAULTS as DRIVER_FAULTS


@dataclass(frozen=True, slots=True)
class FaultText:
    """A fault as its page and the browser show it."""

    name: str
    told_by: str
    meaning: str
    causes: tuple[str, ...]
    noticed: str
    cure: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """The cure in one line of plain text."""
        return _plain(" ".join(_SHORT.get(step, step) for step in self.cure))

    @property
    def plain_meaning(self) -> str:
        """The meaning without marks."""
        return _plain(self.meaning)


HOME_IF_LOST = "If the zero is lost: " + HOME[0].lower() + HOME[1:]
_SHORT = {
    RESET: "Then reset.",
    HOME: "End the stack, home the robot, start again.",
    HOME_IF_LOST: "If the zero is lost, end the stack, home, start again.",
}
LOOK = "Read the name that stands beside it in `/diagnostics`: that is the cause."

# name: causes, how it is noticed, cure
_DRIVER: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "command_timeout": (
        (
            "the controller died, hangs or is not active",
            "the computer is too busy for it",
            "commands answer old states",
        ),
        "In every cycle the driver compares the age of the newest command, counted from the state it answers, with "
        "`limits.command_timeout_s`; after activation it waits `safety.activation_grace_s` longer for the first one.",
        ("See in `stack_status` whether clarke_controller runs and is active.", "Relieve the computer.", RESET),
    ),
    "loop_hangs": (
        (
            "the `update` of a controller of your own does not return",
            "a call to a device does not return: its port, its adapter or its driver hangs",
            "a reference, an estimator or another program in the driver's process keeps Python from running",
        ),
        "A thread beside the cycle counts the cycles. None for half a second, and for twice "
        "`limits.command_timeout_s`, is this fault: nothing is written, so that the devices' own timeouts switch the "
        "motors off. It is published at once, and latched by the next cycle if there is one. An e-stop meanwhile "
        "switches the torque off past the loop, and its answer says that it is not confirmed.",
        (
            "If the robot is not at rest, cut the motors' supply.",
            "Mend the controller, or see to the device.",
            "If the cycle never goes on, restart the driver's process: it refuses to be configured until then.",
            RESET,
        ),
    ),
    "loop_too_slow": (
        (
            "the computer is too slow or too busy for the control loop",
            "the loop has no real-time priority beside other programs",
            "the controller runs in a program of its own, or waits for another one",
            "the CAN adapter or its driver holds frames back",
        ),
        "While active, every command of `safety.late_time_s` was written later after the state that it answers than "
        "the control loop bears (`safety.late_latency_s`), or more than `safety.missed_fraction` of the cycles of the "
        "last second were missed. A procedure only needs 200 cycles a second, or the bus's rate if that is lower. At "
        "half of either limit `/diagnostics` warns; the warning, the log and a procedure's answer have both numbers.",
        (
            "End other programs, or give the loop priority and a processor of its own.",
            "Run the controller inside the driver's cycle, or lower `rate_hz`.",
            RESET,
        ),
    ),
    "command_not_finite": (
        ("the program that writes `tendon_commands` divides by zero, or passes an unknown reading on",),
        "At once: nothing that is not finite reaches a motor.",
        ("Mend the program that writes `tendon_commands`: an unknown reading must not become a command.", RESET),
    ),
    "motor_hot": (
        (
            "too much tension for too long, or too much pretension",
            "the motors are not cooled, or the air is hotter than `actuators.heat.ambient_c`",
            "`actuators.heat` in the robot file are not the motor's numbers",
        ),
        "A motor reached `temperature_error_c` of the robot file's `actuators`, as its board measures it or as the"
        " model `actuators.heat` computes it from the measured currents, whichever is higher; it counts as hot until it"
        " is below `temperature_warn_c`. A temperature that is unknown is neither hot nor cool.",
        (
            "Let the motor cool down: `/diagnostics` (`tendon_driver: bus`, `temperature_c`) shows how hot it is, and a"
            " reset is refused until then.",
            "Lower `limits.maximum_n`, `limits.total_n` or the pretension.",
            "Check the numbers of `actuators.heat` (motors.md).",
            RESET,
        ),
    ),
    "command_wrong_size": (
        (
            "the program that writes `tendon_commands` was made for a robot with another number of tendons",
            "it fills `tension` where the actuators take displacements, or `displacement` where they take tensions",
        ),
        "At once: a command must hold one number a tendon in the array that `actuators.command` of the robot file "
        "names; the other array is empty.",
        ("Stop the program that writes `tendon_commands`, or give it this robot's file.", RESET),
    ),
    "command_out_of_range": (
        (
            "gains that make the loop unstable",
            "a controller that works in another unit than N or m",
            "a defect of its sender",
        ),
        "A tension outside of [0, `limits.maximum_n`] by more than `safety.command_fraction` of it, or a displacement "
        "beyond `limits.maximum_displacement_m` by more than that fraction. What is less far off is limited, and "
        "reported in `limited`.",
        ("Lower the gains, or mend the program that writes `tendon_commands`.", RESET),
    ),
    "reading_timeout": (
        ("a motor board or adapter lost its power or its plug", "the bus is overloaded", "the computer stalled"),
        "The newest reading is older than `limits.reading_timeout_s`.",
        (
            "Check power, plugs and the computer's load; `continuum-robot devices ROBOT` names the missing device.",
            RESET,
        ),
    ),
    "reading_not_finite": (
        ("a device that does not know its position, speed or current",),
        "A displacement, velocity or tension of a reading is NaN or infinite.",
        (LOOK, "Check the wiring of the sensor.", RESET),
    ),
    "frozen_reading": (
        ("an encoder's cable is loose", "a board repeats its last values", "a motor is stuck"),
        "A displacement repeats bit by bit for `safety.frozen_time_s`, and does not change within "
        "`limits.frozen_begin_s` after the other tendons moved by `limits.frozen_motion_m` or the commanded "
        "generalised force changed by `limits.frozen_force_n`. A servo's reading is frozen if its load repeats too, "
        "while its command moves by `limits.frozen_motion_m`. These follow from the robot file unless it states them; "
        "`continuum-robot check` prints them.",
        (
            "Turn the motor by hand with the power off and look at its displacement.",
            "Check the encoder's cable, or switch the board's power off and on.",
            RESET,
            HOME_IF_LOST,
        ),
    ),
    "displacement_jump": (
        ("an encoder lost counts, or got some", "a frame was damaged past its checksum"),
        "A displacement changed by more than `safety.jump_m` and faster than `safety.maximum_speed_m_per_s`.",
        ("Check the encoder's cable and shield.", HOME),
    ),
    "inconsistent_displacement": (
        ("a tendon is slack, slipped on its spool or broke", "an encoder lost its zero", "the robot was never homed"),
        "The displacements of a segment must lie on the Clarke manifold. Their root mean square distance exceeds "
        "`limits.inconsistency_m`, by default 2 mm or the stretch of a tendon at `limits.maximum_n`.",
        ("Look at every tendon of that segment.", "Mend or replace the tendon.", HOME),
    ),
    "displacement_out_of_range": (
        ("a reference beyond what the robot can do", "the zero is lost", "a tendon slipped"),
        "A displacement exceeds `limits.maximum_displacement_m` either way.",
        ("Take the reference back.", RESET, HOME_IF_LOST),
    ),
    "tension_out_of_range": (
        ("something blocks or pulls the robot", "the loop swings", "a wrong torque constant or gear ratio"),
        "A measured tension exceeds `limits.maximum_n`, or lies below zero, by more than `safety.tension_margin_n`. "
        "The load of a servo that takes displacements exceeds `limits.maximum_n` by more than its friction and inertia "
        "for `safety.current_mismatch_time_s`; an unknown load is no fault.",
        ("Free the robot.", "Lower the gains where it swings.", "Check the motors' constants.", RESET),
    ),
    "current_mismatch": (
        ("a phase of a motor is open", "the motors' supply is off or weak", "a board's stop input is closed"),
        "Measured and commanded current differ by more than `limits.current_mismatch_a` for "
        "`safety.current_mismatch_time_s`: by default 5 % of the largest current, 20 % and two counts for servos.",
        ("Check the motor's cable and the supply.", "Open the stop input.", RESET),
    ),
    "displacement_lag": (
        (
            "something blocks the robot, or a tendon is caught",
            "a servo is overloaded and has limited its torque, or switched it off",
            "the servos' supply is weak: they are slower than `actuators.servo.maximum_speed_rad_per_s`",
            "`actuators.servo.bandwidth_hz` is higher than the servo's",
        ),
        "A measured displacement is farther than `limits.lag_m` from the commanded one for "
        "`safety.current_mismatch_time_s`. By default 1.5 times what the servo's bandwidth, its stiffness under "
        "`limits.maximum_n`, the fastest command and the bus make; `continuum-robot check` prints it. The release "
        "begins where the servo is, so that it pulls no further.",
        (
            "Free the robot, and look at the servo that `/diagnostics` names by its load.",
            "Measure the supply while it moves; lower `limits.speed_m_per_s` or `actuators.servo.bandwidth_hz`.",
            RESET,
        ),
    ),
    "slack_tendon": (
        (
            "a tendon broke, or slipped on its spool",
            "the pretension is too low for this shape",
            "the load that a servo reports is offset: `limits.slack_n` is within its friction",
        ),
        "The load of a tendon that was taut since the activation is below `limits.slack_n` by more than its motor's "
        "friction for `safety.current_mismatch_time_s`. Only where loads are known.",
        (
            "Look at the tendon, and mend it.",
            "Raise the pretension, or lower `limits.slack_n`.",
            HOME_IF_LOST,
            RESET,
        ),
    ),
    "device_fault": (
        ("a motor board or servo reports a fault of its own, with its name in `/diagnostics`",),
        "At once, in the reading in which the device reports it.",
        (LOOK, "Follow its page in docs/faults.", RESET),
    ),
    "estop": (
        (
            "somebody asked for it: service or topic `estop`, the browser, the client, a button",
            "the heartbeat of a button on `estop_button` is lost",
            "a node found that it must stop",
        ),
        "At once, in every lifecycle state.",
        (
            "See that the robot and everybody near it are safe.",
            "Have the holder of the stop release it: `reset_estop` and `estop_holders` in `driver_status` name them. "
            "Where one has gone for good, use the service `release_estop` (docs/safety.md).",
            RESET,
        ),
    ),
}

_STACK: dict[str, tuple[str, tuple[str, ...], str, tuple[str, ...]]] = {
    "node_lost": (
        "a node is gone, hangs or left its state",
        ("the node's program ended or was killed", "it hangs", "somebody changed its lifecycle by hand"),
        "The supervisor listens to every node's `/diagnostics` and transition events. A node that is silent for 3 s is"
        " asked for its state, and is lost without an answer within another 3 s.",
        (
            "`up` and the launch files start its program again by themselves; elsewhere start it. Look at its log.",
            RESET,
        ),
    ),
    "node_failed": (
        "a node had a defect",
        ("a callback of the node raised an exception that nothing handles",),
        "It is in the node's `/diagnostics`. The node works on as far as it can, and other nodes of its process are not"
        " affected; the contact monitor is invalid.",
        ("Keep the log, which has the traceback, and report it.", RESET),
    ),
    "two_writers": (
        "two programs write `tendon_commands`",
        ("another controller runs beside clarke_controller", "a stack of before still lives"),
        "The first that writes has the commands; another one is refused, and where both go on, this latches. The"
        " driver's diagnostics (`round_trip`) name both.",
        ("Stop one of them. For a controller of your own start the stack without one: `controller:=none`.", RESET),
    ),
    "internal_error": (
        "a defect of the driver's program",
        ("a callback raised an exception that it must not raise",),
        "At once. What the callback left undone is unknown, so the tendons go to their safe tension.",
        ("Keep the log, which has the traceback, and report it.", "Restart the stack."),
    ),
    "startup_failed": (
        "the stack did not come up",
        ("a node refused to be configured or activated: a device is missing, it was not homed, a file is wrong",),
        "The node's answer, or its silence for `transition_timeout_s` or `configure_timeout_s`.",
        ("The log and `stack_status.message` name the node and its reason: remove it.", RESET),
    ),
    "resume_failed": (
        "the stack did not resume after a pause",
        ("a node refused to be activated",),
        "As for [startup_failed](startup_failed.md).",
        ("Remove the reason that the log names.", RESET),
    ),
    "reset_failed": (
        "the reset did not succeed",
        ("the cause of the fault is still there", "the e-stop's topic is still true"),
        "As for [startup_failed](startup_failed.md).",
        ("Remove the cause.", "Reset again."),
    ),
    "pause_failed": (
        "a node did not go down when the stack was paused",
        ("a node hangs",),
        "As for [startup_failed](startup_failed.md).",
        ("Look at its log, end its program and start it again.", RESET),
    ),
    "readmission_failed": (
        "a node that was started again after it was lost could not be configured",
        ("its device is gone or in use", "another program of that name runs", "the robot file was changed meanwhile"),
        "As for [startup_failed](startup_failed.md). It is tried again every 5 s.",
        ("Remove the reason that the log names.", RESET),
    ),
    "shutdown_failed": (
        "a node did not go down when the stack was shut down",
        ("a node hangs",),
        "As for [startup_failed](startup_failed.md).",
        ("End its program: the driver releases the tendons by itself.",),
    ),
}

DRIVER = "`driver_status`, `stack_status.faults` and `/diagnostics` of tendon_driver"
STACK = "`stack_status.faults`"


def _all() -> dict[str, tuple[FaultText, ...]]:
    found: dict[str, tuple[FaultText, ...]] = {}
    for name, meaning in DRIVER_FAULTS.items():
        found[name] = (FaultText(name, DRIVER, meaning, *_DRIVER[name]),)
    for where, texts in device_faults().values():
        for name, text in texts.items():
            one = FaultText(name, where.format(name=name), *text)
            if one not in (known := found.get(name, ())):
                found[name] = *known, one
    return found | {name: (FaultText(name, STACK, *text),) for name, text in _STACK.items()}


def _plain(text: str) -> str:
    return text.replace("`", "")


FAULT_TEXTS: dict[str, tuple[FaultText, ...]] = _all()
"""By name: the fault as each of its tellers has it, the driver first. A name of driver and board is one page."""
