# SPDX-License-Identifier: Apache-2.0
"""Simulated string encoders: what drivers/protocols.py asks for, with the strings of a simulated robot behind it."""

from __future__ import annotations

import math

import numpy as np

from continuum_robot.drivers.protocols import StringReading
from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.simulation import faults
from continuum_robot.simulation.bodies.choosing import linked_count
from continuum_robot.simulation.devices.channel import Channel, Corruption, gaussian, in_sequence, quantised
from continuum_robot.simulation.devices.faulty_readings import FaultyReadings
from continuum_robot.simulation.devices.plant_link import StringSource
from continuum_robot.simulation.devices.string_encoders import StringEncoderModel, StringEncoderSettings

STRINGS_STALE_AFTER_S = 0.05


class SimulatedStringEncoders:
    """All string encoders of a robot, simulated, with noise, resolution and systematic error of the robot file.

    The true extensions come from the plant, in this process or through a link from another. Where the source is silent
    for longer than ``stale_after_s`` the readings are NaN with a growing age.

    Parameters
    ----------
    robot : with ``strings``
    source : of the true extensions: ``SimulatedTendonActuators.string_source``, or a :class:`PlantLinkReader`
    rng : draws the noise; None: from the robot's seed
    stale_after_s : s

    Attributes
    ----------
    simulated : True
    string_count : number of strings

    Raises
    ------
    ParameterError : a robot without strings
    """

    simulated = True

    def __init__(
        self,
        robot: Robot,
        source: StringSource,
        rng: np.random.Generator | None = None,
        *,
        stale_after_s: float = STRINGS_STALE_AFTER_S,
    ) -> None:
        if not robot.strings:
            raise ParameterError("robot.strings", robot.strings, f"strings in the file of robot {robot.name!r}")
        self.string_count = len(robot.strings)
        self._sizes = self.string_count, linked_count(robot)  # in this process, and from another
        self._source, self._stale_after_s = source, stale_after_s
        # The actuators draw from the seed itself.
        rng = np.random.default_rng([robot.simulation.seed, 1]) if rng is None else rng
        self._channel = Channel(corrupt=string_error(robot, rng), memory_s=faults.LONGEST_DELAY_S)
        known = tuple(name for name, kind in faults.FAULTS.items() if kind.sensor)
        self._faults = faults.FaultBoard(self.string_count, "string", known)
        self._is_open = False
        self._readings = FaultyReadings(self._faults, self._channel, rng)
        self._now_s: float | None = None

    def open(self) -> None:
        """Start; the plant need not run yet."""
        self._source.open()
        self._readings.forget()
        self._is_open = True

    def read(self, now_s: float) -> StringReading:
        """The newest reading."""
        if not self._is_open:
            raise DeviceError("simulated string encoders", "are not open", "Open them first.")
        self._now_s = now_s
        truth = self._source.read()
        if truth is not None:
            if truth.extension_m.size not in self._sizes:
                raise DeviceError(
                    "simulated string encoders",
                    f"the plant has {truth.extension_m.size} values, strings and tip, the robot file {self._sizes[1]}",
                    "Start both with the same robot file.",
                )
            self._channel.push(truth.extension_m[: self.string_count], truth.time_s)
        sample = self._channel.read(math.inf)
        if sample is None or now_s - sample.stamp_s > self._stale_after_s:
            age_s = math.inf if sample is None else now_s - sample.stamp_s
            return StringReading(now_s, np.full(self.string_count, np.nan), np.full(self.string_count, age_s))
        values, age = self._readings.served(sample, now_s)
        return StringReading(sample.stamp_s, values, age)

    def close(self) -> None:
        """End. Safe to call at any time."""
        self._is_open = False
        self._source.close()

    def inject(
        self,
        fault: str,
        string: int = -1,
        magnitude: float = 0.0,
        duration_s: float = 0.0,
        *,
        start_s: float | None = None,
    ) -> None:
        """Inject or schedule a fault of readings; as those of the tendon actuators, for strings."""
        self._faults.inject(fault, string, magnitude, duration_s, now_s=self._now_s, start_s=start_s)


def string_error(robot: Robot, rng: np.random.Generator) -> Corruption:
    """What the encoders make of true extensions: noise and resolution, and systematic errors where the file has any."""
    settings = robot.simulation
    if settings.string_mean_error_m == 0:
        return in_sequence(gaussian(settings.string_noise_m, rng), quantised(settings.string_resolution_m))
    encoder = StringEncoderSettings(
        counts_per_turn=settings.string_counts_per_turn,
        drum_radius_m=settings.string_resolution_m * settings.string_counts_per_turn / (2 * math.pi),
        mean_error_m=settings.string_mean_error_m,
        largest_error_m=settings.string_largest_error_m,
        noise_m=settings.string_noise_m,
        stroke_m=settings.string_stroke_m,
    )
    return StringEncoderModel(len(robot.strings), encoder, rng).read
