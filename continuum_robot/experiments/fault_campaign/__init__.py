# SPDX-License-Identifier: Apache-2.0
"""What happens when something breaks: every known fault on a robot that moves under control, judged by the truth."""
