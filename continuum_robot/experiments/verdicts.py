# SPDX-License-Identifier: Apache-2.0
"""How each result of the five papers comes out here: one word, and one sentence why.

Numbers in the sentences are filled in from the stored numbers of the experiment. A result counts as reproduced where
each number that the paper prints, among ``keys``, lies within a fraction ``within`` of ours, and where what it reports
in words holds; a test checks that.
"""

from __future__ import annotations

from dataclasses import dataclass

REPRODUCED, PARTLY, NOT, UNKNOWN = "reproduced", "partly", "not", "not comparable"
STATUSES = (REPRODUCED, PARTLY, NOT, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a result."""

    result: str
    status: str
    why: str
    experiment: str = ""
    keys: tuple[str, ...] = ()
    within: float = 0.1


VERDICTS: dict[str, tuple[Verdict, ...]] = {
    "muhmann": (
        Verdict(
            "fig. 5: rotational energy is negligible", REPRODUCED,
            "The largest rotational energy is {ratio_rotational_to_translational_of_maxima:.2g} of the translational.",
            "muhmann.energies",
        ),
        Verdict(
            "fig. 6: Coriolis and centrifugal forces are negligible", REPRODUCED,
            "The largest of them is {ratio_coriolis_to_overall_of_maxima:.2g} of the largest overall force.",
            "muhmann.coriolis",
        ),
        Verdict(
            "fig. 7: shifting beats clipping by 43.3 %", PARTLY,
            "Shifting has the lower error in every coordinate, by {mean_rmse_reduction_percent:.0f} % on average; the"
            " size depends on gains and duration, which the paper does not give.",
            "muhmann.tracking", ("mean_rmse_reduction_percent",),
        ),
        Verdict(
            "fig. 8: PD beats PID by 37.1 % on the prototype", NOT,
            "With the gains of the robot file the PD's error is lower by {rmse_reduction_percent[1]:.0f} % in the"
            " coordinate at rest, where the integral ripples, and higher by a factor of"
            " {rmse_pd_over_pid[0]:.2g} in the bending one, where it leaves the static error K / (K + p);"
            " the mean turns to the paper's sign where the PD is {turn_pd_stiffness:.2g} times as stiff as the PID, the"
            " integral {turn_integral:.2g} times or the cogging {turn_cogging:.2g} times the file's; a"
            " reference sampled"
            " every 0.1 s comes to {sweep_reference_hold_s_mean_reduction_percent[3]:.0f} %; friction,"
            " current steps and"
            " delay do not turn it.",
            "muhmann.pid_pd", ("mean_rmse_reduction_percent",),
        ),
        Verdict(
            "section IV-A: damping of 11.27e-4 N.m.s", UNKNOWN,
            "The recording from which it was identified is not published; the robot files have the paper's value.",
        ),
    ),
    "johnston": (
        Verdict(
            "table 4, fig. 5: calibrated stiffness and friction, tip within 7 to 12 % of the length", UNKNOWN,
            "The recorded chirp is not published; `continuum-robot identify` does the same on a"
            " simulated one.",
        ),
        Verdict(
            "table 5, fig. 6: GMO under errors of the state", PARTLY,
            "Without error both means agree ({gmo_error_0_percent_mean_rmse_x_n:.3g} and"
            " {gmo_error_0_percent_mean_rmse_y_n:.3g} N); with 20 % ours are"
            " {gmo_error_20_percent_mean_rmse_x_n:.3g} and {gmo_error_20_percent_mean_rmse_y_n:.3g} N, more than the"
            " paper's, whose 21 wrenches are drawn at random and not published.",
            "johnston.state_uncertainty", ("gmo_*",),
        ),
        Verdict(
            "table 5, fig. 6: JFD under errors of the state", NOT,
            "Without error JFD is exact but for the integrator: the paper's 1.30 N in y comes out only at the tolerance"
            " of ode45 ({jfd_error_0_percent_mean_rmse_y_at_tolerance_of_ode45_n:.3g} N), and falls to"
            " {jfd_error_0_percent_mean_rmse_y_n:.1g} N below it.",
            "johnston.state_uncertainty", ("jfd_*",),
        ),
        Verdict(
            "table 6, fig. 7: without noise GMO has its lag, JFD is exact", REPRODUCED,
            "GMO has {gmo_noiseless_rmse_x_n:.2g} N, by formula {gmo_lag_rmse_n:.2g} N; in y the paper has 0.78"
            " N, which"
            " the lag alone does not give.",
            "johnston.noise", ("gmo_noiseless_*",), 0.15,
        ),
        Verdict(
            "table 6, fig. 7: with noise GMO is the better one", PARTLY,
            "So it is at 1 kHz, and at every swept rate above {sweep_jfd_better_up_to_hz_noise_0001_x:.0f} Hz. GMO's"
            " row could have been made at {closest_to_gmo_row_rate_hz:.0f} Hz with"
            " {closest_to_gmo_row_smoothing_points:.0f} points (off by a factor of {closest_to_gmo_row_factor:.2g}),"
            " JFD's at no rate (at best {closest_to_jfd_row_factor:.2g}): its errors double where the noise grows"
            " tenfold, so that {table_6_constant_part_jfd_x_n:.2g} and {table_6_constant_part_jfd_y_n:.2g} N of it are"
            " constant; at 100 Hz with 10 points ours are {window_constant_part_jfd_x_n[6]:.2g} and"
            " {window_constant_part_jfd_y_n[6]:.2g} N, the latter by friction whose sign the noise decides.",
            "johnston.noise", ("*_noise_0*",),
        ),
        Verdict(
            "tables 7 and 8: force errors of 20 contacts", PARTLY,
            "GMO has {gmo_ungated_mean_rmse_x_n:.2g} and {gmo_ungated_mean_rmse_y_n:.2g} N in x and y, where 2.59 and"
            " 5.59 N were measured, JFD {jfd_ungated_mean_rmse_x_n:.2g} and {jfd_ungated_mean_rmse_y_n:.2g} N for 3.19"
            " and 5.57 N; always reporting 0 N has {always_zero_mean_rmse_x_n:.2g} and"
            " {always_zero_mean_rmse_y_n:.2g} N.",
            "johnston.contact_sweep", ("*_ungated_*",),
        ),
        Verdict(
            "section 12: contacts on disks 1 and 2 are not detected", NOT,
            "GMO detects {gmo_detection_rate_by_disk[0]:.0%} and {gmo_detection_rate_by_disk[1]:.0%} of them in"
            " simulation, with thresholds from free motion; the paper's come from an error of the state of 1.84"
            " in every"
            " channel.",
            "johnston.contact_sweep", ("*_detection_rate_by_disk",),
        ),
        Verdict(
            "fig. 10: the segment does not bend in an arc", REPRODUCED,
            "Largest curvature {example_largest_curvature_y_per_m:.2g} 1/m, beta of (73) up to"
            " {example_largest_beta_y_per_m:.2g} 1/m in the same contact; the figure has no numbers.",
            "johnston.contact_sweep",
        ),
        Verdict(
            "table 9: calibrated parameters of the proximal segment", UNKNOWN,
            "The recording is not published; the robot file has the paper's values.",
        ),
        Verdict(
            "table 10, figs 12 and 13: two segments, in the plane of motion", PARTLY,
            "On the distal segment GMO has {uncoupled_gmo_distal_rmse_y_n:.2g} and JFD"
            " {uncoupled_jfd_distal_rmse_y_n:.2g} N (paper 4.65 and 6.55); on the proximal one"
            " {uncoupled_gmo_proximal_rmse_y_n:.2g} and {uncoupled_jfd_proximal_rmse_y_n:.2g} N (10.51 and 10.74): both"
            " say that a contact on the distal segment is taken for one on the proximal one.",
            "johnston.multisegment", ("*_rmse_y_n",),
        ),
        Verdict(
            "table 10: errors across the plane of motion, JFD 68 N", NOT,
            "Ours are {uncoupled_gmo_proximal_rmse_x_n:.2g} and {uncoupled_jfd_proximal_rmse_x_n:.2g} N on the proximal"
            " segment. A robot that is mounted 10 deg askew has"
            " {sweep_uncoupled_gmo_proximal_rmse_x_n[4]:.2g} N with GMO"
            " (paper 16.07), and as much with JFD; none of the errors of encoders, torque, model and mounting that were"
            " tried gives 68 N with JFD.",
            "johnston.multisegment", ("*_rmse_x_n",),
        ),
    ),
    "rucker": (
        Verdict(
            "fig. 1: coupled and point-moment model agree in the tendon's plane alone", REPRODUCED,
            "They differ by {models_differ_percent_of_length_in_plane_towards_tendon:.1g} % of the length in plane and"
            " by {models_differ_percent_of_length_out_of_plane:.0f} % across it.",
            "rucker.fig1",
        ),
        Verdict(
            "fig. 2: workspace with straight and helical tendons", UNKNOWN,
            "A figure without numbers; `continuum-robot workspace rucker --compare rucker_helical` draws the same.",
        ),
        Verdict(
            "fig. 7: motion after a step of the helical tendon", UNKNOWN,
            "Shapes without numbers; here the coarser basis differs from the finer by"
            " {mean_basis_difference_percent_of_length:.2g} % of the length on average, by up to"
            " {max_basis_difference_percent_of_length:.2g} %.",
            "rucker.helical_step",
        ),
        Verdict(
            "section V-A: 44 mm sag under its own weight", REPRODUCED,
            "{sag_mm_calibrated_modulus:.3g} mm with the calibrated modulus, {sag_mm_nominal_modulus:.3g} mm with the"
            " nominal one.",
            "rucker.sag",
        ),
        Verdict(
            "Table II: all 37 static experiments have a solution", REPRODUCED,
            "All {n_converged} converge, by both solvers.",
            "rucker.table2", ("n_cases", "n_converged"),
        ),
        Verdict(
            "figs 9 to 14: mean tip errors of 3.6, 5.5 and 4.6 mm, calibrated modulus 229.6 GPa", UNKNOWN,
            "The measured tip positions are not published.",
            "rucker.table2",
        ),
        Verdict(
            "section V-E: at high tension the point-moment model is wrong by 23.5 %, the coupled one by 5.3 %", PARTLY,
            "The models are {high_tension_models_differ_percent_of_length:.3g} % of the length apart, about the"
            " difference of these errors; the errors themselves need the measured tip.",
            "rucker.table2",
        ),
    ),
    "ha": (
        Verdict(
            "fig. 3: three ratios of the tensions, unchanged when both are raised", REPRODUCED,
            "The poses lean as drawn; raising both tensions changes them by"
            " {largest_change_by_raising_m_rad:.1g} m or rad.",
            "ha.unloaded", ("*",),
        ),
        Verdict(
            "fig. 4: a growing pull bends the mechanism to the right", REPRODUCED,
            "So it does, from {last_link_x_mm[0]:.0f} to {last_link_x_mm[3]:.0f} mm.",
            "ha.loaded", ("*",),
        ),
        Verdict(
            "figs 6 and 8: errors against the measured poses, unloaded", UNKNOWN,
            "The measured poses are not published; the predictions from tensions and from the printed tendon"
            " lengths are"
            " {predictions_apart_mean_mm:.2g} mm apart on average, of the size of the paper's errors.",
            "ha.experiments",
        ),
        Verdict(
            "figs 10 and 12: errors against the measured poses, loaded", UNKNOWN,
            "Neither poses nor tendon lengths are published: the lengths are the model's own, so that the"
            " {loaded_1_round_trip_from_own_lengths_mm:.0e} mm between the predictions say only that the two solvers"
            " invert each other.",
            "ha.experiments",
        ),
        Verdict(
            "section IV: ten full Newton steps solve it", PARTLY,
            "Of 100 random unloaded cases they solve {unloaded_published}, of 100 with side loads {loaded_published};"
            " damped steps solve {loaded_solved}, and of the other {loaded_none_found} they find no equilibrium from"
            " many starts.",
            "ha.robustness",
        ),
        Verdict(
            "section IV: the time grows linearly with the number of links", UNKNOWN,
            "It depends on the machine: `continuum-robot experiment ha.scaling` measures it on yours.",
            "ha.scaling",
        ),
    ),
    "wang": (
        Verdict(
            "fig. 4: a moment error makes the tip turn back", REPRODUCED,
            "Without one the tip does not turn; with the paper's it does at an insertion of"
            " {turning_point_qs_mm:.3g} mm.",
            "wang.micro_motion", ("lambda*",),
        ),
        Verdict(
            "figs 5 and 6: Jacobians are tangents of the paths", REPRODUCED,
            "To {micro_lambda0_error:.0e} against differences; the identification Jacobian's columns lie within"
            " {identification_from_tangent_median_deg:.2g} deg of the tangent.",
            "wang.jacobians",
        ),
        Verdict(
            "table 3: calibration on the whole trajectory", PARTLY,
            "The steps of Algorithm 1 come out as printed, on trajectories whose truth is the paper's own fit:"
            " that shows"
            " the algorithm, not the robot; RMSE of lambda = 0 on the whole insertion is {full_rmse_lambda0_um:.3g} um"
            " (paper 42.27).",
            "wang.calibration",  # no keys: the truth is the paper's own fit, so equal numbers prove nothing
        ),
        Verdict(
            "table 4: calibration before the turning point", PARTLY,
            "It starts from {full_rmse_lambda0_before_turn_um:.3g} um (paper 19.51) since our turning point lies"
            " deeper; from there the steps are as printed.",
            "wang.calibration", ("table4_rmse_um",),
        ),
        Verdict(
            "section 6.2: path of 48.11 um before and 38.82 um after the turning point", NOT,
            "The whole path agrees ({full_path_um:.3g} um, paper 86.93), its division does not"
            " ({full_path_before_turn_um:.3g} and {full_path_after_turn_um:.3g} um): no definition of the"
            " turning point,"
            " depth or marker gives it, and no lambda meets it together with the RMSE of tables 3 and 4 closer than a"
            " factor of {closest_lambda_factor:.2g}; twice the printed slope gives the lengths"
            " ({readings_path_before_turn_um[5]:.3g} and {readings_path_after_turn_um[5]:.3g} um) and"
            " {readings_rmse_lambda0_um[5]:.0f} um for the RMSE.",
            "wang.calibration", ("full_path_before_turn_um", "full_path_after_turn_um"),
        ),
        Verdict(
            "fig. 9: the turning point exists at five bending angles", PARTLY,
            "Locked secondary backbones turn the tip back in the rod model at {held_farthest_at_mm:.3g} mm of"
            " insertion,"
            " which is a reason that the paper does not give; the measured paths are not published.",
            "wang.rod",
        ),
    ),
}  # fmt: skip
