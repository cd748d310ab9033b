# SPDX-License-Identifier: Apache-2.0
"""What unit tests of several folders share."""

from __future__ import annotations

import pytest

from continuum_robot.rod.code import library


@pytest.fixture(scope="module")
def virtual_machine():
    """Rods of this module run in CasADi's virtual machine: for a short motion that is sooner than to compile them."""

    def without_compiler() -> tuple[str, str]:
        raise library.CompilationError("not compiled in this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "find_compiler", without_compiler)
        yield
