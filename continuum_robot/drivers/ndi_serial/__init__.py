# SPDX-License-Identifier: Apache-2.0
"""NDI Polaris and Aurora trackers on a serial port, over the makers' interface library."""
