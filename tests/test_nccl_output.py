"""The answer of `gpudoctor nccl-test`, shown and published: what it claims, and answers that others wrote."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from gpudoctor.envelope import UnreadableAnswer, decode, encode
from gpudoctor.nccl import compare_run, find_slow
from gpudoctor.nccl.bandwidth_test import backend_before
from gpudoctor.nccl.publish import to_csv
from gpudoctor.nccl.result import (
    Compared,
    Culprit,
    Grade,
    Isolation,
    IsolationRound,
    NodeRanks,
    RunResult,
    TestResult,
    Verdict,
)
from gpudoctor.nccl.run import RunInterrupted
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.wish import Wish, forwarded
from gpudoctor.render.nccl_test import bandwidth, closing_words, round_lines, show_result, show_run
from gpudoctor.render.plot import draw
from gpudoctor.render.terminal import BRIEF
from gpudoctor.testing.machines import but, h100_node
from tests.nccl_examples import gdr_off
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
        compared=(Compared({"NCCL_ALGO": STEERS}, {"all_reduce": 1.0}), Compared({}, {}, outcome=STEERS)),
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
    answer = json.loads(encode(TestResult(isolation=Isolation(rounds=()))))
    answer["isolation"]["rounds"] = [{"purpose": "pairs", "groups": [["a", "b"]], "bus_bandwidth": []}]
    with pytest.raises(UnreadableAnswer, match="1 groups with 0 bandwidths"):
        decode(json.dumps(answer).encode(), TestResult)


class _OneRun:
    """Stands in for `run_launches`: its first call measures, the second is interrupted."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, fleet: object, launches: list[object], **_: object) -> tuple[RunResult, ...]:
        self.calls += 1
        if self.calls > 1:
            raise RunInterrupted(())
        return tuple(RunResult(outcome="complete", nodes=("a", "b"), rows=(row("all_reduce", 5.0),)) for _ in launches)


def _prepared() -> Any:
    return SimpleNamespace(
        fleet=SimpleNamespace(name="abcd".__getitem__),
        nodes=(0, 1, 2, 3),
        backend="gloo",
        wish=SimpleNamespace(timeout=1.0, settings={}, maximum_bytes=None),
        preflight=SimpleNamespace(interpreters={}),
        by_name={},
        ranks_on=lambda node: 1,
        launch=lambda *_, **__: None,
    )


def test_an_interrupted_comparison_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_run, "run_launches", _OneRun())
    result = compare_run.compare(_prepared(), [{"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}], (), Show())
    assert (result.outcome, result.exit_status) == ("interrupted", 130)
    assert [setting.bus_bandwidth for setting in result.compared] == [{"all_reduce": 5.0}]
    assert "wins" not in result.comparison


def test_an_interrupted_search_keeps_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_slow, "run_launches", _OneRun())
    result = find_slow.find_slow(_prepared(), Show())
    assert (result.outcome, result.exit_status) == ("interrupted", 130)
    assert result.isolation is not None and [each.bus_bandwidth for each in result.isolation.rounds] == [(5.0, 5.0)]
    assert not result.isolation.culprits and "Interrupted" in result.isolation.summary


class _Pairs:
    """Stands in for `run_launches`: pairs of four nodes, all of d's slow, then the NICs, of which the second hangs on
    until Ctrl-C."""

    def __init__(self, backend: str, *, wrong: int = 0) -> None:
        self.backend, self.wrong, self.nics = backend, wrong, 0
        self.launches: list[Any] = []

    def __call__(self, fleet: object, launches: list[Any], **_: object) -> tuple[RunResult, ...]:
        self.launches += launches
        if "GLOO_SOCKET_IFNAME" in launches[0].settings:
            self.nics += 1
            if self.nics > 1:
                raise RunInterrupted(())
        return tuple(self._run(launch.group) for launch in launches)

    def _run(self, group: tuple[int, ...]) -> RunResult:
        # Memory is short on c: it gets as far as 64 MiB, where everybody is slower.
        sizes = (64 * 2**20,) if 2 in group or self.backend == "gloo" else (64 * 2**20, 2**30)
        rate = 0.1 if 3 in group else 20.0
        rows = tuple(row("all_reduce", rate * (1 if size == sizes[0] else 3), size, wrong=self.wrong) for size in sizes)
        return RunResult(outcome="complete", nodes=tuple("abcd"[node] for node in group), rows=rows)


def _searching(monkeypatch: pytest.MonkeyPatch, stand_in: _Pairs, nics: int = 0) -> TestResult:
    prepared = _prepared()
    prepared.backend = stand_in.backend
    prepared.preflight.snapshots = dict.fromkeys(range(4))
    prepared.launch = lambda group, *_, **said: SimpleNamespace(group=group, **said)
    monkeypatch.setattr(find_slow, "run_launches", stand_in)
    monkeypatch.setattr(
        find_slow,
        "nic_settings",
        lambda *_: {f"eth{number}": {"GLOO_SOCKET_IFNAME": f"eth{number}"} for number in range(nics)},
    )
    return find_slow.find_slow(prepared, Show())


def test_an_interrupt_among_the_nics_keeps_the_culprits(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _searching(monkeypatch, _Pairs("gloo"), nics=2)
    assert result.outcome == "interrupted" and result.isolation is not None
    assert [(each.kind, each.nodes) for each in result.isolation.culprits] == [("node", ("d",))]
    assert result.isolation.exclude == ("d",)
    assert result.isolation.rounds[-1].purpose == "eth0 of d"
    assert "Interrupted before all NICs" in result.isolation.summary


def test_groups_are_compared_at_a_size_that_all_have_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _searching(monkeypatch, _Pairs("nccl"))
    assert result.isolation is not None
    assert {culprit.nodes for culprit in result.isolation.culprits} == {("d",)}
    assert {value for each in result.isolation.rounds for value in each.bus_bandwidth} == {20.0, 0.1}


def test_a_search_checks_the_data_over_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = _Pairs("nccl", wrong=7)
    result = _searching(monkeypatch, stand_in)
    assert {launch.check for launch in stand_in.launches} == {None}  # as the user's --check says
    assert "collective-data-wrong" in {finding.id for finding in result.findings}
    over_gloo = _Pairs("gloo")
    result = _searching(monkeypatch, over_gloo)
    assert {(launch.check, launch.repeats) for launch in over_gloo.launches} == {(False, 3)}
    assert not result.findings and result.isolation is not None
    assert "below 40%" in result.isolation.summary


def test_every_table_names_the_backend() -> None:
    rows = RunResult(outcome="complete", nodes=("a", "b"), rows=(row("all_reduce", 5.0), row("all_gather", 4.0)))
    pairs = IsolationRound(purpose="pairs", groups=(("a", "b"), ("c", "d")), bus_bandwidth=(1.5, None))
    for result in (
        TestResult(backend="gloo", run=rows),
        TestResult(
            backend="gloo",
            compared=(Compared({"A": "1"}, {"all_reduce": 5.0}), Compared({"A": "2"}, {}, "died")),
        ),
        TestResult(backend="gloo", isolation=Isolation(rounds=(pairs,))),
    ):
        lines = list(csv.DictReader(io.StringIO(to_csv(result))))
        assert [line["backend"] for line in lines] == ["gloo", "gloo"]


def test_the_csv_of_a_search_has_its_rounds() -> None:
    pairs = IsolationRound(purpose="pairs", groups=(("a", "b"), ("c", "d")), bus_bandwidth=(1.5, None))
    text = to_csv(TestResult(backend="nccl", isolation=Isolation(rounds=(pairs,))))
    assert text.splitlines()[1:] == ["nccl,1 pairs,a b,1.5", "nccl,1 pairs,c d,"]


def a_grade(verdict: Verdict) -> Grade:
    return Grade(collective="all_reduce", verdict=verdict, link="NVLink", measured=1.0)


def test_a_test_that_does_not_start_says_gloo_where_it_would_be() -> None:
    for outcome in ("preflight failed", "too few nodes"):
        closing = closing_words(TestResult(outcome=outcome, backend="gloo", nodes=("a", "b")))
        assert "(gloo over CPU, not NCCL)" in closing
        assert "gloo" not in closing_words(TestResult(outcome=outcome, nodes=("a", "b")))
    alone = closing_words(TestResult(outcome="too few nodes", nodes=("a",)))
    assert "1 node wanted, and it cannot be used" in alone


def test_the_backend_of_a_test_that_does_not_start() -> None:
    with_gpus, without = h100_node(), but(h100_node(), "accelerators.pci", ())
    wish = Wish()
    assert backend_before(wish, ()) == ""
    assert backend_before(wish, (without, without)) == "gloo"
    assert backend_before(wish, (with_gpus, without)) == ""
    assert backend_before(msgspec.structs.replace(wish, backend="gloo"), (with_gpus,)) == "gloo"


def test_what_torchrun_sets_is_not_the_users() -> None:
    own = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "NCCL_ALGO": "Ring", "PATH": "/bin"}
    assert set(forwarded(own)) == {"NCCL_ALGO", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}
    started = own | {"TORCHELASTIC_RUN_ID": "none"}
    assert forwarded(started) == {"NCCL_ALGO": "Ring"}
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in forwarded(started | {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"})


def test_what_a_comparison_finds_says_under_which_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = RunResult(outcome="died", nodes=("a", "b"), ends=(NodeRanks(node="a", how="lost", error="connection lost"),))
    monkeypatch.setattr(compare_run, "run_launches", lambda *_, **__: (dead,))
    result = compare_run.compare(_prepared(), [{"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}], (), Show())
    summaries = [finding.problem.summary for finding in result.findings]
    assert len(summaries) > 1
    assert all(text.startswith(("With NCCL_ALGO=Ring: ", "With NCCL_ALGO=Tree: ")) for text in summaries), summaries
    assert len(summaries) == len(set(summaries))


@pytest.mark.thorough
def test_the_title_of_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib.axes import Axes

    titles: list[str] = []
    monkeypatch.setattr(Axes, "set_title", lambda self, text: titles.append(text))
    draw(TestResult(nodes=("a",), world_size=2, backend="gloo"), str(tmp_path / "one.svg"))
    draw(TestResult(nodes=("a", "b"), backend=""), str(tmp_path / "none.svg"))
    assert titles == ["1 node, world size 2, gloo over CPU, not NCCL", "2 nodes"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (TestResult(), "Done: "),
        (TestResult(grades=(a_grade("healthy"), a_grade("healthy"))), "Healthy: "),
        (TestResult(grades=(a_grade("healthy"), a_grade("not graded"))), "Done: "),
        (TestResult(grades=(a_grade("misconfigured"), a_grade("broken"))), "Broken: "),
        (
            TestResult(isolation=Isolation(rounds=(), culprits=(Culprit(kind="node", nodes=("n07",)),))),
            "Slow or broken: n07; ",
        ),
    ],
)
def test_the_last_line_begins_with_the_verdict(result: TestResult, words: str) -> None:
    assert closing_words(result).startswith(f"{words}0 nodes")


def test_the_last_line_claims_only_what_is_known() -> None:
    ends = (NodeRanks(node="n01", how="stopped"), NodeRanks(node="n02", how="lost"))
    died = RunResult(outcome="died", nodes=("n01", "n02"), ends=ends)
    assert "what is left on n02 is unknown" in closing_words(TestResult(outcome="died", run=died))
    here = msgspec.structs.replace(died, ends=ends[:1])
    assert "no process is left" in closing_words(TestResult(outcome="died", run=here))
    stopped = RunResult(outcome="interrupted", nodes=("n01",))
    assert "nothing was measured" in closing_words(TestResult(outcome="interrupted", run=stopped))
    stopped = msgspec.structs.replace(stopped, rows=(row("all_reduce", 1.0),))
    assert "is above" in closing_words(TestResult(outcome="interrupted", run=stopped))
    assert "world size" not in closing_words(TestResult(compared=(Compared({}, {}, "died"),)))


@pytest.mark.parametrize("text", ["{}", '{"schema": 1, "host": {}, "nvidia": {}}'])
def test_a_file_of_another_kind_is_no_finished_test(text: str) -> None:
    answer = json.loads(text) | {"schema": json.loads(encode(TestResult()))["schema"]}
    with pytest.raises(UnreadableAnswer, match="not an answer of gpudoctor nccl-test"):
        decode(json.dumps(answer).encode(), TestResult)


def test_brief_is_a_line_a_finding_with_what_to_do_and_the_count_last() -> None:
    page = io.StringIO()
    show_result(gdr_off(), Console(file=page, width=120), BRIEF)
    lines = page.getvalue().rstrip().splitlines()
    assert lines[-1].endswith(": 1 warning") and "[gpu-direct-rdma-off] the host as root: sudo modprobe" in lines[-3]
    assert not any(line.startswith("  Seen:") for line in lines)


def test_groups_of_a_round_that_are_alike_share_a_line() -> None:
    names = tuple((f"n{number:02}",) for number in range(64))
    done = IsolationRound(purpose="each node by itself", groups=names, bus_bandwidth=(*[364.0] * 62, 120.0, None))
    assert round_lines(done) == [
        "# each node by itself",
        "  62 of 64: 364 GB/s",
        "  n62: 120 GB/s",
        "  n63: no result: it hung or died",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.00"), (0.0042, "0.0042"), (480.123, "480.12"), (14877.37, "14877"), (512868.68, "512869")],
)
def test_a_bandwidth_leaves_a_blank_before_it(value: float, shown: str) -> None:
    """One rank alone has any number: an H200 gave 512,868.68 GB/s, which ran into the time before it."""
    assert bandwidth(value) == shown
    assert len(shown) < 8
