"""Where commands are found, and that nothing of ours starts in the folder that the user stands in."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor import active, programs
from gpudoctor.fleet.ssh_command import ssh_words

ROOT = Path(__file__).parent.parent / "gpudoctor"


@pytest.mark.thorough
def test_every_process_of_ours_is_started_elsewhere() -> None:
    """Each `Popen` and `run` says where; what the training interpreter starts inherits it."""
    found = 0
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[0] not in ("subprocess", "pty"):
                continue
            options = {each.arg: ast.unparse(each.value) for each in node.keywords}
            assert options.get("cwd") == "programs.ELSEWHERE", f"{file}:{node.lineno}"
            assert "env" in options, f"{file}:{node.lineno}"
            found += 1
    assert found >= 8


def test_commands_are_looked_for_in_one_place() -> None:
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file == ROOT / "run" / "start.py":  # the line that the user has typed
            text = text.replace("os.posix_spawnp", "")
        assert "shutil.which(" not in text or file.name == "programs.py", file
        assert not any(f"os.{name}" in text for name in ("system(", "popen(", "posix_spawn", "spawnv")), file


def test_a_relative_entry_of_a_path_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    for entries in ("", ".", ":", "::/nowhere", "../bin", "bin:."):
        assert programs.find("here", entries) is None
        monkeypatch.setenv("PATH", entries)
        assert programs.find("here") is None
    assert programs.find("here", f":{program.parent}") == str(program)
    assert programs.find("./here") == "./here"  # somebody's own word


@pytest.mark.parametrize(
    ("given", "kept"), [("", None), (":", None), (".", None), ("a:/b::/c:", "/b:/c"), ("/b", "/b"), ("~/x:../y", None)]
)
def test_what_we_start_has_no_relative_entries(given: str, kept: str | None) -> None:
    made = programs.environment({"PATH": given, "PYTHONPATH": given, "OTHER": given})
    assert (made.get("PATH"), made.get("PYTHONPATH"), made["OTHER"]) == (kept, kept, given)


def test_a_child_knows_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = (
        "import os, sys; sys.path.append(sys.argv[1]); from gpudoctor import programs; "
        "print(os.getcwd(), programs.folder()); programs.go_back(); print(os.getcwd())"
    )
    child = active.start("child", [sys.executable, "-c", code, str(ROOT.parent)], timeout=60)
    reply = active.gather([child])["child"]
    assert reply.output.decode().split() == [os.sep, str(tmp_path), str(tmp_path)], reply


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; sys.path.append(sys.argv[1]); from gpudoctor import programs; os.rmdir(os.getcwd()); "
        "print(repr(programs.environment({})[programs.FOLDER]), programs.folder()); programs.go_back()"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(ROOT.parent)], cwd=gone, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == ["''", "None"]


def test_files_that_the_options_of_ssh_name_lie_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ssh_words({"GPUDOCTOR_SSH": "./ssh -F config -p 22 -i /k"}) == [
        str(tmp_path / "ssh"), "-F", str(tmp_path / "config"), "-p", "22", "-i", "/k",
    ]  # fmt: skip
    assert ssh_words({"GPUDOCTOR_SSH": "ssh -F ~/c"})[2] == str(Path("~/c").expanduser())
