# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: frames and datagrams of every device. Each returns, or raises what is a defect."""

from __future__ import annotations

import binascii
import contextlib
import math
import queue
import struct

import numpy as np
from dynamixel_sdk import protocol2_packet_handler

from continuum_robot.drivers.can_bus import BUS_ERRORS
from continuum_robot.drivers.dynamixel import protocol_2
from continuum_robot.drivers.dynamixel.emulator import EmulatedDynamixels
from continuum_robot.drivers.dynamixel.models import model_named
from continuum_robot.drivers.dynamixel.protocol_2 import Protocol2
from continuum_robot.drivers.odri_can import codec as odri
from continuum_robot.drivers.odri_can import protocol as odri_frames
from continuum_robot.drivers.odri_can.channel import Channel
from continuum_robot.drivers.odri_can.telemetry import Telemetry
from continuum_robot.drivers.rokubi_serial import codec as rokubi
from continuum_robot.drivers.servo_bus import Framing, ShortFraming
from continuum_robot.drivers.simulated_link import codec as link
from continuum_robot.drivers.slcan_bus import SlcanBus
from continuum_robot.drivers.string_encoder_serial import codec as strings
from continuum_robot.drivers.string_encoder_serial.device import StringTracker
from continuum_robot.drivers.string_encoder_serial.settings import EncoderString, StringEncoderSerial
from continuum_robot.errors import FrameError


def cobs_frame(data: bytes) -> None:
    """COBS: what is decoded is what its frame reports; what is encoded comes back, without a zero."""
    with contextlib.suppress(FrameError):
        plain = strings.unstuffed(data)
        assert strings.unstuffed(strings.stuffed(plain)[:-1]) == plain
    if 0 < len(data) <= strings.LONGEST_STUFFED:
        frame = strings.stuffed(data)
        assert frame.endswith(strings.DELIMITER)
        assert frame.count(strings.DELIMITER) == 1
        assert strings.unstuffed(frame[:-1]) == data


_STRINGS = StringEncoderSerial(
    kind="string_encoder_serial",
    port="/dev/null",
    counts_per_turn=16384,
    strings=tuple(EncoderString(string=f"string_{j}", channel=j, pulley_radius_m=0.01) for j in range(4)),
)


def string_encoder(data: bytes) -> None:
    """The board's frames: one by one, with a right CRC, as a stream in two cuts, and the tracker behind it."""
    with contextlib.suppress(FrameError):
        frame = strings.decode_payload(data)
        assert strings.encode_payload(frame) == data
    sealed = data + binascii.crc_hqx(data, 0xFFFF).to_bytes(2, "little")
    with contextlib.suppress(FrameError):
        assert strings.encode_payload(strings.decode_payload(sealed)) == sealed
    if 0 < len(sealed) <= strings.LONGEST_STUFFED:
        with contextlib.suppress(FrameError):
            strings.decode(strings.stuffed(sealed)[:-1])
    whole, cut = strings.FrameStream(), strings.FrameStream()
    frames = whole.feed(data)
    place = data[0] % len(data) if data else 0
    assert cut.feed(data[:place]) + cut.feed(data[place:]) == frames
    counts = strings.COUNTS_BYTES - 3
    bodies = [bytes([strings.COUNTS_TYPE]) + data[k : k + counts] for k in range(0, len(data), counts)]
    frames += [_board_frame(body) for body in bodies if len(body) == counts + 1]
    tracker = StringTracker(_STRINGS, [entry.string for entry in _STRINGS.strings])
    for index, frame in enumerate(frames):
        if isinstance(frame, strings.CountsFrame):
            tracker.update([frame], 1e-3 * index)
            reading = tracker.reading(1e-3 * index)
            assert not np.isinf(reading.extension_m).any()
            assert tracker.zeroed or np.isnan(reading.extension_m).all()


def _board_frame(body: bytes) -> strings.Frame:
    return strings.decode_payload(body + binascii.crc_hqx(body, 0xFFFF).to_bytes(2, "little"))


def rokubi_sensor(data: bytes) -> None:
    """Frames of the force sensor: one by one, with a right CRC, as a stream in two cuts; acknowledgements."""
    with contextlib.suppress(FrameError):
        _same_force(rokubi.decode(data), data)
    body = data[: rokubi.FRAME_BYTES - 3].ljust(rokubi.FRAME_BYTES - 3, b"\0")
    sealed = bytes([rokubi.HEADER]) + body + struct.pack("<H", rokubi.crc(body))
    frame = rokubi.decode(sealed)
    _same_force(frame, sealed)
    rokubi.fault_names(frame.status)
    whole, cut = rokubi.FrameStream(), rokubi.FrameStream()
    frames = whole.feed(data)
    place = data[0] % len(data) if data else 0
    assert repr(cut.feed(data[:place]) + cut.feed(data[place:])) == repr(frames)
    assert whole.skipped_bytes + rokubi.FRAME_BYTES * len(frames) <= whole.received_bytes
    assert rokubi.FrameStream().feed(bytes(rokubi.FRAME_BYTES) + sealed), "a sound frame behind zeros was lost"
    heard = rokubi.Acknowledgements()
    for part in (data[:place], data[place:]):
        heard.feed(part)
        heard.code(b"C")


def _same_force(frame: rokubi.ForceFrame, data: bytes) -> None:
    """The bytes of a frame come back; a NaN need not have the same ones."""
    if all(math.isfinite(value) for value in (*frame.wrench, frame.temperature_c)):
        assert rokubi.encode(frame) == data


def odri_can(data: bytes) -> None:
    """Frames of the motor boards: each alone, and all of them one after the other as a board's telemetry."""
    telemetry = Telemetry()
    place = 0
    tick = 0
    while place + 3 <= len(data):
        identifier = int.from_bytes(data[place : place + 2], "big") & 0x7FF
        if identifier & 0x700:
            identifier &= 0x70  # most are known ones
        length = data[place + 2] % 9
        payload = data[place + 3 : place + 3 + length]
        place += 3 + length
        tick += 1
        try:
            frame = odri.decode(identifier, payload)
        except FrameError:
            pass
        else:
            assert all(math.isfinite(value) for value in frame)
            if not isinstance(frame, odri_frames.Status):
                assert odri.encode(frame) == (identifier, payload)
            else:
                assert odri.encode(frame) == (identifier, bytes(payload))
        telemetry.receive(identifier, payload, 1e-4 * tick)
        if telemetry.has_sample:
            assert np.isfinite(telemetry.sample).all()
        telemetry.missing()
    counted = telemetry.counters
    assert sum(counted[name] for name in ("bad_frames", "unknown_identifiers", "positions", "statuses")) <= tick
    with contextlib.suppress(FrameError):
        odri.decode(int.from_bytes(data[:4], "big"), data[4:])


class _AdapterPort:
    """A serial port that holds what it was given."""

    def __init__(self) -> None:
        self.waits = b""

    @property
    def in_waiting(self) -> int:
        return len(self.waits)

    def read(self, size: int) -> bytes:
        taken, self.waits = self.waits[:size], self.waits[size:]
        return taken


class _LineBus(SlcanBus):
    """The receiver alone."""

    def __init__(self) -> None:
        self.serialPortOrig = _AdapterPort()
        self._buffer, self._queue = bytearray(), queue.SimpleQueue()
        self._filters, self._is_shutdown = None, True
        self.channel_info = ""


def slcan_line(data: bytes) -> None:
    """Lines of a serial CAN adapter that come in two pieces: whatever they are, a sound one behind them is received."""
    bus, channel, telemetry = _LineBus(), Channel("slcan", "fuzzed", 1_000_000), Telemetry()
    channel.line.end, port = bus, channel.port
    data = data[:4096]
    place = data[0] % len(data) if data else 0
    for part in (data[:place], data[place:], b"\rt010101\r"):
        bus.serialPortOrig.waits = part
        while True:
            port.attach(-1)
            port.drain(telemetry, 0.0)
            if not port.gone and not bus.serialPortOrig.waits and b"\r" not in bus._buffer:
                break
    assert telemetry.has_status, data
    assert odri_frames.Status.of(telemetry.status_bits).system_enabled
    with contextlib.suppress(*BUS_ERRORS):
        bus.recv(0.0)


def simulated_link(data: bytes) -> None:
    """Datagrams between driver and simulator, both ways: what is taken is encoded to the same bytes."""
    for magic in (b"", link.READING_MAGIC):
        sent = magic + data[len(magic) :]
        with contextlib.suppress(FrameError):
            reading = link.decode_reading(sent)
            assert math.isfinite(reading.stamp_s)
            assert len(reading.displacement_m) == len(reading.age_s)
            link.encode_reading(reading)
    for magic in (b"", link.COMMAND_MAGIC):
        sent = magic + data[len(magic) :]
        with contextlib.suppress(FrameError):
            command = link.decode_command(sent)
            assert all(map(math.isfinite, command.values))
            # A negative zero as an unused timeout is a zero.
            assert link.decode_command(link.encode_command(command)) == command


LONGEST_PACKET = 1024


def dynamixel(data: bytes) -> None:
    """What servos answer, of either framing; the first byte says which, and whether length and CRC are put right."""
    if not data:
        return
    framing: Framing = ShortFraming() if data[0] & 2 else Protocol2()
    received = bytearray(b"".join(_status_packets(data[1:])) if data[0] & 1 else data[1:])
    while (answer := framing.take(received)) is not None:
        assert 0 <= answer.servo <= 255
        if len(answer.data) == protocol_2.STATE_SIZE:
            assert all(map(math.isfinite, protocol_2.decode_state(answer.data, model_named("XM430-W350"))))
    assert len(received) <= LONGEST_PACKET
    EmulatedDynamixels({}).take(data)


_CRC_OF = protocol2_packet_handler.Protocol2PacketHandler()


def _status_packets(data: bytes) -> list[bytes]:
    """Status packets, each of a length and an identifier that the data reports."""
    packets = []
    place = 0
    while place + 2 <= len(data):
        length = data[place] % 32
        body = data[place + 2 : place + 2 + length]
        head = b"\xff\xff\xfd\x00" + bytes([data[place + 1] % 4]) + (len(body) + 3).to_bytes(2, "little") + b"\x55"
        whole = head + body
        packets.append(whole + _CRC_OF.updateCRC(0, whole, len(whole)).to_bytes(2, "little"))
        place += 2 + length
    return packets
