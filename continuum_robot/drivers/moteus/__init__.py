# SPDX-License-Identifier: Apache-2.0
"""moteus controllers as tendon actuators: settings, frames, driver, survey, emulator."""
