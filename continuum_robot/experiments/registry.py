# SPDX-License-Identifier: Apache-2.0
"""All experiments by name."""

from __future__ import annotations

from continuum_robot.experiments import (
    contact_reaction,
    contact_tube,
    control_comparison,
    cosserat_two_segment,
    drive_cogging,
    ftdcr,
    ha_figures,
    ha_robustness,
    ha_solve,
    johnston_contact_sweep,
    johnston_multisegment,
    johnston_noise,
    johnston_state_uncertainty,
    muhmann_model,
    muhmann_pid_pd,
    muhmann_tracking,
    mujoco_plants,
    mujoco_statics,
    payload_weighing,
    rucker_fig1,
    rucker_helical_step,
    rucker_sag,
    rucker_table2,
    sorosim,
    sorosim_basis,
    sorosim_release,
    stiffness_pretension,
    tip_tracking,
    wang_approach,
    wang_calibration,
    wang_jacobians,
    wang_micro_motion,
    wang_rod,
)
from continuum_robot.experiments.experiment import Experiment, Result

__all__ = ["Experiment", "Result", "experiments"]


def experiments() -> dict[str, Experiment]:
    """Every experiment under its name, in the order of the papers' figures."""
    known = (
        muhmann_model.ENERGIES,
        muhmann_model.CORIOLIS,
        muhmann_tracking.TRACKING,
        muhmann_pid_pd.PID_PD,
        drive_cogging.COGGING,
        payload_weighing.WEIGHING,
        stiffness_pretension.PRETENSION,
        control_comparison.COMPARISON,
        tip_tracking.TRACKING,
        contact_reaction.REACTION,
        contact_tube.TUBE,
        ftdcr.REPLAY,
        ftdcr.VALIDATE,
        johnston_state_uncertainty.STATE_UNCERTAINTY,
        johnston_noise.NOISE,
        johnston_contact_sweep.CONTACT_SWEEP,
        johnston_multisegment.MULTISEGMENT,
        rucker_table2.TABLE2,
        rucker_fig1.FIG1,
        rucker_sag.SAG,
        rucker_helical_step.HELICAL_STEP,
        cosserat_two_segment.TWO_SEGMENT,
        sorosim.STATICS,
        sorosim_basis.BASIS,
        sorosim_release.RELEASE,
        mujoco_statics.STATICS,
        mujoco_plants.PLANTS_EXPERIMENT,
        ha_figures.UNLOADED,
        ha_figures.LOADED,
        ha_figures.EXPERIMENTS,
        ha_solve.SOLVE,
        ha_robustness.ROBUSTNESS,
        ha_robustness.SCALING,
        wang_micro_motion.MICRO_MOTION,
        wang_jacobians.JACOBIANS,
        wang_calibration.CALIBRATION,
        wang_approach.APPROACH,
        wang_rod.ROD,
    )
    return {experiment.name: experiment for experiment in known}
