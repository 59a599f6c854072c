"""One JSON form for all commands: what each really prints follows its schema, and --from of it reads it again."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from gpudoctor import cli
from gpudoctor.check import Fix, Problem
from gpudoctor.cli.commands import COMMANDS
from gpudoctor.command import command
from gpudoctor.devices import DevicesAnswer, what_if
from gpudoctor.envelope import Answer, Envelope, UnreadableAnswer, decode, encode, schema, with_todays_ids
from gpudoctor.explain.report import Explanation
from gpudoctor.fleet.survey import NodesProblem, Survey, Unexamined
from gpudoctor.hang.report import HangReport
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.launch import write
from gpudoctor.launch.text import LaunchAnswer, text
from gpudoctor.launch.verified import Verified
from gpudoctor.library import diagnose
from gpudoctor.nccl.result import TestResult
from gpudoctor.report import Report
from gpudoctor.snapshot import read
from gpudoctor.testing.machines import but, h100_node
from gpudoctor.train.report import TrainReport
from tests.machines.network_machines import NETWORK_MACHINES
from tests.test_launch_plan import planned

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
BEFORE = Path(__file__).parent / "fixtures" / "answers_before"
"""What each command wrote with --json before there was one form."""
START = "torchrun --nnodes 2 --nproc-per-node 8 train.py\n"

REAL = {
    "check": "check --from {examples}/broken-8xh100.json --json",
    "devices": "devices --from {examples}/healthy-8xh100.json --cuda-visible-devices 2,x --json",
    "topology": "topology --from {examples}/network-dgx-h100.json --json",
    "env": "env --from {examples}/network-many-bridges.json --json",
    "explain": "explain {examples}/train-watchdog.log --json",
    "report": "report {examples}/run-out-of-memory --json",
    "hang": "hang --from {examples}/hang-rank0-only.json --json",
    "slow": "slow --from {examples}/slow-input.json --json",
    "lint": "lint - --json",
    "nccl-test": "nccl-test --from {examples}/nccl-test-slow-node.json --json",
    "train-test": "train-test --from {examples}/train-test-gradient.json --json",
    "amp": "amp --from {examples}/amp-t4.json --json",
    "checkpoint": "checkpoint {examples}/ddp-epoch12.pt --json",  # in a child
    "diff": "diff {examples}/healthy-8xh100.json {examples}/broken-8xh100.json --json",
    "checks": "checks gpu --json",
}
"""Command lines that need no machine; `launch` and `check --hosts` are below."""
SCHEMAS = {"check": "report", "report": "report-of-folder"}
WITHOUT_FROM = {
    "launch": "its answer is lines to paste, which whoever wrote a file would have chosen",
    "checks": "it tells of the installation, and there is nothing to read again",
    "about": "it explains an id, and has no --json",
    "sbatch": "it submits; its words are lint's",
    "run": "it runs a command; what it found is in the report's folder",
    "lsp": "it speaks with an editor, in that protocol's JSON",
    "capture": "what it writes is read by check, devices, env, topology and hang --from",
}
"""Commands whose --json no --from reads, and why."""


def answered(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    status = cli.run(words.format(examples=EXAMPLES).split())
    captured = capsys.readouterr()
    assert not captured.err, captured.err
    return status, json.loads(captured.out), captured.out


LINES: tuple[tuple[set[str], dict[str, Any]], ...] = (
    ({"text", "commands"}, {"commands": [], "where": "", "risk": ""}),
    ({"problem", "lost", "command"}, {"command": None, "suggested_value": None}),
    ({"text", "corrected"}, {"corrected": ""}),
    ({"model", "lines"}, {"lines": []}),
)
"""What a part of an answer has, and what of it is a line to paste."""


def bare(tree: Any) -> Any:
    """Without lines to paste: those of a file are its writer's."""
    if isinstance(tree, dict):
        gone = {key: value for has, without in LINES if has <= tree.keys() for key, value in without.items()}
        return {key: bare(value) for key, value in tree.items()} | gone
    return [bare(each) for each in tree] if isinstance(tree, list) else tree


def holds(found: Any, before: Any) -> bool:
    """Whether what was written before stands in what is found, which may have more."""
    if isinstance(before, dict):
        return before.keys() <= found.keys() and all(holds(found[key], value) for key, value in before.items())
    if isinstance(before, list):
        return len(found) == len(before) and all(map(holds, found, before))
    return bool(found == before)


def check_form(found: dict[str, Any], name: str, status: int) -> None:
    head = list(Envelope.__struct_fields__)
    assert list(found)[: len(head)] == head
    assert (found["schema"], found["exit_status"]) == (3, status)
    published = json.loads((ROOT / "docs" / "schemas" / f"{name}.json").read_text())
    jsonschema.validate(found, published)
    assert not found.keys() - published["properties"].keys(), "a key that its schema does not know"
    keys = {"id", "severity", "subject", "summary", "meaning", "fix", "evidence", "certainty", "class", "blame"}
    for finding in found["findings"]:
        assert keys | {"restart"} == finding.keys()
        assert finding["severity"] != "error" or status == 1
    assert found["findings"] or status != 1, "a fault that no finding tells of"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name == "checkpoint" else name for name in REAL]
)
def test_a_command_s_json_follows_its_schema_and_is_read_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(START.encode())))
    status, found, _ = answered(REAL[name], capsys)
    assert found["command"] == name
    check_form(found, SCHEMAS.get(name, name), status)
    if name in WITHOUT_FROM:
        return
    saved = tmp_path / "answer.json"
    saved.write_text(json.dumps(found))
    again, read_again, as_text = answered(f"{name} --from {saved} --json", capsys)
    assert (again, bare(read_again)) == (status, bare(found))
    saved.write_text(as_text)
    assert answered(f"{name} --from {saved} --json", capsys)[2] == as_text
    assert cli.run([name, "--from", str(saved)]) == status
    assert len(capsys.readouterr().out) > 40


def test_a_file_s_variables_are_those_that_load_and_write_nothing() -> None:
    advice = suggest(NETWORK_MACHINES["network-many-bridges"](), 2)
    wrong = [
        Suggestion(name, value, "r", "h", "v")
        for name, value in (("NCCL_NET_PLUGIN", "evil"), ("NCCL_IB_HCA", "$(reboot)"), ("LD_PRELOAD", "x.so"))
    ]
    read_again = decode(encode(replace(advice, suggestions=(*advice.suggestions, *wrong))), Advice)
    assert read_again.suggestions == advice.suggestions
    assert [each.what for each in read_again.unjudged] == ["NCCL_NET_PLUGIN", "NCCL_IB_HCA", "LD_PRELOAD"]


def test_every_command_is_tried_or_says_why_not() -> None:
    assert COMMANDS.keys() <= REAL.keys() | WITHOUT_FROM.keys()


PROBLEM = Problem(
    severity="error",
    summary="GPU 3 is lost",
    meaning="It hangs.",
    fix=Fix("Reset it.", (command("nvidia-smi -L"),)),
    evidence=(read("nvmlDeviceGetName GPU 3", "lost"),),
    gpus=(3,),
)


def test_several_nodes_and_a_launch_have_the_same_form() -> None:
    survey = Survey(
        nodes=("a", "b", "c"),
        examined=("a", "b"),
        unexamined=(Unexamined(id="node-unreachable", nodes=("c",), problem=PROBLEM),),
        problems=(NodesProblem(check="gpu-lost", nodes=("a", "b"), problem=PROBLEM),),
    )
    found = json.loads(encode(survey))
    check_form(found, "check-hosts", 1)
    assert [each["subject"] for each in found["findings"]] == ["node c", "nodes a, b, GPU 3"]
    assert found["machine"] == "a,b,c"
    assert bare(json.loads(encode(decode(encode(survey), Survey)))) == bare(found)
    plan = planned()
    emission = write.emission(plan)
    wrong = Verified(
        check="port free", claim="29500 is free", outcome="false", id="master-port-busy", seen="taken", nodes=("n01",)
    )
    unseen = Verified(check="clocks", claim="the clocks agree", outcome="unknown", seen="no answer")
    launch = LaunchAnswer(plan=plan, emission=emission, text=text(emission), verified=(wrong, unseen))
    found = json.loads(encode(launch))
    check_form(found, "launch", 1)
    assert [each["id"] for each in found["findings"]] == ["master-port-busy", "claim-not-verified"]
    assert (found["machine"], found["plan"]["world_size"]) == ("n[01-02]", 8)


def test_the_status_in_the_json_is_the_command_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warned = tmp_path / "warned.json"
    report = Report(diagnose(h100_node(), ["gpu"]).results)
    warned.write_bytes(encode(report))
    for words, status in (("", 0), (" --strict", report.status(strict=True))):
        assert answered(f"check --from {warned} --json{words}", capsys)[:2][1]["exit_status"] == status


@pytest.mark.parametrize("path", sorted(BEFORE.glob("*.json")), ids=lambda path: path.stem)
def test_what_the_version_before_wrote_is_read(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(path.read_text())
    _, found, _ = answered(f"{path.stem} --from {path} --json", capsys)
    assert found["command"] == path.stem and found["schema"] == 3
    own = {key: value for key, value in before.items() if key not in Envelope.__struct_fields__}
    if path.stem != "amp":  # judged anew of what was measured: its problems have ids now
        assert holds(bare(found), with_todays_ids(bare(own)))
    assert path.stem in ("topology", "amp") or found["findings"]


def test_the_findings_of_a_test_of_the_version_before_are_kept() -> None:
    raw = (BEFORE / "nccl-test.json").read_bytes()
    assert json.loads(raw)["findings"][0]["id"] == "gpu-direct-off", "a former id"
    assert decode(raw, TestResult).findings[0].id == "gpu-direct-rdma-off"
    raw = (BEFORE / "train-test.json").read_bytes()
    assert len(decode(raw, TrainReport).findings) == len(json.loads(raw)["findings"])


@pytest.mark.parametrize(
    ("form", "change", "says"),
    [
        (HangReport, {"command": "lint"}, "an answer of another command"),
        (HangReport, {"command": "hang\n$(rm x)"}, "an answer of another command"),
        (HangReport, {"schema": 4}, "hang schema 4; this gpudoctor reads up to schema 3"),
        (HangReport, {"jobs": 3}, "not an answer of gpudoctor hang --json"),
        (Explanation, {"command": None}, "not an answer of gpudoctor explain"),
    ],
)
def test_what_is_no_answer_is_refused(form: type[Answer], change: dict[str, Any], says: str) -> None:
    whole = json.loads(encode(HangReport() if form is HangReport else Explanation()))
    with pytest.raises(UnreadableAnswer, match=says.replace("(", r"\(")) as found:
        decode(json.dumps(whole | change).encode(), form)
    assert "\n" not in str(found.value)


def test_a_trouble_with_the_visible_devices_has_the_id_of_its_check() -> None:
    """`devices` and `check` of the same machine and value name the same ids."""
    for value in ("0,x", "9", "0,0", "", "-1", "1,GPU-", "0,1 ,2", "gpu-1"):
        machine = but(h100_node(), "environment", {"CUDA_VISIBLE_DEVICES": value})
        told = {each.id for each in what_if(machine, value, machine.cuda.visible).stated()}
        checked = {each.check for each in diagnose(machine, ["devices"]).results if each.problems}
        assert told - {"cuda-visible-devices-disagrees"} <= checked, value
        assert told, value


def test_the_schema_names_what_a_command_has_of_its_own() -> None:
    found = schema(DevicesAnswer)
    assert {"findings", "visible", "device_order"} <= found["properties"].keys()
    assert "findings" in found["required"] and found["title"] == "DevicesAnswer"
    assert "counts" in schema(Report)["properties"]
