"""--html: one page that loads nothing, shows whatever a machine says as text, and is read back by --from."""

import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from gpudoctor.check import Fix, Problem, command
from gpudoctor.cli.group import app
from gpudoctor.embedded import ANSWER, as_script, json_in
from gpudoctor.envelope import Answer, encode
from gpudoctor.errors import BadInput
from gpudoctor.fleet.compare import AlikeNodes
from gpudoctor.fleet.survey import NodesProblem, Survey, Unexamined
from gpudoctor.hang.conclude import conclude
from gpudoctor.redact import Pseudonyms
from gpudoctor.render.html.check import check_page
from gpudoctor.render.html.fleet import survey_page
from gpudoctor.render.html.hang import hang_page
from gpudoctor.render.html.nccl_test import nccl_test_page
from gpudoctor.render.html.train import train_page
from gpudoctor.snapshot import Snapshot, read, to_json
from gpudoctor.snapshot.evidence import Evidence, Frame, Process, to_json as job_to_json
from tests import nccl_examples, train_examples
from tests.bench.html import MOST_BYTES, MOST_SECONDS, pages, thousands_of_findings
from tests.hang_examples import EXAMPLES
from tests.machines.hand_built import broken_8xh100, healthy_8xh100, laptop, no_accelerator, nvml_hangs
from tests.machines.network_machines import dgx_h100, many_bridges
from tests.machines.reports import judged
from tests.pages import Page

PROBLEM = Problem(
    severity="error",
    summary="GPU 3 is lost",
    meaning="It hangs.",
    fix=Fix("Reset it.", (command("nvidia-smi -L"),)),
    evidence=(read("nvmlDeviceGetName GPU 3", "lost"),),
    gpus=(3,),
)
HOSTILE = "</script><!--<script>alert('pwned')</script>\"'><img src=x onerror=alert(1)>\u2028\u202e&lt;\x1b[31m"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def page_of(machine: Snapshot) -> bytes:
    report = judged(machine)
    return check_page(report, machine, status=report.exit_status)


@pytest.mark.parametrize(
    "machine", [broken_8xh100, healthy_8xh100, laptop, no_accelerator, nvml_hangs, dgx_h100, many_bridges]
)
def test_a_machine_s_page_is_whole(machine: Any) -> None:
    page = Page(page_of(machine()))
    assert not page.wrong
    assert page.elements.count("script") == 3
    assert "default-src 'none'" in page.policy


def test_the_page_says_what_the_terminal_says() -> None:
    machine = broken_8xh100()
    shown = Page(page_of(machine)).shown
    for result, problem in judged(machine).problems:
        assert result.check in shown
        assert problem.summary in shown
    worst = judged(machine).problems[0][1]
    assert worst.fix.commands
    assert all(line in shown for line in worst.fix.commands)


def test_ill_gpus_are_marked_in_the_table_and_in_the_picture() -> None:
    raw = page_of(broken_8xh100()).decode()
    assert '<tr class="error"><td class="whole">3</td>' in raw
    assert '<text x="7" y="15" class="on-error">✕ GPU3</text>' in raw
    assert "on-error" not in page_of(healthy_8xh100()).decode().partition("<body>")[2].replace("text.on-error", "")


def test_a_machine_s_page_is_read_back_with_its_lines(tmp_path: Path) -> None:
    """The page holds the capture: what is told of it is told again, by the checks that are here."""
    machine, page, again = tmp_path / "machine.json", tmp_path / "page.html", tmp_path / "again.html"
    machine.write_bytes(to_json(broken_8xh100()))
    first = run("check", "--from", machine, "--html", page, "--json")
    assert first.exit_code == 1
    for words in (("check", "--json"), ("topology",), ("env",)):
        of_file, of_page = (run(*words, "--from", path) for path in (machine, page))
        assert (of_page.exit_code, of_page.stdout) == (of_file.exit_code, of_file.stdout)
    run("check", "--from", page, "--html", again)
    assert again.read_bytes() == page.read_bytes()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_saved_answer_has_a_page_too(tmp_path: Path) -> None:
    answer, page = tmp_path / "answer.json", tmp_path / "page.html"
    answer.write_bytes(encode(judged(broken_8xh100())))
    assert run("check", "--from", answer, "--html", page).exit_code == 1
    found = Page(page.read_bytes())
    assert not found.wrong
    assert "button" not in found.elements, "lines of a file are whoever's wrote it"
    assert run("check", "--from", page).exit_code == 1


def test_a_hang_s_page_is_read_back(tmp_path: Path) -> None:
    evidence, page = tmp_path / "job.json", tmp_path / "page.html"
    evidence.write_bytes(job_to_json(EXAMPLES["hang-rank0-only"]()))
    assert run("hang", "--from", evidence, "--html", page).exit_code == 1
    found = Page(page.read_bytes())
    assert not found.wrong
    assert "suspect" in found.shown
    assert "Stack of rank 0" in found.shown
    again = run("hang", "--from", page)
    assert again.exit_code == 1
    assert "rank 0 waits in barrier" in again.stdout


@pytest.mark.parametrize(
    ("asked", "example", "shown"),
    [
        ("nccl-test", nccl_examples.gdr_off, "GPUDirect RDMA is off on n01 and n02"),
        ("nccl-test", nccl_examples.slow_node, "1 node of 8 is slow or broken: n07"),
        ("nccl-test", nccl_examples.compared, "NCCL_SOCKET_NTHREADS=4"),
        ("train-test", train_examples.one_gpu_differs, "rank 5's gradient of blocks.1.weight differs at step 3"),
        ("check", lambda: surveyed(("n1", "n2", "n3")), "all 2 nodes: GPU 3 is lost"),
    ],
)
def test_every_answer_s_page_is_whole_and_read_back(
    tmp_path: Path, asked: str, example: Callable[[], Answer], shown: str
) -> None:
    answer, page, again = tmp_path / "answer.json", tmp_path / "page.html", tmp_path / "again.html"
    answer.write_bytes(encode(example()))
    first = run(asked, "--from", answer, "--html", page)
    found = Page(page.read_bytes())
    assert not found.wrong
    assert shown in found.shown
    assert "Lines to paste are left out" in found.shown or "Findings" not in found.shown
    second = run(asked, "--from", page, "--html", again)
    assert (second.exit_code, second.stdout) == (first.exit_code, first.stdout)
    assert again.read_bytes() == page.read_bytes()


def test_a_node_that_is_worse_stands_higher_and_who_was_not_seen_is_no_healthy_one() -> None:
    raw = survey_page(surveyed(("n1", "n2", "n3", "n4", "n5")), status=1).decode()
    assert raw.index('<th scope="row">n5</th>') < raw.index('<th scope="row">n[1-2]</th>')
    assert "<title>n5: not examined</title>" in raw
    assert "<title>n3: could not look</title>" in raw
    assert "<title>n4: nothing found</title>" in raw


def surveyed(names: tuple[str, ...], text: str = "") -> Survey:
    lost = replace(PROBLEM, summary=f"{names[-1]}: the connection timed out {text}", gpus=())
    return Survey(
        nodes=names,
        examined=names[:-1],
        unexamined=(Unexamined(id="node-unreachable", nodes=names[-1:], problem=lost),),
        problems=(NodesProblem(check="gpu-lost", nodes=names[:2], problem=replace(PROBLEM, meaning=text)),),
        blind=(AlikeNodes(f"fabric-manager-down: permission denied {text}", names[2:3]),),
    )


def test_no_name_of_several_nodes_gets_out_of_its_place() -> None:
    held(survey_page(surveyed(("n1", HOSTILE, "n3", "n4"), HOSTILE), status=1), scripts=2)
    slow = nccl_examples.slow_node()
    assert slow.isolation is not None
    guilty = tuple(replace(each, nodes=(HOSTILE,), why=HOSTILE) for each in slow.isolation.culprits)
    rounds = tuple(
        replace(each, purpose=HOSTILE, groups=tuple((HOSTILE, *group[1:]) for group in each.groups))
        for each in slow.isolation.rounds
    )
    isolation = replace(slow.isolation, culprits=guilty, rounds=rounds, exclude=(HOSTILE,), summary=HOSTILE)
    raw = nccl_test_page(replace(slow, nodes=(HOSTILE,), isolation=isolation), status=1)
    held(raw, scripts=2)
    assert "<button" not in raw.decode(), "such a name is in no line to paste"
    trained = train_examples.one_gpu_differs()
    cells = tuple(replace(cell, way=HOSTILE, reason=HOSTILE) for cell in trained.cells)
    held(train_page(replace(trained, nodes=(HOSTILE,), device=HOSTILE, cells=cells)), scripts=2)


def test_no_name_of_a_machine_gets_out_of_its_place() -> None:
    machine = broken_8xh100()
    gpus = tuple(replace(gpu, name=read("NVML", HOSTILE)) for gpu in machine.nvidia.gpus.value)
    nics = tuple(replace(nic, name=HOSTILE) for nic in machine.network.rdma_devices.value)
    machine = replace(
        machine,
        nvidia=replace(machine.nvidia, gpus=read("NVML", gpus), driver_version=read("NVML", HOSTILE)),
        network=replace(machine.network, rdma_devices=read("/sys", nics)),
        host=replace(machine.host, hostname=read("uname", HOSTILE)),
    )
    report = judged(machine)
    problem = replace(report.problems[0][1], summary=HOSTILE, meaning=HOSTILE, evidence=(read(HOSTILE, HOSTILE),))
    first = replace(report.results[0], outcome="problem", problems=(problem,), reasons=(HOSTILE,))
    report = replace(report, machine=HOSTILE, results=(first, *report.results[1:]))
    held(check_page(report, machine, status=1), scripts=3)


def test_no_name_of_a_job_gets_out_of_its_place() -> None:
    evidence = EXAMPLES["hang-rank0-only"]()
    hostile = _with_frames(evidence)
    report = conclude(evidence)
    jobs = tuple(
        replace(
            job,
            id=HOSTILE,
            undecided=HOSTILE,
            ranks=tuple(replace(row, host=HOSTILE, state=HOSTILE) for row in job.ranks),
            causes=tuple(replace(cause, summary=HOSTILE, confirm=HOSTILE) for cause in job.causes),
        )
        for job in report.jobs
    )
    held(hang_page(replace(report, jobs=jobs, lost={HOSTILE: HOSTILE})), scripts=2)
    held(hang_page(conclude(hostile)), scripts=2)


def _with_frames(evidence: Evidence) -> Evidence:
    def hostile(each: Any) -> Any:
        samples = tuple(
            replace(sample, threads=tuple(replace(t, frames=(Frame(HOSTILE, HOSTILE, 1),)) for t in sample.threads))
            for sample in each.samples
        )
        return replace(each, samples=samples)

    nodes = tuple(replace(node, processes=tuple(map(hostile, node.processes))) for node in evidence.nodes)
    return replace(evidence, nodes=nodes)


def held(raw: bytes, *, scripts: int) -> None:
    page = Page(raw)
    assert not page.wrong
    assert page.elements.count("script") == scripts
    assert "alert('pwned')" in page.shown, "it is shown, as text"
    assert not {"\x1b", "\u202e", "\u2028"} & {*page.shown}


def test_what_a_page_shows_is_never_taken_for_its_data() -> None:
    """Text of a machine that spells the element is escaped; only the element itself is read."""
    machine = healthy_8xh100()
    fake = as_script(ANSWER, b'{"schema": 3, "command": "check"}')
    report = replace(judged(machine), machine=fake)
    assert json_in(check_page(report, machine, status=0)).startswith(b'{"schema":')
    assert json_in(b'{"a": "<!doctype html>"}') == b'{"a": "<!doctype html>"}'


@pytest.mark.parametrize("name", ["page.json", "none/page.html", "folder.html"])
def test_a_place_that_cannot_be_written_is_said_before(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.html").mkdir()
    done = run("check", "--from", "docs/examples/laptop.json", "--html", tmp_path / name)
    assert isinstance(done.exception, BadInput)
    assert "--html" in str(done.exception)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, page = tmp_path / "target", tmp_path / "page.html"
    target.write_text("mine")
    page.symlink_to(target)
    run("check", "--from", "docs/examples/laptop.json", "--html", page)
    assert target.read_text() == "mine"
    assert not page.is_symlink()


def test_names_are_hidden_in_page_and_data(tmp_path: Path) -> None:
    machine = broken_8xh100()
    source, page = tmp_path / "machine.json", tmp_path / "page.html"
    source.write_bytes(to_json(replace(machine, host=replace(machine.host, hostname=read("uname", "zeus-gpu-17")))))
    run("check", "--from", source, "--html", page, "--redact")
    raw = page.read_bytes()
    uuid = machine.nvidia.gpus.value[0].uuid.value
    assert b"zeus" not in raw
    assert uuid.encode() not in raw
    assert b"pseudonyms" in raw
    assert run("check", "--from", page).exit_code == 1
    job = tmp_path / "job.json"
    job.write_bytes(job_to_json(EXAMPLES["hang-rank0-only"]()))
    run("hang", "--from", job, "--html", page, "--redact")
    assert b"/home/mara" not in page.read_bytes()
    assert isinstance(run("check", "--redact").exception, BadInput), "there is no page to hide them in"


SECRET = ("zeus17", "zeus18", "ZEUS19", "corp.example", "/home/mara", "10.7.0.3", "marabou")


def test_names_of_several_nodes_are_hidden_alike(tmp_path: Path) -> None:
    """In what is shown and in the data; one name has one stand-in, also folded, in upper case, as a key."""
    names = SECRET[:3]
    told = "zeus[17-18] and ZEUS19.corp.example: /home/mara/train.py of marabou, reached by 10.7.0.3"
    seen = replace(surveyed(names, told), unexamined=())
    every = NodesProblem(check="gpu-lost", nodes=names, summaries=dict.fromkeys(names, told), problem=PROBLEM)
    seen = replace(seen, problems=(*seen.problems, every), lacking=(AlikeNodes(told, names),))
    hidden = Pseudonyms(seen, replace(broken_8xh100(), environment=read("environ", {"USER": "marabou"})),
                        replace(Process(pid=1, parent=0, started=0), user="marabou")).structure(seen)  # fmt: skip
    raw = survey_page(hidden, status=1, hidden=True)
    assert not [name for name in SECRET if name.casefold().encode() in raw.lower()]
    assert not Page(raw).wrong
    assert hidden.nodes == ("node-1", "node-2", "node-3")
    assert [*hidden.problems[-1].summaries] == [*hidden.nodes]
    assert "node-[1-2] and node-3" in hidden.lacking[0].value


def test_a_test_s_page_hides_its_nodes(tmp_path: Path) -> None:
    source, page = tmp_path / "answer.json", tmp_path / "page.html"
    source.write_bytes(encode(nccl_examples.slow_node()))
    assert b"n07" in source.read_bytes()
    run("nccl-test", "--from", source, "--html", page, "--redact")
    assert b"n07" not in page.read_bytes()
    assert b"pseudonyms" in page.read_bytes()
    assert run("nccl-test", "--from", page).exit_code == 1


def test_no_hang_is_read_from_a_machine_s_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(page_of(laptop()))
    assert isinstance(run("hang", "--from", page).exception, BadInput)


@pytest.mark.thorough
def test_a_thousand_ranks_fit_into_a_mail() -> None:
    for name, made in pages().items():
        began = time.process_time()
        raw = made()
        assert time.process_time() - began < MOST_SECONDS, name
        assert len(raw) < MOST_BYTES, name
        assert not Page(raw).wrong, name


def test_ten_thousand_findings_are_a_page_that_opens() -> None:
    """The worst of them whole, the others in a line or as a number; the data has all."""
    raw = survey_page(thousands_of_findings(), status=1)
    page = Page(raw)
    assert not page.wrong
    assert len(page.elements) < 20_000
    assert page.elements.count("article") == 100
    assert "8900 more, which the data inside has" in page.shown
    assert json_in(raw).count(b'"check-9999"') >= 1
    assert "9940 others" in page.shown, "a column for those that have none, so that no node looks well for it"


def test_of_many_nodes_the_matrix_shows_those_that_are_slow() -> None:
    raw = nccl_test_page(nccl_examples.slow_node(80), status=1).decode()
    assert "Pairs of nodes" in raw and "The 64 nodes of 80" in raw
    assert '<th scope="row">n07 ✕</th>' in raw


def test_a_name_without_an_end_is_cut_and_no_line_is_pasted_by_half() -> None:
    endless = "n" * 1_000_000
    fix = Fix("Do it.", (command("echo {}", endless), command("true")))
    problem = replace(PROBLEM, summary=endless, fix=fix)
    survey = replace(surveyed(("n1", "n2")), problems=(NodesProblem(check="gpu-lost", nodes=("n1",), problem=problem),))
    raw = survey_page(survey, status=1)
    shown = Page(raw).shown
    assert len(shown) < 200_000 and "990000 more characters" in shown
    assert "echo n" not in shown and raw.count(b"<button") == 3
