# SPDX-License-Identifier: Apache-2.0
"""What stands at both sides of an emulated motor board in tests: motors without a robot, and python-can's buses."""

from __future__ import annotations

import can
import numpy as np

from continuum_robot.simulation.wire.can_wire import BUS_OFF_CLASS, ERROR, EXTENDED, REMOTE, disturbance


class FreeMotor:
    """A motor without load: inertia and friction; follows its current at once.

    Parameters
    ----------
    acceleration_rev_per_s2_a : for a current, rev/(s^2.A)
    damping_per_s : friction
    position_rev : at the start
    """

    def __init__(
        self, acceleration_rev_per_s2_a: float = 50.0, damping_per_s: float = 2.0, position_rev: float = 0.0
    ) -> None:
        self.position_rev, self.velocity_rev_per_s, self.current_a = position_rev, 0.0, 0.0
        self.held = False
        self._gain, self._damping = acceleration_rev_per_s2_a, damping_per_s

    def drive(self, current_a: float, held: bool) -> None:
        """Give it a current, A.

        Parameters
        ----------
        current_a : A
        held : whether the rotor is being aligned, and does not turn
        """
        self.current_a, self.held = current_a, held

    def advance(self, duration_s: float) -> None:
        """Let it turn.

        Parameters
        ----------
        duration_s : s
        """
        rate = self._gain * self.current_a - self._damping * self.velocity_rev_per_s
        self.velocity_rev_per_s = 0.0 if self.held else self.velocity_rev_per_s + rate * duration_s
        self.position_rev += self.velocity_rev_per_s * duration_s


class PythonCanWire:
    """A wire over a python-can bus, which it owns.

    Parameters
    ----------
    bus : e.g. of interface virtual, whose other end is in the same process
    """

    def __init__(self, bus: can.BusABC) -> None:
        self._bus: can.BusABC | None = bus

    def receive(self) -> list[tuple[int, bytes]]:
        """Data frames that arrived; never waits."""
        found: list[tuple[int, bytes]] = []
        while self._bus is not None and len(found) < 4096:
            try:
                message = self._bus.recv(0.0)
            except (can.CanError, OSError):
                break
            if message is None:
                break
            if not (message.is_error_frame or message.is_remote_frame or message.is_extended_id):
                found.append((message.arbitration_id, bytes(message.data)))
        return found

    def send(self, identifier: int, data: bytes) -> bool:
        """Send a frame; whether it was taken.

        Parameters
        ----------
        identifier : of the frame, 11 bits
        data : its bytes, 8 at most
        """
        return self._send(can.Message(arbitration_id=identifier, data=data, is_extended_id=False))

    def disturb(self, rng: np.random.Generator) -> None:
        """A remote, extended or error frame, or one with a random identifier and random bytes."""
        flags, identifier, data = disturbance(rng)
        if flags == REMOTE:
            self._send(can.Message(arbitration_id=identifier, is_extended_id=False, is_remote_frame=True, dlc=8))
        elif flags == ERROR:
            self._send(can.Message(is_error_frame=True, arbitration_id=identifier, data=data))
        else:
            self._send(can.Message(arbitration_id=identifier, data=data, is_extended_id=flags == EXTENDED))

    def report_bus_off(self) -> None:
        """An error frame of class bus-off, as socketcan gives it."""
        self._send(can.Message(is_error_frame=True, arbitration_id=BUS_OFF_CLASS, data=bytes(8)))

    def close(self) -> None:
        """End."""
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.shutdown()

    def _send(self, message: can.Message) -> bool:
        if self._bus is None:
            return False
        try:
            self._bus.send(message, timeout=0.001)
        except (can.CanError, OSError):
            return False
        return True
