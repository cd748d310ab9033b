# SPDX-License-Identifier: Apache-2.0
"""The truth of a simulated robot, read by another program."""

from __future__ import annotations

import numpy as np
import pytest

from continuum_robot.errors import DeviceError
from continuum_robot.simulation.truth import QUANTITIES, TruthRingReader, TruthRingWriter

TENDONS, ROWS = 5, 3000


def write(writer, first, count):
    for index in range(first, first + count):
        own = index + 0.1 * np.arange(TENDONS)
        writer.write(1e-3 * index, 2e-3 * index, own, own + 1000.0, own + 2000.0)


def test_each_row_is_read_once_across_the_end_of_the_ring(tmp_path):
    path = tmp_path / "truth"
    writer, reader = TruthRingWriter(path, TENDONS, ROWS), TruthRingReader(path)
    assert all(values.shape[0] == 0 for values in reader.read().values())
    read = []
    for first in range(0, 5 * ROWS, 700):
        write(writer, first, 700)
        read.append(reader.read())
    time_s = np.concatenate([part["time_s"] for part in read])
    np.testing.assert_allclose(time_s, 1e-3 * np.arange(time_s.size))
    tension = np.concatenate([part["tension_n"] for part in read])
    np.testing.assert_allclose(tension, np.arange(time_s.size)[:, None] + 0.1 * np.arange(TENDONS))
    last = read[-1]
    for offset, name in enumerate(QUANTITIES):
        np.testing.assert_allclose(last[name], last["tension_n"] + 1000.0 * offset)
    np.testing.assert_allclose(last["lived_s"], 2 * last["time_s"])
    assert reader.lost == 0


def test_a_reader_that_is_late_gets_the_newest_and_counts_the_rest(tmp_path):
    path = tmp_path / "truth"
    writer, reader = TruthRingWriter(path, TENDONS, ROWS), TruthRingReader(path)
    write(writer, 0, 10 * ROWS)
    time_s = reader.read()["time_s"]
    assert time_s[-1] == pytest.approx(1e-3 * (10 * ROWS - 1))
    assert reader.lost + time_s.size == 10 * ROWS


def test_a_writer_that_starts_again_goes_on_behind_the_other(tmp_path):
    path = tmp_path / "truth"
    reader = TruthRingReader(path)
    assert reader.read() == {}
    write(TruthRingWriter(path, TENDONS, ROWS), 0, 10)
    assert reader.read()["time_s"].size == 10
    write(TruthRingWriter(path, TENDONS, ROWS), 10, 4)
    np.testing.assert_allclose(reader.read()["time_s"], 1e-3 * np.arange(10, 14))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(DeviceError, match="nowhere"):
        TruthRingWriter(tmp_path / "nowhere" / "truth", TENDONS)
