"""`gpudoctor env`: the real entry point."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import msgspec
import pytest

from gpudoctor.cli.options import of_machine
from gpudoctor.emit import EMITTERS
from gpudoctor.knowledge.suggest.advice import Advice
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.snapshot import Snapshot, read, to_json
from gpudoctor.testing.machines import but, h100_node
from tests.lab import machines
from tests.lab.nvidia import fake_nvidia
from tests.machines.network_machines import NETWORK_MACHINES

pytestmark = pytest.mark.usefixtures("forks")

COMMAND = [sys.executable, "-m", "gpudoctor", "env"]
BRIDGES = NETWORK_MACHINES["network-many-bridges"]()


def env(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
        env=None if environment is None else dict(environment),
    )


def saved(folder: Path, machine: Snapshot) -> str:
    file = folder / "machine.json"
    file.write_bytes(to_json(machine))
    return str(file)


@pytest.mark.parametrize("form", sorted(EMITTERS))
def test_standard_output_is_the_file_and_nothing_else(tmp_path: Path, form: str) -> None:
    done = env("--from", saved(tmp_path, BRIDGES), "--format", form)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == EMITTERS[form](of_machine(suggest(BRIDGES), BRIDGES))


def test_the_file_can_be_evaluated(tmp_path: Path) -> None:
    command = shlex.join([*COMMAND, "--from", saved(tmp_path, BRIDGES)])
    done = subprocess.run(
        ["sh", "-euc", f'eval "$({command})"; printf %s "$NCCL_SOCKET_IFNAME"'],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "=enp6s0", "")


def test_a_clean_machine_gets_an_empty_file_that_says_why(tmp_path: Path) -> None:
    done = env("--from", saved(tmp_path, h100_node()))
    lines = [line for line in done.stdout.splitlines() if line]
    assert all(line.startswith("# ") for line in lines)
    assert "Nothing to set: NCCL's own choices are right on this machine" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_json_is_described_by_its_schema(tmp_path: Path) -> None:
    found = json.loads(env("--from", saved(tmp_path, BRIDGES), "--format", "json", "--nodes", "4", "--debug").stdout)
    jsonschema.validate(found, msgspec.json.schema(Advice))
    assert found["nodes"] == 4
    assert {each["kind"] for each in found["suggestions"]} == {"needed", "debugging"}


def test_one_node_leaves_out_what_only_several_need(tmp_path: Path) -> None:
    assert "export" not in env("--from", saved(tmp_path, BRIDGES), "--nodes", "1").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nodes", "0"), "--nodes"),
        (("--nodes", "two"), "--nodes"),
        (("--format", "csh"), "--format"),
        (("--from", "/nowhere"), "/nowhere"),
        (("--from", "/nowhere", "--python", "/usr/bin/python3"), "--python"),
    ],
)
def test_wrong_usage_gets_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = env(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr


def test_a_value_that_a_format_cannot_hold_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = read("environment of gpudoctor", {"TMPDIR": "/tmp/$a"})
    file = saved(tmp_path, but(h100_node(), "environment", folder))
    done = env("--from", file, "--debug", "--format", "dotenv")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "use --format shell" in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fake driver is an ELF library")
def test_answers_for_this_machine() -> None:
    with fake_nvidia(machines.two_t4()) as environment:
        done = env("--no-torch", "--format", "json", "--timeout", "20", environment=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scope"]


def test_an_answer_for_this_machine_says_what_is_set_already() -> None:
    done = env("--no-torch", "--debug", "--nodes", "1", environment={**os.environ, "NCCL_DEBUG": "INFO"})
    assert "# NCCL_DEBUG=INFO is set already (environment)." in done.stdout
    assert "export NCCL_DEBUG=" not in done.stdout
