# SPDX-License-Identifier: Apache-2.0
# The demo on ROS 2 proper. Not run yet: CONTRIBUTING.md.
#   docker build -t continuum_robot . && docker run --rm -v "$PWD/runs:/runs" continuum_robot
FROM ros:kilted

RUN apt-get update && apt-get install -y --no-install-recommends g++ python3-pip && rm -rf /var/lib/apt/lists/* \
  && python3 -m pip install --break-system-packages --no-cache-dir \
       casadi rosbags mcap python-can pyserial Cython scipy matplotlib rich typer viser websockets msgspec
COPY . /workspace/src/continuum_robot
WORKDIR /workspace
RUN . /opt/ros/kilted/setup.sh && colcon build --packages-select continuum_robot
ENV ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST
ENTRYPOINT ["/bin/sh", "-c", ". install/setup.sh && exec ros2 run continuum_robot continuum-robot demo --no-view --folder /runs"]
