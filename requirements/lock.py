# SPDX-License-Identifier: Apache-2.0
"""Write down version and hash of all that ``make environment LOCKED=1`` installs: python requirements/lock.py

What pyproject.toml asks for, resolved as pip does on this platform now. A lock file is for one platform and one version
of Python. With ``--name`` its path is printed, with ``--needed`` what is asked for, and nothing is written.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
EXTRAS = ("ros", "test")
"""Of pyproject.toml: all that the Makefile installs."""
OURS = "continuum-robot["
FIRST = ("packaging", "setuptools", "wheel")
"""What packages without a wheel are built with: installed before the others."""


def lock_file() -> Path:
    """The lock file of this platform and this Python."""
    system, machine = platform.system().lower(), platform.machine()
    implementation = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
    return FOLDER / f"{system}-{machine}-{implementation}.txt"


def desired(*extras: str) -> list[str]:
    """The requirements of pyproject.toml: to build, to run, and of the extras, of those too that an extra names."""
    settings = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    found = [*settings["build-system"]["requires"], *project["dependencies"]]
    waiting = list(extras)
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            if line.startswith(OURS):
                waiting += line.removeprefix(OURS).rstrip("]").split(",")
            else:
                found.append(line)
    return list(dict.fromkeys(found))


def resolved(requirements: list[str]) -> list[str]:
    """A line with version and hash for each package that pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        quiet = ["-qq", "--disable-pip-version-check", "--dry-run", "--ignore-installed"]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *quiet, "--report", str(report), *requirements], check=True
        )
        packages = json.loads(report.read_text(encoding="utf-8"))["install"]
    lines = []
    for package in packages:
        name = package["metadata"]["name"].lower().replace("_", "-")
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={package['metadata']['version']} --hash=sha256:{digest}")
    return sorted(lines, key=lambda line: (not line.startswith(tuple(f"{name}==" for name in FIRST)), line))


def main() -> None:
    """Write the lock file of this platform, or print its name."""
    file = lock_file()
    if "--name" in sys.argv[1:]:
        sys.stdout.write(f"{file}\n")
        return
    if "--needed" in sys.argv[1:]:
        sys.stdout.write("\n".join(desired(*EXTRAS)) + "\n")
        return
    head = f"# Versions and hashes of the environment on {file.stem}; `make lock` writes them again.\n"
    file.write_text(head + "\n".join(resolved(desired(*EXTRAS))) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {file.relative_to(FOLDER.parent)}\n")


if __name__ == "__main__":
    main()
