# SPDX-License-Identifier: Apache-2.0
"""Build what a release consists of and check it: python requirements/release.py

The commit must have the version's tag, REPOSITORY_URL must name where the project lives. Nothing is uploaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "release"
USE = """
import continuum_robot
from continuum_robot import Rod, load_robot
assert continuum_robot.__version__ == VERSION, continuum_robot.__version__
print(continuum_robot.__version__, Rod(load_robot("two_segment")).equilibria([[4.0] + 9 * [0.5]]).c[0])
"""


def run(*command: Path | str, folder: Path = ROOT) -> str:
    """What a command prints; its failure is the program's."""
    return subprocess.run(list(map(str, command)), cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


def tagged_version() -> str:
    """The version of the tag, which package.xml and CITATION.cff name too."""
    if not os.environ.get("REPOSITORY_URL"):
        sys.exit("REPOSITORY_URL is not set: it says where the project lives, e.g. https://github.com/OWNER/NAME")
    if run("git", "status", "--porcelain"):
        sys.exit("there are changes that are not committed: a release is of a commit")
    tags = [tag for tag in run("git", "tag", "--points-at", "HEAD").split() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if not tags:
        sys.exit("this commit has no tag of a version: git tag v0.1.0")
    version = tags[-1].removeprefix("v")
    for name, pattern in (("package.xml", "<version>(.*)</version>"), ("CITATION.cff", "(?m)^version: (.*)$")):
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
        if found is None or found[1] != version:
            sys.exit(f"{name} names version {found and found[1]}, the tag {version}")
    for name in ("package.xml", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        if "example.org" in text or (name == "CHANGELOG.md" and f"## [{version}]" not in text):
            sys.exit(f"{name}: put in the addresses of the project, and in CHANGELOG.md a section of version {version}")
    return version


def build() -> tuple[Path, Path]:
    """sdist, and the wheel that pip makes of it in an environment of its own."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(
        sys.executable,
        "-c",
        "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])",
        FOLDER,
    )
    sdist = next(FOLDER.glob("*.tar.gz"))
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", FOLDER, sdist)
    return sdist, next(FOLDER.glob("*.whl"))


def check(sdist: Path, wheel: Path, version: str) -> None:
    """Metadata, names and contents, as an index would, and then some."""
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as file:
        installed = file.namelist()
        text = next(file.read(name) for name in installed if name.endswith(".dist-info/METADATA"))
    metadata = Metadata.from_email(text, validate=True)
    assert str(metadata.version) == version, metadata.version
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.project_urls
    assert re.search(r"-(py3-none|cp3\d+-cp3\d+t?)-manylinux_2_\d+_\w+\.whl$", wheel.name), (
        f"{wheel.name}: no index takes it"
    )
    tracked = [name for name in run("git", "ls-files").split("\n") if name]
    missing = {name for name in tracked if not name.startswith(("docs/images/", ".ci/", ".github/"))} - sources
    assert not missing, f"the sdist lacks {sorted(missing)}"
    folders = ("config", "launch", "msg", "srv", "action")
    asked = {name for name in tracked if name.startswith(tuple(f"{folder}/" for folder in folders))}
    missing = {name for name in asked if not any(one.endswith(f"/share/continuum_robot/{name}") for one in installed)}
    assert not missing, f"the wheel lacks {sorted(missing)}"
    assert "continuum_robot/rod/kernel/librod_kernel.so" in installed
    assert any(name.startswith("continuum_robot/runtime/cycle/") and name.endswith(".so") for name in installed)


def use(wheel: Path, version: str) -> None:
    """Install the wheel with what it depends on, and use it from another folder."""
    folder = FOLDER / "environment"
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", f"{wheel}[app]", folder=FOLDER)
    print(run(folder / "bin" / "python", "-c", USE.replace("VERSION", repr(version)), folder=FOLDER).strip())
    run(folder / "bin" / "continuum-robot", "check", "two_segment", folder=FOLDER)
    shutil.rmtree(folder)


def main() -> None:
    """Build, check, and say what to upload."""
    version = tagged_version()
    sdist, wheel = build()
    check(sdist, wheel, version)
    use(wheel, version)
    for file in (sdist, wheel):
        print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1e6:.1f} MB")
    print(f"Both are right. To release: git push origin v{version}, then twine upload {FOLDER.relative_to(ROOT)}/*")


if __name__ == "__main__":
    main()
