"""Every line of the table in tests/tutorials is answered as the table wants it, by the real command."""

import io
import os
import shlex
import sys
from pathlib import Path

import pytest
import torch

from gpudoctor.cli import run
from gpudoctor.snapshot import to_json
from gpudoctor.testing import machines
from tests.tutorials import ROWS
from tests.tutorials.row import LINE, TITLES, Row

pytestmark = pytest.mark.usefixtures("forks")
OF_A_JOB = ("CUDA_", "MASTER_", "NCCL_", "SLURM_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "TORCH_", "OMP_")


def save(file: Path, tensors: tuple[str, ...]) -> None:
    """A checkpoint whose tensors have these names."""
    torch.save({name: torch.zeros(2, 3) for name in tensors}, file)


def lay_out(row: Row, folder: Path) -> list[str]:
    """The files of a row in `folder`; the words of its command."""
    for name, text in {**row.files, **({row.name: row.line} if row.name else {})}.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, tensors in row.saved.items():
        save(folder / name, tensors)
    if row.machine:
        (folder / "machine.json").write_bytes(to_json(getattr(machines, row.machine)()))
    first, *words = shlex.split(row.command)
    assert first == "gpudoctor"
    return [row.line if word == LINE else word for word in words]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_line_of_a_tutorial_is_answered(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = lay_out(row, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(OF_A_JOB):
            monkeypatch.delenv(name)
    for name, value in {"COLUMNS": "110", **row.environment}.items():
        monkeypatch.setenv(name, value)
    if "-" in words:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(row.line.encode())))
    status = run(words)
    captured = capsys.readouterr()
    said = " ".join((captured.out + captured.err).split())
    assert "Traceback" not in captured.err
    for text in row.told:
        assert " ".join(text.split()) in said, f"{text!r} is not told:\n{captured.out}{captured.err}"
    for text in row.untold:
        assert " ".join(text.split()) not in said, f"{text!r} is told:\n{captured.out}{captured.err}"
    assert status == row.status, f"exit status {status}:\n{captured.out}{captured.err}"


def test_the_table_is_whole() -> None:
    """Each of the tutorials has its lines; a row tells what the page needs."""
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.title for row in ROWS} == set(TITLES)
    for row in ROWS:
        assert row.today.endswith(".") and row.told, row.id
        assert row.name in row.command or not row.name, row.id
        assert row.name or "-" in row.command.split() or LINE in row.command.split() or row.saved, row.id
