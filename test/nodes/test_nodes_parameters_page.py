# SPDX-License-Identifier: Apache-2.0
"""docs/reference/parameters.md is what the nodes declare."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages.parameters import page

pytestmark = [pytest.mark.ros]

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_of_the_parameters_is_what_the_nodes_declare() -> None:
    assert (DOCS / "reference" / "parameters.md").read_text(encoding="utf-8") == page(), "run: make pages"
