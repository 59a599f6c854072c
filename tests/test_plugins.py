"""Checks that other distributions bring: found once installed, and harmless when broken."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpudoctor.snapshot import read, to_json
from tests.build import but, h100_node

CHECK = '''"""The scratch disk is not there.

Why it matters: our jobs write there.
"""

from gpudoctor.check import Fix, Problem, check


@check("{id}", title="Scratch is mounted")
def rule(machine):
    if machine.host.hostname.value == "node-without-scratch":
        yield Problem(
            severity="error",
            summary="/scratch is not mounted on node-without-scratch",
            meaning="Jobs that write there die.",
            evidence=(machine.host.hostname,),
            fix=Fix("Mount it.", commands=("sudo mount /scratch",)),
        )
'''


def install(folder: Path, name: str, modules: dict[str, str]) -> None:
    """Make a wheel of a package with these modules and have pip install it into a folder."""
    wheel = folder.parent / f"{name}-1-py3-none-any.whl"
    info = f"{name}-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for module, text in modules.items():
            archive.writestr(f"{name}/{module}", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/entry_points.txt", f"[gpudoctor.checks]\n{name} = {name}\n")
        archive.writestr(f"{info}/RECORD", "")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True, timeout=100)


def gpudoctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "gpudoctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(but(h100_node(), "host.hostname", read("gethostname", "node-without-scratch"))))
    return file


def test_an_outside_package_is_found_and_runs(site: Path, machine: Path) -> None:
    install(site, "acme_checks", {"__init__.py": "", "scratch_missing.py": CHECK.format(id="scratch-missing")})
    done = gpudoctor(site, "check", "--from", str(machine), "--json")
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert done.returncode == 1, done.stderr
    assert results["scratch-missing"]["outcome"] == "problem"
    assert results["shm-too-small"]["outcome"] == "ok", "our own run beside it"
    assert "scratch-missing" in gpudoctor(site, "checks").stdout
    assert "our jobs write there" in gpudoctor(site, "checks", "scratch-missing").stdout


def test_broken_modules_and_taken_ids_are_results_and_the_others_run(site: Path, machine: Path) -> None:
    modules = {
        "__init__.py": "",
        "exits.py": "raise SystemExit(7)",
        "fails.py": "import nothing_of_this_name",
        "taken.py": CHECK.format(id="shm-too-small"),
        "works.py": CHECK.format(id="scratch-missing"),
        "raises.py": CHECK.format(id="scratch-raises").replace("if machine", "1 / 0\n    if machine"),
    }
    install(site, "acme_checks", modules)
    done = gpudoctor(site, "check", "--from", str(machine), "--json")
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert results["scratch-missing"]["outcome"] == "problem"
    assert results["scratch-raises"]["outcome"] == "crashed"
    assert "ZeroDivisionError" in results["scratch-raises"]["reasons"][0]
    assert results["acme_checks.exits"]["outcome"] == "crashed"
    assert "nothing_of_this_name" in results["acme_checks.fails"]["reasons"][0]
    assert "taken by gpudoctor_checks.host.shm_too_small" in results["acme_checks.taken"]["reasons"][0]
    assert "Traceback" not in done.stderr
    text = gpudoctor(site, "check", "--from", str(machine)).stdout
    assert "acme_checks.exits (crashed" in text


def test_a_package_that_cannot_be_imported_is_a_result(site: Path, machine: Path) -> None:
    install(site, "acme_checks", {"__init__.py": "raise RuntimeError('license expired')"})
    done = gpudoctor(site, "check", "--from", str(machine), "--json")
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert "license expired" in results["acme_checks"]["reasons"][0]
    assert results["shm-too-small"]["outcome"] == "ok"


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_that_arrives_while_a_plugin_loads_ends_the_command(
    site: Path, machine: Path, name: str, status: int
) -> None:
    text = f"import os, signal\nos.kill(os.getpid(), signal.{name})\n"
    install(site, "acme_checks", {"__init__.py": "", "signalled.py": text})
    done = gpudoctor(site, "check", "--from", str(machine))
    assert (done.returncode, done.stdout) == (status, ""), "and is not taken for a broken plugin"
    assert done.stderr.count("\n") == 1
