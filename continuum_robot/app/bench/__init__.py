# SPDX-License-Identifier: Apache-2.0
"""What this machine can do: models, drivers, and the loop over DDS."""
