# SPDX-License-Identifier: Apache-2.0
"""Lock-step: nothing moves by itself, the robot advances when the control socket asks for it."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable

from continuum_robot.drivers.simulated_wires import CONTROL, CONTROL_TIME, socket_path
from continuum_robot.simulation.simulator import Simulator
from continuum_robot.simulation.wire.listening import Listener


class LockstepServer:
    """A thread that answers ``SimulatorControl``, of which the newest counts."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        moved: Callable[[int], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._simulator, self._moved, self._on_failure = simulator, moved, on_failure
        self._listener = Listener(socket_path(simulator.folder, CONTROL))
        self._control: socket.socket | None = None
        self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, name="lock-step", daemon=True)

    def start(self) -> None:
        """Begin to answer; the robot is put at the first time that is asked for."""
        self._thread.start()

    def stop(self) -> None:
        """End; the control notices. Before the simulator is closed. Safe to call once."""
        os.write(self._stop[1], b"\0")
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self._drop()
        self._listener.close()
        for end in self._stop:
            os.close(end)

    def _run(self) -> None:
        try:
            devices = self._simulator.listeners
            while True:
                control = [] if self._control is None else [self._control]
                ready, _, _ = select.select([self._stop[0], self._listener, *control, *devices], [], [])
                if self._stop[0] in ready:
                    return
                # A driver that connects gets its first reading, though no time passes.
                self._simulator.accept()
                newer = self._listener.accept()
                if newer is not None:
                    self._drop()
                    self._control = newer
                elif self._control is not None and self._control in ready:
                    self._answer(self._control)
        except BaseException as error:
            self._drop()
            if self._on_failure is None:
                raise
            self._on_failure(error)

    def _answer(self, control: socket.socket) -> None:
        try:
            request = control.recv(CONTROL_TIME.size)
        except BlockingIOError:
            return
        except OSError:
            request = b""
        if len(request) != CONTROL_TIME.size:
            self._drop()
            return
        t_ns = CONTROL_TIME.unpack(request)[0]
        self._simulator.advance_to(t_ns)
        if self._moved is not None:
            self._moved(t_ns)
        try:
            control.send(request)
        except OSError:
            self._drop()

    def _drop(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
