"""The console that every report is shown on."""

import io

import pytest
from rich.table import Table

from gpudoctor.render.prose import console, show, show_command, show_table


@pytest.mark.parametrize("columns", ["0", "1", "x", ""])
def test_whatever_width_is_told_everything_is_shown(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    file = io.StringIO()
    screen = console(file=file)
    show("error GPU 3 is lost", screen)
    show_command("nvidia-smi -r -i 3", screen)
    assert file.getvalue().split() == ["error", "GPU", "3", "is", "lost", "nvidia-smi", "-r", "-i", "3"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_table_is_cut_nowhere_but_in_the_column_that_gives_way(width: int) -> None:
    file = io.StringIO()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("CUDA", "UUID", "PCI"):
        table.add_column(title, no_wrap=True)
    table.add_column("Name", no_wrap=True, overflow="ellipsis")
    row = ("0", "MIG-11111111-2222-3333-4444-555555555555", "0000:1b:00.0", "NVIDIA A100-SXM4-80GB MIG 1g.10gb")
    table.add_row(*row)
    show_table(table, console(file=file, width=width), gives_way="Name")
    head, line = file.getvalue().splitlines()
    assert head.split() == ["CUDA", "UUID", "PCI", "Name"]
    assert line.split()[:3] == list(row[:3])
    assert ("\N{HORIZONTAL ELLIPSIS}" in line) == (width < 100)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_what_stands_in_backticks_is_copied_as_one_line(width: int) -> None:
    line = "`gpudoctor checkpoint model.pt --fix clean.pt`"
    screen = console(file=io.StringIO(), width=width)
    show(f"The file holds what a wrapper has put around the weights; {line} writes one without it.", screen)
    assert line in screen.file.getvalue()  # type: ignore[attr-defined]
