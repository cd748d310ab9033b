# SPDX-License-Identifier: Apache-2.0
"""Shared libraries of C code: compiled once, several at once where many are desired, and kept in the user's cache.

Their files stand there under a hash of the C text, the compiler's version and the flags, see rod/code/cache.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.rod.code.cache import cached_library

Progress = Callable[[str], None]

COMPILE_CHOICES = ("auto", "always", "never")
_COMPILE_TIMEOUT_S = 600.0
_LONG_CODE = 500_000  # bytes


class CompilationError(ContinuumRobotError, RuntimeError):
    """No C compiler, or one that failed."""


@dataclass(frozen=True)
class Source:
    """C code that has not been compiled yet.

    Attributes
    ----------
    name : what it is, for messages
    size : how much it is, for the progress line
    made_of : what the code follows from, for the cache's key
    code : gives the C text where it has to be compiled
    flags : of the compiler, besides those for a shared library
    """

    name: str
    size: str
    made_of: Sequence[str]
    code: Callable[[], str]
    flags: Sequence[str]


@dataclass
class Pending:
    """A library that is being compiled.

    Attributes
    ----------
    library : what it will be; None: nothing could be compiled
    waiting : called when it is there
    """

    library: Future[ctypes.CDLL | None]
    waiting: list[Callable[[], object]] = field(default_factory=list)


Library = ctypes.CDLL | Pending | None
"""Compiled code, code that is being compiled, or None: CasADi evaluates the function."""


class LibraryUser(ABC):
    """Uses compiled code, which may still be on its way; then it waits for it when it is first needed.

    Parameters
    ----------
    library : the code
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        if isinstance(library, Pending):
            library.waiting.append(self._settled)
        else:
            self._bind(library)

    @abstractmethod
    def _bind(self, library: ctypes.CDLL | None) -> None:
        """Use the code from now on; None: CasADi evaluates the function."""

    def _settled(self) -> ctypes.CDLL | None:
        """Wait for a library that is being compiled, and use it."""
        if isinstance(self._library, Pending):
            self._library = self._library.library.result()
            self._bind(self._library)
        return self._library

    @property
    def compiled(self) -> bool:
        """Whether it runs as machine code."""
        return self._settled() is not None


@dataclass
class _Together:
    pool: ThreadPoolExecutor
    pending: list[Pending] = field(default_factory=list)


_TOGETHER: ContextVar[_Together | None] = ContextVar("together", default=None)


@contextmanager
def compiled_together() -> Iterator[None]:
    """Libraries that are desired inside are compiled at once, on all cores, and are there behind it.

    A function that is called inside waits for its library.

    Raises
    ------
    ContinuumRobotError : one of them must be compiled (``compile="always"``), and cannot be
    """
    if _TOGETHER.get() is not None:
        yield
        return
    with ThreadPoolExecutor(_cores()) as pool:
        together = _Together(pool)
        token = _TOGETHER.set(together)
        try:
            yield
        finally:
            _TOGETHER.reset(token)
    for pending in together.pending:
        pending.library.result()
        for tell in pending.waiting:
            tell()


def shared_library(source: Source, compile: str, progress: Progress | None) -> Library:
    """The library of C code, from the cache or compiled.

    Parameters
    ----------
    source : the code
    compile : "auto": if a compiler works; "always": an error without; "never"
    progress : receives one line before a compilation, and one where nothing can be compiled

    Returns
    -------
    the library; inside :func:`compiled_together` what it will be; None: none

    Raises
    ------
    ParameterError : unknown ``compile``
    ContinuumRobotError : ``compile="always"`` and no compiler, or it failed
    """
    if compile not in COMPILE_CHOICES:
        raise ParameterError("compile", compile, "one of " + ", ".join(COMPILE_CHOICES))
    if compile == "never":
        return None

    def made(cores: int) -> ctypes.CDLL | None:
        try:
            return _cached(source, progress, cores)
        except (OSError, subprocess.SubprocessError, CompilationError) as error:
            if compile == "always":
                raise ContinuumRobotError(f"cannot compile {source.name}: {error}") from error
            if progress is not None:
                progress(f"{source.name} runs in CasADi's virtual machine: {error}")
            return None

    together = _TOGETHER.get()
    if together is None:
        return made(_cores())
    together.pending.append(Pending(together.pool.submit(made, 1)))
    return together.pending[-1]


@cache
def find_compiler() -> tuple[str, str]:
    """Path and version line of the C compiler: ``CC``, else gcc, cc or clang; raises CompilationError if none."""
    for candidate in (os.environ.get("CC", ""), "gcc", "cc", "clang"):
        path = shutil.which(candidate) if candidate else None
        if path:
            answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
            if answer.returncode == 0 and answer.stdout:
                return path, answer.stdout.splitlines()[0]
    raise CompilationError("no C compiler found (install gcc, or set CC)")


@cache
def vector_flags() -> tuple[str, ...]:
    """What lets the compiler use this processor's vectors of four numbers; the results are the same to the last bit."""
    try:
        known = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ()
    return ("-mavx",) if platform.machine() == "x86_64" and " avx " in known else ()


def _cached(source: Source, progress: Progress | None, cores: int) -> ctypes.CDLL:
    compiler, version = find_compiler()
    flags = [*source.flags, "-fPIC", "-shared"]
    key = hashlib.sha256("\n".join([*source.made_of, version, platform.machine(), *flags]).encode()).hexdigest()[:24]

    def build(folder: Path) -> Path:
        if progress is not None:
            progress(f"compiling {source.name} ({source.size}) ...")
        return _compile(source.code(), folder, [compiler, *flags], cores)

    return cached_library(f"rod_{key}.so", build, ctypes.CDLL)


def _compile(code: str, folder: Path, command: list[str], cores: int) -> Path:
    text, library = folder / "functions.c", folder / "functions.so"
    text.write_text(code, encoding="utf-8")
    for more in _on_cores(command[0], text.stat().st_size, cores), []:
        answer = subprocess.run(
            [*command, *more, str(text), "-o", str(library), "-lm"],
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if answer.returncode == 0 or not more:
            break
    if answer.returncode != 0 or not library.is_file():
        raise CompilationError(f"{command[0]} failed: {answer.stderr.strip()[-400:]}")
    return library


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _on_cores(compiler: str, size: int, cores: int) -> list[str]:
    """Flags that let gcc work on parts of long code (bytes) on several cores; what comes out computes the same."""
    return [f"-flto={cores}"] if "gcc" in Path(compiler).name and cores > 1 and size > _LONG_CODE else []
