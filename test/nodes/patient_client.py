# SPDX-License-Identifier: Apache-2.0
"""Run a program of the client as its user does, on a simulated stack that bears a busy machine: PROGRAM [ARGUMENTS]."""

import runpy
import sys
from functools import partial

from ros_probe import PATIENT_STACK, patient_robot

from continuum_robot import client

if __name__ == "__main__":
    patient = partial(client.Robot, parameters=PATIENT_STACK)
    client.Robot = lambda name, **options: patient(patient_robot(name), **options)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
