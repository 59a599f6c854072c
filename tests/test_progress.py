"""What `check` shows before it has its answer: what is known so far, on a terminal only, and gone afterwards."""

import io
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudoctor.active import ChildReply, gather, start
from gpudoctor.check import Fix, Problem
from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import find_checks
from gpudoctor.read.machine import so_far
from gpudoctor.read.system import System
from gpudoctor.render.progress import Progress
from gpudoctor.snapshot import Snapshot, missing
from tests.machines.hand_built import MACHINES

CHECKS = find_checks()[0]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "COLUMNS": "40", "LINES": "6"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def problem(number: int) -> Problem:
    summary = f"GPU {number} has 5 uncorrectable memory errors, and is to be replaced"
    return Problem(severity="error", summary=summary, meaning="m", evidence=(missing("s", "r"),), fix=Fix("f"))


def test_what_is_found_is_shown_at_once_a_line_each_and_erased_at_the_end() -> None:
    screen = Terminal()
    with Progress(screen, at_most=10) as progress:
        progress.waiting(["torch"])
        assert screen.getvalue() == ""  # nothing found, and not a second has passed
        progress.found([problem(3)])
        progress.waiting(["torch", "local"])
        progress.found([problem(number) for number in range(5)])
        shown = screen.getvalue()
    assert "GPU 3 has 5" in shown and "0 of at most 10 s, waiting for import" in shown
    assert "and 2 more" in shown  # of 6 lines
    assert "\x1b[1A" in screen.getvalue()[len(shown) :] and screen.getvalue().endswith("\x1b[2K")


def test_without_a_terminal_or_where_it_cannot_move_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, screen = io.StringIO(), Terminal()
    with Progress(pipe) as progress:
        progress.found([problem(3)])
        progress.waiting(["torch"])
    monkeypatch.setenv("TERM", "dumb")
    with Progress(screen) as progress:
        progress.found([problem(3)])
        progress.waiting(["torch"])
    assert pipe.getvalue() == screen.getvalue() == ""


def test_what_children_have_said_is_seen_while_another_is_still_asked(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    code = f"import os\nos.write(1, b'begun\\n')\nwhile not os.path.exists({str(go_on)!r}): pass\nprint('ended')"
    seen: list[ChildReply] = []

    def look(replies: Mapping[str, ChildReply]) -> None:
        seen.append(replies["one"])
        if replies["one"].output:
            go_on.touch()

    replies = gather([start("one", [sys.executable, "-c", code], timeout=20)], so_far=look)
    assert seen[-1].output == b"begun\n" and seen[-1].is_pending and seen[-1].missing_kind == "not-asked"
    assert replies["one"].output == b"begun\nended\n" and not replies["one"].is_pending


def test_of_what_is_still_asked_nothing_is_found() -> None:
    nothing = {name: ChildReply(name, b"", "", None, False, False, 0.1, 7, True) for name in ("local", "nvidia")}
    assert diagnose(so_far(nothing, System(environment={})), CHECKS).problems == []


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_found_before_torch_has_answered_stands_in_the_report_too(name: str) -> None:
    machine = MACHINES[name]()
    known = Snapshot(
        gpudoctor=machine.gpudoctor, environment=machine.environment, nvidia=machine.nvidia,
        accelerators=machine.accelerators, host=machine.host, network=machine.network,
    )  # fmt: skip
    early = {result.check for result, each in diagnose(known, CHECKS).problems if each.severity != "info"}
    assert early <= {result.check for result, _ in diagnose(machine, CHECKS).problems}
