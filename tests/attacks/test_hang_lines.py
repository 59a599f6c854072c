"""What `hang` offers to be pasted: nobody's argv but the reader's own, and no value is more than its word."""

import io
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import HangJob
from gpudoctor.hang.report import HangReport, JobReport
from gpudoctor.hang.starts import LONGEST_SHOWN
from gpudoctor.knowledge.places import Kind
from gpudoctor.read.job import own
from gpudoctor.read.system import System
from gpudoctor.render.hang import show_hang
from gpudoctor.render.prose import console
from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence, Unread
from tests.attacks.lines import is_ours
from tests.attacks.mutations import HOSTILE, Path as Place, mutated, texts
from tests.attacks.registry import attack, attacks
from tests.hang_jobs import place_at
from tests.test_hang_start import LIGHTNING, SPEAKS, Part, job, process
from tests.test_hang_training import FIRES

PRESET = "LOCAL_RANK is set by hand"
LIGHTNING_MAIN = process(50, ("python", "train.py"), environment={"LOCAL_RANK": "0"}, frames=LIGHTNING)
JOBS: dict[str, HangJob] = {
    PRESET: job(Part(host="a", ranks=((0, LIGHTNING_MAIN, place_at("rendezvous", "TCPStore", at=52)),))),
    **{name: each[0] for name, each in SPEAKS.items()},
    **{name: each[0] for name, each in FIRES.items()},
}
KINDS = get_args(Kind)
"""What the reader calls the places where ranks are: nobody else's words."""
SPREAD = 80
"""Of the texts of a job each weakness is tried in one of so many, and another one in the next."""
FORGED = ("rm", "-rf", "--no-preserve-root", "/srv/data", "torchrun", "train.py")


def lines_of(report: JobReport) -> list[str]:
    return [line for cause in report.causes for line in cause.fix.commands]


def concluded(job: HangJob) -> JobReport:
    missed: list[Unread] = []
    report = conclude_job(job, missed)
    assert not missed, "no rule crashes"
    return report


def shown(report: JobReport) -> str:
    page = io.StringIO()
    show_hang(HangReport(jobs=(report,)), console(file=page, width=120))
    return page.getvalue()


@cache
def places(name: str) -> tuple[dict[str, list[Place]], tuple[str, ...], tuple[str, ...]]:
    """Where each text of a job stands, the texts that its lines hold, and the others."""
    where = {text: at for text, at in texts(JOBS[name]).items() if text not in KINDS}
    lines = " ".join(lines_of(concluded(JOBS[name])))
    told = {text for text in where if 1 < len(text) < 300 and text in lines}
    return where, tuple(sorted(told)), tuple(sorted(set(where) - told))


@attacks(
    "text",
    "weakness",
    *(("hang: a text of the evidence in a line to paste", weakness, weakness) for weakness in HOSTILE),
)
def test_no_line_gains_anything_and_the_terminal_obeys_nothing(weakness: str) -> None:
    number, hostile, lines = list(HOSTILE).index(weakness), HOSTILE[weakness][:5000], 0
    for turn, name in enumerate(JOBS):
        where, told, others = places(name)
        for old in (*told[(number + turn) % 8 :: 8], *others[(number + turn) % SPREAD :: SPREAD]):
            report = concluded(mutated(JOBS[name], where, old, hostile))  # type: ignore[arg-type]
            for line in lines_of(report):
                lines += 1
                assert is_ours(line), (name, old, line)
            page = shown(report)
            assert all(letter.isprintable() or letter == "\n" for letter in page), (name, old)
    assert lines > 20


def of_others(job: HangJob, *, command: tuple[str, ...] = ()) -> HangJob:
    """The job as somebody else's, with a forged argv where one is given."""

    def forged(process: ProcessEvidence) -> ProcessEvidence:
        if not command:
            return process
        return structs.replace(process, process=structs.replace(process.process, command=command))

    def foreign(node: NodeEvidence) -> NodeEvidence:
        return structs.replace(node, own=(), processes=tuple(map(forged, node.processes)))

    return structs.replace(
        job,
        evidence=structs.replace(job.evidence, nodes=tuple(map(foreign, job.evidence.nodes))),
        nodes=tuple(map(foreign, job.nodes)),
        ranks=tuple(structs.replace(r, node=foreign(r.node), evidence=forged(r.evidence)) for r in job.ranks),
        launchers=tuple(structs.replace(r, node=foreign(r.node), evidence=forged(r.evidence)) for r in job.launchers),
    )


@attack("processes", way="hang: argv of another user's process", weakness="its command line becomes the fix")
def test_nobody_elses_command_line_is_offered() -> None:
    own_lines = [line for each in JOBS.values() for line in lines_of(concluded(each)) if "train.py" in line]
    assert len(own_lines) > 8
    for name, each in JOBS.items():
        assert not [line for line in lines_of(concluded(of_others(each))) if "train.py" in line], name


@attack("processes", way="hang: forged argv of another user's process", weakness="a program of the attacker's is run")
def test_forged_argv_is_evidence_only() -> None:
    for name, each in JOBS.items():
        report = concluded(of_others(each, command=FORGED))
        assert not [line for line in lines_of(report) if "preserve" in line], name
    report = concluded(of_others(JOBS[PRESET], command=FORGED))
    assert any("--no-preserve-root" in seen.text for cause in report.causes for seen in cause.evidence)
    assert [line for line in lines_of(report) if line.startswith("unset LOCAL_RANK")]


@attack("processes", way="hang: argv of the own process", weakness="a program that starts no training is offered")
def test_only_a_start_of_training_is_offered() -> None:
    (rank,) = JOBS[PRESET].ranks
    process = structs.replace(rank.evidence, process=structs.replace(rank.evidence.process, command=FORGED))
    report = concluded(structs.replace(JOBS[PRESET], ranks=(structs.replace(rank, evidence=process),)))
    assert not [line for line in lines_of(report) if "preserve" in line]
    assert [line for line in lines_of(concluded(JOBS[PRESET])) if line.startswith("env -u LOCAL_RANK python train.py")]


@attack("text", way="hang: argv of another user's process", weakness="it fills and steers the terminal")
def test_foreign_argv_is_cut_and_escaped() -> None:
    report = concluded(of_others(JOBS[PRESET], command=("python", "\x1b]0;x\x07\x1b[2J" + "y" * 10_000)))
    page = shown(report)
    assert "\\x1b" in page and "\x1b" not in page
    assert max(len(seen.text) for cause in report.causes for seen in cause.evidence) < LONGEST_SHOWN + 10


@attack("processes", way="hang: a listener that was handed to another process", weakness="a kill line for a service")
def test_no_line_kills_what_is_not_ones_own() -> None:
    name = "somebody else has the port"
    assert not [line for line in lines_of(concluded(JOBS[name])) if line.startswith("kill ")]
    assert [
        line for line in lines_of(concluded(JOBS["an old run has the port, the master has ended"])) if "kill 77" in line
    ]


# ---------------------------------------------------------------- whose a process is


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
@attack("processes", way="a live process of another uid", weakness="it is taken for the reader's own")
def test_a_process_of_another_user_is_not_ones_own() -> None:
    foreign = subprocess.Popen(["rm", "60"], executable="/bin/sleep", user=65534, group=65534, extra_groups=[])
    mine = subprocess.Popen(["torchrun", "60"], executable="/bin/sleep")
    try:
        assert own.own_pids((foreign.pid, mine.pid, 2**22 + 1)) == (mine.pid,)
    finally:
        for each in (foreign, mine):
            each.kill()
            each.wait()


def a_status(folder: Path, pid: int, uids: str) -> None:
    (folder / "proc" / str(pid)).mkdir(parents=True)
    (folder / "proc" / str(pid) / "status").write_text(f"Name:\tpython\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n")


@attacks(
    "processes",
    "uids",
    ("a program that borrows the reader's rights", "its real user's argv is offered", "1000\t{0}\t{0}\t{0}"),
    ("a program that has given its rights away", "its saved user's argv is offered", "{0}\t1000\t{0}\t{0}"),
    ("a program that keeps another's rights", "its saved user is not looked at", "{0}\t{0}\t1000\t{0}"),
)
def test_whose_a_process_is_all_three_users_say(uids: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 500)
    a_status(tmp_path, 7, uids.format(500))
    a_status(tmp_path, 8, "500\t500\t500\t500")
    assert own.own_pids((7, 8, 9), System(tmp_path)) == (8,)


@attacks(
    "surroundings",
    "value, effective, users",
    ("another user's number counts without sudo", "1234", 500, {500}),
    ("a text that is no number", "0 or 1", 0, {0}),
    ("a number of many digits", "9" * 5000, 0, {0}),
    way="SUDO_UID",
)
def test_sudo_is_believed_by_root_only(
    value: str, effective: int, users: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", value)
    monkeypatch.setattr(os, "geteuid", lambda: effective)
    monkeypatch.setattr(os, "getuid", lambda: effective)
    assert own.own_users() == users


def test_under_sudo_the_caller_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert own.own_users() == {0, 1234}
