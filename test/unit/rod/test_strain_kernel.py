# SPDX-License-Identifier: Apache-2.0
"""Whether the compiled kernel is there, and what happens without it."""

from __future__ import annotations

import pytest

from continuum_robot.errors import ContinuumRobotError
from continuum_robot.rod import strain_kernel
from continuum_robot.rod.code_generation import CompilationError


@pytest.fixture(autouse=True)
def _afresh():
    strain_kernel.kernel.cache_clear()
    yield
    strain_kernel.kernel.cache_clear()


def test_it_can_be_left_out(monkeypatch):
    monkeypatch.setenv(strain_kernel.SWITCH, "never")
    assert strain_kernel.kernel() is None


def test_without_a_compiler_numpy_does_it_unless_asked_otherwise(monkeypatch):
    def missing(*_):
        raise CompilationError("no C compiler found")

    monkeypatch.setattr(strain_kernel, "build_library", missing)
    assert strain_kernel.kernel() is None
    strain_kernel.kernel.cache_clear()
    monkeypatch.setenv(strain_kernel.SWITCH, "always")
    with pytest.raises(ContinuumRobotError, match="no C compiler found"):
        strain_kernel.kernel()


def test_it_is_compiled_once_into_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path))
    if strain_kernel.kernel() is None:
        pytest.skip("no C compiler")
    (library,) = tmp_path.glob("*.so")
    changed = library.stat().st_mtime_ns
    strain_kernel.kernel.cache_clear()
    assert strain_kernel.kernel() is not None
    assert library.stat().st_mtime_ns == changed
