# SPDX-License-Identifier: Apache-2.0
"""The reference that a controller follows between two messages, as stepped code."""

from __future__ import annotations

import math

import cython
import numpy as np
from numpy.typing import NDArray

from continuum_robot.control.blending import blend_from
from continuum_robot.control.references import ClarkeReference
from continuum_robot.stepped.buffers import INFINITE, indices, stepped, vector
from continuum_robot.stepped.mailbox import Mailbox

Vector = NDArray[np.float64]

EXTRAPOLATION_S = cython.declare(cython.double, 0.02)
"""How far ahead of its stamp a reference is followed, s."""
REST_S = cython.declare(cython.double, 0.2)
"""In which time a reference comes to rest after that, s. Short gaps of a busy machine then cost little: one of 60 ms
at 10 mm/s leaves it 0.04 mm behind, where standing still at once left 0.4 mm."""
NEAR_M = cython.declare(cython.double, 5e-5)
"""Up to this distance, m, a reference is not blended in."""


@cython.cclass
class ReferenceInput:
    """Holds a position until references come, extrapolates between them, and holds again when they stop.

    References come at a lower rate than the states; between them the position is extrapolated with their velocity and
    acceleration, for 20 ms at most. After that it comes to rest within 0.2 s, at constant deceleration. Where the first
    reference after :meth:`start` or :meth:`resume` is far from the held position, it is blended in. So is one
    that jumps: a controller that is asked for a place centimetres away at once swings the robot beyond it.

    One thread calls :meth:`receive`, and the cycle takes the newest reference at its next step; all else is called by
    the cycle, or between two cycles.
    """

    refused = cython.declare(cython.longlong, visibility="readonly")
    jumps = cython.declare(cython.longlong, visibility="readonly")
    position = cython.declare(cython.double[::1], visibility="readonly")
    velocity = cython.declare(cython.double[::1], visibility="readonly")
    acceleration = cython.declare(cython.double[::1], visibility="readonly")
    count: cython.int
    blend_s: cython.double
    largest_jump_m: cython.double
    before: cython.double[::1]
    mailbox: Mailbox
    posted_stamp_s: cython.double
    held: cython.double[::1]
    stopped: cython.double[::1]
    stop_velocity: cython.double[::1]
    newest: cython.double[::1]
    stamp_s: cython.double
    following: cython.bint
    stopping: cython.bint
    blend_due: cython.bint
    blending: cython.bint
    blend_start_s: cython.double

    def __init__(self, coordinate_count: int, blend_s: float = 1.0, largest_jump_m: float = math.inf) -> None:
        self.count, self.blend_s, self.largest_jump_m = coordinate_count, float(blend_s), float(largest_jump_m)
        self.refused = self.jumps = 0
        self.before = vector(coordinate_count)
        self.mailbox = Mailbox(3 * coordinate_count + 1)
        self.newest = vector(3 * coordinate_count)
        self.held = vector(coordinate_count)
        self.stopped, self.stop_velocity = vector(coordinate_count), vector(coordinate_count)
        self.position, self.velocity = vector(coordinate_count), vector(coordinate_count)
        self.acceleration = vector(coordinate_count)
        self.start(np.zeros(coordinate_count))

    def start(self, position: Vector) -> None:
        """Hold ``position``, shape (2m,), m, until the next reference; what was received before is forgotten."""
        self.hold(vector(position))

    def receive(self, reference: ClarkeReference, stamp_s: float) -> bool:
        """Leave a reference for the cycle's next step."""
        numbers = [*reference.position.tolist(), *reference.velocity.tolist(), *reference.acceleration.tolist()]
        sizes = (reference.position.size, reference.velocity.size, reference.acceleration.size)
        if sizes != (self.count,) * 3 or not math.isfinite(sum(numbers) + stamp_s):
            self.refused += 1
            return False
        numbers.append(stamp_s)
        self.mailbox.post(numbers)
        self.posted_stamp_s = stamp_s
        return True

    @stepped
    def hear(self, steady: cython.double[::1], stamp_s: cython.double) -> cython.void:
        """As :meth:`receive`, in the cycle's thread: ``steady`` is positions, velocities (m, m/s) and since when, s."""
        k: cython.int
        n: cython.int = self.count
        since_s: cython.double = stamp_s - steady[2 * n]
        self.mailbox.posts += 2
        for k in indices(n):
            self.mailbox.posted[k] = steady[k] + since_s * steady[n + k]
            self.mailbox.posted[n + k] = steady[n + k]
            self.mailbox.posted[2 * n + k] = 0.0
        self.mailbox.posted[3 * n] = self.posted_stamp_s = stamp_s

    def at(self, time_s: float) -> ClarkeReference:
        """The reference at a time, s, on the clock of the stamps."""
        self.step(time_s)
        return ClarkeReference(np.array(self.position), np.array(self.velocity), np.array(self.acceleration))

    def age_s(self, time_s: float) -> float:
        """Age of the newest reference, s; inf when there is none."""
        return time_s - self.posted_stamp_s

    @stepped
    def hold(self, position: cython.double[::1]) -> cython.void:
        """Hold a ``position``, m, as :meth:`start`."""
        self.mailbox.take()
        self.posted_stamp_s = self.stamp_s = -INFINITE
        self.following = self.stopping = self.blending = False
        self.blend_due = True
        self.copy(position, self.held, self.count)
        self.stand(self.held)

    @stepped
    def resume(self) -> cython.void:
        """After a gap: hold the position of the last step, and blend from it into the references that come."""
        self.copy(self.position, self.held, self.count)
        self.blending = self.stopping = False
        self.blend_due = True

    @stepped
    def step(self, time_s: cython.double) -> cython.void:
        """Take the newest reference, and compute where it is at a time, s, on the clock of the stamps."""
        if self.mailbox.take():
            jumps: cython.bint = self.following and not self.blend_due and self.jumped()
            self.copy(self.mailbox.values, self.newest, 3 * self.count)
            self.stamp_s = self.mailbox.values[3 * self.count]
            self.following, self.stopping = True, False
            if jumps:
                self.jumps += 1
                self.resume()
        if not self.following:
            self.stand(self.held)
            return
        ahead_s: cython.double = time_s - self.stamp_s
        if ahead_s >= EXTRAPOLATION_S:
            if not self.stopping:
                self.begin_stop()
            self.come_to_rest(ahead_s - EXTRAPOLATION_S)
            return
        if self.blend_due:
            self.blend_due = False
            self.blending = self.far()
            self.blend_start_s = time_s
        # A stamp a little in the future (another process's clock tick) is extrapolated backwards just as well.
        if ahead_s < -EXTRAPOLATION_S:
            ahead_s = -EXTRAPOLATION_S
        self.extrapolate(ahead_s)
        self.blend(time_s)

    @stepped
    def copy(self, values: cython.double[::1], place: cython.double[::1], count: cython.int) -> cython.void:
        """Copy so many ``values`` (``count``) to a ``place``."""
        k: cython.int
        for k in indices(count):
            place[k] = values[k]

    @stepped
    def far(self) -> cython.bint:
        """Whether the newest reference is not where the held position is."""
        k: cython.int
        for k in indices(self.count):
            distance: cython.double = self.newest[k] - self.held[k]
            if distance > NEAR_M or distance < -NEAR_M:
                return True
        return False

    @stepped
    def jumped(self) -> cython.bint:
        """Whether the reference in the mailbox is not about where it is expected by the one before it."""
        self.copy(self.position, self.before, self.count)
        ahead_s: cython.double = self.mailbox.values[3 * self.count] - self.stamp_s
        if ahead_s < EXTRAPOLATION_S + REST_S:
            self.extrapolate(ahead_s)  # else it stands where it came to rest
        squared: cython.double = 0.0
        k: cython.int
        for k in indices(self.count):
            distance: cython.double = self.mailbox.values[k] - self.position[k]
            squared += distance * distance
        self.copy(self.before, self.position, self.count)
        return squared > self.largest_jump_m * self.largest_jump_m

    @stepped
    def stand(self, position: cython.double[::1]) -> cython.void:
        """Stand at a ``position``, m."""
        k: cython.int
        for k in indices(self.count):
            self.position[k] = position[k]
            self.velocity[k] = self.acceleration[k] = 0.0

    @stepped
    def begin_stop(self) -> cython.void:
        """Keep where, and how fast, the newest reference is when its extrapolation ends."""
        self.stopping = True
        if self.blend_due:  # it was never followed
            self.stand(self.held)
        else:
            self.extrapolate(EXTRAPOLATION_S)
            # Blended as at that moment: a position that stands must not go on moving.
            self.blend(self.stamp_s + EXTRAPOLATION_S)
        self.copy(self.position, self.stopped, self.count)
        self.copy(self.velocity, self.stop_velocity, self.count)

    @stepped
    def come_to_rest(self, since_s: cython.double) -> cython.void:
        """Where a reference is that ended a time ago (``since_s``, s)."""
        passed_s: cython.double = since_s if since_s < REST_S else REST_S
        left: cython.double = 1.0 - passed_s / REST_S
        k: cython.int
        for k in indices(self.count):
            velocity: cython.double = self.stop_velocity[k]
            self.position[k] = self.stopped[k] + passed_s * (velocity * (1.0 + left) / 2.0)
            self.velocity[k] = velocity * left
            self.acceleration[k] = -velocity / REST_S if left > 0.0 else 0.0

    @stepped
    def extrapolate(self, ahead_s: cython.double) -> cython.void:
        """The newest reference, ``ahead_s`` (s) after its stamp."""
        k: cython.int
        for k in indices(self.count):
            velocity: cython.double = self.newest[self.count + k]
            acceleration: cython.double = self.newest[2 * self.count + k]
            self.position[k] = self.newest[k] + ahead_s * (velocity + 0.5 * ahead_s * acceleration)
            self.velocity[k] = velocity + ahead_s * acceleration
            self.acceleration[k] = acceleration

    @stepped
    def blend(self, time_s: cython.double) -> cython.void:
        """Blend from the held position, where a blend is under way at a time, s."""
        if not self.blending:
            return
        x: cython.double = 1.0
        if self.blend_s > 0.0:
            x = (time_s - self.blend_start_s) / self.blend_s
        if x >= 1.0:
            self.blending = False
            return
        if x < 0.0:
            x = 0.0
        blend_from(self.held, self.position, self.velocity, self.acceleration, self.count, x, self.blend_s)
