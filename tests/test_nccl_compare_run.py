"""--compare: what the runs under each setting say of the data."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpudoctor.nccl import compare_run
from gpudoctor.nccl.prepared import Prepared
from gpudoctor.nccl.result import RunResult, TestResult
from gpudoctor.nccl.show import Show
from gpudoctor.testing.machines import h100_node
from tests.nccl_runs import row, run_of

MACHINES = {"n01": h100_node()}
P2P, HOST_MEMORY = {"NCCL_P2P_DISABLE": "0"}, {"NCCL_P2P_DISABLE": "1"}


def test_a_fast_setting_with_wrong_data_does_not_win_and_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(fleet: object, launches: list[dict[str, str]], **more: object) -> tuple[RunResult, ...]:
        fast = launches[0] == P2P
        return (run_of(MACHINES, row("all_reduce", 400.0 if fast else 30.0, wrong=3 if fast else 0)),)

    monkeypatch.setattr(compare_run, "run_launches", run)
    prepared = SimpleNamespace(
        fleet=None,
        nodes=(0,),
        by_name=MACHINES,
        preflight=SimpleNamespace(interpreters={}),
        wish=SimpleNamespace(timeout=60.0),
        launch=lambda nodes, wanted, settings: settings,
    )
    show: Any = SimpleNamespace(step=lambda text: None, setting=lambda setting: None)
    found = compare_run.compare(cast(Prepared, prepared), (P2P, HOST_MEMORY), (), cast(Show, show))
    assert [setting.outcome for setting in found.compared] == ["wrong data", "complete"]
    assert "only NCCL_P2P_DISABLE=1 got through" in found.comparison and "wrong data" in found.comparison
    (finding,) = found.findings
    assert finding.id == "collective-data-wrong"
    assert finding.problem.summary.startswith("With NCCL_P2P_DISABLE=0: all_reduce")
    assert TestResult(findings=found.findings).exit_status == 1
