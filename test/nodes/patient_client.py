# SPDX-License-Identifier: Apache-2.0
"""Run a program of the client as its user does, on a simulated stack that bears a busy machine: PROGRAM [ARGUMENTS]."""

import runpy
import sys
from functools import partial

from ros_probe import PATIENT, PATIENT_CONTROLLER, patient_robot

from continuum_robot import client

PARAMETERS = {"tendon_driver": {"rate_hz": 250.0, **PATIENT}, "clarke_controller": PATIENT_CONTROLLER}

if __name__ == "__main__":
    patient = partial(client.Robot, parameters=PARAMETERS)
    client.Robot = lambda name, **options: patient(patient_robot(name), **options)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
