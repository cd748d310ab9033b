# SPDX-License-Identifier: Apache-2.0
"""Statics and motions as torch functions: their gradients against torch's own differences, in double precision."""

import sys

import numpy as np
import pytest

from continuum_robot import Rod, load_robot
from continuum_robot.errors import MissingPackageError
from continuum_robot.rod.torch_functions import equilibrium, motion, tip_position


def test_the_gradients_of_torch_functions_are_those_of_differences():
    torch = pytest.importorskip("torch", reason="torch is not installed, and the package does not need it")
    rod, rng = Rod(load_robot("two_segment")), np.random.default_rng(1)

    def tensor(values):
        return torch.tensor(values, dtype=torch.float64, requires_grad=True)

    tension = tensor(rng.uniform(1.0, 3.0, (2, rod.tendon_count)))
    stiffness = tensor(rod.arrays.stiffness * 1e3)  # of the size of the tensions, for torch's steps

    def tip(tension, stiffness):
        return 1e2 * tip_position(rod, equilibrium(rod, tension, stiffness / 1e3))

    assert torch.autograd.gradcheck(tip, (tension, stiffness), eps=1e-4, atol=1e-6)
    each = tensor(np.tile(rod.arrays.stiffness, (2, 1, 1)))
    (equilibrium(rod, tension, each)).sum().backward()
    assert each.grad.shape == each.shape
    np.testing.assert_array_equal(
        equilibrium(rod, tension).detach().numpy(), rod.equilibria(tension.detach().numpy()).c
    )

    def states(c, v, tension):
        return motion(rod, c, v, tension, 2e-3, every=2)

    start, rate = tensor(rng.normal(size=rod.n)), tensor(rng.normal(size=rod.n))
    pulled = tensor(rng.uniform(1.0, 3.0, (4, rod.tendon_count)))
    assert torch.autograd.gradcheck(states, (start, rate, pulled), eps=1e-4, atol=1e-6)
    single = equilibrium(rod, tension.detach().float().requires_grad_())
    single.sum().backward()
    assert single.dtype == torch.float32


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    rod = Rod(load_robot("opencr_five_tendon"))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match="pip install torch"):
        equilibrium(rod, None)
