# SPDX-License-Identifier: Apache-2.0
"""The parts of the tendon driver's node, one subject a file; ``nodes/tendon_driver.py`` puts them together."""
