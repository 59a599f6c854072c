"""Chooses the training interpreter: the Python that will run the training, not the doctor's own."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpudoctor import programs
from gpudoctor.errors import BadInput


class NoSuchInterpreter(BadInput):
    """`--python` names nothing that can be run; the message is one line for the user."""


class Interpreter(NamedTuple):
    path: str
    chosen_by: str
    """What made it the choice, as `Training.chosen_by` says."""


def choose(wanted: str | None, environment: Mapping[str, str]) -> Interpreter:
    """`--python`, else $VIRTUAL_ENV, $CONDA_PREFIX, our own with torch, else python3 on PATH.

    An active environment is what `python train.py` runs, with torch or without: another interpreter's torch says
    nothing about it. conda's base is active in many shells unasked, so without torch it is passed over.

    Nothing is run or imported: an interpreter "has torch" when a folder `torch` lies in its site-packages.
    Raises `NoSuchInterpreter`.
    """
    if wanted is not None:
        try:
            return Interpreter(_named(wanted), "--python")
        except OSError as error:  # a folder that may not be entered
            raise NoSuchInterpreter(f"--python {wanted}: {error.strerror or error}") from None
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = environment.get(variable)
        # A relative one would be whatever lies in the folder that the user stands in.
        if not prefix or not Path(prefix).is_absolute():
            continue
        any_will_do = variable == "VIRTUAL_ENV" or not _is_base(Path(prefix))
        if python := _python(Path(prefix), with_torch=not any_will_do):
            return Interpreter(python, f"${variable}")
    if importlib.util.find_spec("torch") is not None:
        return Interpreter(sys.executable, "gpudoctor's own interpreter")
    on_path = programs.find("python3", environment.get("PATH"))
    if on_path:
        return Interpreter(on_path, "python3 on PATH")
    return Interpreter(sys.executable, "gpudoctor's own interpreter")


def _named(wanted: str) -> str:
    if not wanted.strip():
        raise NoSuchInterpreter("--python: no interpreter is named")
    program = programs.find(wanted)
    if program:
        return str(Path(program).absolute())
    path = Path(wanted).expanduser()
    if path.is_dir():
        for name in ("bin/python", "Scripts/python.exe"):
            if (path / name).exists():
                return str((path / name).absolute())
        raise NoSuchInterpreter(f"--python {wanted}: a folder without bin/python; name the interpreter itself")
    if path.exists():
        raise NoSuchInterpreter(f"--python {wanted}: not an executable file")
    raise NoSuchInterpreter(f"--python {wanted}: no such file, and no command of that name on PATH")


def _is_base(prefix: Path) -> bool:
    """Whether conda itself is installed there: only its base has the folder `condabin`."""
    try:
        return (prefix / "condabin").is_dir()
    except OSError:  # another user's
        return True


def _python(prefix: Path, *, with_torch: bool) -> str | None:
    """The interpreter of an environment, or None; `with_torch`: of one that has torch."""
    windows = os.name == "nt"
    python = prefix / ("Scripts/python.exe" if windows else "bin/python")
    pattern = "Lib/site-packages/torch" if windows else "lib*/python3*/site-packages/torch"
    try:
        return str(python) if python.exists() and (not with_torch or any(prefix.glob(pattern))) else None
    except OSError:  # another user's
        return None
