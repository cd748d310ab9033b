# SPDX-License-Identifier: Apache-2.0
"""Messages and their topics: conversions, quality of service, common types beside our own."""
