"""Nodes that lie about themselves: what the head makes of their snapshots, and reports that somebody else wrote."""

import io
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor import report as reports
from gpudoctor.envelope import UnreadableAnswer, decode, encode
from gpudoctor.fleet.compare import differences
from gpudoctor.fleet.survey import Survey
from gpudoctor.launch.decide import CannotPlan
from gpudoctor.launch.plan import CannotEmit
from gpudoctor.launch.words import Unquotable
from gpudoctor.launch.write import emission
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.preflight_nodes import Nodes
from gpudoctor.render.fleet import show_survey
from gpudoctor.render.prose import console
from gpudoctor.render.terminal import plain
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json, to_json
from gpudoctor.testing.machines import but
from gpudoctor.testing.networks import changed_interface
from tests import test_launch_plan
from tests.attacks.lines import is_ours
from tests.attacks.mutations import HOSTILE, mutated, texts
from tests.attacks.registry import attack, attacks
from tests.attacks.test_answers import leaves, put
from tests.attacks.test_languages import BREAKS_OUT, CANARY
from tests.machines.reports import judged, machines
from tests.test_launch_words import FAKES
from tests.test_preflight import cluster, judged as preflight, settings, torch

LIES: dict[str, Callable[[Snapshot], Snapshot]] = {
    "its gpudoctor": lambda machine: but(machine, "gpudoctor", "0.0.9"),
    "its torch": torch(version="2.4.1"),
    "its settings": settings(NCCL_ALGO="Ring", NCCL_IB_TIMEOUT="22"),
    "its MTU": lambda machine: changed_interface(machine, "eth0", mtu=9000),
}


def lines_of(found: list[Finding]) -> list[str]:
    return [line for each in found for line in each.problem.fix.commands]


def of_file(machine: Snapshot) -> Snapshot | None:
    """As the head gets it; None where it does not take it."""
    try:
        return from_json(to_json(machine))
    except (UnreadableSnapshot, UnicodeEncodeError):
        return None


def hostile(machine: Snapshot, said: str) -> Iterator[tuple[str, Snapshot | None]]:
    """The machine with each text that `said` holds made hostile, in each way; None where the head does not take it."""
    where = texts(machine)
    for old in sorted(text for text in where if 1 < len(text) < 300 and text in said):
        for weakness, new in HOSTILE.items():
            yield f"{weakness} for {old}", of_file(mutated(machine, where, old, new[:2000]))


@attacks(
    "channels",
    "lie",
    *((f"nccl-test: what a node says of {lie}", "a line for its neighbours gains a command", lie) for lie in LIES),
)
def test_no_line_of_the_preflight_gains_anything(lie: str) -> None:
    nodes = cluster(n02=LIES[lie])
    machine, before = nodes.snapshots["n02"], preflight(nodes, python="python3")
    said = " ".join([*lines_of(before), *(each.problem.summary for each in before)])
    tried = list(hostile(machine, said))
    for what, changed in tried:
        for line in lines_of(preflight(among(changed), python="python3")) if changed is not None else ():
            assert is_ours(line), (what, line)
    assert len(tried) > 10 and before


def among(liar: Snapshot) -> Nodes:
    return cluster(n02=lambda _: liar)


@attack("channels", way="check --hosts: what a node says of itself", weakness="a line of the comparison is made up")
def test_what_differs_is_one_line_each() -> None:
    every = cluster().snapshots
    compared = " ".join(each.words for each in differences({**every, "n02": machines()["network-a100-hdr"]}))
    tried = 0
    for what, changed in hostile(every["n02"], compared):
        if changed is not None:
            tried += 1
            found = Survey(
                nodes=tuple(every), examined=tuple(every), differences=differences({**every, "n02": changed})
            )
            page = io.StringIO()
            show_survey(found, console(file=page, width=400))
            assert all(letter.isprintable() or letter == "\n" for letter in page.getvalue()), what
            assert "\nrm" not in page.getvalue(), what
    assert tried > 20


@attack("channels", way="launch --hosts: what a node says of itself", weakness="the start runs what it says")
def test_no_start_runs_what_a_node_says(tmp_path: Path) -> None:
    machine = but(test_launch_plan.node(), "environment", {"NCCL_SOCKET_IFNAME": "eth0"})
    where, started = texts(machine), set()
    for old in sorted(where)[::3]:
        changed = of_file(mutated(machine, where, old, BREAKS_OUT)) if 1 < len(old) < 300 else None
        if changed is None:
            continue
        try:
            started |= {block.text for block in emission(test_launch_plan.planned(machine=changed)).blocks}
        except (CannotPlan, CannotEmit, Unquotable) as error:
            assert str(error).isprintable()
    assert len(started) > 1
    text = "\n".join(f"(\n{each}\n)" for each in sorted(started))
    subprocess.run(
        ["bash"], input=f"{FAKES}\n{text}", text=True, cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert not (tmp_path / CANARY).exists()


# ---------------------------------------------------------------- reports


@attack("files", way="a report of check --json: its texts", weakness="the terminal obeys it, or a line is made up")
def test_a_report_shows_as_text() -> None:
    content = msgspec.json.decode(encode(judged(machines()["broken-8xh100"])))
    shown = 0
    for weakness, text in HOSTILE.items():
        for place in leaves(content["results"]):
            if place[-1] not in ("outcome", "severity", "kind", "check", "where"):
                put(content["results"], place, text[:500])
        try:
            report = decode(msgspec.json.encode(content), reports.Report)
        except (UnicodeEncodeError, UnreadableAnswer):
            continue
        shown += 1
        page = plain(report, Snapshot())
        assert all(letter.isprintable() or letter == "\n" for letter in page), weakness
        assert not any(line.startswith("rm -rf") for line in page.splitlines()), weakness
    assert shown > len(HOSTILE) // 2


@attack(
    "files",
    way="a report of check --json: its form, an outcome",
    weakness="words that nobody knows are taken",
)
@pytest.mark.parametrize("change", [{"schema": "1; x"}, {"results": [{"outcome": "ok"}]}, {"sight": {"seen": "all"}}])
def test_a_report_of_another_form_is_refused(change: dict[str, Any]) -> None:
    content = msgspec.json.decode(encode(judged(machines()["broken-8xh100"])))
    with pytest.raises(UnreadableAnswer):
        decode(msgspec.json.encode({**content, **change}), reports.Report)


@attack("files", way="a report of check --json: its verdict", weakness="it says healthy of errors")
def test_the_verdict_is_not_believed() -> None:
    content = msgspec.json.decode(encode(judged(machines()["broken-8xh100"])))
    for verdict, count in (("healthy", 0), ("ready", 0), ("fine\x1b[2J", -1)):
        forged = {**content, "verdict": verdict, "counts": dict.fromkeys(content["counts"], count), "exit_status": 0}
        report = decode(msgspec.json.encode(forged), reports.Report)
        assert (report.verdict, report.exit_status) == ("not ready", 1)
