# SPDX-License-Identifier: Apache-2.0
"""All experiments by name."""

from __future__ import annotations

from continuum_robot.experiments import (
    control_comparison,
    cosserat_two_segment,
    displacement_truth,
    follow_the_leader,
    ftdcr,
    mujoco_plants,
    mujoco_statics,
    payload_weighing,
    predictive_tip,
    shape_fiber,
    stiffness_pretension,
    tip_stamps,
    tip_tracking,
)
from continuum_robot.experiments.contact import kinds as contact_kinds
from continuum_robot.experiments.contact import pair as contact_pair
from continuum_robot.experiments.contact import reaction as contact_reaction
from continuum_robot.experiments.contact import screw as contact_screw
from continuum_robot.experiments.contact import tube as contact_tube
from continuum_robot.experiments.drives import capstans as drives_capstans
from continuum_robot.experiments.drives import cogging as drives_cogging
from continuum_robot.experiments.drives import hysteresis as drives_hysteresis
from continuum_robot.experiments.drives import identification as drives_identification
from continuum_robot.experiments.experiment import Experiment, Result
from continuum_robot.experiments.ha import figures as ha_figures
from continuum_robot.experiments.ha import robustness as ha_robustness
from continuum_robot.experiments.ha import solve as ha_solve
from continuum_robot.experiments.johnston import contact_sweep as johnston_contact_sweep
from continuum_robot.experiments.johnston import multisegment as johnston_multisegment
from continuum_robot.experiments.johnston import noise as johnston_noise
from continuum_robot.experiments.johnston import state_uncertainty as johnston_state_uncertainty
from continuum_robot.experiments.muhmann import model as muhmann_model
from continuum_robot.experiments.muhmann import pid_pd as muhmann_pid_pd
from continuum_robot.experiments.muhmann import tracking as muhmann_tracking
from continuum_robot.experiments.rod import batch as rod_batch
from continuum_robot.experiments.rucker import fig1 as rucker_fig1
from continuum_robot.experiments.rucker import helical_step as rucker_helical_step
from continuum_robot.experiments.rucker import sag as rucker_sag
from continuum_robot.experiments.rucker import table2 as rucker_table2
from continuum_robot.experiments.sorosim import basis as sorosim_basis
from continuum_robot.experiments.sorosim import release as sorosim_release
from continuum_robot.experiments.sorosim import statics as sorosim
from continuum_robot.experiments.wang import approach as wang_approach
from continuum_robot.experiments.wang import calibration as wang_calibration
from continuum_robot.experiments.wang import jacobians as wang_jacobians
from continuum_robot.experiments.wang import micro_motion as wang_micro_motion
from continuum_robot.experiments.wang import rod as wang_rod

__all__ = ["Experiment", "Result", "experiments"]


def experiments() -> dict[str, Experiment]:
    """Every experiment under its name, in the order of the papers' figures."""
    known = (
        muhmann_model.energies,
        muhmann_model.coriolis_forces,
        muhmann_tracking.tracking,
        muhmann_pid_pd.pid_pd,
        drives_cogging.cogging,
        drives_identification.identification,
        drives_capstans.capstans,
        drives_hysteresis.hysteresis,
        payload_weighing.weighing,
        stiffness_pretension.pretension,
        control_comparison.comparison,
        tip_tracking.tracking,
        displacement_truth.displacement_truth,
        follow_the_leader.follow_the_leader,
        tip_stamps.stamps,
        predictive_tip.predictive,
        shape_fiber.shape_fiber,
        contact_kinds.kinds,
        contact_pair.pair,
        contact_reaction.reaction,
        contact_screw.screw,
        contact_tube.tube,
        ftdcr.ftdcr_replay,
        ftdcr.validate,
        johnston_state_uncertainty.state_uncertainty,
        johnston_noise.noise,
        johnston_contact_sweep.contact_sweep,
        johnston_multisegment.multisegment,
        rucker_table2.table2,
        rucker_fig1.fig1,
        rucker_sag.sag,
        rucker_helical_step.helical_step,
        cosserat_two_segment.two_segment,
        sorosim.statics,
        sorosim_basis.basis,
        sorosim_release.release,
        rod_batch.batch,
        mujoco_statics.statics,
        mujoco_plants.plants,
        ha_figures.unloaded,
        ha_figures.loaded,
        ha_figures.experiments,
        ha_solve.solve,
        ha_robustness.robustness,
        ha_robustness.scaling,
        wang_micro_motion.micro_motion,
        wang_jacobians.tangents,
        wang_calibration.calibration,
        wang_approach.approach,
        wang_rod.rod_experiment,
    )
    return {experiment.name: experiment for experiment in known}
