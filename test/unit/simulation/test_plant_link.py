# SPDX-License-Identifier: Apache-2.0
"""The memory-mapped link of the strings: one writer, whole values, stale and dead ends."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from continuum_robot.errors import DeviceError, ParameterError
from continuum_robot.simulation.devices.plant_link import PlantLinkReader, PlantLinkWriter, link_path

COUNT = 64


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plant"


def test_what_is_written_is_read(path):
    writer, reader = PlantLinkWriter(path, 3), PlantLinkReader(path)
    assert reader.read() is None
    writer.open()
    assert reader.read() is None  # nothing written yet
    writer.write(12.5, np.array([1.0, -2.0, np.nan]))
    sample = reader.read()
    assert sample.time_s == 12.5
    np.testing.assert_array_equal(sample.extension_m, [1.0, -2.0, np.nan])
    writer.close()
    assert reader.read() is None
    assert not path.exists()


def test_a_reader_follows_a_new_writer(path):
    reader = PlantLinkReader(path)
    for time_s in (1.0, 2.0):
        writer = PlantLinkWriter(path, 1)
        writer.open()
        writer.write(time_s, np.array([time_s]))
        if reader.read() is None:  # it still had the old file
            assert reader.read().time_s == time_s
        writer.close()


def test_a_second_writer_is_refused_and_told_who_writes(path):
    writer = PlantLinkWriter(path, 1)
    writer.open()
    with pytest.raises(DeviceError, match=str(os.getpid())):
        PlantLinkWriter(path, 1).open()
    writer.close()
    other = PlantLinkWriter(path, 1)
    other.open()
    other.close()


def _write_until_killed(path, ready):
    writer = PlantLinkWriter(path, COUNT)
    writer.open()
    value = 0.0
    while True:
        value += 1.0
        writer.write(value, np.full(COUNT, value))
        ready.set()


def test_values_are_never_torn_and_a_killed_writer_is_replaced(path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_write_until_killed, args=(path, ready), daemon=True)
    process.start()
    assert ready.wait(300)
    reader = PlantLinkReader(path)
    seen = []
    for _ in range(3000):
        sample = reader.read()
        if sample is not None:
            assert np.all(sample.extension_m == sample.time_s)
            seen.append(sample.time_s)
    assert len(seen) > 100
    assert np.all(np.diff(seen) >= 0)
    with pytest.raises(DeviceError, match=str(process.pid)):
        PlantLinkWriter(path, COUNT).open()
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert path.exists()  # it could not clean up
    heir = PlantLinkWriter(path, COUNT)
    heir.open()
    heir.write(-1.0, np.full(COUNT, 7.0))
    sample = reader.read()
    assert sample.time_s == -1.0
    np.testing.assert_array_equal(sample.extension_m, 7.0)
    heir.close()


def test_a_foreign_file_is_not_believed(path):
    path.write_bytes(b"something else, long enough to look like a header of the link")
    assert PlantLinkReader(path).read() is None
    path.write_bytes(b"short")
    assert PlantLinkReader(path).read() is None


def test_a_link_is_not_followed(path, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    path.symlink_to(target)
    with pytest.raises(DeviceError):
        PlantLinkWriter(path, 1).open()
    assert target.read_text() == "precious"


def test_each_key_has_its_own_file():
    keys = [("", "a", "0"), ("", "a", "1"), ("/x", "a", "0"), ("/x/y", "a", "0"), ("/x_y", "a", "0"), ("", "b", "0")]
    paths = {link_path(*key) for key in keys}
    assert len(paths) == len(keys)
    assert link_path("x", "a", "0") == link_path("/x/", "a", "0")
    assert str(os.getuid()) in link_path("", "a", "0").name


def test_the_domain_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "42")
    assert link_path("n") == link_path("n", domain_id="42")
    monkeypatch.delenv("ROS_DOMAIN_ID")
    assert link_path("n") == link_path("n", domain_id="0")


def test_misuse_is_refused(path):
    with pytest.raises(ParameterError):
        PlantLinkWriter(path, -1)
    with pytest.raises(DeviceError, match="not open"):
        PlantLinkWriter(path, 1).write(0.0, np.zeros(1))
    with pytest.raises(DeviceError, match="created"):
        PlantLinkWriter(path / "no" / "folder", 1).open()
