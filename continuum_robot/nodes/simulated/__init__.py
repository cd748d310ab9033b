# SPDX-License-Identifier: Apache-2.0
"""What only a simulated robot has: contacts, pushes, obstacles, injected faults."""
