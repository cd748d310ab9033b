# SPDX-License-Identifier: Apache-2.0
"""CiA 402 drives over CANopen as tendon actuators: settings, codec, bus, driver, survey, emulator."""
