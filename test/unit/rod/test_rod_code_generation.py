# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from continuum_robot.errors import ContinuumRobotError, ParameterError
from continuum_robot.rod.code import library as code_library
from continuum_robot.rod.code.cache import cache_folder
from continuum_robot.rod.code.generation import (
    FastFunction,
    code_size,
    compile_functions,
    instruction_count,
)
from continuum_robot.rod.code.library import compiled_together


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def other_compiler(monkeypatch, tmp_path):
    """Put a shell script in the compiler's place; gives a function of its name and text."""
    real, _ = code_library.find_compiler()

    def take(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script.replace('REAL', real)}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        code_library.find_compiler.cache_clear()

    yield take
    code_library.find_compiler.cache_clear()


BROKEN = 'if [ "$1" = --version ]; then echo broken 1.0; else echo no >&2; exit 1; fi'


def example(name="example"):
    x, a = ca.SX.sym("x", 3), ca.SX.sym("a")
    return ca.Function(name, [x, a], [a * ca.sin(x), ca.densify(ca.vertcat(x, a) @ x.T)], ["x", "a"], ["y", "Z"])


def check_example(function):
    x = np.array([0.1, -2.0, 3.0])
    y, z = function(x, 2.0)
    np.testing.assert_allclose(y, 2 * np.sin(x), rtol=1e-15)
    np.testing.assert_allclose(z, np.outer([*x, 2.0], x), rtol=1e-15)


def test_matrices_come_out_by_rows_and_columns():
    check_example(FastFunction(example()))
    compiled = compile_functions([example()], "an example")["example"]
    assert compiled.compiled
    check_example(compiled)


def test_results_are_fresh_arrays():
    for function in (FastFunction(example()), compile_functions([example()], "an example")["example"]):
        first = function([1.0, 2.0, 3.0], 1.0)[0]
        kept = first.copy()
        function([4.0, 5.0, 6.0], 1.0)
        np.testing.assert_array_equal(first, kept)
        twin = function.clone()
        twin([7.0, 8.0, 9.0], 1.0)
        check_example(function)
        check_example(twin)


def test_a_second_run_takes_the_code_from_the_cache(own_cache):
    said = []
    for _ in range(2):
        compile_functions([example()], "an example", progress=said.append)
    assert said == [f"compiling an example ({code_size([example()]):,} instructions) ..."]
    assert [path.suffix for path in own_cache.iterdir()] == [".so"]
    compile_functions([example("other")], "another", progress=said.append)
    assert len(said) == 2


def test_a_cut_file_in_the_cache_is_made_anew(own_cache):
    compile_functions([example()], "an example")
    (library,) = own_cache.iterdir()
    replacement = library.with_suffix(".cut")
    replacement.write_bytes(library.read_bytes()[: library.stat().st_size // 2])
    replacement.replace(library)
    said = []
    function = compile_functions([example()], "an example", progress=said.append)["example"]
    assert function.compiled
    assert "compiling" in said[0]
    check_example(function)


def test_without_a_compiler_the_virtual_machine_runs_and_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    code_library.find_compiler.cache_clear()
    try:
        said = []
        function = compile_functions([example()], "an example", progress=said.append)["example"]
        assert not function.compiled
        check_example(function)
        assert "virtual machine" in said[0]
        assert "no C compiler" in said[0]
        with pytest.raises(ContinuumRobotError, match="cannot compile an example: no C compiler"):
            compile_functions([example()], "an example", compile="always")
    finally:
        code_library.find_compiler.cache_clear()


def test_a_compiler_that_fails_is_not_fatal(other_compiler):
    other_compiler("cc", BROKEN)
    said = []
    assert not compile_functions([example()], "an example", progress=said.append)["example"].compiled
    assert "failed: no" in said[-1]


def test_a_compiler_that_cannot_work_on_parts_takes_the_whole(monkeypatch, tmp_path, other_compiler):
    other_compiler("gcc", 'case "$*" in *-flto*) echo no >&2; exit 1;; esac\nexec REAL "$@"')
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path))
    monkeypatch.setattr(code_library, "_LONG_CODE", 0)
    monkeypatch.setattr(code_library.os, "sched_getaffinity", lambda _pid: {0, 1})
    function = compile_functions([example()], "an example", compile="always")["example"]
    assert function.compiled
    check_example(function)


def test_a_cache_folder_that_cannot_be_written_is_not_fatal(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "file" / "below"))
    said = []
    function = compile_functions([example()], "an example", progress=said.append)["example"]
    assert not function.compiled
    check_example(function)


def test_processes_may_compile_at_once(own_cache):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_rod_code_generation as t\n"
        "f = t.compile_functions([t.example()], 'an example', compile='always')['example']\n"
        "t.check_example(f)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error.decode()
    assert [path.suffix for path in own_cache.iterdir()] == [".so"]


def test_where_the_cache_is(monkeypatch):
    assert cache_folder().name == "cache"
    monkeypatch.delenv("CONTINUUM_ROBOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/continuum_robot")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "continuum_robot"


def test_unknown_choices_and_sparse_functions_are_refused():
    with pytest.raises(ParameterError, match="compile = 'sometimes' -- expected one of auto, always, never"):
        compile_functions([example()], "an example", compile="sometimes")
    x = ca.SX.sym("x", 2)
    sparse = ca.Function("sparse", [x], [ca.diag(x)])
    with pytest.raises(ParameterError, match="dense"):
        compile_functions([sparse], "an example")


def test_instructions_of_called_functions_count():
    inner = example("inner")
    x = ca.MX.sym("x", 3)
    twice = ca.Function("twice", [x], [inner(inner(x, 1.0)[0], 2.0)[0]])
    assert instruction_count(twice) > 2 * instruction_count(inner)
    assert code_size([twice, inner]) < instruction_count(twice)


def counting(log, delay_s):
    """A compiler that takes its time and leaves a line for each compilation."""
    return f'[ "$1" = --version ] || {{ echo "$*" >> {log}; sleep {delay_s}; }}\nexec REAL "$@"'


def test_together_functions_are_compiled_behind_the_callers_back_and_are_there_at_the_end(tmp_path, other_compiler):
    log = tmp_path / "compilations"
    other_compiler("gcc", counting(log, 0.2))
    with compiled_together():
        first = compile_functions([example()], "one")["example"]
        second = compile_functions([example("other")], "another")["other"]
        check_example(first)  # which waits for it
    for function in (first, second):
        assert function.compiled
        assert function.addresses[0]
        check_example(function.clone())
    assert len(log.read_text().splitlines()) == 2


def test_together_a_failure_is_reported_as_alone(other_compiler):
    other_compiler("cc", BROKEN)
    said = []
    with compiled_together():
        function = compile_functions([example()], "an example", progress=said.append)["example"]
    assert not function.compiled
    check_example(function)
    assert "an example runs in CasADi's virtual machine" in said[-1]
    with pytest.raises(ContinuumRobotError, match=r"cannot compile an example: .* failed: no"), compiled_together():
        compile_functions([example()], "an example", compile="always")


def test_what_is_being_compiled_is_waited_for_and_not_compiled_twice(tmp_path, own_cache, other_compiler):
    log = tmp_path / "compilations"
    other_compiler("gcc", counting(log, 0.5))
    with ThreadPoolExecutor(2) as pool:  # a lock on a file does not ask whose thread or process it is
        functions = [made["example"] for made in pool.map(lambda name: compile_functions([example()], name), "ab")]
    assert all(function.compiled for function in functions)
    assert len(log.read_text().splitlines()) == 1
    assert [path.suffix for path in own_cache.iterdir()] == [".so"]
