# SPDX-License-Identifier: Apache-2.0
"""Signed distances against a search over the surface, and their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from continuum_robot.errors import ParameterError
from continuum_robot.geometry import so3
from continuum_robot.geometry.obstacles import ConvexObstacle, least_distance

SHAPES = {"box": (0.1, 0.2, 0.3), "cylinder": (0.15, 0.25), "capsule": (0.1, 0.2), "sphere": (0.2,)}
coordinate = st.floats(-0.6, 0.6, allow_nan=False)
point = st.tuples(coordinate, coordinate, coordinate)


def placed(shape):
    return ConvexObstacle(shape, SHAPES[shape], np.array([0.05, -0.1, 0.2]), so3.exp([0.4, -0.7, 0.2]))


def inside(shape, p):
    """Whether a point of the obstacle's own frame is inside, by the definition of each shape."""
    sizes = SHAPES[shape]
    if shape == "box":
        return bool(np.all(np.abs(p) <= sizes))
    if shape == "sphere":
        return bool(np.linalg.norm(p) <= sizes[0])
    along = max(abs(p[2]) - sizes[1], 0.0)
    if shape == "cylinder":
        return bool(np.hypot(p[0], p[1]) <= sizes[0] and along == 0)
    return bool(np.linalg.norm([p[0], p[1], along]) <= sizes[0])


@pytest.mark.parametrize("shape", SHAPES)
@given(point)
def test_the_sign_tells_inside_and_the_gradient_is_the_slope(shape, point):
    obstacle, p = placed(shape), np.array(point)
    distance, gradient = obstacle.distance([p])
    own = obstacle.rotation.T @ (p - obstacle.position_m)
    if abs(distance[0]) > 1e-9:
        assert (distance[0] < 0) == inside(shape, own)
    assert np.linalg.norm(gradient[0]) == pytest.approx(1)
    h = 1e-6
    steps = np.concatenate([h * np.eye(3), -h * np.eye(3)])
    around = obstacle.distance(p + steps)[0]
    slope = (around[:3] - around[3:]) / (2 * h)
    curved = around[:3] - 2 * distance + around[3:]
    if np.all(np.abs(curved) < 1e-8):  # else at an edge of its slope
        np.testing.assert_allclose(gradient[0], slope, atol=1e-4)
    # Nobody is nearer than by the distance: it is 1-Lipschitz, and a step along its gradient meets the surface.
    surface = p - distance[0] * gradient[0]
    assert abs(obstacle.distance([surface])[0][0]) < 1e-9


def test_the_distance_to_a_box_is_that_of_a_search():
    rng = np.random.default_rng(3)
    obstacle, half = placed("box"), np.array(SHAPES["box"])
    for _ in range(20):
        p = rng.uniform(-1, 1, 3)
        own = obstacle.rotation.T @ (p - obstacle.position_m)
        found = minimize(
            lambda x, own=own: np.sum((x - own) ** 2), np.zeros(3), bounds=list(zip(-half, half, strict=True))
        )
        if obstacle.distance([p])[0][0] > 0:
            assert obstacle.distance([p])[0][0] == pytest.approx(np.sqrt(found.fun), abs=1e-5)


def test_the_nearest_obstacle_counts():
    near = ConvexObstacle("sphere", (0.1,), np.zeros(3), np.eye(3))
    far = ConvexObstacle("sphere", (0.1,), np.array([1.0, 0, 0]), np.eye(3))
    distance, gradient = least_distance([far, near], np.array([[0.2, 0.0, 0.0], [0.9, 0.0, 0.0]]))
    np.testing.assert_allclose(distance, [0.1, 0.0], atol=1e-12)
    np.testing.assert_allclose(gradient, [[1, 0, 0], [-1, 0, 0]], atol=1e-12)
    assert np.isinf(least_distance([], np.zeros((1, 3)))[0]).all()


def test_a_mesh_is_refused():
    with pytest.raises(ParameterError, match="box, cylinder, capsule, sphere"):
        ConvexObstacle("mesh", (), np.zeros(3), np.eye(3))
