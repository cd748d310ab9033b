# SPDX-License-Identifier: Apache-2.0
"""SparkFun OpenScale boards, a load cell each: settings, lines, driver, survey, emulator."""
