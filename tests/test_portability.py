"""macOS and Windows, imitated: every command starts, and what needs no machine works in full.

A `sitecustomize` on the module path takes away what these systems lack, in the doctor and in all its children.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.snapshot import to_json
from tests.machines.hand_built import MACHINES

IMITATION = """
import os, sys
# Others' idea of the system stays as it is (typer would load Windows' own libraries): only we are deceived.
import asyncio, ctypes, shutil, socket, subprocess, sysconfig, tempfile, types, zoneinfo
shutil._winapi = types.SimpleNamespace(NeedCurrentDirectoryForExePath=lambda name: False)
try:
    import msgspec, psutil, rich.console, rich.table, typer
except ImportError:
    pass  # another interpreter than the doctor's
sysconfig.get_config_vars()
sys.platform = {platform!r}
for name in ("sched_getaffinity", "sched_setaffinity", "eventfd", "memfd_create", {functions}):
    if hasattr(os, name):
        delattr(os, name)
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {modules!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
for name in {modules!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
"""
SYSTEMS = {
    "darwin": ("", {"spwd", "ossaudiodev"}),
    "win32": (
        "'geteuid', 'getuid', 'getgid', 'uname', 'statvfs', 'getloadavg', 'getpgid'",
        {"fcntl", "resource", "pwd", "grp", "termios", "pty"},
    ),
}


@pytest.fixture(params=SYSTEMS)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An environment in which Python looks like the other system's."""
    functions, modules = SYSTEMS[request.param]
    folder = tmp_path / "imitation"
    folder.mkdir()
    text = IMITATION.format(platform=request.param, functions=functions, modules=modules)
    (folder / "sitecustomize.py").write_text(text)
    return {**os.environ, "PYTHONPATH": str(folder)}


def gpudoctor(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from gpudoctor.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)


@pytest.mark.parametrize("command", ["", "check", "capture", "devices", "checks"])
def test_every_command_starts(elsewhere: dict[str, str], command: str) -> None:
    done = gpudoctor(elsewhere, *command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_what_needs_no_machine_works_in_full(elsewhere: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(MACHINES["broken-8xh100"]()))
    there = gpudoctor(elsewhere, "check", "--from", str(file))
    here = gpudoctor(dict(os.environ), "check", "--from", str(file))
    assert (there.returncode, there.stderr) == (1, "")
    assert there.stdout == here.stdout
    answer = json.loads(gpudoctor(elsewhere, "devices", "--from", str(file), "--json").stdout)
    assert [device["cuda"] for device in answer["visible"]] == list(range(7))
    assert "shm-too-small" in gpudoctor(elsewhere, "checks").stdout
    assert "Why it matters" in gpudoctor(elsewhere, "checks", "shm-too-small").stdout


def test_live_it_says_what_it_cannot_read_there(elsewhere: dict[str, str]) -> None:
    done = gpudoctor(elsewhere, "check", "--no-torch", "--json")
    assert "Traceback" not in done.stderr, done.stderr
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert results["swap-in-use"]["outcome"] == "ok", "memory is read everywhere"
    assert results["shm-too-small"]["outcome"] in ("skipped", "not-applicable")
    assert "crashed" not in {result["outcome"] for result in results.values()}
