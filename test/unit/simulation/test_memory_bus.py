# SPDX-License-Identifier: Apache-2.0
import can
import pytest

from continuum_robot.simulation.wire.memory_bus import MOST_FRAMES, MemoryBus


def frame(number):
    return can.Message(arbitration_id=0x10, data=number.to_bytes(4, "big"), is_extended_id=False)


def test_frames_come_in_order_and_only_at_the_other_end():
    host, device = MemoryBus.pair("can0")
    for number in range(5):
        host.send(frame(number))
    assert host.recv(0.0) is None
    assert [int.from_bytes(device.recv().data, "big") for _ in range(5)] == list(range(5))
    assert device.recv(1.0) is None  # never waits
    device.send(frame(9))
    assert host.recv().data[3] == 9


def test_an_end_that_nobody_reads_keeps_the_newest():
    host, device = MemoryBus.pair("can0")
    for number in range(MOST_FRAMES + 10):
        host.send(frame(number))
    assert int.from_bytes(device.recv().data, "big") == 10


def test_an_end_that_was_shut_down_says_so():
    host, device = MemoryBus.pair("can0")
    host.shutdown()
    for call in (host.recv, lambda: host.send(frame(0))):
        with pytest.raises(can.CanOperationError):
            call()
    device.send(frame(1))  # the other end does not notice, as on a wire
