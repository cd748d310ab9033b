# SPDX-License-Identifier: Apache-2.0
"""Pages that come from the code are what the code reports; every fault that can latch has a page."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml
from pages import citations, commands, figures, gallery, papers, trust_page
from pages.generated import pages_of_code
from pages.interfaces import parsed
from pictures import difference, shows_something

from continuum_robot.drivers.named_faults import FAULT_TEXTS, device_faults
from continuum_robot.drivers.safety.tendon_faults import FAULTS
from continuum_robot.errors import ParameterError
from continuum_robot.experiments.experiment import experiments

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
WRITE = "run: make pages"


@pytest.mark.parametrize("path", sorted(pages_of_code(ROOT)))
def test_page_is_what_the_code_says(path: str) -> None:
    written = (DOCS / path).read_text(encoding="utf-8")
    if path == "reference/command_line.md" and commands.VERSION not in written:
        pytest.skip(f"another typer wrote it than {commands.VERSION}")
    assert written == pages_of_code(ROOT)[path], WRITE


def test_no_page_of_a_fault_is_left_over() -> None:
    assert {file.stem for file in (DOCS / "faults").glob("*.md")} == {*FAULT_TEXTS, "sensors"}


def test_every_fault_that_latches_has_a_page() -> None:
    """Those of the tables, and every name that the nodes latch by a text of their own."""
    names = {*FAULTS, *(name for texts in device_faults().values() for name in texts)}
    for file in (ROOT / "continuum_robot" / "nodes").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("_fault", "_estop", "estop"):
                texts = [ast.unparse(argument) for argument in node.args]
                names |= {match[1] for text in texts if (match := re.match(r"f?'([a-z]+_[a-z_]+)", text))}
        operations = re.search(r"operations: dict.*?\{(.*?)\}", source, re.DOTALL)
        if operations:
            names |= {f"{name}_failed" for name in re.findall(r'"(\w+)":', operations[1])}
    assert {"node_lost", "two_writers", "internal_error", "startup_failed", "shutdown_failed"} <= names
    assert names == set(FAULT_TEXTS)


@pytest.mark.parametrize("name", sorted(FAULT_TEXTS))
def test_page_of_a_fault_has_cause_and_cure(name: str) -> None:
    text = (DOCS / "faults" / f"{name}.md").read_text(encoding="utf-8")
    for one in FAULT_TEXTS[name]:
        assert one.causes
        assert one.cure
        assert all(step in text for step in one.cure)


@pytest.mark.parametrize("paper", citations.PAPERS)
def test_every_cited_equation_is_in_the_table(paper: str) -> None:
    assert citations.left_out(paper, papers.EQUATIONS[paper]) == set(), "add them to EQUATIONS in docs/pages/papers.py"


def test_citations_are_read() -> None:
    assert citations.numbers("(2), (5) to (7) and (9)-(11)") == {2, 5, 6, 7, 9, 10, 11}
    places = citations.citations()["muhmann"][28]
    assert ("continuum_robot/control/tendon_forces.py", "distribute") in places


def test_kept_numbers_belong_to_experiments() -> None:
    for file in (DOCS / "papers" / "numbers").glob("*.json"):
        assert file.stem in experiments()
        assert json.loads(file.read_text(encoding="utf-8"))


def test_interface_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError):
        parsed("float64 more than two\n", Path("Wrong.msg"))


def test_comments_of_an_interface_go_on() -> None:
    about, fields = parsed(
        "# What.\nfloat64 a 1.0  # first\n               # more\n# Next, N.\nuint8 B=2\n", Path("A.msg")
    )
    assert about == "What."
    assert [(one.name, one.value, one.constant, one.meaning.strip()) for one in fields] == [
        ("a", "1.0", False, "first more"),
        ("B", "2", True, "Next, N."),
    ]


@pytest.mark.parametrize("draw", [*figures.FIGURES, *trust_page.FIGURES], ids=lambda draw: draw.__name__)
def test_figure_is_drawn_and_kept(draw: figures.Drawn, tmp_path: Path) -> None:
    file = draw(tmp_path)
    assert shows_something(file)
    kept = DOCS / "images" / file.name
    assert difference(file, kept) < 0.02, "run: python -m pages.figures, or pages.trust_page"


def test_citation_file() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["authors"] == [{"name": "continuum_robot developers"}]
    assert {"message", "title", "version", "license"} <= set(cited)
    assert f"<version>{cited['version']}</version>" in (ROOT / "package.xml").read_text(encoding="utf-8")
    assert [reference["abbreviation"] for reference in cited["references"]] == list(citations.PAPERS)
    for reference in cited["references"]:
        assert {"type", "title", "authors", "year", "doi"} <= set(reference)
        assert "journal" in reference or "conference" in reference or reference["status"] == "preprint"


def test_gallery_has_a_picture_of_every_example_that_draws_one() -> None:
    assert (gallery.DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.page(), "run: make gallery"
    kept = {file.stem: file.stat().st_size for file in gallery.IMAGES.glob("*.png")}
    assert sorted(kept) == [file.stem for file in gallery.with_plot()]
    assert sum(kept.values()) < 1_000_000
