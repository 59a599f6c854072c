"""What a cell of train-test came to, in words: rank, parameter and step, what it means, what to write."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.check import Fix, Problem
from gpudoctor.envelope import UnreadableAnswer, decode, encode
from gpudoctor.fleet.messages import RankState, TrainCell
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Fault, Trained
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.snapshot import read
from gpudoctor.train.judge import KINDS, ended, judge
from gpudoctor.train.report import Cell, TrainReport
from gpudoctor.train.run import cell_of

ROOT = Path(__file__).parent.parent


def faulty(kind: str, *, way: str = "ddp", precision: str = "bf16", **fields: object) -> Cell:
    told: dict[str, object] = {"seen": "relative difference 0.31", **fields}
    fault = Fault(kind=kind, **told)  # type: ignore[arg-type]
    trained = Trained(way=way, precision=precision, outcome="failed", fault=fault, ranks=2, devices=("cpu", "cpu"))
    return judge(trained, backend="gloo")


SUMMARIES = [
    (
        faulty("gradient", rank=1, parameter="blocks.1.weight", step=3, wanted="equal on all ranks"),
        "ddp bf16: rank 1's gradient of blocks.1.weight differs at step 3: relative difference 0.31; "
        "wanted: equal on all ranks",
    ),
    (
        faulty("initial weights", rank=2, parameter="embed.weight"),
        "ddp bf16: rank 2 starts with another embed.weight: relative difference 0.31",
    ),
    (
        faulty("parameter", rank=0, parameter="head.bias", step=19),
        "ddp bf16: rank 0's head.bias differs after step 19: relative difference 0.31",
    ),
    (
        faulty("sampler overlap", rank=1, seen="8 of 16 samples"),
        "ddp bf16: rank 1 trains on samples that another rank has too: 8 of 16 samples",
    ),
    (
        faulty("sampler loss", seen="24 of 100 samples"),
        "ddp bf16: no rank trains on some of the samples: 24 of 100 samples",
    ),
    (
        faulty("sampler epoch", seen="epochs 0 and 1"),
        "ddp bf16: the sampler hands out the same order in every epoch: epochs 0 and 1",
    ),
    (
        faulty("loss", step=4, seen="2.77 and 1.38"),
        "ddp bf16: the loss differs from that of one process on the same samples at step 4: 2.77 and 1.38",
    ),
    (
        faulty("device", rank=1, parameter="blocks.0.weight", seen="meta", wanted="cpu"),
        "ddp bf16: rank 1 does not have all of the model on its own device (blocks.0.weight): meta; wanted: cpu",
    ),
    (
        faulty("overflow not skipped", rank=0, step=2, seen="the parameters changed"),
        "ddp bf16: an overflow in the gradients was not skipped on rank 0 at step 2: the parameters changed",
    ),
    (
        faulty("loss scale", rank=1, step=0, seen="factor 2"),
        "ddp bf16: the loss scale is not what it must be on rank 1 at step 0: factor 2",
    ),
    (
        faulty("not finite", rank=1, parameter="norm.weight", step=5, seen="nan"),
        "ddp bf16: norm.weight or its gradient is not finite on rank 1 at step 5: nan",
    ),
    (
        faulty("precision", rank=1, seen="blocks.0 computed in float32", wanted="bfloat16"),
        "ddp bf16: rank 1 does not compute in the precision that was asked for: blocks.0 computed in float32; "
        "wanted: bfloat16",
    ),
    (
        faulty("gradient", parameter="embed.bias", step=0),
        "ddp bf16: the gradient of embed.bias differs at step 0: relative difference 0.31",
    ),
]


@pytest.mark.parametrize(("cell", "summary"), SUMMARIES, ids=[summary[10:40] for _, summary in SUMMARIES])
def test_a_fault_is_named_with_rank_parameter_and_step(cell: Cell, summary: str) -> None:
    assert cell.outcome == "failed" and cell.finding is not None
    assert cell.finding.problem.summary == summary
    assert cell.finding.problem.severity == "error"
    assert cell.finding.problem.evidence


def test_every_kind_of_fault_of_the_contract_has_words() -> None:
    told = Path(str(ROOT / "gpudoctor" / "nccl" / "rank_messages.py")).read_text(encoding="utf-8")
    documented = re.search(r'kind: str\n    """(.*?)"""', told, re.DOTALL)
    assert documented is not None
    assert set(re.findall(r'"([a-z ]+)"', documented[1])) <= set(KINDS)
    assert {summary.split(":")[0] for _, summary in SUMMARIES} == {"ddp bf16"}
    assert len({cell.finding.id for cell, _ in SUMMARIES if cell.finding}) == len(KINDS)


def test_every_id_is_documented() -> None:
    page = (ROOT / "docs" / "train-test.md").read_text(encoding="utf-8")
    missing = [kind.id for kind in KINDS.values() if f"`{kind.id}`" not in page]
    assert not missing and "`train-failed`" in page and "`train-fault`" in page


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("way", ["ddp", "lightning", "accelerate", "split"])
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_every_fault_says_what_it_means_and_what_to_write(kind: str, way: str, backend: str) -> None:
    fault = Fault(kind=kind, rank=1, parameter="embed.weight", step=3)
    trained = Trained(way=way, precision="fp32", outcome="failed", fault=fault, devices=("cuda:0", "cuda:1"))
    finding = judge(trained, backend=backend).finding
    assert finding is not None and finding.ranks == (1,)
    problem = finding.problem
    assert problem.summary.startswith(f"{way} fp32: ") and not problem.summary.endswith(".")
    assert "{" not in problem.summary
    assert problem.meaning.endswith(".") and problem.fix.text.endswith(".")
    assert problem.fix.commands
    words = f"{problem.meaning} {problem.fix.text}".lower()
    assert not re.search(r"\b(simply|just|please|ensure)\b|!", words)
    if backend == "gloo":
        assert "NCCL_P2P_DISABLE" not in str(problem.fix.commands)


def test_each_framework_gets_its_own_lines() -> None:
    def lines(way: str) -> str:
        finding = faulty("sampler overlap", way=way, rank=1).finding
        assert finding is not None
        return "\n".join(finding.problem.fix.commands)

    assert "DistributedSampler(dataset" in lines("ddp")
    assert "use_distributed_sampler=True" in lines("lightning") == lines("lightning_spawn")
    assert "accelerator.prepare" in lines("accelerate")


def test_ranks_that_differ_over_nccl_are_told_to_try_another_path() -> None:
    fault = Fault(kind="gradient", rank=1, parameter="embed.weight", step=3)
    cell = judge(Trained(way="fsdp", precision="bf16", outcome="failed", fault=fault), backend="nccl")
    assert cell.finding is not None
    commands = cell.finding.problem.fix.commands
    assert "NCCL_P2P_DISABLE=1 gpudoctor train-test --strategy fsdp --precision bf16" in commands
    assert "gpudoctor nccl-test --collective all" in commands


def test_an_exception_is_quoted_by_its_first_line() -> None:
    trained = Trained(
        way="split", precision="fp32", outcome="failed", reason="RuntimeError: no kernel image\nTraceback ..."
    )
    cell = judge(trained, backend="nccl")
    assert cell.finding is not None and cell.finding.id == "train-failed"
    assert cell.finding.problem.summary == "split fp32 failed: RuntimeError: no kernel image"


@pytest.mark.parametrize("outcome", ["passed", "not applicable"])
def test_what_is_no_failure_has_no_finding(outcome: str) -> None:
    trained = Trained(way="dp", precision="fp32", outcome=outcome, reason="why")  # type: ignore[arg-type]
    cell = judge(trained, backend="gloo")
    assert (cell.outcome, cell.finding, cell.reason) == (outcome, None, "why")


words = st.text(max_size=400)


@given(kind=words | st.sampled_from(list(KINDS)), rank=st.none() | st.integers(), parameter=words, seen=words)
def test_whatever_ranks_say_is_one_line(kind: str, rank: "int | None", parameter: str, seen: str) -> None:
    cell = faulty(kind, rank=rank, parameter=parameter, seen=seen, step=rank)
    assert cell.finding is not None
    assert len(cell.finding.problem.summary.splitlines()) == 1 and len(cell.finding.problem.summary) < 320
    assert decode(encode(TrainReport(cells=(cell,))), TrainReport).cells[0].way == "ddp"


# ---------------------------------------------------------------- a launch that ended in a cell

CELLS = (TrainCell("ddp"), TrainCell("ddp", "bf16"), TrainCell("no_sync"))


def run_with(*phases: str) -> RunResult:
    ranks = tuple(
        RankState(rank=rank, local_rank=rank, pid=10 + rank, phase=phase) for rank, phase in enumerate(phases)
    )
    return RunResult(outcome="stalled", nodes=("n01",), ends=(NodeRanks(node="n01", how="stopped", ranks=ranks),))


@pytest.mark.parametrize(
    ("phases", "left", "guilty"),
    [
        (("ddp fp32 step 3: backward", "ddp fp32 step 3: backward"), CELLS, CELLS[0]),
        (("ddp bf16 step 0: forward", "ddp fp32 step 19: verify"), CELLS[1:], CELLS[1]),
        (("import torch", "ddp fp32 start"), CELLS, CELLS[0]),
        (("import torch", "rendezvous"), CELLS, None),
        (("", ""), CELLS, None),
        (("leaving", "leaving"), (), None),
        (("ddp of a stranger", "no_sync"), CELLS, None),
    ],
)
def test_the_cell_that_a_launch_ended_in(
    phases: tuple[str, ...], left: tuple[TrainCell, ...], guilty: "TrainCell | None"
) -> None:
    assert cell_of(run_with(*phases), left) == guilty


def a_finding(id: str, summary: str) -> Finding:
    problem = Problem(
        severity="error", summary=summary, meaning="m.", fix=Fix("f."), evidence=(read("source", "value"),)
    )
    return Finding(id=id, problem=problem)


def test_a_cell_that_hung_carries_what_was_found_and_its_own_name() -> None:
    cell = Cell(way="ddp", precision="fp32", outcome="hung")
    named = ended(cell, [a_finding("stopped-rank", 'rank 1 was stopped in "ddp fp32 step 3: backward"')])
    assert named.finding is not None
    assert named.finding.problem.summary == 'rank 1 was stopped in "ddp fp32 step 3: backward"'
    other = ended(cell, [a_finding("node-lost", "n02 was lost while the test ran: connection lost")])
    assert other.finding is not None
    assert other.finding.problem.summary == "ddp fp32: n02 was lost while the test ran: connection lost"
    assert ended(cell, []) == cell


def test_without_a_cause_the_way_is_to_be_run_alone() -> None:
    cell = ended(Cell(way="fsdp", precision="bf16", outcome="hung"), [a_finding("test-stalled", "no rank got on")])
    assert cell.finding is not None
    assert cell.finding.problem.fix.commands[0] == "gpudoctor train-test --strategy fsdp --precision bf16"


# ---------------------------------------------------------------- the answer


@pytest.mark.parametrize(
    ("outcomes", "outcome", "status"),
    [
        (("passed", "not applicable"), "complete", 0),
        (("not applicable",), "complete", 3),
        (("passed", "failed"), "complete", 1),
        (("hung",), "complete", 1),
        (("not reached",), "complete", 1),
        (("passed", "not reached"), "interrupted", 130),
        ((), "preflight failed", 1),
        ((), "too few nodes", 1),
    ],
)
def test_exit_status(outcomes: tuple[str, ...], outcome: str, status: int) -> None:
    cells = tuple(Cell(way="ddp", precision="fp32", outcome=each) for each in outcomes)  # type: ignore[arg-type]
    report = TrainReport(cells=cells, outcome=outcome)  # type: ignore[arg-type]
    assert report.exit_status == status
    assert f'"exit_status": {status}'.encode() in encode(report)


@given(st.binary(max_size=200))
def test_any_file_is_an_answer_or_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        decode(raw, TrainReport)


def test_an_answer_of_another_schema_is_refused() -> None:
    with pytest.raises(UnreadableAnswer, match="schema 7"):
        decode(b'{"schema": 7, "cells": []}', TrainReport)
    with pytest.raises(UnreadableAnswer, match="cells"):
        decode(b'{"schema": 1}', TrainReport)
