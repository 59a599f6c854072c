"""One table of exit statuses for all commands (gpudoctor/cli/statuses.py): each command keeps to its row.

Every case was written down before its command was run.
"""

import errno
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from gpudoctor import cli
from gpudoctor.cli.commands import COMMANDS
from gpudoctor.cli.statuses import STATUSES, sentence, table
from gpudoctor.hang.report import HangReport, JobReport
from gpudoctor.launch.verified import Verified, exit_status as launch_status, lost_with_nodes, unverified
from gpudoctor.snapshot import to_json
from gpudoctor.testing.machines import h100_node
from tests.smi_logs import log

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
NOWHERE = "no-such-host-a.invalid"


class Case(NamedTuple):
    """A command line in which a word like `{empty}` is a file, and the status that its row promises."""

    words: str
    status: int
    says: str = ""


CASES = (
    # 0: nothing wrong, and what decides was seen
    Case("check --from {healthy}", 0),
    Case("devices --from {healthy}", 0),
    Case("topology --from {healthy}", 0),
    Case("env --from {healthy}", 0),
    Case("diff {healthy} {healthy}", 0, "No difference"),
    Case("diff {examples}/broken-8xh100.json {healthy}", 0, "not worse"),
    Case("explain {well}", 0),
    Case("lint {start}", 0),
    Case("checks gpu-lost", 0),
    Case("amp --from {examples}/amp-t4.json", 0),
    # 1: a fault
    Case("check --from {examples}/broken-8xh100.json", 1),
    Case("devices --from {examples}/broken-8xh100.json", 1, "out of range"),
    Case("devices --from {healthy} --cuda-visible-devices 0,0", 1),
    Case("explain {examples}/train-watchdog.log", 1),
    Case("diff {healthy} {examples}/broken-8xh100.json", 1, "B is worse"),
    Case("explain {failed}", 1),
    Case("lint {wrong-start}", 1),
    Case("nccl-test --from {examples}/nccl-test-slow-node.json", 1),
    Case("train-test --from {examples}/train-test-gradient.json", 1),
    Case("hang --from {examples}/hang-rank0-only.json", 1),
    Case("slow --from {examples}/slow-input.json", 1),
    Case("slow --from {examples}/slow-even.json", 0),
    Case("slow --from {examples}/slow-not-armed.json", 3),
    Case("explain {failed} {empty}", 1),
    Case("explain {failed} {absent}", 1),
    # 2: wrong usage, or a file of no known kind
    *(Case(f"{name} --nonsense", 125 if name == "run" else 2) for name in COMMANDS),
    *(Case(f"{name} --from {{absent}}", 2) for name in ("check", "devices", "topology", "env", "hang", "nccl-test")),
    *(Case(f"{name} --from {{prose}}", 2) for name in ("check", "devices", "hang", "amp", "nccl-test", "train-test")),
    *(Case(f"{name} --from {{broken-json}}", 2) for name in ("check", "hang", "nccl-test")),
    Case("explain {absent}", 2),
    Case("diff {healthy} {absent}", 2),
    Case("diff {prose} {healthy}", 2, "A "),
    Case("lint {absent}", 2),
    Case("checks no-such-check", 2),
    Case("check no-such-check --from {healthy}", 2),
    Case("capture -o {absent}/machine.json", 2),
    Case("launch --framework torchrun --nodes 0", 2),
    # 3: cannot tell
    *(Case(f"{name} --from {{empty}}", 3) for name in ("check", "devices", "topology", "env")),
    *(Case(f"{name} --from {{empty}}", 3, "empty") for name in ("hang", "amp", "nccl-test", "train-test")),
    *(Case(f"{name} --from {{cut-snapshot}}", 3, "cut") for name in ("check", "devices", "topology", "env")),
    Case("hang --from {cut-evidence}", 3, "cut"),
    Case("nccl-test --from {cut-answer}", 3, "cut"),
    Case("check --from {cut-log}", 3, "cut"),
    Case("check --from {rocm-smi}", 3, "rocm-smi"),
    Case("check --from {healthy} --baseline {healthy}", 0),
    Case("check --from {healthy} --baseline {examples}/no-such-file.json", 2, "--baseline"),
    Case("check --from {healthy} --baseline {cut-snapshot}", 3, "cut"),
    Case("diff {healthy} {empty}", 3, "nothing in common"),
    Case("diff {cut-snapshot} {healthy}", 3, "cut"),
    Case("diff {cut-log} {cut-log}", 3, "cut"),
    Case("check --baseline {empty}", 3, "empty"),
    Case("explain {empty}", 3, "empty"),
    Case("explain {well} {absent}", 3),
    Case("explain {well} {empty}", 0),
    Case("lint {empty}", 3, "empty"),
    Case("lint {prose}", 3, "Not understood"),
    Case("devices --from {no-gpu}", 3),
)


IN_PROCESSES = (
    Case("checkpoint {cut-zip}", 1, "cut off"),
    Case("checkpoint {cut-safetensors}", 1, "cut off"),
    Case("checkpoint {empty}", 1, "empty"),
    Case("checkpoint {zeros}", 1, "zeros"),
    Case("checkpoint {absent}", 2),
    Case("checkpoint {prose}", 2),
    Case("hang --pid 999999999", 2),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("statuses")
    evidence = (EXAMPLES / "hang-rank0-only.json").read_bytes()
    answer = (EXAMPLES / "nccl-test-slow-node.json").read_bytes()
    zip_file = (EXAMPLES / "ddp-epoch12.pt").read_bytes()
    header = json.dumps({"w": {"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]}}).encode()
    whole = to_json(h100_node())
    contents = {
        "empty": b"",
        "zeros": bytes(5000),
        "prose": b"The machine room is cold today, and nobody knows why.\n",
        "broken-json": b'{"a": 1, "b": }\n',
        "healthy": whole,
        "rocm-smi": b"========== ROCm System Management Interface ==========\nGPU  Temp\n0    43.0c\n",
        "no-gpu": b"No devices were found\n",
        "cut-snapshot": whole[: len(whole) // 2],
        "cut-evidence": evidence[: len(evidence) // 2],
        "cut-answer": answer[: len(answer) // 2],
        "cut-log": log().encode()[:3000],
        "cut-zip": zip_file[: len(zip_file) // 2],
        "cut-safetensors": len(header).to_bytes(8, "little") + header + bytes(100),
        "well": b"step 1 loss 3.1\nstep 2 loss 2.9\nstep 3 loss 2.7\nTraining finished\n",
        "failed": b"RuntimeError: CUDA error: an illegal memory access was encountered\n",
        "start": b"#!/bin/bash\ntorchrun --standalone --nproc-per-node=2 train.py\n",
        "wrong-start": b"#!/bin/bash\ntorchrun --nnodes=2 --nproc-per-node=8 train.py\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in (*contents, "absent")} | {"examples": str(EXAMPLES)}


def ended(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = cli.run(words.split())
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_a_command_keeps_to_its_row(
    case: Case, files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    words = re.sub(r"\{([\w-]+)\}", lambda found: files[found[1]], case.words)
    status, said = ended(words, capsys)
    assert status == case.status, said[:600]
    assert case.says in said
    if status == 0:
        assert "Cannot tell" not in said and "Not ready" not in said


@pytest.mark.thorough
def test_commands_that_start_processes_keep_to_their_rows(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for case in IN_PROCESSES:
        status, said = ended(re.sub(r"\{([\w-]+)\}", lambda found: files[found[1]], case.words), capsys)
        assert status == case.status and case.says in said, (case, status, said[:600])


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh")
@pytest.mark.parametrize(
    "words",
    [
        "check --hosts {host}",
        "hang --hosts {host}",
        "capture --job 1 --hosts {host}",
        "nccl-test --hosts {host}",
        "launch --check --hosts {host},no-such-host-b.invalid",
        "launch --check --hosts {host},no-such-host-b.invalid --gpus-per-node 8",
    ],
)
def test_a_named_host_that_cannot_be_reached_is_1(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = ended(words.format(host=NOWHERE), capsys)
    assert status == 1, said[:600]
    assert re.search("unresolvable|does not resolve", said)
    assert not re.search(r"Ready|nothing wrong|17 claims", said)


def test_a_launch_that_was_not_looked_at_is_not_verified() -> None:
    def claim(check: str, outcome: str, *nodes: str) -> Verified:
        return msgspec.convert({"check": check, "claim": check, "outcome": outcome, "nodes": nodes}, Verified)

    true, open_one = claim("script", "true", "a", "b"), claim("GPUs visible", "unknown", "b")
    lost = claim("nodes reached", "false", "b")
    assert launch_status((true,)) == 0
    assert launch_status((true, open_one)) == 3
    assert launch_status((true, open_one, lost)) == 1
    assert [each.claim for each in unverified((true, open_one))] == ["GPUs visible"]
    assert not unverified((true, open_one, lost))
    assert "1 more claim" in lost_with_nodes((true, open_one, lost))
    assert lost_with_nodes((true, open_one)) == ""


def test_of_several_jobs_and_nodes_the_fault_wins() -> None:
    running = JobReport(id="a", user="u", state="running", world_size=2)
    unknown = replace(running, undecided="nothing was to be seen")
    assert HangReport(hosts=("a",), jobs=(running,)).exit_status == 0
    assert HangReport(hosts=("a",), jobs=(running, unknown)).exit_status == 3
    assert HangReport(hosts=("a",), jobs=(running, unknown, replace(running, state="hung"))).exit_status == 1
    assert HangReport(hosts=("a", "b"), jobs=(running,), lost={"b": "unresolvable"}).exit_status == 1
    assert HangReport(hosts=("a",)).exit_status == 3
    assert HangReport(hosts=("a",), lost={"a": "no answer"}).exit_status == 3
    assert HangReport(hosts=("a",), ended=True).exit_status == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_shows_its_row(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = ended(f"{name} --help", capsys)
    assert status == 0
    assert sentence(name) in said
    assert f"`{name}`" in table()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_fits_a_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run([name, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [("-o", "/root/x.json"), ("--output=/root/x.json",)])
def test_a_named_file_that_may_not_be_looked_at_is_wrong_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/root/x.json")

    monkeypatch.setattr("gpudoctor.cli.files.check_writable", refused)
    assert cli.run(["capture", "--no-torch", *words]) == 2
    assert capsys.readouterr().err == "gpudoctor: /root/x.json: Permission denied\n"


def test_the_table_names_every_command_and_no_other() -> None:
    assert set(STATUSES) == set(COMMANDS)
