"""Which Python is examined."""

import importlib.machinery
import os
import sys
from pathlib import Path

import pytest

from gpudoctor.read.interpreter import NoSuchInterpreter, choose

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the layout of POSIX environments")


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def make(prefix: Path, *, torch: bool, version: str = "3.11") -> Path:
    """A virtual environment, as far as choosing looks at it. Returns its interpreter."""
    site = prefix / "lib" / f"python{version}" / "site-packages"
    (site / "torch" if torch else site).mkdir(parents=True)
    return executable(prefix / "bin" / "python")


@pytest.fixture
def no_torch_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when gpudoctor was installed with pipx: its own interpreter has no torch."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)


@pytest.fixture
def torch_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    specification = importlib.machinery.ModuleSpec("torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: specification)


@pytest.mark.usefixtures("torch_of_our_own")
def test_an_active_environment_with_torch_comes_before_our_own(tmp_path: Path) -> None:
    python = make(tmp_path / "venv", torch=True)
    found = choose(None, {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": "/opt/conda"})
    assert found == (str(python), "$VIRTUAL_ENV")


@pytest.mark.usefixtures("torch_of_our_own")
def test_so_does_one_without_torch_for_it_is_what_a_training_would_run_in(tmp_path: Path) -> None:
    python = make(tmp_path / "venv", torch=False)
    make(tmp_path / "conda", torch=True, version="3.13")
    variables = {"VIRTUAL_ENV": str(tmp_path / "venv")}
    assert choose(None, variables) == (str(python), "$VIRTUAL_ENV")
    assert choose(None, variables | {"CONDA_PREFIX": str(tmp_path / "conda")}) == (str(python), "$VIRTUAL_ENV")


@pytest.mark.usefixtures("torch_of_our_own")
def test_condas_base_without_torch_is_passed_over_and_no_other_environment(tmp_path: Path) -> None:
    make(tmp_path / "base", torch=False)
    (tmp_path / "base" / "condabin").mkdir()
    conda = make(tmp_path / "conda", torch=True, version="3.13")
    own = make(tmp_path / "mine", torch=False)
    assert choose(None, {"CONDA_PREFIX": str(tmp_path / "mine")}) == (str(own), "$CONDA_PREFIX")
    assert choose(None, {"CONDA_PREFIX": str(tmp_path / "base")}) == (sys.executable, "gpudoctor's own interpreter")
    assert choose(None, {"CONDA_PREFIX": str(tmp_path / "conda")}) == (str(conda), "$CONDA_PREFIX")


@pytest.mark.usefixtures("no_torch_of_our_own")
def test_the_last_resort_is_the_users_python3(tmp_path: Path) -> None:
    python = executable(tmp_path / "bin" / "python3")
    assert choose(None, {"PATH": str(python.parent)}) == (str(python), "python3 on PATH")
    assert choose(None, {"PATH": str(tmp_path / "empty")}).path == sys.executable


@pytest.mark.usefixtures("no_torch_of_our_own")
def test_a_deleted_environment_that_is_still_active_is_passed_over(tmp_path: Path) -> None:
    python = executable(tmp_path / "bin" / "python3")
    found = choose(None, {"VIRTUAL_ENV": str(tmp_path / "gone"), "PATH": str(python.parent)})
    assert found.path == str(python)


def test_what_the_user_names_is_taken_whatever_is_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "venv", torch=True)
    named = executable(tmp_path / "other" / "bin" / "python")
    active = {"VIRTUAL_ENV": str(tmp_path / "venv")}
    assert choose(str(named), active) == (str(named), "--python")
    assert choose(str(tmp_path / "other"), active).path == str(named), "the folder of an environment will do"
    monkeypatch.chdir(tmp_path)
    assert choose("other/bin/python", active).path == str(named), "an absolute path, for messages that are pasted"
    monkeypatch.setenv("PATH", str(named.parent))
    assert choose("python", active).path == str(named)


def test_a_link_is_not_resolved(tmp_path: Path) -> None:
    """A virtual environment's interpreter is a link; its target is another environment."""
    target = executable(tmp_path / "usr" / "python3.11")
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert choose(str(link), {}).path == str(link)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("nowhere/python", "no such file"), ("file", "not an executable file"), ("folder", "without bin/python")],
)
def test_what_is_no_interpreter_is_refused_in_one_line(wanted: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("data")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NoSuchInterpreter, match=says) as caught:
        choose(str(tmp_path / wanted), {})
    assert wanted in str(caught.value) and "\n" not in str(caught.value)
