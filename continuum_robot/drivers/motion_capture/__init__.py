# SPDX-License-Identifier: Apache-2.0
"""Motion capture: Vicon, OptiTrack, Qualisys, VRPN and others, over the library motioncapture."""
