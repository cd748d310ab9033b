# SPDX-License-Identifier: Apache-2.0
"""A real robot's model, with tendons that stretch and rub, from one recording of its servos and a tracked marker."""
