# SPDX-License-Identifier: Apache-2.0
"""Sensor channels, with a quantity that equals the time."""

import numpy as np
import pytest

from continuum_robot.errors import ParameterError
from continuum_robot.simulation.devices.channel import Channel, gaussian, in_sequence, quantised


def played(channel, times):
    seen = []
    for time_s in times:
        channel.push(np.array([time_s]), time_s)
        sample = channel.read(time_s)
        seen.append(None if sample is None else (sample.stamp_s, float(sample.value[0])))
    return seen


def test_without_delay_it_shows_the_value_at_once():
    times = [0.0, 0.1, 0.25]
    assert played(Channel(), times) == [(t, t) for t in times]


def test_a_delayed_value_keeps_its_stamp():
    seen = played(Channel(delay_s=0.002), np.arange(6) * 1e-3)
    assert seen[:2] == [None, None]
    for now, sample in zip(np.arange(2, 6) * 1e-3, seen[2:], strict=True):
        assert sample == pytest.approx((now - 0.002, now - 0.002), abs=1e-12)


def test_a_slow_sensor_repeats_its_sample_with_the_old_stamp():
    seen = played(Channel(period_s=0.01), np.arange(25) * 1e-3)
    assert {stamp for stamp, _ in seen} == {0.0, 0.01, 0.02}


def test_additional_delay_reaches_into_the_memory():
    channel = Channel(memory_s=0.5)
    played(channel, np.arange(1000) * 1e-3)
    assert channel.read(0.999, 0.3).stamp_s == pytest.approx(0.699)
    assert channel.read(0.999, 0.5).stamp_s == pytest.approx(0.499)


def test_memory_is_bounded():
    channel = Channel(delay_s=0.01)
    played(channel, np.arange(5000) * 1e-3)
    assert len(channel._samples) < 20


def test_noise_has_its_size_is_drawn_once_a_sample_and_repeats_for_a_seed():
    corrupt = gaussian(0.1, np.random.default_rng(1))
    values = corrupt(np.zeros(20000))
    assert values.std() == pytest.approx(0.1, rel=0.03)
    assert abs(values.mean()) < 0.003
    one, two = (Channel(corrupt=gaussian(1.0, np.random.default_rng(5))) for _ in range(2))
    one.push(np.zeros(3), 0.0)
    two.push(np.zeros(3), 0.0)
    np.testing.assert_array_equal(one.read(0.0).value, two.read(0.0).value)
    np.testing.assert_array_equal(one.read(0.0).value, one.read(0.0).value)


def test_quantisation_rounds_after_the_noise():
    corrupt = in_sequence(gaussian(0.01, np.random.default_rng(0)), quantised(0.25))
    values = corrupt(np.linspace(-1, 1, 101))
    np.testing.assert_allclose(values / 0.25, np.round(values / 0.25), atol=1e-12)
    np.testing.assert_array_equal(quantised(0.0)(values), values)


def test_clear_forgets():
    channel = Channel()
    channel.push(np.ones(1), 0.0)
    channel.clear()
    assert channel.read(1.0) is None


@pytest.mark.parametrize("arguments", [{"period_s": -1.0}, {"delay_s": float("nan")}, {"memory_s": float("inf")}])
def test_impossible_times_are_refused(arguments):
    with pytest.raises(ParameterError):
        Channel(**arguments)
