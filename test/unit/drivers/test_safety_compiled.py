# SPDX-License-Identifier: Apache-2.0
"""Limits, watches and safety logic give the same bits interpreted and compiled, whatever comes."""

import dataclasses
import functools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from changed_robots import restated, with_own
from safety_steps import TendonSafety, by_hand

from continuum_robot.control import limits
from continuum_robot.drivers.protocols import TendonReading
from continuum_robot.drivers.safety import command_watch, fault_codes, tendon_faults
from continuum_robot.drivers.safety.settings import SafetySettings
from continuum_robot.errors import ContinuumRobotError, RobotFileError
from continuum_robot.geometry.clarke import ClarkeManifold, UnrelatedTendons
from continuum_robot.robot import stop_policy
from continuum_robot.robot.coordinates import tendon_manifold
from continuum_robot.robot.loading import load_robot
from continuum_robot.robot.stop_policy import StopPolicy
from continuum_robot.runtime.cycle.compilation import NotCompiledError, compiled_cycle

FIVE = load_robot("opencr_five_tendon")
STEPS = 700
ACTIONS = [action for action in stop_policy.STOP_ACTIONS if action != stop_policy.TORQUE_OFF]
SEEN = ("holds", "fallback", "torque off due")
SEEDS = 24
WANTED = SafetySettings(late_time_s=0.005, frozen_time_s=0.03, activation_grace_s=0.2, current_mismatch_time_s=0.02)


@pytest.fixture(scope="module")
def compiled():
    try:
        return compiled_cycle()
    except NotCompiledError as reason:
        pytest.skip(str(reason))


def policy_of(rng):
    """Any action that the robot file allows, for each class of faults."""
    actions = {}
    for key in tendon_faults.STOP_CLASSES:
        while True:
            actions[key] = str(rng.choice(ACTIONS))
            try:
                StopPolicy(**actions).check(displacements=False)
                break
            except RobotFileError:
                continue
    return StopPolicy(
        **actions,
        hold_s=float(rng.choice([0.02, 0.3, 5.0])),
        hold_authority_n=float(rng.uniform(0.2, 8)),
        hold_bandwidth_rad_per_s=float(rng.uniform(5, 100)),
        torque_off=bool(rng.random() < 0.5),
    )


def robot_of(rng, policy_rng):
    """One to three segments of three to five tendons each, through all segments or from their own one."""
    segments = []
    for number in range(rng.integers(1, 4)):
        own = FIVE.segments[0]
        tendons = dataclasses.replace(
            own.tendons,
            count=int(rng.integers(3, 6)),
            angle_offset_rad=float(rng.uniform(0, 1)),
            from_base=bool(number == 0 or rng.random() < 0.7),
        )
        segments.append(dataclasses.replace(own, name=f"segment_{number}", tendons=tendons))
    robot = dataclasses.replace(
        FIVE,
        segments=tuple(segments),
        strings=(),
        hardware=None,
        control=None,
        reference=None,
        actuators=dataclasses.replace(FIVE.actuators, brake_holds_n=40.0),
        stop=policy_of(policy_rng),
    )
    total_n = float(rng.uniform(4, 12)) * robot.tendon_count
    timeout_s = float(rng.uniform(0.01, 0.1))
    return dataclasses.replace(
        robot, limits=dataclasses.replace(robot.limits, total_n=total_n, command_timeout_s=timeout_s)
    )


REQUESTS = ("", "estop", "ask", "hang", "release", "reset", "activate", "deactivate", "off", "unknown", "await")


class Story:
    """What happens to a driver: readings, commands and requests, drawn at random but as they belong together."""

    def __init__(self, rng, robot):
        self.rng, self.robot, self.manifold = rng, robot, tendon_manifold(robot)
        self.count = robot.tendon_count
        self.now_s, self.sequence = 5.0, 0
        self.clarke = np.zeros(self.manifold.coordinate_count)
        self.frozen, self.before = None, np.zeros(self.count)
        self.mood = 0
        self.warmth = np.random.default_rng(1)

    def often(self, probability):
        return self.rng.random() < probability

    def reading(self, tension):
        rng, count = self.rng, self.count
        self.clarke = self.clarke + rng.normal(0, 2e-5, self.clarke.size) * self.often(0.9)
        if self.often(0.003):
            self.clarke = rng.uniform(-0.03, 0.03, self.clarke.size)
        q = self.manifold.displacement(self.clarke) + rng.normal(0, 1e-6, count) * self.often(0.8)
        if self.often(0.01):
            self.frozen = int(rng.integers(count)) if self.frozen is None else None
        if self.frozen is not None:
            q[self.frozen] = self.before[self.frozen]
        if self.often(0.005):
            q[rng.integers(count)] += rng.choice([0.004, 0.01, math.nan, math.inf])
        elif self.often(0.05):
            q = self.before.copy()
        self.before = q
        force = tension + rng.normal(0, 0.02, count)
        if self.often(0.005):
            force[rng.integers(count)] += rng.choice([-9.0, 60.0, math.nan, math.inf])
        current = force / self.robot.newton_per_ampere
        velocity = rng.normal(0, 0.05, count)
        unknown = np.full(count, np.nan)
        if self.mood == 1:
            current = np.zeros(count)
        elif self.mood == 2:
            force, current, velocity = unknown, unknown, unknown
        elif self.often(0.01):
            velocity[0] = rng.choice([math.nan, 5.0, -5.0])
        age = np.abs(rng.normal(0, 2e-3, count))
        if self.often(0.005):
            age[rng.integers(count)] = rng.choice([math.nan, math.inf, 0.2])
        stamp_s = self.now_s - (0.06 if self.often(0.004) else 0.0)
        if self.often(0.001):
            stamp_s = math.nan
        faults = ("tendon 0: hot",) if self.often(0.004) else ()
        temperature = np.full(count, 40.0) if self.warmth.random() < 0.3 else unknown.copy()
        if self.warmth.random() < 0.001:
            temperature[self.warmth.integers(count)] = self.warmth.choice([90.0, 250.0, math.inf])
        return TendonReading(stamp_s, q, velocity, force, current, temperature, age, faults)

    def command(self):
        rng = self.rng
        kind = rng.random()
        if self.mood == 3 or kind < 0.1:
            return None
        if kind < 0.115:
            return rng.choice([np.zeros(2), np.zeros(self.count + 3), np.zeros((1, self.count))][rng.integers(3)], 2)
        desired = np.full(self.count, 3.0) + rng.normal(0, 0.3, self.count)
        if kind < 0.4:
            desired = rng.uniform(-4, 1.3 * FIVE.limits.maximum_n, self.count)
        if kind < 0.125:
            desired[rng.integers(self.count)] = rng.choice([math.nan, math.inf, -math.inf, 100.0, -90.0])
        return desired

    def steps(self):
        rng = self.rng
        for _ in range(STEPS):
            if self.often(0.02):
                self.mood = int(rng.choice([0, 0, 0, 1, 2, 3]))
            dt = float(rng.choice([1e-3, 1e-3, 1e-3, 1e-3, 0.0, 2.5e-3, 0.012, 0.04]))
            self.now_s += dt
            self.sequence += not self.often(0.05)
            age_s = float(rng.choice([0.0, 0.0, 0.0, 0.002, 0.5, math.nan, -1.0]))
            latency_s = float(rng.choice([3e-4, 0.08, math.nan], p=[0.6, 0.3, 0.1])) if self.mood == 0 else 3e-4
            yield SimpleNamespace(
                dt=dt,
                now_s=self.now_s,
                age_s=age_s if self.often(0.3) else 0.0,
                sequence=self.sequence if self.often(0.8) else 0,
                latency_s=latency_s,
                missed=int(rng.integers(0, 3)) * self.often(0.2) + 100 * self.often(0.002),
                request=str(
                    rng.choice(
                        REQUESTS,
                        p=[0.809, 0.002, 0.002, 0.001, 0.05, 0.05, 0.075, 0.004, 0.003, 0.003, 0.001],
                    )
                ),
                lost=self.often(0.03),
            )


def with_own_limits(robot, rng):
    """The robot with limits and motors of their own on some tendons."""
    limits, actuators, count = robot.limits, robot.actuators, robot.tendon_count
    numbers = (rng.permutation(count) + 1).tolist()
    limits = with_own(limits, numbers[:2], maximum_n=0.6 * limits.maximum_n, rate_n_per_s=0.4 * limits.rate_n_per_s)
    own = {"minimum_n": 1.2 * limits.minimum_n, "safe_n": 0.7 * limits.safe_n, "maximum_displacement_m": 0.02}
    limits = with_own(limits, numbers[2:3], **own, current_mismatch_a=0.5)
    actuators = with_own(actuators, numbers[1:3], rotor_inertia_kg_m2=2e-5, spool_radius_m=0.007)
    return dataclasses.replace(robot, limits=limits, actuators=actuators)


def run(kind, seed, changed=None):
    """Everything that can be seen of the safety logic after each of many steps."""
    rng = np.random.default_rng(seed)
    robot = robot_of(rng, np.random.default_rng(1000 + seed))
    if changed is not None:
        robot = changed(robot)
    elif seed % 2:
        robot = with_own_limits(robot, np.random.default_rng(2000 + seed))
    story = Story(rng, robot)
    safety = kind(robot, WANTED, 1e-3, delay_margin_s=float(rng.choice([0.0, 0.02])))
    seen = []
    for step in story.steps():
        reading, command = story.reading(safety.commanded), story.command()
        answer = ""
        try:
            if step.request == "estop":
                safety.estop("test", held=step.sequence % 2 == 0, release=step.sequence % 3 == 0)
            elif step.request == "ask":
                safety.ask_estop("test", held=step.sequence % 2 == 0)
            elif step.request == "hang":
                safety.hang_seen = True
            elif step.request == "release":
                safety.release_estop()
            elif step.request == "reset":
                answer = safety.reset()
            elif step.request == "activate":
                safety.activate(reading, step.now_s)
            elif step.request == "deactivate":
                safety.deactivate()
            elif step.request == "off":
                safety.torque_off()
            elif step.request == "await":
                safety.await_commands(step.now_s)
            elif step.request == "unknown":
                safety.positions_known = not safety.positions_known
        except ContinuumRobotError as error:
            answer = str(error)
        safety.latency_s, safety.missed = step.latency_s, step.missed
        output = safety.update(
            None if step.lost else reading, command, step.age_s, step.now_s, step.dt, command_sequence=step.sequence
        )
        seen.append(
            (
                output.tension.tobytes(),
                output.limited.tobytes(),
                output.state,
                output.write,
                output.faults,
                output.new_faults,
                answer,
                safety.commanded.tobytes(),
                safety.conditions,
                safety.last_fault,
                bool(safety.released),
                bool(safety.estop_held),
                bool(safety.changed),
                bool(safety.late_warning),
                np.array([safety.missed_fraction, safety.worst_latency_s]).tobytes(),
                np.array([safety.heat.winding(), safety.heat.housing(), safety.heat.temperatures()]).tobytes(),
                safety.stop_action,
                bool(safety.stop.holds),
                bool(safety.fallback_holds),
                bool(safety.torque_off_due),
            )
        )
    return seen


@functools.cache
def interpreted(seed):
    return run(TendonSafety, seed)


def test_both_forms_give_the_same_bits(compiled):
    fast = by_hand(compiled.TendonSafety, compiled.ReadingBuffer)
    for seed in range(SEEDS):
        for number, (one, other) in enumerate(zip(interpreted(seed), run(fast, seed), strict=True)):
            assert one == other, f"seed {seed}, step {number}"


def test_values_that_each_tendon_states_are_all_that_counts():
    """The same bits but for sentences that name the tendon, whatever stands there for all."""
    for seed in range(0, SEEDS, 4):
        for number, (one, other) in enumerate(zip(interpreted(seed), run(TendonSafety, seed, restated), strict=True)):
            assert [*one[:6], *one[7:]] == [*other[:6], *other[7:]], f"seed {seed}, step {number}"


def test_the_stories_reach_every_fault_every_limit_and_every_state():
    states, faults, limited, actions = Counter(), Counter(), Counter(), Counter()
    for seed in range(SEEDS):
        for one in interpreted(seed):
            states[one[2]] += 1
            faults.update(one[5])
            actions.update([one[-4], *(name for name, found in zip(SEEN, one[-3:], strict=True) if found)])
            limited.update(bit for byte in one[1] for bit in (1, 2, 4, 8, 16) if byte & bit)
    assert min(states[name] for name in ("active", "safe", "inactive")) > 1000
    of_servos = {tendon_faults.DISPLACEMENT_LAG, tendon_faults.SLACK_TENDON}
    assert faults.keys() == tendon_faults.FAULTS.keys() - of_servos
    assert min(actions[name] for name in (*ACTIONS, *SEEN)) > 50
    # What is not finite never passes the safety logic: a fault latches before.
    assert limited.keys() == {2, 4, 8, 16}


def test_the_limiter_by_itself(compiled):
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = int(rng.integers(1, 13))
        manifold = UnrelatedTendons(count)
        if count >= 6 and rng.random() < 0.7:
            manifold = ClarkeManifold([3, count - 3], [0.007, 0.006], [0.0, 0.3])
        own = dataclasses.replace(FIVE.limits, total_n=float(rng.uniform(1.6, 8)) * count, rate_n_per_s=500.0)
        if rng.random() < 0.5:
            weak = rng.permutation(count)[: count // 2 + 1] + 1
            own = with_own(own, weak.tolist(), maximum_n=0.5 * own.maximum_n, rate_n_per_s=200.0, minimum_n=0.6)
        pair = [kind(own, manifold) for kind in (limits.TensionLimiter, compiled.TensionLimiter)]
        for _ in range(60):
            desired = rng.normal(0, 10.0 ** rng.uniform(-1, 4), count)
            desired[rng.random(count) < 0.1] = rng.choice([math.nan, math.inf, -math.inf])
            dt = float(rng.choice([0.0, 1e-3, 0.01]))
            first, second = (one.update(desired, dt) for one in pair)
            assert first.tension.tobytes() == second.tension.tobytes()
            assert first.limited.tobytes() == second.limited.tobytes()


def test_the_bits_of_the_faults_stand_in_the_order_of_their_names():
    for code, name in enumerate(tendon_faults.FAULTS):
        assert getattr(fault_codes, f"{name.upper()}_BIT") == 1 << code
        assert tendon_faults.fault_name(code) == name
    assert len(tendon_faults.FAULTS) == fault_codes.FAULT_BIT_COUNT
    assert tendon_faults.fault_names(0b101) == tuple(tendon_faults.FAULTS)[0:3:2]


def test_the_slots_of_the_lateness_make_a_second():
    assert command_watch.LATENESS_SLOTS * command_watch.LATENESS_SLOT_S == 1.0
