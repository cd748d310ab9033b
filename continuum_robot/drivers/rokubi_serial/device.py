# SPDX-License-Identifier: Apache-2.0
"""A Rokubi force-torque sensor as the nodes see it: set up, read, tared, plugged out and in at will."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuum_robot.drivers.device_clock import DeviceClock, wrapped_difference
from continuum_robot.drivers.framed_serial import FramedSensor
from continuum_robot.drivers.protocols import ForceReading
from continuum_robot.drivers.rokubi_serial import codec
from continuum_robot.drivers.rokubi_serial.codec import Acknowledgements, ForceFrame, FrameStream, Status
from continuum_robot.drivers.rokubi_serial.settings import BAUD_RATES_BPS, RokubiSerial
from continuum_robot.drivers.serial_port import SerialPort
from continuum_robot.drivers.survey import Finding, opened
from continuum_robot.drivers.tare import Tare
from continuum_robot.errors import DeviceError
from continuum_robot.robot.description import Robot

Vector = NDArray[np.float64]

SETTING = "hardware.force_sensor.port"
STALE_AFTER_S = 0.05
SILENT_AFTER_S = 1.0
_ACKNOWLEDGE_S = 0.2
_DEMANDS = 3  # a computer that stalls loses an answer, and to set something twice does no harm
_BOOT_S = 2.0
_FIRST_FRAME_S = 0.5
_NO_WRENCH = int(Status.INVALID | Status.RAW)

# A conversation with the sensor: receives the time at every poll, never waits itself.
_Talk = Generator[None, float, None]


class RokubiForceSensor(FramedSensor[ForceReading]):
    """A sensor behind a serial port.

    The conversation that sets it up goes on in :meth:`read`, poll by poll; :meth:`open` waits for its end. It finds
    the sensor at any of its baud rates, running or not. After a second of silence, or when it was plugged out and in,
    the sensor is set up again.
    """

    device = "Rokubi force sensor"

    def __init__(
        self,
        settings: RokubiSerial,
        *,
        port: str | None = None,
        simulated: bool = False,
        wait: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.frame_id, self.restarts = settings.frame_id, 0
        self._settings, self._wait = settings, wait
        name = settings.port if port is None else port
        self._port = SerialPort(name, settings.baud_bps, device=self.device, setting=SETTING)
        super().__init__(self._port, simulated=simulated, clock=clock)
        self._stream, self._acknowledgements = FrameStream(), Acknowledgements()
        self._clock, self._tare = DeviceClock(), Tare()
        self._talk: _Talk | None = None
        self._forget()

    def wait_for_first(self) -> None:
        """Wait until it measures; raises :class:`DeviceError`. Every wait of the conversation is bounded."""
        if self._wait:
            self.read_until(lambda: self._talk is None, math.inf)

    def poll(self, now_s: float) -> None:
        """Go on with the conversation, or take what arrived, at ``now_s`` (s)."""
        if self._talk is not None:
            self._go_on(now_s)
        elif data := self._port.read():
            self._take(self._stream.feed(data), now_s)

    def on_lost(self) -> None:
        """The port is gone."""
        self._talk = None
        self._tare.stop("the sensor was lost meanwhile")

    @property
    def warning(self) -> str:
        """What is odd about the sensor's clock; "" where nothing is."""
        return self._clock.problem

    @property
    def taring(self) -> bool:
        return self._tare.active

    @property
    def tare_problem(self) -> str:
        return self._tare.problem

    def start_tare(self, samples: int = 200) -> None:
        """From now on measure from the mean of the next samples; they are collected in :meth:`read`."""
        self._require_there()
        if self._talk is not None or self._last is None:
            raise DeviceError(self.where, "does not measure yet", "Wait until it is set up.")
        self._tare.start(samples)

    def statistics(self) -> dict[str, float]:
        return {
            "frames": self._stream.accepted,
            "frames_rejected": self._stream.rejected,
            "bytes_skipped": self._stream.skipped_bytes,
            "sensor_restarts": self.restarts,
            "reconnects": self.reconnects,
            "clock_drift_ppm": self._clock.drift * 1e6,
            "baud_bps": self._port.baud_bps,
        }

    def close(self) -> None:
        super().close()
        self._talk = None
        self._tare.stop("the sensor was closed meanwhile")

    def _forget(self) -> None:
        self._clock.reset()
        self._last: ForceFrame | None = None
        self._wrench: Vector = np.full(6, math.nan)
        self._stamp_s = self._arrival_s = -math.inf

    # --- measuring

    def _take(self, frames: list[ForceFrame], now_s: float) -> None:
        """Frames that were read just now, in a cycle that began at ``now_s``."""
        for frame in frames:
            elapsed_us = 1 if self._last is None else wrapped_difference(frame.time_us, self._last.time_us)
            if elapsed_us == 0:
                continue
            if elapsed_us < 0:
                self.restarts += 1
                self._clock.reset()
            self._last = frame
            if frame.status & _NO_WRENCH:
                self._wrench = np.full(6, math.nan)
            else:
                wrench = np.array(frame.wrench)
                self._wrench = np.where(np.isfinite(wrench), wrench, math.nan)
            self._tare.update(self._wrench)
        if frames:
            self._arrival_s = self.arrival(now_s)
            self._stamp_s = self._clock.update(frames[-1].time_us, self._arrival_s)

    def reading(self, now_s: float) -> ForceReading:
        """The newest reading at ``now_s`` (s), the tare taken off; NaN where unknown, and the faults say why."""
        now_s = max(now_s, self._arrival_s)
        last, silence_s = self._last, now_s - self._arrival_s
        unknown = np.full(6, math.nan)
        if self._talk is not None:
            return ForceReading(now_s, unknown, math.inf, math.nan, ("sensor is being set up",))
        if last is None or silence_s > STALE_AFTER_S:
            if silence_s > SILENT_AFTER_S:
                self.reconnects += 1
                self.begin()
            fault = f"sensor silent for more than {STALE_AFTER_S:g} s"
            return ForceReading(now_s, unknown, silence_s, math.nan, (fault,))
        return ForceReading(
            self._stamp_s,
            self._wrench - self._tare.bias,
            now_s - self._stamp_s,
            last.temperature_c if math.isfinite(last.temperature_c) else math.nan,
            codec.fault_names(last.status) + (() if self._clock.followed else (self._clock.problem,)),
        )

    # --- setting up

    def begin(self) -> None:
        """Set it up, from the beginning."""
        self._forget()
        self._tare.stop("the sensor was set up again meanwhile")
        self._talk = self._set_up()
        next(self._talk)

    def _go_on(self, now_s: float) -> None:
        talk = self._talk
        if talk is None:
            return
        try:
            talk.send(now_s)
        except StopIteration:
            self._talk = None

    def _set_up(self) -> _Talk:
        yield
        settings = self._settings
        self._stream.restart()
        before = self._stream.received_bytes
        found = yield from self._find()
        if not found:
            received = self._stream.received_bytes - before
            if received:
                problem = f"{received} bytes came, but no answer at any of its baud rates"
            else:
                problem = "no answer at any of its baud rates"
            raise DeviceError(
                self.where,
                problem,
                "Check its power and the two pairs of its RS-422 line, and that this is its port; "
                "the first Rokubi generation (2.0 and 2.1) speaks another protocol.",
            )
        spoken_bps = self._port.baud_bps
        yield from self._demand(codec.set_communication(settings.baud_bps), (spoken_bps,))
        # A new baud rate may hold at once, when the sensor runs, or when it is started the next time.
        rates = tuple(dict.fromkeys((settings.baud_bps, spoken_bps)))
        yield from self._demand(codec.set_filter(settings.sinc), rates[::-1])
        for attempt in range(_DEMANDS):
            if attempt:
                self._port.set_baud(rates[attempt % len(rates)])
            # Whatever it answers: a change of the baud rate would garble a command that is still on its way.
            yield from self._acknowledged(codec.run())
            if (yield from self._measures(rates)):
                return
        raise DeviceError(
            self.where, "took its settings and sends no measurements", "Switch the sensor off and on again."
        )

    def _measures(self, rates: tuple[int, ...]) -> Generator[None, float, bool]:
        """Whether measurements come in time, at one of the baud rates; the first of them is taken."""
        for baud_bps in rates:
            self._port.set_baud(baud_bps)
            self._stream.restart()
            accepted = self._stream.accepted
            now_s = yield
            end_s = now_s + _FIRST_FRAME_S
            while now_s < end_s:
                frames = self._stream.feed(self._port.read())
                if self._stream.accepted > accepted:
                    self._take(frames, now_s)
                    return True
                now_s = yield
        return False

    def _find(self) -> Generator[None, float, bool]:
        """Make the sensor listen, at whatever speed it speaks."""
        rates = list(dict.fromkeys((self._settings.baud_bps, codec.DEFAULT_BAUD_BPS, *reversed(BAUD_RATES_BPS))))
        for rate in rates:
            self._port.set_baud(rate)
            if (yield from self._acknowledged(codec.configure())) == 0:
                return True
        for rate in rates:
            self._port.set_baud(rate)
            self._port.write(codec.hard_reset())
            yield
        self._port.set_baud(codec.DEFAULT_BAUD_BPS)
        now_s = yield
        end_s = now_s + _BOOT_S
        while now_s < end_s:
            if (yield from self._acknowledged(codec.configure())) == 0:
                return True
            now_s = yield
        return False

    def _demand(self, command: bytes, rates: tuple[int, ...]) -> _Talk:
        """Set something, at the first of the baud rates at which the sensor answers; each is tried some times."""
        code = None
        for rate in rates * _DEMANDS:
            self._port.set_baud(rate)
            code = yield from self._acknowledged(command)
            if code is not None:
                break
        if code != 0:
            answer = "did not answer" if code is None else f"answered with code {code}"
            raise DeviceError(
                self.where, f"{answer} to the setting {command.decode()}", "Switch the sensor off and on again."
            )

    def _acknowledged(self, command: bytes) -> Generator[None, float, int | None]:
        """The code with which a command is acknowledged in time, None where it is not."""
        self._port.discard()
        self._acknowledgements.clear()
        self._port.write(command)
        now_s = yield
        end_s = now_s + _ACKNOWLEDGE_S
        while True:
            data = self._port.read()
            self._stream.received_bytes += len(data)
            self._acknowledgements.feed(data)
            code = self._acknowledgements.code(command)
            if code is not None or now_s >= end_s:
                return code
            now_s = yield


_POLL_S = 0.01


def make(_robot: Robot, settings: RokubiSerial, port: str = "", **options: Any) -> RokubiForceSensor:
    """The driver, not open yet; options as of :class:`.RokubiForceSensor`."""
    return RokubiForceSensor(settings, port=port or None, **{"clock": time.monotonic, **options})


def survey(_robot: Robot, settings: RokubiSerial) -> list[Finding]:
    """Open the sensor and read it."""
    sensor = RokubiForceSensor(settings)

    def look() -> str:
        time.sleep(_POLL_S)
        reading = sensor.read(time.monotonic())
        warmth = [f"{reading.temperature_c:.0f} °C"] if math.isfinite(reading.temperature_c) else []
        return ", ".join([f"{settings.rate_hz:g} Hz", *warmth, *reading.device_faults])

    return [opened("Rokubi force sensor", settings.port, sensor, look)]
