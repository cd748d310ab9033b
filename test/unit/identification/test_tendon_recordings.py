# SPDX-License-Identifier: Apache-2.0
import dataclasses
import hashlib

import numpy as np
import pytest

from continuum_robot.errors import RecordingError, RobotFileError
from continuum_robot.identification.recordings import read_recording, tendon_displacements
from continuum_robot.robot.file.recording import Recording
from continuum_robot.robot.loading import load_robot

HEADER = "timestamp,pattern_label,servo_4_mm,servo_b_mm,tip_x,tip_y,tip_z\n"
ROWS = "0.5,start,1.0,-2.0,3.0,4.0,5.0\n1.0,pull,1.5,-2.5,,nan,5.5\n"


def written(tmp_path, text):
    path = tmp_path / "recording.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_si_units_labels_and_hash(tmp_path):
    path = written(tmp_path, HEADER + ROWS)
    recording = read_recording(path)
    assert recording.columns == ("servo_4_mm", "servo_b_mm")
    assert recording.labels == ("start", "pull")
    assert recording.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    np.testing.assert_allclose(recording.time_s, [0.5, 1.0])
    np.testing.assert_allclose(recording.displacement_m, [[1e-3, -2e-3], [1.5e-3, -2.5e-3]])
    np.testing.assert_allclose(recording.marker_m[0], [3e-3, 4e-3, 5e-3])
    assert len(recording) == 2


def test_lost_marker_is_nan_and_stays_nan(tmp_path):
    recording = read_recording(written(tmp_path, HEADER + ROWS))
    assert np.isnan(recording.marker_m[1, :2]).all()
    np.testing.assert_array_equal(recording.seen, [True, False])


def test_columns_in_any_order_byte_order_mark_and_windows_lines(tmp_path):
    text = "\ufefftip_z,tip_x,tip_y,servo_1_mm,pattern_label,timestamp\r\n3,1,2,7,hold,0\r\n\r\n"
    recording = read_recording(written(tmp_path, text))
    np.testing.assert_allclose(recording.marker_m, [[1e-3, 2e-3, 3e-3]])
    np.testing.assert_allclose(recording.displacement_m, [[7e-3]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER + "0,a,1,x,3,4,5\n", ["line 2", "servo_b_mm", "'x'"]),
        (HEADER + ROWS + "0,a,1,inf,3,4,5\n", ["line 4", "servo_b_mm", "finite"]),
        (HEADER + "0,a,1,nan,3,4,5\n", ["line 2", "servo_b_mm"]),
        (HEADER + "0,a,1,2,3,oops,5\n", ["line 2", "tip_y"]),
        (HEADER + ROWS + "0,a,1\n", ["line 4", "3 cells", "7 columns"]),
        (HEADER, ["at least 1 row"]),
        ("", ["empty"]),
        (HEADER.replace("tip_y", "tip_x"), ["tip_x", "more than once"]),
        (HEADER.replace(",tip_z", ""), ["no column tip_z"]),
        (HEADER.replace("servo_4_mm", "motor"), ["unknown column 'motor'"]),
        ("timestamp,pattern_label,tip_x,tip_y,tip_z\n", ["servo_<id>_mm"]),
        (HEADER + '0,"a,1,2,3,4,5\n', ["line 2"]),
        (b"\xff\xfe\x00", ["cannot be read"]),
    ],
)
def test_refuses_and_names_the_place(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(RecordingError) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_missing_file_is_a_recording_error(tmp_path):
    with pytest.raises(RecordingError, match="cannot be read"):
        read_recording(tmp_path / "nowhere.csv")


def test_tendon_order_and_sign_come_from_the_robot(tmp_path):
    names = [f"servo_{index}_mm" for index in range(9)]
    text = ",".join(["timestamp", "pattern_label", *names, "tip_x", "tip_y", "tip_z"]) + "\n"
    text += ",".join(["0", "a", *map(str, range(9)), "1", "2", "3"]) + "\n"
    recording = read_recording(written(tmp_path, text))
    robot = load_robot("ftdcr_v4")
    with pytest.raises(RobotFileError, match=r"`continuum-robot identify-geometry` and .* identify` find"):
        tendon_displacements(robot, recording)
    order = [3, 1, 4, 0, 5, 8, 2, 6, 7]
    mapping = Recording(
        displacement_columns=tuple(names[index] for index in order), displacement_signs=(1.0, -1.0, *[1.0] * 7)
    )
    fitted = dataclasses.replace(robot, recording=mapping)
    np.testing.assert_allclose(tendon_displacements(fitted, recording), [1e-3 * np.array([3, -1, 4, 0, 5, 8, 2, 6, 7])])
    other = dataclasses.replace(mapping, displacement_columns=("servo_x_mm", *mapping.displacement_columns[1:]))
    with pytest.raises(RecordingError, match="servo_x_mm"):
        tendon_displacements(dataclasses.replace(robot, recording=other), recording)
