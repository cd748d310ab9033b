# SPDX-License-Identifier: Apache-2.0
# The demo on an installed ROS 2. Never built: no container was at hand; expect to mend details on the first run.
#   docker build -t continuum_robot . && docker run --rm -v "$PWD/runs:/runs" continuum_robot
FROM ros:kilted

WORKDIR /workspace
COPY package.xml src/continuum_robot/package.xml
COPY requirements/ros2.txt src/continuum_robot/requirements/ros2.txt
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip \
  && rosdep update --rosdistro kilted \
  && rosdep install --from-paths src --ignore-src -y \
  && rm -rf /var/lib/apt/lists/* \
  && pip install --break-system-packages --no-cache-dir -r src/continuum_robot/requirements/ros2.txt
COPY . src/continuum_robot
RUN . /opt/ros/kilted/setup.sh && colcon build --packages-select continuum_robot
ENTRYPOINT ["/bin/sh", "-c", ". install/setup.sh && exec ros2 run continuum_robot continuum-robot demo --no-view --folder /runs \"$@\"", "demo"]
