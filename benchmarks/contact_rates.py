# SPDX-License-Identifier: Apache-2.0
"""Prints false alarms and missed pushes in virtual time: python benchmarks/contact_rates.py ROBOT.

The simulated robot with its motors and encoders, controller, shape estimator and sensor watch run as in the stack, the
host without delays. Each seed is another free motion, with other errors of encoders and motors; pushes are across the
backbone, on random disks, in random directions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.clarke_controller import ClarkeController
from continuum_robot.control.limits import TensionLimiter
from continuum_robot.control.references import ClarkeReference
from continuum_robot.errors import ParameterError
from continuum_robot.estimation.contact.floor_learning import FloorLearning
from continuum_robot.estimation.contact.monitor import ContactMonitor
from continuum_robot.estimation.contact.settings import KALMAN, MonitorSettings, default_settings
from continuum_robot.estimation.contact.states import ContactEstimate
from continuum_robot.estimation.sensor_watch import STACK_WATCH, StandstillWatch
from continuum_robot.estimation.shape import ShapeEstimator
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.holding_force import clarke_feedforward
from continuum_robot.rod.tendons import controlled_manifold
from continuum_robot.simulation.contact import Contact
from continuum_robot.simulation.devices.sensors import SimulatedStringEncoders
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.plants import PLANTS

Vector = NDArray[np.float64]

PERIOD_S, SHAPE_EVERY = 0.001, 10
SETTLE_S = 1.0  # tendons are stretched and observers settle: as settle_s of the nodes, and half a second
PUSH_EVERY_S, PUSH_S, RAMP_S = 2.0, 1.0, 0.2
HELD_S = (0.5, 0.8)  # after a push began: observers have settled on it, and it has not begun to fall
GRACE_S = 0.3  # after a push, in which a report is none of free motion
PUSHES_A_RUN = 25
SEEDS_A_PLANT = 10  # making one takes seconds; rotors turn with the motion in between
FIRST_SEED = 90_000  # of no other run
LEARNING_SEED = 80_000
LEARNING_ROOM_S = 1.0  # for shapes that do not count as free motion
SUSPECT_MOTION_M = 1e-4  # as the contact monitor's node


@dataclass
class Count:
    """What one method said."""

    free_s: float = 0.0
    false_alarms: int = 0
    invalid: int = 0
    detected: list[tuple[float, float]] = field(default_factory=list)
    missed: list[float] = field(default_factory=list)
    force_error: list[float] = field(default_factory=list)  # fraction of the push
    place_error_m: list[float] = field(default_factory=list)  # where a place is found
    largest_ratio: float = 0.0
    pieces: int = 0


def motion(robot: Robot, rng: np.random.Generator, still: bool) -> Iterator[ClarkeReference]:
    """Sums of two sines in each coordinate within the robot's own reference, a cycle each; or straight."""
    count = robot.coordinate_count
    size = np.resize(np.abs(robot.reference.amplitude_m), count) / 2 if robot.reference else np.full(count, 5e-3)
    if still:
        size = 0 * size
    amplitude = size * rng.uniform(0.3, 1.0, (2, count))
    rate = 2 * np.pi * rng.uniform(0.03, 0.2, (2, count))
    t = 0.0
    while True:
        t += PERIOD_S
        ramp = min(t, 1.0)  # speeds rise within a second; their own derivative is left to the feedback
        position = (amplitude * np.sin(rate * t)).sum(axis=0) * ramp
        velocity = (amplitude * rate * np.cos(rate * t)).sum(axis=0) * ramp
        yield ClarkeReference(position, velocity, np.zeros(count))


class Rig:
    """A robot with its monitors."""

    def __init__(self, robot: Robot, methods: Sequence[str], make_plant: Callable[..., Plant] = Plant) -> None:
        if robot.limits is None:
            raise ParameterError("robot", robot.name, "a robot file with limits")
        self.robot, self.limits, self.make_plant = robot, robot.limits, make_plant
        self.controller = ClarkeController(robot, clarke_feedforward(robot))
        self.shape = ShapeEstimator(robot, watch=STACK_WATCH)
        first = ContactMonitor(robot, motors=True)
        self.monitors = {
            method: ContactMonitor(robot, self.settings(method), functions=first.functions, motors=True)
            for method in methods
        }

    def settings(self, method: str) -> MonitorSettings:
        """The shipped ones of a method."""
        values = default_settings(self.robot)
        return MonitorSettings(**{name: getattr(values, name) for name in values.__slots__} | {"method": method})

    def run(self, seed: int, duration_s: float, plant: Plant, still: bool) -> Iterator[tuple]:
        """Time, method, estimate and displacements of each shape after the robot has settled."""
        rng = np.random.default_rng(seed)
        plant.reset()
        actuators = SimulatedTendonActuators(self.robot, plant, rng=rng)
        actuators.open()
        strings = None
        if self.robot.strings:
            string_rng = np.random.default_rng([seed, 1])
            strings = SimulatedStringEncoders(self.robot, actuators.string_source, rng=string_rng)
            strings.open()
        standstill = StandstillWatch([one.name for one in self.robot.strings], SUSPECT_MOTION_M)
        self.shape.reset()
        for monitor in self.monitors.values():
            monitor.reset()
        limiter = TensionLimiter(self.limits, controlled_manifold(self.robot))
        references, size = motion(self.robot, rng, still), self.robot.coefficient_count
        actuators.read(0.0)
        actuators.enable()
        for cycle in range(1, round(duration_s / PERIOD_S) + 1):
            t = cycle * PERIOD_S
            reading = actuators.read(t)
            reference = next(references)
            if cycle == 1:
                self.controller.reset(reading.displacement_m)
                limiter.reset(np.zeros(self.robot.tendon_count))
            desired = self.controller.update(reading.displacement_m, reading.velocity_m_per_s, reference, PERIOD_S)
            actuators.write(limiter.update(desired.command, PERIOD_S).tension, t)
            if cycle % SHAPE_EVERY:
                continue
            extension = None if strings is None else strings.read(t).extension_m
            if t < SETTLE_S / 2:
                self.shape.reset()
            dt = SHAPE_EVERY * PERIOD_S
            shape = self.shape.update(reading.displacement_m, reading.velocity_m_per_s, extension, dt)
            suspects = () if extension is None else standstill.update(extension, reading.displacement_m)
            rates = slice(size, 2 * size)
            for method, monitor in self.monitors.items():
                estimate = monitor.update(
                    shape.coefficients,
                    shape.coefficient_rates,
                    shape.covariance,
                    dt,
                    tension=reading.tension_n,
                    c_rate_covariance=None if shape.motion is None else shape.motion.covariance[rates, rates],
                    fault="; ".join((*shape.broken, *shape.unobservable)) if shape.broken else "",
                    suspects=suspects,
                )
                if t > SETTLE_S:
                    yield t, method, estimate, reading.displacement_m


def learn(rig: Rig, plant: Plant, duration_s: float) -> None:
    """Let all monitors learn the noise floor of a robot; one that detects something meanwhile learns nothing."""
    for monitor in rig.monitors.values():
        monitor.use_floor(None)
    if duration_s <= 0:
        return
    sessions: dict[str, FloorLearning] = {}
    for _, method, estimate, displacement_m in rig.run(
        LEARNING_SEED, SETTLE_S + duration_s + LEARNING_ROOM_S, plant, still=False
    ):
        if method not in sessions:  # not before the robot has settled
            sessions[method] = FloorLearning(rig.monitors[method], duration_s)
        sessions[method].take(estimate, displacement_m, SHAPE_EVERY * PERIOD_S)
    for method, session in sessions.items():
        if session.learnt is None:
            print(f"{method}: nothing learnt: {session.problem or 'not enough of it was free of reports'}", flush=True)
        else:
            print(f"{method}: {session.learnt.sentence()}", flush=True)


def free_motion(rig: Rig, seeds: int, duration_s: float, learn_s: float) -> dict[str, Count]:
    """False alarms in as many motions."""
    counts = {method: Count() for method in rig.monitors}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        if (seed - FIRST_SEED) % SEEDS_A_PLANT == 0:
            plant = rig.make_plant(rig.robot, rng=np.random.default_rng([seed, 3]))
            learn(rig, plant, learn_s)
        touched = dict.fromkeys(counts, False)
        invalid = dict.fromkeys(counts, False)
        for _, method, estimate, _ in rig.run(seed, SETTLE_S + duration_s, plant, still=False):
            count = counts[method]
            count.free_s += SHAPE_EVERY * PERIOD_S
            count.false_alarms += estimate.in_contact and not touched[method]
            count.invalid += estimate.state == "invalid" and not invalid[method]
            count.largest_ratio = max(count.largest_ratio, np.nan_to_num(estimate.ratio))
            touched[method], invalid[method] = estimate.in_contact, estimate.state == "invalid"
    return counts


def pushes(rig: Rig, number: int, force_n: tuple[float, float], still: bool, learn_s: float) -> dict[str, Count]:
    """Detected and missed ones of as many pushes, with reports in between."""
    counts = {method: Count() for method in rig.monitors}
    disks_m = rig.robot.disk_arc_lengths_m
    disks = len(disks_m)
    for first in range(0, number, PUSHES_A_RUN):
        seed = FIRST_SEED + 10_000 + first
        rng = np.random.default_rng([seed, 2])
        contacts = []
        for k in range(min(PUSHES_A_RUN, number - first)):
            size_n, angle = rng.uniform(*force_n), rng.uniform(0, 2 * np.pi)
            start_s = SETTLE_S + 0.5 + k * PUSH_EVERY_S
            contacts.append(
                Contact(
                    name=f"push {k}",
                    kind="push",
                    frame="disk",
                    disk=int(rng.integers(1, disks + 1)),
                    force_n=(size_n * np.cos(angle), size_n * np.sin(angle), 0.0),
                    ramp_s=RAMP_S,
                    start_s=start_s,
                    end_s=start_s + PUSH_S,
                )
            )
        learn(rig, rig.make_plant(rig.robot, rng=np.random.default_rng([seed, 3])), learn_s)
        plant = rig.make_plant(rig.robot, rng=np.random.default_rng([seed, 3]), contacts=contacts)
        heard: dict[str, list[tuple[float, ContactEstimate]]] = {method: [] for method in counts}
        for t, method, estimate, _ in rig.run(seed, SETTLE_S + 0.5 + len(contacts) * PUSH_EVERY_S, plant, still):
            heard[method].append((t, estimate))
        for method, rows in heard.items():
            time_s = np.array([t for t, _ in rows])
            touched = np.array([estimate.in_contact for _, estimate in rows])
            risen = time_s[1:][np.diff(touched.astype(int)) == 1]
            for contact in contacts:
                size_n = float(np.linalg.norm(contact.force_n))
                place = contact.disk or 0
                reports = risen[(risen >= contact.start_s) & (risen < contact.start_s + PUSH_S + GRACE_S)]
                counts[method].pieces += max(0, len(reports) - 1)
                if len(reports):
                    counts[method].detected.append((size_n, float(reports[0]) - contact.start_s, place))
                    held = [e for t, e in rows if HELD_S[0] <= t - contact.start_s < HELD_S[1] and e.in_contact]
                    judge(counts[method], contact, disks_m[place - 1], held)
                else:
                    counts[method].missed.append((size_n, place))
            within = np.zeros(len(risen), dtype=bool)
            for contact in contacts:
                within |= (risen >= contact.start_s) & (risen < contact.start_s + PUSH_S + GRACE_S)
            counts[method].false_alarms += int((~within).sum())
    return counts


def judge(count: Count, contact: Contact, place_m: float, held: Sequence[ContactEstimate]) -> None:
    """Errors of force and place while a detected push is held, as far as it was reported then."""
    if not held:
        return
    force_n = np.mean([estimate.wrench.wrench[:3] for estimate in held], axis=0)
    true_n = np.array(contact.force_n)
    count.force_error.append(float(np.linalg.norm(force_n - true_n) / np.linalg.norm(true_n)))
    placed = [estimate.wrench_arc_length_m for estimate in held if not estimate.wrench_location_assumed]
    if placed:
        count.place_error_m.append(abs(float(np.mean(placed)) - place_m))


def main() -> None:
    """Run both and print."""
    parser = argparse.ArgumentParser(description="False alarms and missed pushes of the contact monitor")
    parser.add_argument("robot", help="robot file, or the name of a shipped one")
    parser.add_argument("--methods", nargs="+", default=[KALMAN, "gmo"])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0, help="free motion of each seed")
    parser.add_argument("--pushes", type=int, default=50)
    parser.add_argument("--force", type=float, nargs=2, default=(3.0, 20.0), help="least and largest push, N")
    parser.add_argument("--learn", type=float, default=0.0, help="free motion that each robot learns from first, s")
    parser.add_argument("--still", action="store_true", help="push the robot while it stands straight")
    parser.add_argument("--plant", choices=list(PLANTS), default="rod", help="our rod, or MuJoCo's chain of links")
    asked = parser.parse_args()
    rig = Rig(load_robot(asked.robot), asked.methods, PLANTS[asked.plant])
    for method, count in free_motion(rig, asked.seeds, asked.seconds, asked.learn).items():
        print(
            f"{method}: {count.false_alarms} false alarms and {count.invalid} times invalid in {count.free_s:.0f} s, "
            f"largest residual {count.largest_ratio:.2f} of the threshold",
            flush=True,
        )
    for method, count in pushes(rig, asked.pushes, tuple(asked.force), asked.still, asked.learn).items():
        delays_ms = [1e3 * delay for _, delay, _ in count.detected]
        print(f"{method}: {len(count.detected)} of {asked.pushes} pushes detected, {count.pieces} in several pieces, ")
        print(f"  {count.false_alarms} reports in between")
        if delays_ms:
            print(f"  delay ms 10/50/90 %: {np.percentile(delays_ms, [10, 50, 90]).round()}")
        if count.force_error:
            fractions = np.percentile(count.force_error, [50, 90])
            print(f"  error of the force 50/90 %: {fractions.round(2)} of the push")
        if count.place_error_m:
            errors_mm = 1e3 * np.percentile(count.place_error_m, [50, 90])
            print(f"  error of the place 50/90 %: {errors_mm.round(1)} mm, found for {len(count.place_error_m)} pushes")
        for place in sorted({row[-1] for row in (*count.detected, *count.missed)}):
            detected = sorted(round(size, 2) for size, _, disk in count.detected if disk == place)
            missed = sorted(round(size, 2) for size, disk in count.missed if disk == place)
            print(f"  disk {place}: detected {detected} N, missed {missed} N")


if __name__ == "__main__":
    main()
