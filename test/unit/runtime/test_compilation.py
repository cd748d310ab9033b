# SPDX-License-Identifier: Apache-2.0
"""Where the compiled form cannot be had: why is reported, and the interpreted one runs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import continuum_robot
from continuum_robot.drivers.backends import tendon_actuators
from continuum_robot.robot.loading import load_robot
from continuum_robot.runtime.cycle import compilation, forms
from continuum_robot.runtime.cycle.compilation import SWITCH, NotCompiledError, amalgamated, compiled_cycle, modules
from continuum_robot.runtime.cycle.driver_cycle import DriverCycle
from continuum_robot.simulation.devices.tendon_actuators import SimulatedTendonActuators

ROBOT = load_robot("opencr_five_tendon")


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch, tmp_path):
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "_loaded", compilation._loaded.__wrapped__)
    monkeypatch.setattr(continuum_robot, "__path__", continuum_robot.__path__[:1])  # without what was installed


def refused(reason):
    with pytest.raises(NotCompiledError, match=reason):
        compiled_cycle()
    form = forms.compiled_form()
    assert not form.compiled
    assert form.name == "interpreted"
    assert form.parts.DriverCycle is DriverCycle
    return form.reason


@pytest.mark.parametrize("value", ["interpreted", " Interpreted "])
def test_the_environment_switches_it_off(monkeypatch, value):
    monkeypatch.setenv(SWITCH, value)
    assert SWITCH in refused("is set to interpreted")


def test_without_a_compiler_the_interpreted_form_runs(monkeypatch):
    monkeypatch.setattr(compilation.shutil, "which", lambda _name: None)
    assert refused("no C compiler") == "there is no C compiler (looked for cc and gcc)"


def test_without_the_headers_of_python(monkeypatch, tmp_path):
    monkeypatch.setattr(compilation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(compilation.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert "headers of Python" in refused("Python.h")


def test_without_cython(monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(compilation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(compilation.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    for name in ("Cython", "Cython.Compiler.Main"):  # which another test may have imported
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install cython" in refused("Cython is not installed")


def test_a_compiler_that_fails_says_what_it_said(monkeypatch, tmp_path):
    pytest.importorskip("Cython")
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no such option >&2\nexit 3\n", encoding="utf-8")
    compiler.chmod(0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setattr(compilation.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "amalgamated", lambda: "X = 1\n")
    assert "no such option" in refused("cc failed")
    assert not list((tmp_path / "cache").iterdir()), "nothing is left behind"


def test_source_that_cython_refuses_is_told(monkeypatch, tmp_path):
    pytest.importorskip("Cython")
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(compilation.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(compilation.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "amalgamated", lambda: "def f(:\n")
    refused("Cython refuses the source")


@pytest.fixture
def short_cycle(monkeypatch, tmp_path):
    """A cycle that compiles in a second, and its cache folder."""
    pytest.importorskip("Cython")
    monkeypatch.setattr(compilation, "amalgamated", lambda: "X = 1\n")
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "cache"))
    try:
        assert compiled_cycle().X == 1
    except NotCompiledError as reason:
        pytest.skip(str(reason))
    return tmp_path / "cache"


def test_what_was_built_with_the_package_needs_no_compiler_and_changed_sources_do(short_cycle, monkeypatch, tmp_path):
    monkeypatch.setenv("CONTINUUM_ROBOT_CACHE", str(tmp_path / "another"))
    monkeypatch.setattr(sys, "argv", ["compilation", str(tmp_path / "runtime" / "cycle")])
    assert compilation.main() == 0
    monkeypatch.setattr(continuum_robot, "__path__", [*continuum_robot.__path__, str(tmp_path)])
    monkeypatch.setattr(compilation.shutil, "which", lambda _name: None)
    assert compiled_cycle().X == 1
    assert not (tmp_path / "another").exists()
    monkeypatch.setattr(compilation, "amalgamated", lambda: "X = 2\n")
    refused("no C compiler")


def test_an_installation_without_a_compiler_says_so_and_goes_on(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["compilation", str(tmp_path / "cycle")])
    monkeypatch.setattr(compilation.shutil, "which", lambda _name: None)
    assert compilation.main() == 0
    assert "interpreted: there is no C compiler" in capsys.readouterr().out
    assert list((tmp_path / "cycle").iterdir()) == []


@pytest.mark.parametrize("left", [0, 0.5])
def test_a_file_that_a_power_cut_left_short_is_made_anew(short_cycle, left):
    (library,) = short_cycle.iterdir()
    cut = library.read_bytes()[: int(left * library.stat().st_size)]
    library.unlink()
    library.write_bytes(cut)
    lines = []
    assert compiled_cycle(lines.append).X == 1
    assert compiled_cycle(lines.append).X == 1
    assert len(lines) == 1


def test_a_cache_that_others_may_write_to_is_not_used(short_cycle):
    short_cycle.chmod(0o777)
    assert "chmod go-w" in refused("others may write to it")


def test_the_source_holds_all_modules_without_their_imports_of_each_other():
    source = amalgamated()
    for name in modules():
        assert f"# --- continuum_robot.{name}\n" in source
        assert f"from continuum_robot.{name} import" not in source
    assert "@stepped" not in source.replace("``@stepped``", "")


def bound(name):
    """Names that a module binds at its top, and where each comes from."""
    root = Path(compilation.__file__).parents[2]
    for node in ast.parse(root.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, (node.module, one.name)) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.asname or one.name, one.name) for one in node.names)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name, (f"continuum_robot.{name}", node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            # An alias of a type is the same in all.
            yield from ((one, (f"continuum_robot.{name}", one)) for one in names if one != "Vector")


def test_no_name_of_one_module_hides_that_of_another():
    """They share one scope: a second FAULTS would be the first one's."""
    origins = {}
    for name in modules():
        for bound_name, origin in bound(name):
            origins.setdefault(bound_name, set()).add(origin)
    assert {name: found for name, found in origins.items() if len(found) > 1} == {}


def test_any_actuators_are_driven_compiled_but_those_that_were_made_for_the_interpreted_cycle():
    desired = forms.Form(object(), True, "for the test")
    form = forms.form_of(SimulatedTendonActuators(ROBOT), desired)
    assert (form.compiled, form.reason) == (True, "between calls of Python to SimulatedTendonActuators")
    assert forms.form_of(tendon_actuators(ROBOT, "virtual"), desired).name == "interpreted"
