# SPDX-License-Identifier: Apache-2.0
"""``continuum-robot replay``: recorded tendon displacements through the ROS 2 topics, compared with motion capture."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from continuum_robot.app.output import write_json
from continuum_robot.app.running.domain import claimed_domain
from continuum_robot.errors import DeviceError
from continuum_robot.geometry.so3 import matrix_from_quaternion
from continuum_robot.identification.recordings import read_recording
from continuum_robot.identification.replay import Replay, agreement, marker_in_tracker
from continuum_robot.identification.replay import replay as predicted_directly
from continuum_robot.msg import Shape, TendonStates
from continuum_robot.nodes.base.spinning import Spinner, StopRequest, initialize, shut_down_at_end, wait_for
from continuum_robot.nodes.shape_estimator import ShapeEstimatorNode
from continuum_robot.nodes.topics import conversions, qos
from continuum_robot.robot.description import Robot
from continuum_robot.robot.loading import find_robot_file, load_robot

Vector = NDArray[np.float64]

ESTIMATOR_RATE_HZ = 1000.0
ANSWER_TIMEOUT_S = 0.05
LONGEST_WAIT_S = 5.0


class ReplaySource(Node):
    """Stands in for the tendon driver: publishes recorded displacements, and waits for the shape of each.

    Like the driver it has two topics, ``tendon_states`` and ``tendon_states_decimated``; every sample goes to both.

    Parameters
    ----------
    robot : that was recorded
    namespace : ROS namespace
    """

    def __init__(self, robot: Robot, namespace: str = "") -> None:
        super().__init__("replay_source", namespace=namespace, cli_args=[])
        self.repeated, tendon_count = 0, robot.tendon_count
        self._answered = threading.Event()
        self._desired = 0
        self._tip: Vector = np.full((4, 4), math.nan)
        self._message = TendonStates(simulated=True)
        self._displacement = conversions.preallocate(self._message, "displacement", tendon_count)
        self._velocity = conversions.preallocate(self._message, "velocity", tendon_count)
        commanded = conversions.commanded_field(displacements=robot.takes_displacements)
        for unknown in ("tension", "current", "temperature", commanded):
            conversions.preallocate(self._message, unknown, tendon_count)
        conversions.preallocate(self._message, "age", tendon_count, 0.0)
        conversions.preallocate_bytes(self._message, "limited", tendon_count)
        self._publishers = [
            self.create_publisher(TendonStates, topic, qos.state_publisher())
            for topic in ("tendon_states", "tendon_states_decimated")
        ]
        self.create_subscription(Shape, "shape", self._on_shape, qos.every_state())

    @property
    def connected(self) -> bool:
        """Whether an estimator listens and answers."""
        heard = any(publisher.get_subscription_count() for publisher in self._publishers)
        return heard and self.count_publishers("shape") > 0

    def ask(self, sequence: int, displacement_m: Vector, velocity_m_per_s: Vector) -> Vector:
        """Publish one sample and wait for its shape; asks again where no answer comes.

        Parameters
        ----------
        sequence : from 1, one a sample
        displacement_m : shape (N,), m, pulled in positive
        velocity_m_per_s : shape (N,), m/s

        Returns
        -------
        the estimated tip in the base frame, shape (4, 4)

        Raises
        ------
        DeviceError : the estimator does not answer
        """
        self._desired = sequence
        self._answered.clear()
        self._message.sequence = sequence
        self._displacement[:] = displacement_m
        self._velocity[:] = velocity_m_per_s
        conversions.set_stamp(self._message.header.stamp, conversions.now_ns(self.get_clock()))
        deadline_s = time.monotonic() + LONGEST_WAIT_S
        self._publish()
        while not self._answered.wait(ANSWER_TIMEOUT_S):
            if time.monotonic() > deadline_s:
                raise DeviceError(
                    "shape estimator", f"does not answer sample {sequence}", "See the log for what it refuses"
                )
            # The estimator passes over states that come faster than its rate.
            self.repeated += 1
            self._publish()
        return self._tip

    def _publish(self) -> None:
        for publisher in self._publishers:
            publisher.publish(self._message)

    def _on_shape(self, message: Shape) -> None:
        if message.sequence != self._desired or self._answered.is_set():
            return
        position, rotation = message.tip.position, message.tip.orientation
        tip = np.eye(4)
        tip[:3, :3] = matrix_from_quaternion(np.array([rotation.w, rotation.x, rotation.y, rotation.z]))
        tip[:3, 3] = position.x, position.y, position.z
        self._tip = tip
        self._answered.set()


def run_replay(file: Path, robot: str, realtime: bool, json_file: Path | None, console: Console | None = None) -> int:
    """Play a recording through the topics, print how well the predicted marker agrees with the motion capture.

    Parameters
    ----------
    file : CSV with tendon displacements and the marker
    robot : robot file with a ``recording`` section
    realtime : at the recorded pace, else as fast as every sample is answered
    json_file : where to write the numbers too, None for nowhere
    console : where to print

    Returns
    -------
    exit code: 0, or 130 or 143 where it was stopped by SIGINT or SIGTERM

    Raises
    ------
    RobotFileError, RecordingError : a file cannot be used, or they do not fit together
    BusyDomainError : another stack lives in this DDS domain
    DeviceError : a node does not answer
    """
    console = console or Console()
    robot_file = find_robot_file(robot).resolve()
    loaded = load_robot(robot_file)
    direct = predicted_directly(loaded, read_recording(file))
    with claimed_domain(""):
        initialize(args=[])
        with shut_down_at_end(), StopRequest() as stop:
            estimator = ShapeEstimatorNode(overrides={"robot": str(robot_file), "rate_hz": ESTIMATOR_RATE_HZ})
            source = ReplaySource(loaded)
            spinner = Spinner([estimator, source])
            spinner.start()
            try:
                for transition in (estimator.trigger_configure, estimator.trigger_activate):
                    spinner.run(transition)
                if estimator.state != "active":
                    raise DeviceError("shape estimator", estimator.last_error or estimator.state, "Mend the robot file")
                if not wait_for(lambda: source.connected, LONGEST_WAIT_S):
                    raise DeviceError("shape estimator", "was not discovered over DDS", "Look at ROS_DOMAIN_ID")
                begun_s = time.monotonic()
                tips = _play(source, direct, realtime, stop, console)
                took_s = time.monotonic() - begun_s
            finally:
                spinner.stop()
                source.destroy_node()
                estimator.destroy_node()
    if len(tips) < len(direct.recording):
        console.print(f"stopped after {len(tips)} of {len(direct.recording)} samples")
        return 143 if stop.signal_name == "SIGTERM" else 130
    marker = marker_in_tracker(loaded, np.array(tips))
    numbers: dict[str, object] = {
        "robot": loaded.name,
        "file": file.name,
        **agreement(dataclasses.replace(direct, predicted_marker_m=marker)),
        "largest_difference_from_direct_mm": 1e3
        * float(np.abs(marker - direct.predicted_marker_m)[direct.recording.seen].max()),
        "samples_per_s": len(tips) / took_s,
        "samples_asked_again": source.repeated,
    }
    _print(console, numbers)
    if json_file is not None:
        write_json(json_file, numbers)
    return 0


def _play(source: ReplaySource, samples: Replay, realtime: bool, stop: StopRequest, console: Console) -> list[Vector]:
    """Tips of the samples in order; fewer than there are samples where a stop was asked for."""
    displacement = samples.path_displacement_m
    time_s = samples.recording.time_s - samples.recording.time_s[0]
    velocity = np.gradient(displacement, time_s, axis=0) if len(time_s) > 1 else np.zeros_like(displacement)
    velocity = np.nan_to_num(velocity, posinf=0.0, neginf=0.0)
    tips: list[Vector] = []
    begun_s = next_s = time.monotonic()
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(displacement))
        for index, sample_s in enumerate(time_s):
            # Fast: no sooner than the estimator's rate lets it answer.
            wait_s = (begun_s + sample_s if realtime else next_s) - time.monotonic()
            if wait_s > 0 and stop.wait(wait_s):
                break
            if stop.signal_name:
                break
            next_s = time.monotonic() + 1.1 / ESTIMATOR_RATE_HZ
            tips.append(source.ask(index + 1, displacement[index], velocity[index]))
            progress.advance(task)
    return tips


def _print(console: Console, numbers: dict[str, object]) -> None:
    table = Table(title=f"{numbers['robot']}: {numbers['file']} through ROS 2", title_justify="left")
    table.add_column("number")
    table.add_column("value", justify="right")
    for key, value in numbers.items():
        table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)
