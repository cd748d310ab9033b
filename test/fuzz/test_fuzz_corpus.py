# SPDX-License-Identifier: Apache-2.0
"""The inputs that the fuzzer kept, and those that it found, go through every target; without atheris."""

from __future__ import annotations

import traceback

import pytest
from fuzz_targets import CORPUS, TARGETS, load

NEEDS = {"fuzz_codecs": ("dynamixel_sdk", "can"), "fuzz_page": ("viser",)}
LARGEST_CORPUS = 300_000
"""Bytes: small files that stay in the repository."""


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_is_read_or_refused_as_declared(target: str) -> None:
    for module in NEEDS.get(TARGETS[target], ()):
        pytest.importorskip(module)
    function = load(target)
    files = sorted((CORPUS / target).iterdir())
    assert files
    for file in files:
        try:
            function(file.read_bytes())
        except Exception as error:
            pytest.fail(f"test/fuzz/corpus/{target}/{file.name}: {''.join(traceback.format_exception(error))}")


def test_the_corpus_is_of_these_targets_and_small() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file()) < LARGEST_CORPUS
