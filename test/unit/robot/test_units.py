# SPDX-License-Identifier: Apache-2.0
"""The unit of a field is that in which its name ends, where it states no other."""

import dataclasses

import pytest

from continuum_robot.robot.schema import quantity, quantity_of, unit_of


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("length_m", "m"),
        ("damping_ns_per_m", "N.s/m"),
        ("gravity_m_per_s2", "m/s^2"),
        ("rate_noise_per_m_s", "1/(m.s)"),
        ("inertia_kg_m2", "kg.m^2"),
        ("k_lambda_theta_nm_per_rad", "N.m/rad"),
        ("turns", ""),
        ("frame_id", ""),
        ("s", ""),
    ],
)
def test_a_unit_follows_from_the_name(name, unit):
    assert unit_of(name) == unit


def test_another_unit_may_be_stated():
    made = dataclasses.make_dataclass("Made", [("loss_w_per_a2", float, quantity("loss", "ohm", ge=0)), ("p_n", float)])
    assert [quantity_of(field).unit for field in dataclasses.fields(made)] == ["ohm", "N"]
    assert quantity_of(dataclasses.fields(made)[0]).expected() == "a number in [0, inf) ohm"
