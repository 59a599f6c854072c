"""The answer of `gpudoctor nccl-test`, shown and published: what it claims, and answers that others wrote."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from gpudoctor.nccl.publish import UnreadableResult, from_json, to_json
from gpudoctor.nccl.result import Culprit, Isolation, IsolationRound, RunResult, Setting, TestResult
from gpudoctor.render.nccl_test import show_result, show_run
from tests.nccl_runs import row

STEERS = "\x1b[2J"


def shown(result: TestResult) -> str:
    page = io.StringIO()
    screen = Console(file=page, width=100, highlight=False, emoji=False, markup=False)
    show_run(result, screen)
    show_result(result, screen)
    return page.getvalue()


def test_nothing_in_a_saved_answer_steers_the_terminal() -> None:
    measured = msgspec.structs.replace(row(STEERS, 1.0), dtype=STEERS)
    result = TestResult(
        nodes=(STEERS,),
        ranks_per_node=(1,),
        run=RunResult(outcome="complete", nodes=(STEERS,), rows=(measured,)),
        compared=(Setting({"NCCL_ALGO": STEERS}, {"all_reduce": 1.0}), Setting({}, {}, outcome=STEERS)),
        isolation=Isolation(
            rounds=(IsolationRound(purpose=STEERS, groups=((STEERS,),), bus_bandwidth=(1.0,)),),
            culprits=(Culprit(kind="nic", nodes=(STEERS,), nic=STEERS, why=STEERS),),
            exclude=(STEERS,),
            summary=STEERS,
        ),
    )
    text = shown(result)
    assert "\x1b" not in text
    assert "--exclude=\\x1b" in text


def test_a_saved_round_whose_groups_have_no_bandwidth_is_refused() -> None:
    answer = json.loads(to_json(TestResult(isolation=Isolation(rounds=()))))
    answer["isolation"]["rounds"] = [{"purpose": "pairs", "groups": [["a", "b"]], "bus_bandwidth": []}]
    with pytest.raises(UnreadableResult, match="1 groups with 0 bandwidths"):
        from_json(json.dumps(answer).encode())
