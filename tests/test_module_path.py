"""`python -m gpudoctor` in a folder that somebody else may write to."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["typer", "msgspec", "signal", "json", "torch"])
def test_python_m_imports_nothing_from_the_working_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')")
    command = [sys.executable, "-m", "gpudoctor", "check", "--no-torch", "--json", "kernel-too-old"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert '"kernel-too-old"' in done.stdout
