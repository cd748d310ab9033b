# SPDX-License-Identifier: Apache-2.0
"""Fit a robot: which servo pulls which tendon, and where the tendons stand, from a recording of a tracked marker."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from continuum_robot.geometry.arcs import backbone_poses
from continuum_robot.identification.geometry_fit import identify_geometry
from continuum_robot.identification.recordings import TendonRecording, read_recording
from continuum_robot.identification.replay import replay
from continuum_robot.identification.robot_file import write_fitted_robot
from continuum_robot.robot.loading import load_robot

OFFSETS_RAD, SERVOS = np.radians([-170.0, -137.0, -101.0]), (4, 12, 9, 5, 2, 8, 6, 1, 7)  # the truth, in tendon order


def record(robot, file: Path) -> TendonRecording:
    """Make up a recording: one tendon after the other is pulled by up to 3.5 mm, the others are paid out by 10 mm."""
    rng, lengths_m = np.random.default_rng(0), np.array([segment.length_m for segment in robot.segments])
    lines = [",".join(["timestamp,pattern_label", *(f"servo_{servo}_mm" for servo in SERVOS), "tip_x,tip_y,tip_z"])]
    for tendon in range(9):
        segment, number = divmod(tendon, 3)
        for pulled_m in [-0.006, *np.linspace(0, 0.0035, 12)]:
            bend = max(pulled_m, 0.0) / robot.segments[segment].tendons.pitch_radius_m
            theta = bend * lengths_m / lengths_m[: segment + 1].sum() * (np.arange(3) <= segment)
            phi = np.full(3, OFFSETS_RAD[segment] + 2 * np.pi * number / 3)
            tip_m = backbone_poses(phi, theta, lengths_m, [lengths_m.sum()])[0, :3, 3] + 2e-4 * rng.normal(size=3)
            values_m = (*np.where(np.arange(9) == tendon, pulled_m, -0.01), *tip_m)
            lines.append(f"{len(lines)},tendon{tendon}," + ",".join(f"{1e3 * value:.4f}" for value in values_m))
    file.write_text("\n".join(lines) + "\n")
    return read_recording(file)


def main(out: Path) -> None:
    """Make the recording, fit the robot to it, write its file, and plot the marker as measured and as predicted."""
    out.mkdir(parents=True, exist_ok=True)
    robot = load_robot("ftdcr_v4")
    recording = record(robot, out / "06_pulls.csv")
    fit = identify_geometry(robot, recording)
    fitted = write_fitted_robot(robot, fit, out / "06_fitted.yaml")
    measured_mm, predicted_mm = 1e3 * recording.marker_m, 1e3 * replay(fitted, recording).predicted_marker_m
    print(f"columns by tendon     {', '.join(fit.recording.displacement_columns)}")
    print(f"first tendons at      {np.round(np.degrees(fit.angle_offsets_rad), 1)} degrees, truly -170, -137, -101")
    print(f"marker                RMSE {1e3 * fit.rmse_m:.2f} mm; its noise was 0.2 mm in each of three directions")

    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    axis.plot(*measured_mm[:, :2].T, "o", ms=4, label="measured")
    axis.plot(*predicted_mm[:, :2].T, "k.", ms=3, label="predicted by the fitted robot")
    axis.set(xlabel="marker x [mm]", ylabel="marker y [mm]", aspect="equal")
    axis.legend(frameon=False)
    figure.savefig(out / "06_fit_a_robot.png", dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"), help="folder of the plot")
    main(parser.parse_args().out)
