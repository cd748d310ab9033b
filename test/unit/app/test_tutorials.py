# SPDX-License-Identifier: Apache-2.0
"""The tutorials and notebooks as a reader runs them: every printed command works, and prints what the page shows.

Of a page, blocks with a title are files, shell blocks are one script, Python blocks are another, and a block of text is
what the block before it prints: the same words, and numbers that agree to 5 % or to a digit. `...` stands for any words
of a line, and on a line of its own for any lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
ON_DDS = "see_a_robot"  # all of it takes long
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NEEDED = {"a_robot_that_learns": ("gymnasium", "pandas", "pyarrow")}
SLOW = re.compile(r"continuum-robot (check-tendons|home|demo)|^ls runs", re.MULTILINE)
"""Blocks with these commands, or with what they leave, run only with the long tests: each takes 15 s or so."""
INSTALLS = re.compile(r"^pip install 'continuum-robot.*", re.MULTILINE)
"""What is tested is what these lines install."""
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
END = "=== end of a block ==="


def agree(shown: str, printed: str) -> bool:
    """Whether a printed line is the shown one up to numbers."""
    expected, found = " ".join(shown.split()), " ".join(printed.split())
    if "..." in expected:
        head, tail = (part.split() for part in expected.split("...", 1))
        words = found.split()
        expected = " ".join(head + tail)
        found = " ".join(words[: len(head)] + words[max(len(words) - len(tail), len(head)) :])
    if NUMBER.sub("#", expected) != NUMBER.sub("#", found):
        return False
    for one, other in zip(NUMBER.findall(expected), NUMBER.findall(found), strict=True):
        digit = 10.0 ** -len(one.partition(".")[2].partition("e")[0])
        if abs(float(one) - float(other)) > max(0.05 * abs(float(one)), 1.01 * digit * ("e" not in one)):
            return False
    return True


def test_lines_agree_up_to_a_digit():
    assert agree("tip  at 9.87 mm", "tip at 9.88 mm")
    assert agree("stored in ...", "stored in /tmp/a.yaml")
    assert agree("servo 1 ... found", "servo 1  /tmp/a/port  found")
    assert not agree("servo 1 ... found", "servo 1  /tmp/a/port  missing")
    assert not agree("tip at 9.87 mm", "tip at 19.87 mm")
    assert not agree("tip at 9.87 mm", "top at 9.87 mm")


def check_shown(shown: str, printed: str) -> None:
    """Every shown line is printed, in this order."""
    lines = iter(printed.splitlines())
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() != "...":
            assert any(agree(line, one) for one in lines), f"not printed: {line}\nprinted was:\n{printed}"


def run_blocks(command: Sequence[str], sources: Sequence[str], folder: Path, mark_end: str) -> list[str]:
    """Run blocks as one script; what each of them prints."""
    if not sources:
        return []
    environment = os.environ | {
        "MPLBACKEND": "agg",
        "ROS_DOMAIN_ID": os.environ["CONTINUUM_ROBOT_TEST_DOMAIN_EXAMPLES"],
        "XDG_DATA_HOME": str(folder / "data"),
        # What a reader installs goes beside the page's files, from this computer alone.
        "PIP_TARGET": str(folder / "site"),
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for it
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "100",
    }
    script = folder / "blocks"
    # A program that a page leaves in the background would keep the output open.
    first = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" if "bash" in command else ""
    script.write_text(first + "".join(f"{source}\n{mark_end}\n" for source in sources), encoding="utf-8")
    done = subprocess.run(
        [*command, str(script)], cwd=folder, env=environment, timeout=900, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    printed = done.stdout.split(END)
    assert len(printed) == len(sources) + 1, done.stdout
    return printed


def run_page(page: Path, folder: Path, *, slow: bool) -> None:
    blocks, shown = [], {}
    for language, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            example = ROOT / "examples" / title
            assert not example.exists() or example.read_text(encoding="utf-8") == text, f"{title} is another file"
            (folder / title).parent.mkdir(parents=True, exist_ok=True)
            (folder / title).write_text(text, encoding="utf-8")
        elif language == "text":
            shown[len(blocks) - 1] = text
        else:
            assert language in ("bash", "python"), f"a block of {language} without a title"
            blocks.append((language, text))
    for language, command, mark_end in (
        ("bash", ["bash", "-e"], f"echo '{END}'"),
        ("python", [sys.executable], f"print('{END}')"),
    ):
        chosen = [k for k, (kind, text) in enumerate(blocks) if kind == language and (slow or not SLOW.search(text))]
        sources = [INSTALLS.sub("", blocks[k][1]) for k in chosen]
        for k, printed in zip(chosen, run_blocks(command, sources, folder, mark_end), strict=False):
            check_shown(shown.get(k, ""), printed)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != ON_DDS], ids=lambda page: page.stem)
def test_tutorial(page: Path, tmp_path: Path) -> None:
    for needed in NEEDED.get(page.stem, ()):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    run_page(page, tmp_path, slow=False)


@pytest.mark.long
@pytest.mark.ros
@pytest.mark.real_time
@pytest.mark.parametrize("page", [page for page in PAGES if SLOW.search(page.read_text())], ids=lambda page: page.stem)
def test_tutorial_with_what_takes_long(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, slow=True)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook(notebook: Path, tmp_path: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in code]
    for cell, printed in zip(code, run_blocks([sys.executable], sources, tmp_path, f"print('{END}')"), strict=False):
        for output in cell["outputs"]:
            check_shown("".join(output.get("text", [])), printed)
