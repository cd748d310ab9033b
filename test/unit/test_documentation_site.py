# SPDX-License-Identifier: Apache-2.0
"""The site builds without a warning and without the network, and every page is in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import continuum_robot

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("mkdocs", reason="the site needs the extra docs: pip install -e .[docs]")
pytest.importorskip("material", reason="the site needs the extra docs: pip install -e .[docs]")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors where nothing can be fetched: a proxy that nobody answers."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(
        ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"a page that is not in mkdocs.yml's nav, or a wrong link:\n{done.stdout}{done.stderr}"
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists(), page.name


def test_nothing_is_fetched_when_a_page_is_read(site: Path) -> None:
    """No font, script, style or picture from elsewhere; links may lead out."""
    fetched = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\bhref=["']?(?:https?:)?//"""
    )
    for page in site.rglob("*.html"):
        found = [match for match in fetched.findall(page.read_text(encoding="utf-8")) if "canonical" not in match]
        assert found == [], page.name


def test_no_diagram_is_left_to_a_program_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "flowchart LR" not in page.read_text(encoding="utf-8"), page.name


def test_pictures_are_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        for source in re.findall(r'<img[^>]*\bsrc="?([^" >]+)', page.read_text(encoding="utf-8")):
            if not source.startswith(("data:", "http")):
                assert (page.parent / source).exists(), f"{page.name}: {source}"


def test_links_lead_somewhere(site: Path) -> None:
    """Links of the pages' own text, to the code and to other pages."""
    wrong = set()
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'<a[^>]*\bhref="?([^" >#]+)', page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                wrong.add(f"{page.relative_to(site)}: {target}")
    assert wrong == set()


def test_the_page_of_python_has_what_one_starts_with_and_no_raw_docstring(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    named = set(re.findall(r'<h\d id="?continuum_robot\.([\w.]+)', text))
    for name in set(continuum_robot.__all__) - {"__version__"}:
        assert any(one.rsplit(".", maxsplit=1)[-1] == name for one in named), name
    assert "----" not in re.sub(r"<[^>]*>", "", text)
    assert ":class:" not in text
