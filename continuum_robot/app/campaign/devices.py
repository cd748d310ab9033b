# SPDX-License-Identifier: Apache-2.0
"""The devices of a simulated robot as a program of their own, so that they outlive a driver that is killed.

Motor boards on slcan adapters and a string-encoder board, all on pseudo-terminals in a folder, moved by one plant.
Writes the truth to ``truth`` in that folder, a row every step; obeys lines of JSON on its standard input.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.robot.loading import load_robot
from continuum_robot.rod.tendon_modes import controlled_manifold
from continuum_robot.simulation.plant import Plant
from continuum_robot.simulation.wire.can_wire import SlcanAdapter
from continuum_robot.simulation.wire.device_ports import go_ahead_of_others, put_on_adapters
from continuum_robot.simulation.wire.hardware import SimulatedHardware
from continuum_robot.simulation.wire.pacing import Pacer

PERIOD_S = 0.004
"""Not every tick of the boards: nodes and devices share the cores of one computer here."""
TRUTH = "truth"
READY = "ready"


def read_truth(folder: Path, tendons: int, coordinates: int) -> dict[str, NDArray[np.float64]]:
    """What was written so far: ``time_s`` (T,) monotonic, ``tension_n``, ``motor_n`` (T, N), ``clarke_m`` (T, 2m)."""
    columns = 1 + 2 * tendons + coordinates
    data = np.fromfile(folder / TRUTH)
    rows = data[: data.size // columns * columns].reshape(-1, columns)
    return {
        "time_s": rows[:, 0],
        "tension_n": rows[:, 1 : 1 + tendons],
        "motor_n": rows[:, 1 + tendons : 1 + 2 * tendons],
        "clarke_m": rows[:, 1 + 2 * tendons :],
    }


def main(robot_file: str, folder: Path, seed: int) -> int:
    """Run until standard input ends."""
    robot = load_robot(robot_file)
    rng = np.random.default_rng(seed)
    plant = Plant(robot, rng=rng)
    hardware = SimulatedHardware(robot, plant, rng, strings=bool(robot.strings), folder=folder)
    hardware.open()
    adapters = put_on_adapters(hardware, folder)
    go_ahead_of_others()
    manifold, newton_per_ampere = controlled_manifold(robot), robot.newton_per_ampere
    lock = threading.Lock()
    with (folder / TRUTH).open("wb", buffering=1 << 14) as truth:

        def step(_now_s: float) -> None:
            with lock:
                now_s = time.monotonic()
                hardware.step(now_s)
                row = (
                    [now_s],
                    plant.tension,
                    plant.current * newton_per_ampere,
                    manifold.clarke(plant.rod_displacement),
                )
                np.concatenate(row).tofile(truth)

        pacer = Pacer(step, PERIOD_S)
        pacer.start()
        sys.stdout.write(READY + "\n")
        sys.stdout.flush()
        for line in sys.stdin:
            with lock:
                _obey(json.loads(line), hardware, adapters)
                truth.flush()
            sys.stdout.write("done\n")
            sys.stdout.flush()
        pacer.stop()
    hardware.close()
    return 0


def _obey(order: dict[str, object], hardware: SimulatedHardware, adapters: list[SlcanAdapter]) -> None:
    if "inject" in order:
        hardware.inject(*order["inject"])  # type: ignore[misc]
    if "unplug" in order:
        adapters[int(str(order["unplug"]))].pty.hang_up()
    if order.get("plug_in"):
        for adapter in adapters:
            adapter.pty.plug_in()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    except ContinuumRobotError as error:
        sys.exit(str(error))
