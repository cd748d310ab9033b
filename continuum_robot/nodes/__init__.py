# SPDX-License-Identifier: Apache-2.0
"""ROS 2 nodes, one a file. A node subscribes, converts, calls ``update`` of an algorithm, publishes.

What nodes share is in folders; the parts of larger nodes are in driver/, reference/, contact/ and supervision/.
"""

import os

# Before numpy is loaded, by processes of a stack and those that they start. A second thread of its linear algebra waits
# for the next product at full speed: on two cores it takes one of them from the 1 kHz loop, and saves nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
