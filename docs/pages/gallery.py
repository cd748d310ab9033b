# SPDX-License-Identifier: Apache-2.0
"""``make gallery``: runs the examples, keeps their plots small in docs/images/gallery, and writes docs/gallery.md."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, DOCS = ROOT / "examples", ROOT / "docs"
IMAGES = DOCS / "images" / "gallery"
SHORT = {"15_learn_reach": ("--steps", "0")}
"""Learning takes eight minutes: its plot shows what needs none."""
_SIZE, _COLOURS = (1000, 560), 96

_HEAD = """# Gallery

<!-- Written by `make gallery`. -->

From this page you can find the example that does what you have in mind. Each picture is what a program of fifty lines
or the page in the browser shows; `make gallery` makes them again.

## The page in the browser
![Two simulated segments, eight seconds](images/page.gif)

A running stack: robot, curves and controls. `continuum-robot up two_segment`, see [the page](how-to/browser.md).

![Two recordings on one page](images/browser_runs.png)

Recordings, with a time slider: `continuum-robot view RUN RUN`.

## Examples
"""


def with_plot() -> list[Path]:
    """The examples that leave a plot, but those in real time: theirs is another one each time."""
    files = sorted(EXAMPLES.glob("[0-9]*.py"))
    return [file for file in files if "ros2" not in file.stem and "savefig" in file.read_text(encoding="utf-8")]


def page() -> str:
    """The gallery: of each example its plot, what its first line states, and a link."""
    parts = [_HEAD]
    for file in with_plot():
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        line = text.partition("\n\n")[0].replace("\n", " ")
        parts.append(
            f"![{file.stem}](images/gallery/{file.stem}.png)\n\n{line} [{file.name}](../examples/{file.name})\n"
        )
    return "\n".join(parts)


def draw(example: Path) -> Path:
    """Run an example and keep its plot, no larger than the page shows it."""
    kept = IMAGES / f"{example.stem}.png"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(example), "--out", folder, *SHORT.get(example.stem, ())]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        picture = Image.open(Path(folder) / f"{example.stem}.png").convert("RGB")
    picture.thumbnail(_SIZE, Image.Resampling.LANCZOS)
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(kept, optimize=True)
    return kept


def main() -> None:
    """Draw all, or those named by the arguments, and write the page."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for example in with_plot():
        if not sys.argv[1:] or example.stem in sys.argv[1:]:
            sys.stdout.write(f"{draw(example)}\n")
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
