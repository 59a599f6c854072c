"""Checks that other distributions bring: found once installed, and harmless when broken."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpudoctor.plugins import GROUPS
from gpudoctor.snapshot import to_json
from gpudoctor.testing.machines import but, h100_node

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
        archive.writestr(f"{info}/entry_points.txt", "".join(f"[{group}]\n{name} = {name}\n" for group in GROUPS))
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
    file.write_bytes(to_json(but(h100_node(), "host.hostname", "node-without-scratch")))
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
    text = gpudoctor(site, "check", "-v", "--from", str(machine)).stdout
    assert "acme_checks.exits (crashed" in text


def test_a_package_that_cannot_be_imported_is_a_result(site: Path, machine: Path) -> None:
    install(site, "acme_checks", {"__init__.py": "raise RuntimeError('license expired')"})
    done = gpudoctor(site, "check", "--from", str(machine), "--json")
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert "license expired" in results["acme_checks"]["reasons"][0]
    assert results["shm-too-small"]["outcome"] == "ok"


SIGNALLED = "import os, signal\nos.kill(os.getpid(), signal.{})\n"
IN_A_C_FUNCTION = """
import os, signal
try:
    os.kill(os.getpid(), signal.{})
except BaseException as interrupt:  # as Python tells of one that arrives in the middle of list.append
    raise SystemError("a result with an exception set") from interrupt
"""


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("SIGINT", 130, SIGNALLED),
        ("SIGTERM", 143, SIGNALLED),
        ("SIGHUP", 129, SIGNALLED),
        ("SIGINT", 130, IN_A_C_FUNCTION),
    ],
)
def test_a_signal_that_arrives_while_a_plugin_loads_ends_the_command(
    site: Path, machine: Path, name: str, status: int, text: str
) -> None:
    text = text.format(name)
    install(site, "acme_checks", {"__init__.py": "", "signalled.py": text})
    done = gpudoctor(site, "check", "--from", str(machine))
    assert (done.returncode, done.stdout) == (status, ""), "and is not taken for a broken plugin"
    assert done.stderr.count("\n") == 1


CAUSE = """
from gpudoctor.cause import SEEN, Cause, Fix, Symptom

CAUSE = Cause(
    id="scratch-lost",
    title="/scratch is gone",
    stages=("training",),
    blame="node",
    hangs_by="elsewhere",
    while_running="always",
    meaning="Ranks that write there die.",
    fix=Fix("Mount it again."),
    variants={"server": "Mount it again from {host}."},
    confirm="ls /scratch",
    source="acme",
    symptoms=(
        Symptom(
            "scratch-gone", pattern="acme: scratch of (?P<host>[a-z]+) is gone", variant="server", confidence=SEEN,
            seen="/scratch is gone", source="acme", sample="acme: scratch of nas is gone", counter="scratch is there",
        ),
    ),
)
"""
RULE = '''
from gpudoctor.lint.model import Span
from gpudoctor.lint.rule import LintFinding, rule

@rule(
    "X01", "acme-partition", title="acme's partition is named", severity="error", source="acme",
    bad=("#SBATCH --partition=old\\nsrun x",), good=("srun x",),
)
def acme_partition(job):
    """acme's old partition is gone."""
    at = job.text.find("--partition=old")
    if at >= 0:
        yield LintFinding(
            span=Span(at, at + 15, 2), summary="acme has no partition old", happens="It waits.", fix="new"
        )
'''
LAUNCHER = """
from gpudoctor.launch.plan import Emission, PasteBlock
from gpudoctor.launcher.traits import Form, LauncherTraits

def write(plan):
    return Emission(blocks=(PasteBlock("on the head only", "acmerun " + " ".join(plan.program), 0),))

LAUNCHER = LauncherTraits(name="acme", forms=(Form(launcher="acmerun", programs=("acmerun",)),), write=write)
"""


def test_a_cause_a_rule_and_a_launcher_of_another_package_answer_in_the_commands(site: Path, machine: Path) -> None:
    modules = {
        "__init__.py": "",
        "scratch_missing.py": CHECK.format(id="scratch-missing"),
        "scratch_lost.py": CAUSE,
        "partition.py": RULE,
        "acme.py": LAUNCHER,
    }
    install(site, "acme_all", modules)
    (site / "log").write_text("[rank1]: acme: scratch of nas is gone\n")
    (site / "job.sh").write_text("#!/bin/bash\n#SBATCH --partition=old\nsrun torchrun --nproc-per-node 4 train.py\n")
    assert "scratch-missing" in gpudoctor(site, "check", "--from", str(machine)).stdout
    why = json.loads(gpudoctor(site, "explain", "--json", str(site / "log")).stdout)
    assert [(cause["cause"], cause["fix"]["text"]) for cause in why["causes"]] == [
        ("scratch-lost", "Mount it again from nas.")
    ]
    assert "acme has no partition old" in gpudoctor(site, "lint", str(site / "job.sh")).stdout
    launched = gpudoctor(site, "launch", "--framework", "acme", "--gpus-per-node", "2")
    assert "acmerun train.py" in launched.stdout, launched.stderr


def test_what_is_broken_in_another_package_is_said_and_costs_itself_only(site: Path) -> None:
    modules = {
        "__init__.py": "",
        "no_cause.py": "CAUSE = 3\nLAUNCHER = 4",
        "taken.py": CAUSE.replace("scratch-lost", "rank-died"),
        "misread.py": CAUSE.replace('pattern="acme', 'pattern="(acme'),
        "blind.py": CAUSE.replace('sample="acme', 'sample="emca'),
        "nowhere.py": CAUSE.replace('"training"', '"lunch"'),
    }
    install(site, "acme_all", modules)
    (site / "log").write_text("step 10 loss 2.31\nstep 20 loss 2.25\nTraining finished\n")
    done = gpudoctor(site, "explain", str(site / "log"))
    assert done.returncode == 0, done
    assert "plugin acme_all.no_cause: TypeError: its CAUSE is no Cause" in done.stderr
    assert "plugin acme_all.taken: cause id 'rank-died' is taken by gpudoctor" in done.stderr
    assert "plugin acme_all.misread: PatternError" in done.stderr or "plugin acme_all.misread: error" in done.stderr
    assert "plugin acme_all.blind: ValueError: its symptom scratch-gone does not find its own sample" in done.stderr
    assert "plugin acme_all.nowhere: cannot import it: ValueError: cause scratch-lost: stages are" in done.stderr
