# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuum_robot.control.pid import START_FADE_TIME_S, Pid, PidParameters
from continuum_robot.errors import ParameterError
from continuum_robot.robot.control_settings import ANTIWINDUP_STRATEGIES, PidGains

DT = 0.01
STRATEGIES = st.sampled_from(ANTIWINDUP_STRATEGIES)


class Stepped(Pid):
    """The controller, with what is not given left out."""

    def reset(self, output, reference=None, measurement=None, measurement_rate=None, feedforward=None):
        unknown, zero = np.full(self.size, np.nan), np.zeros(self.size)
        given = ((output, unknown), (reference, unknown), (measurement, unknown), (measurement_rate, zero))
        values = [usual if one is None else one for one, usual in (*given, (feedforward, zero), (None, zero))]
        self.begin(*(np.array(one).tolist() for one in values))

    def update(self, reference, measurement, measurement_rate, dt, feedforward=None, *, reference_rate=None):
        zero = np.zeros(self.size)
        rates = [zero if one is None else one for one in (measurement_rate, feedforward, reference_rate)]
        rate, forward, reference_rate = (np.array(one).tolist() for one in rates)
        measured = np.array(reference).tolist(), np.array(measurement).tolist()
        self.step(*measured, rate, measurement_rate is not None, forward, reference_rate, dt)
        return self.terms()


def pid(coordinates=1, **gains):
    gains = {"p": 0.0, "derivative_filter_time": 0.0, "antiwindup_strategy": "none", **gains}
    return Stepped(PidParameters.from_gains([PidGains(**gains)], coordinates))


def run(controller, error, dt=DT, rate=0.0):
    """One update at a constant error with the measurement at 0."""
    size = controller.parameters.p.size
    return controller.update(np.full(size, error), np.zeros(size), np.full(size, rate), dt)


def test_proportional_term_alone():
    terms = run(pid(p=10.0), 0.2)
    np.testing.assert_allclose(terms.output, [2.0])
    np.testing.assert_allclose([terms.error[0], terms.p_term[0], terms.i_term[0], terms.d_term[0]], [0.2, 2, 0, 0])


def test_integral_term_alone_advances_after_the_output():
    controller = pid(i=10.0)
    outputs = [run(controller, 0.2).output[0] for _ in range(4)]
    np.testing.assert_allclose(outputs, [0, 0.02, 0.04, 0.06])


def test_derivative_acts_on_the_measurement_and_not_on_the_reference():
    controller = pid(d=3.0)
    np.testing.assert_allclose(run(controller, 0.0, rate=0.5).output, [-1.5])
    np.testing.assert_allclose(run(controller, 100.0, rate=0.5).output, [-1.5])


def test_reference_velocity_counts_by_its_weight():
    for weight in (0.0, 0.4, 1.0):
        controller = pid(d=3.0, reference_velocity_weight=weight)
        terms = controller.update(np.zeros(1), np.zeros(1), np.array([0.5]), DT, reference_rate=np.array([2.0]))
        np.testing.assert_allclose(terms.output, [3 * (weight * 2 - 0.5)])


def test_derivative_filter_is_a_first_order_low_pass_at_any_step():
    time_constant, rate = 0.05, 2.0
    for dt in (0.001, 0.01, 0.03):
        controller = pid(d=1.0, derivative_filter_time=time_constant)
        steps = round(0.09 / dt)
        for _ in range(steps):
            terms = run(controller, 0.0, dt, rate)
        np.testing.assert_allclose(terms.d_term, -rate * (1 - math.exp(-steps * dt / time_constant)), rtol=1e-12)


def test_without_a_measured_rate_the_measurement_is_differentiated():
    controller = pid(d=2.0)
    first = controller.update(np.zeros(1), np.array([0.3]), None, DT)
    np.testing.assert_allclose(first.d_term, [0.0])
    second = controller.update(np.zeros(1), np.array([0.35]), None, DT)
    np.testing.assert_allclose(second.d_term, [-2 * 0.05 / DT])


def test_a_gap_in_the_measurement_does_not_kick_its_derivative():
    controller = pid(d=1.0)
    for position in (0.0, 0.01, 0.02, np.nan, np.nan, 0.05, 0.06):
        terms = controller.update(np.zeros(1), np.array([position]), None, DT)
        if position > 0:
            np.testing.assert_allclose(terms.d_term, [-1.0])


def test_feedforward_is_added_and_bounded_with_the_rest():
    controller = pid(p=1.0, u_clamp_max=5.0)
    terms = controller.update(np.ones(1), np.zeros(1), np.zeros(1), DT, np.array([3.0]))
    np.testing.assert_allclose(terms.output, [4.0])
    terms = controller.update(np.ones(1), np.zeros(1), np.zeros(1), DT, np.array([30.0]))
    np.testing.assert_allclose(terms.output, [5.0])
    assert terms.saturated.tolist() == [True]
    np.testing.assert_allclose(terms.feedforward, [30.0])


def test_gains_of_each_segment_act_on_its_two_coordinates():
    controller = Stepped(PidParameters.from_gains([PidGains(p=1.0), PidGains(p=10.0)]))
    np.testing.assert_allclose(run(controller, 1.0).output, [1, 1, 10, 10])


@pytest.mark.parametrize("strategy", ANTIWINDUP_STRATEGIES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["reference", "measurement", "measurement_rate", "feedforward"])
def test_an_error_that_is_not_finite_gives_nan_and_keeps_the_state(strategy, bad, where):
    gains = {"p": 2.0, "i": 5.0, "d": 1.0, "antiwindup_strategy": strategy, "derivative_filter_time": 0.02}
    disturbed, undisturbed = pid(2, **gains), pid(2, **gains)

    def inputs(k):
        wave = np.array([math.sin(k), math.cos(k)])
        return {"reference": wave, "measurement": 0.3 * wave, "measurement_rate": 0.1 * wave, "feedforward": 0.0 * wave}

    for k in range(5):
        disturbed.update(dt=DT, **inputs(k))
        undisturbed.update(dt=DT, **inputs(k))
    broken = inputs(5)
    broken[where] = np.array([bad, broken[where][1]])
    terms = disturbed.update(dt=DT, **broken)
    assert math.isnan(terms.output[0])
    assert math.isfinite(terms.output[1])
    after, expected = disturbed.update(dt=DT, **inputs(6)), undisturbed.update(dt=DT, **inputs(6))
    np.testing.assert_allclose(after.i_term[0], expected.i_term[0], rtol=1e-13)
    np.testing.assert_allclose(after.output[0], expected.output[0], rtol=1e-13)


def test_an_unknown_first_measurement_heals_without_a_measured_rate():
    controller = pid(p=1.0, d=1.0)
    assert np.isnan(controller.update(np.zeros(1), np.array([np.nan]), None, DT).output[0])
    outputs = [controller.update(np.zeros(1), np.array([0.1]), None, DT).output[0] for _ in range(3)]
    np.testing.assert_allclose(outputs[-1], -0.1)


def test_a_step_of_zero_gives_the_last_output_again():
    controller = pid(p=2.0, i=5.0)
    run(controller, 0.2)
    last = run(controller, 0.3)
    again = run(controller, 77.0, dt=0.0)
    np.testing.assert_array_equal(again.output, last.output)
    np.testing.assert_allclose(run(controller, 0.3).i_term, last.i_term + DT * 5 * 0.3)


def test_deadband_rests_the_integral_only():
    controller = pid(p=1.0, i=1.0, error_deadband=0.1)
    for _ in range(5):
        terms = run(controller, 0.1)
    np.testing.assert_allclose([terms.p_term[0], terms.i_term[0]], [0.1, 0.0])
    run(controller, 0.11)
    np.testing.assert_allclose(run(controller, 0.0).i_term, [0.11 * DT])


def test_integral_stays_within_its_bounds():
    controller = pid(i=100.0, i_clamp_max=0.5, i_clamp_min=-0.25)
    for _ in range(100):
        high = run(controller, 1.0)
    for _ in range(200):
        low = run(controller, -1.0)
    np.testing.assert_allclose([high.i_term[0], low.i_term[0]], [0.5, -0.25])


def test_without_antiwindup_the_integral_winds_up():
    controller = pid(p=1.0, i=10.0, u_clamp_max=1.0)
    for _ in range(100):
        terms = run(controller, 5.0)
    np.testing.assert_allclose(terms.i_term, [99 * DT * 10 * 5])


def test_conditional_integration_rests_while_the_error_pushes_into_the_bound():
    controller = pid(p=1.0, i=10.0, u_clamp_max=1.0, antiwindup_strategy="conditional_integration")
    for _ in range(100):
        terms = run(controller, 5.0)
    np.testing.assert_allclose(terms.i_term, [0.0])
    run(controller, -0.5)
    assert run(controller, -0.5).i_term[0] < 0  # and integrates again as soon as the error turns


def test_back_calculation_settles_where_integration_and_excess_balance():
    tracking = 0.2
    controller = pid(
        p=1.0, i=10.0, u_clamp_max=1.0, antiwindup_strategy="back_calculation", tracking_time_constant=tracking
    )
    for _ in range(2000):
        terms = run(controller, 5.0)
    # i e = (u - u_max) / T_t with u = p e + I
    np.testing.assert_allclose(terms.p_term + terms.i_term, [1.0 + 10 * 5 * tracking], rtol=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_back_calculation_does_not_wind_up_the_other_way(sign):
    """A held error whose proportional term alone is beyond the bound leaves nothing in the integral."""
    controller = pid(
        p=6000.0,
        i=30000.0,
        d=300.0,
        u_clamp_max=40.0,
        u_clamp_min=-40.0,
        i_clamp_max=20.0,
        i_clamp_min=-20.0,
        antiwindup_strategy="back_calculation",
    )
    for _ in range(2000):
        terms = run(controller, 0.8 * sign)
    assert terms.saturated.all()
    np.testing.assert_allclose(terms.output, 40.0 * sign)
    assert np.all(sign * terms.i_term >= 0.0)
    assert np.all(sign * terms.i_term <= DT * 30000.0 * 0.8)


@pytest.mark.parametrize("strategy", ["back_calculation", "conditional_integration"])
def test_what_limits_leave_of_the_output_is_a_bound_of_it(strategy):
    """The integral behind a limit of 5 N of the actuators is that behind a bound of 5 N, but for a step."""

    def held(own_bound, realised):
        controller = pid(p=10.0, i=50.0, u_clamp_max=own_bound, antiwindup_strategy=strategy, i_clamp_max=500.0)
        integrals = []
        for _ in range(1500):
            terms = run(controller, 0.2)
            if realised is not None and terms.output[0] > realised:
                controller.realise([realised] * controller.size)
            integrals.append(terms.i_term[0])
        return np.array(integrals), terms

    bounded, _ = held(5.0, None)
    limited, terms = held(1e3, 5.0)
    assert terms.saturated.all()
    np.testing.assert_allclose(limited, bounded, atol=3 * DT * 50 * 0.2)
    assert limited[-1] < 6.0


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({"p": 2.0, "i": 8.0, "d": 0.5}, 4.0),  # 1 / sqrt(d / i)
        ({"p": 2.0, "i": 8.0}, 4.0),  # 1 / (p / i)
        ({"p": 2.0, "i": 8.0, "d": 0.5, "tracking_time_constant": 0.1}, 10.0),
        ({"p": 0.0, "i": 8.0}, math.inf),
        ({"p": 2.0}, 0.0),
    ],
)
def test_tracking_time_constant_has_the_defaults_of_ros2_control(gains, expected):
    parameters = PidParameters.from_gains([PidGains(antiwindup_strategy="back_calculation", **gains)])
    np.testing.assert_allclose(parameters.back_calculation_rate, [expected, expected])


@given(strategy=STRATEGIES, error=st.floats(-1, 1), p=st.floats(0, 1e4), i=st.floats(0, 1e5), dt=st.floats(1e-5, 1.0))
def test_the_output_is_always_finite_and_within_its_bounds(strategy, error, p, i, dt):
    controller = pid(p=p, i=i, d=10.0, u_clamp_max=7.0, u_clamp_min=-3.0, antiwindup_strategy=strategy)
    for _ in range(20):
        terms = run(controller, error, dt, rate=error)
        assert -3.0 <= terms.output[0] <= 7.0
        assert math.isfinite(terms.i_term[0])
        if not terms.saturated[0]:
            total = terms.p_term[0] + terms.i_term[0] + terms.d_term[0] + terms.feedforward[0]
            assert terms.output[0] == pytest.approx(total)


@pytest.mark.parametrize("strategy", ["back_calculation", "conditional_integration"])
def test_antiwindup_comes_back_sooner_than_none(strategy):
    """A first-order plant whose actuator saturates: overshoot after a long saturation."""

    def overshoot(strategy):
        controller = pid(p=2.0, i=20.0, u_clamp_max=1.2, u_clamp_min=-1.2, antiwindup_strategy=strategy)
        position, highest = 0.0, 0.0
        for _ in range(3000):
            u = controller.update(np.ones(1), np.array([position]), np.zeros(1), DT).output[0]
            position += DT * (u - position)
            highest = max(highest, position)
        assert position == pytest.approx(1.0, abs=1e-3)
        return highest - 1

    assert overshoot(strategy) < 0.5 * overshoot("none")


@given(
    strategy=STRATEGIES,
    output=st.floats(-50, 50),
    error=st.floats(-1e-2, 1e-2),
    rate=st.floats(-0.1, 0.1),
    forward=st.floats(-5, 5),
    i=st.sampled_from([0.0, 5e3]),
    i_clamp=st.sampled_from([1.0, 1e3]),
    filter_time=st.sampled_from([0.0, 0.005]),
)
def test_the_first_output_after_a_reset_is_the_given_one(
    strategy, output, error, rate, forward, i, i_clamp, filter_time
):
    controller = pid(
        p=3e3,
        i=i,
        d=200.0,
        i_clamp_max=i_clamp,
        i_clamp_min=-i_clamp,
        derivative_filter_time=filter_time,
        antiwindup_strategy=strategy,
    )
    inputs = {
        "reference": np.array([error]),
        "measurement": np.zeros(1),
        "measurement_rate": np.array([rate]),
        "feedforward": np.array([forward]),
    }
    controller.reset([output], **inputs)
    np.testing.assert_allclose(controller.update(dt=0.0, **inputs).output, [output], atol=1e-9)
    first = controller.update(dt=1e-3, **inputs)
    np.testing.assert_allclose(first.output, [output], atol=1e-9)
    second = controller.update(dt=1e-3, **inputs)
    drift = 1e-3 * (i * abs(error) + (abs(output) + 100) / START_FADE_TIME_S)
    assert abs(second.output[0] - output) <= drift


def test_a_start_that_no_integral_holds_fades_away():
    controller = pid(p=10.0)
    controller.reset([5.0])
    outputs = np.array([run(controller, 0.0, 1e-3).output[0] for _ in range(3001)])
    np.testing.assert_allclose(outputs, 5 * np.exp(-np.arange(3001) * 1e-3 / START_FADE_TIME_S), rtol=1e-9)


def test_new_parameters_act_from_the_next_cycle_without_a_jump_of_the_integral():
    old = pid(p=10.0, i=50.0)
    for _ in range(50):
        before = run(old, 0.1)
    old.set_parameters(dataclasses.replace(old.parameters, p=np.array([20.0]), i=np.array([500.0])))
    terms = run(old, 0.1)
    np.testing.assert_allclose(terms.p_term, [2.0])
    np.testing.assert_allclose(terms.i_term, before.i_term + DT * 50 * 0.1)


def test_switching_the_integral_off_lets_it_fade():
    controller = pid(p=10.0, i=50.0)
    for _ in range(50):
        run(controller, 0.1)
    controller.set_parameters(dataclasses.replace(controller.parameters, i=np.zeros(1)))
    first = run(controller, 0.1)
    np.testing.assert_allclose(first.i_term, [50 * DT * 50 * 0.1])
    for _ in range(1000):
        last = run(controller, 0.1)
    assert abs(last.i_term[0]) < 1e-6


def test_parameters_for_another_robot_are_refused():
    with pytest.raises(ParameterError):
        pid(2).set_parameters(pid(4).parameters)
