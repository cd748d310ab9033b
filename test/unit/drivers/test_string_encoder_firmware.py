# SPDX-License-Identifier: Apache-2.0
"""The protocol core of the firmware, compiled for the host, against the driver: byte for byte."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from continuum_robot.drivers.string_encoder_serial import codec
from continuum_robot.drivers.string_encoder_serial.codec import BoardFrame, Command, CommandFrame, CountsFrame, Status

FIRMWARE = Path(__file__).resolve().parents[3] / "hardware" / "string_encoder"
FRAMES = 3000

I32x4 = ctypes.c_int32 * 4


class Counts(ctypes.Structure):
    _fields_ = [
        ("sequence", ctypes.c_uint16),
        ("time_us", ctypes.c_uint32),
        ("counts", I32x4),
        ("status", ctypes.c_uint16),
    ]

    def frame(self) -> CountsFrame:
        return CountsFrame(self.sequence, self.time_us, tuple(self.counts), self.status)


class BoardInfo(ctypes.Structure):
    _fields_ = [
        ("sequence", ctypes.c_uint16),
        *((name, ctypes.c_uint32) for name in ("time_us", "firmware", "uptime_s", "dropped")),
        ("gains", ctypes.c_uint8 * 4),
        ("serial_number", ctypes.c_uint32),
    ]


class CCommand(ctypes.Structure):
    _fields_ = [("command", ctypes.c_uint8), ("number", ctypes.c_uint8)]


class Receiver(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint8 * (codec.COMMAND_BYTES + 1)), ("size", ctypes.c_uint8), ("long", ctypes.c_bool)]


class Board(ctypes.Structure):
    _fields_ = [
        ("origin", ctypes.c_uint32 * 4),
        ("last", ctypes.c_uint32 * 4),
        ("ticks", ctypes.c_uint32),
        ("dropped", ctypes.c_uint32),
        ("sequence", ctypes.c_uint16),
        ("jumped", ctypes.c_uint16),
        ("zeros", ctypes.c_uint8),
        ("command_number", ctypes.c_uint8),
        ("zeroed", ctypes.c_bool),
        ("dropped_since", ctypes.c_bool),
    ]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler here: the firmware's core is not compared with the driver")
    library = tmp_path_factory.mktemp("firmware") / "protocol.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run([gcc, *flags, str(FIRMWARE / "protocol.c"), "-o", str(library)], check=True, timeout=300)
    loaded = ctypes.CDLL(str(library))
    for name in ("se_counts_payload", "se_board_payload", "se_frame"):
        getattr(loaded, name).restype = ctypes.c_size_t
    loaded.se_frame.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    loaded.se_receive.restype = ctypes.c_bool
    loaded.se_receive.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p]
    loaded.se_crc.restype = ctypes.c_uint16
    loaded.se_crc.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    loaded.se_board_tick.argtypes = [
        ctypes.c_void_p,
        I32x4,
        ctypes.c_uint32,
        ctypes.c_uint8,
        ctypes.c_bool,
        ctypes.c_void_p,
    ]
    loaded.se_board_sent.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    return loaded


def payload_and_wire(core: ctypes.CDLL, function: Callable[..., int], frame: ctypes.Structure) -> tuple[bytes, bytes]:
    payload, wire = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    size = function(ctypes.byref(frame), payload)
    length = core.se_frame(payload.raw[:size], size, wire)
    return payload.raw[:size], wire.raw[:length]


def test_the_check_value_of_the_crc(core: ctypes.CDLL) -> None:
    assert core.se_crc(b"123456789", 9) == 0x29B1


def test_counts_frames_are_the_drivers_byte_for_byte(core: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    for index in range(FRAMES):
        # Many zeros and ones, as counts have and as are hard for COBS; the rest any numbers.
        counts = rng.integers(-(2**31), 2**31, 4) if index % 2 else rng.integers(-2, 300, 4) * rng.integers(0, 2, 4)
        sequence, status = (int(value) for value in rng.integers(0, 2**16, 2))
        time_us = int(rng.integers(0, 2**32))
        numbers = tuple(int(value) for value in counts)
        expected = CountsFrame(sequence, time_us, numbers, status)
        payload, wire = payload_and_wire(
            core, core.se_counts_payload, Counts(sequence, time_us, I32x4(*numbers), status)
        )
        assert payload == codec.encode_payload(expected)
        assert wire == codec.encode(expected)
        assert codec.decode(wire[:-1]) == expected


def test_frames_about_the_board_are_the_drivers_byte_for_byte(core: ctypes.CDLL) -> None:
    rng = np.random.default_rng(2)
    for _ in range(FRAMES):
        words = [int(value) for value in rng.integers(0, 2**32, 5)]
        gains = tuple(int(value) for value in rng.integers(0, 256, 4))
        sequence = int(rng.integers(0, 2**16))
        expected = BoardFrame(sequence, *words[:4], gains, words[4])
        info = BoardInfo(sequence, *words[:4], (ctypes.c_uint8 * 4)(*gains), words[4])
        payload, wire = payload_and_wire(core, core.se_board_payload, info)
        assert payload == codec.encode_payload(expected)
        assert wire == codec.encode(expected)


def received(core: ctypes.CDLL, receiver: Receiver, data: bytes) -> list[tuple[int, int]]:
    found = []
    command = CCommand()
    for byte in data:
        if core.se_receive(ctypes.byref(receiver), byte, ctypes.byref(command)):
            found.append((command.command, command.number))
    return found


def test_commands_of_the_driver_arrive(core: ctypes.CDLL) -> None:
    receiver = Receiver()
    for command in range(0, 256, 5):
        for number in range(256):
            frame = CommandFrame(command, number)
            assert received(core, receiver, codec.encode(frame)) == [(command, number)]


def test_noise_and_damaged_commands_are_no_commands(core: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    receiver = Receiver()
    good = CommandFrame(Command.ZERO, 17)
    for _ in range(2000):
        data = bytearray(codec.encode(good))
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        # The receiver and the driver's decoder are of one mind about every piece.
        stream = codec.FrameStream()
        commands = [frame for frame in stream.feed(bytes(data) + b"\x00") if isinstance(frame, CommandFrame)]
        assert received(core, receiver, bytes(data) + b"\x00") == [tuple(command) for command in commands] == []
        assert received(core, receiver, rng.bytes(40) + b"\x00" + codec.encode(good))[-1] == (1, 17)


def tick(core: ctypes.CDLL, board: Board, raw: list[int], time_us: int, magnets: int = 0) -> CountsFrame:
    counts = Counts()
    core.se_board_tick(ctypes.byref(board), I32x4(*raw), time_us, magnets, False, ctypes.byref(counts))
    return counts.frame()


def test_the_board_counts_from_where_it_started_and_from_the_zero(core: ctypes.CDLL) -> None:
    board = Board()
    core.se_board_start(ctypes.byref(board), I32x4(100, -100, 0, 2**31 - 1))
    first = tick(core, board, [101, -100, 5, -(2**31)], 1000)
    # The fourth counter wrapped: one step on.
    assert first.counts == (1, 0, 5, 1)
    assert (first.sequence, first.status) == (0, Status.JUST_BOOTED)
    zero = CCommand(Command.ZERO, 7)
    for _ in range(2):  # the repetition of a command is none
        core.se_board_obey(ctypes.byref(board), ctypes.byref(zero), I32x4(150, 0, 0, 0))
    after = tick(core, board, [151, 0, 0, -1], 2000)
    assert after.counts == (1, 0, 0, -1)
    assert after.status & Status.ZEROED
    assert codec.zero_number(after.status) == 1


def test_the_board_latches_a_jump_until_the_zero(core: ctypes.CDLL) -> None:
    board = Board()
    core.se_board_start(ctypes.byref(board), I32x4(0, 0, 0, 0))
    assert not tick(core, board, [1024, -1024, 0, 0], 0).status & 0xFF
    assert tick(core, board, [1024, -2049, 0, 0], 0).status & 0xFF == Status.JUMP_1
    assert tick(core, board, [1024, -2049, 0, 0], 0).status & 0xFF == Status.JUMP_1
    core.se_board_obey(ctypes.byref(board), ctypes.byref(CCommand(1, 1)), I32x4(0, 9, 0, 0))
    assert not tick(core, board, [0, 9, 0, 0], 0).status & 0xFF


def test_the_board_says_what_it_dropped_and_which_magnet_is_away(core: ctypes.CDLL) -> None:
    board = Board()
    core.se_board_start(ctypes.byref(board), I32x4())
    assert not tick(core, board, [0] * 4, 0).status & Status.FRAMES_DROPPED
    for _ in range(3):
        core.se_board_sent(ctypes.byref(board), False)
    frame = tick(core, board, [0] * 4, 0, magnets=0b0100)
    assert frame.status & Status.FRAMES_DROPPED
    assert frame.status & Status.MAGNET_FAULT_2
    core.se_board_sent(ctypes.byref(board), True)
    assert not tick(core, board, [0] * 4, 0).status & Status.FRAMES_DROPPED
    assert board.dropped == 3


def test_the_boot_flag_ends_after_a_second(core: ctypes.CDLL) -> None:
    board = Board()
    core.se_board_start(ctypes.byref(board), I32x4())
    flags = [bool(tick(core, board, [0] * 4, 0).status & Status.JUST_BOOTED) for _ in range(1001)]
    assert flags == [True] * 1000 + [False]


STUBS = {
    "QuadEncoder.h": """
        #pragma once
        #include <cstddef>
        #include <cstdint>
        struct QuadEncoder {
          struct { uint16_t filterCount, filterSamplePeriod; } EncConfig;
          QuadEncoder(uint8_t, uint8_t, uint8_t) {}
          void setInitConfig() {}
          void init() {}
          int32_t read() { return 0; }
        };
        inline uint32_t micros() { return 0; }
        static uint32_t HW_OCOTP_MAC0;
        static struct {
          void begin(long) {}
          operator bool() { return true; }
          int availableForWrite() { return 0; }
          size_t write(const uint8_t *, size_t size) { return size; }
          void send_now() {}
          int available() { return 0; }
          int read() { return 0; }
        } Serial;
    """,
    "Wire.h": """
        #pragma once
        static struct {
          void begin() {}
          void setClock(uint32_t) {}
          void beginTransmission(uint8_t) {}
          size_t write(uint8_t) { return 1; }
          uint8_t endTransmission(bool) { return 0; }
          uint8_t requestFrom(uint8_t, uint8_t) { return 2; }
          int read() { return 0; }
        } Wire;
    """,
}


def test_the_sketch_compiles_against_what_it_uses_of_the_board(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here: the sketch is not compiled")
    for name, text in STUBS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = ["-std=gnu++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}", f"-I{FIRMWARE}"]
    command = [compiler, *flags, "-x", "c++", str(FIRMWARE / "string_encoder.ino")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
