# SPDX-License-Identifier: Apache-2.0
"""Makes the pages, which are written to be read in the repository, into a site.

Links that lead out of docs/ lead to copies below repository/; a diagram in mermaid, whose program would come from the
network, is replaced by its picture; ``folder/*.md`` in the navigation stands for all pages of a folder.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COPIES = "repository"
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
MERMAID = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
PICTURE = "concepts_nodes.png"


def outside(path: str, target: str) -> str | None:
    """Path in the repository of a link of the page ``path`` (in the repository), None where it stays in docs/."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    real = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return None if real.startswith(("docs/", "..")) else real


def in_site(path: str) -> str:
    """Where a file of the repository stands in the site; pages of folders of code as they are."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{COPIES}/{path}"


def pages_outside() -> list[str]:
    """Pages beside docs/ that the site has."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "hardware/README.md", "examples/README.md")
    return [name for name in names if (ROOT / name).exists()]


def on_config(config: Any) -> Any:
    """Write the wildcards of the navigation out; the site's own address from that of a repository on GitHub."""
    config.nav = _expanded(config.nav)
    if github := re.fullmatch(r"https://github\.com/([^/]+)/([^/]+?)(\.git)?/?", config.repo_url or ""):
        config.site_url = f"https://{github[1].lower()}.github.io/{github[2]}/"
    return config


def _expanded(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if isinstance(item, str):
            found.append(item)
            continue
        ((title, value),) = item.items()
        if isinstance(value, list):
            found.append({title: _expanded(value)})
        elif value.endswith("*.md"):
            folder = value.removesuffix("*.md")
            found.append({title: [f"{folder}{file.name}" for file in sorted((DOCS / folder).glob("*.md"))]})
        else:
            found.append(item)
    return found


def on_files(files: Files, config: Any) -> Files:
    """Add the pages beside docs/, and every file that a page links to."""
    desired = set(pages_outside())
    for page in [*(f"docs/{file.src_uri}" for file in files.documentation_pages()), *desired.copy()]:
        text = (ROOT / page).read_text(encoding="utf-8")
        desired |= {real for _, target, _ in LINK.findall(text) if (real := outside(page, target)) is not None}
    for path in sorted(desired):
        source = ROOT / path
        if source.is_file():
            files.append(File.generated(config, in_site(path), abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """Links and diagrams of a page as the site needs them."""
    here = page.file.src_uri
    source = here.removeprefix(f"{COPIES}/") if here.startswith(f"{COPIES}/") else f"docs/{here}"

    def moved(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith(("mailto:", "/")):
            return match[0]
        real = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (ROOT / real).is_dir():
            real = posixpath.join(real, "README.md") if (ROOT / real / "README.md").exists() else "README.md"
        return f"{match[1]}{posixpath.relpath(in_site(real), posixpath.dirname(here) or '.')}{match[3]}"

    text = LINK.sub(moved, markdown)
    picture = posixpath.relpath(f"images/{PICTURE}", posixpath.dirname(here) or ".")
    return MERMAID.sub(f"![Nodes and topics]({picture})", text)
