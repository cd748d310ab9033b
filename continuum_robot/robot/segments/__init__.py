# SPDX-License-Identifier: Apache-2.0
"""What a rod's segment is made of: backbone, tendons and their routing, disks, fibre."""
