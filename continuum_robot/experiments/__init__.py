# SPDX-License-Identifier: Apache-2.0
"""The tables and figures of the papers, run again.

Each experiment takes options, returns flat numbers with their units in the keys, and draws the paper's figure::

    from continuum_robot.experiments.experiment import experiments

    tracking = experiments()["muhmann.tracking"]
    result = tracking.run({"duration_s": 20}, print)
    result["mean_rmse_reduction_percent"], tracking.paper["mean_rmse_reduction_percent"]
    tracking.draw(result, "figures")

What a paper does not state (gains, durations, friction) is an option with a default whose origin the module's text
gives. All runs are in virtual time and deterministic: the same options give the same numbers.
"""
