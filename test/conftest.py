# SPDX-License-Identifier: Apache-2.0
"""What all tests share: DDS domains of this run alone, and the examples that hypothesis draws."""

from __future__ import annotations

import os
import signal
import tempfile

import hypothesis

# A shell that runs the tests in the background has it ignored, and hands that on to what the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The suite judges a change, so the same tree gives the same verdict: its examples are drawn from fixed seeds, and few,
# since the same ones are tried each time. New ones are looked for with --hypothesis-profile=explore, and what they find
# becomes an @example. A test whose examples cost much states fewer, and one that much depends on a multiple.
hypothesis.settings.register_profile("suite", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.register_profile("explore", max_examples=2000, deadline=None)
hypothesis.settings.load_profile("suite")

# Domains 1 to 96: runs side by side on one machine hardly ever meet, and each file of a run has its own. Where tests
# kill processes each test takes the next of a few: for a while the middleware remembers the dead.
DOMAINS_PER_RUN = 24
_FIRST_DOMAIN = int(os.environ.setdefault("CONTINUUM_ROBOT_TEST_DOMAIN", str(1 + os.getpid() % 4 * DOMAINS_PER_RUN)))
# What robots of tests leave behind is not the user's.
_CALIBRATION = tempfile.TemporaryDirectory(prefix="calibration_of_tests_")
os.environ["CONTINUUM_ROBOT_CALIBRATION"] = _CALIBRATION.name
os.environ.setdefault("CONTINUUM_ROBOT_TEST_DOMAIN_APP", str(_FIRST_DOMAIN + DOMAINS_PER_RUN - 6))
os.environ.setdefault("CONTINUUM_ROBOT_TEST_DOMAIN_EXAMPLES", str(_FIRST_DOMAIN + DOMAINS_PER_RUN - 2))
os.environ.setdefault("CONTINUUM_ROBOT_TEST_DOMAIN_LAUNCH", str(_FIRST_DOMAIN + DOMAINS_PER_RUN - 1))
