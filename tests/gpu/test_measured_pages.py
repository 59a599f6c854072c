"""The pages of docs/measured/ hold what was measured, and nothing is written without being asked for. Needs no GPU."""

from datetime import date
from pathlib import Path

import msgspec
import pytest

from gpudoctor.amp.report import AmpReport
from gpudoctor.testing.machines import h100_node
from tests.amp_examples import t4
from tests.gpu.measured import FOLDER, file_for, page, record, where
from tests.gpu.test_amp_on_gpu import plain_rate

DAY = date(2026, 5, 1)


def test_a_page_has_date_gpu_driver_versions_and_every_speed() -> None:
    text = page(t4(), where(h100_node(), DAY), {"cuda:0": 2.4})
    for words in ("2026-05-01", "Tesla T4", "compute capability 7.5", "driver 580.95.05", "torch 2.13.0+cu130"):
        assert words in text
    assert "plain loop of torch, in the same run: 2.4 TFLOP/s" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {13}, "every row has all columns"
    assert len([line for line in table if "4096x4096x4096" in line]) == 2
    assert any(line.startswith("| fp8 | none | not applicable |") for line in table)


def test_what_was_not_measured_is_empty_and_not_zero() -> None:
    device = t4().devices[0]
    bare = msgspec.structs.replace(device, precisions=tuple(
        msgspec.structs.replace(each, speeds=(), compared=()) for each in device.precisions
    ))  # fmt: skip
    text = page(AmpReport(devices=(bare,)), where(h100_node(), DAY), {})
    assert "| fp16 | hardware | passed |  |  | | | | | | | |" in text
    assert "plain loop" not in text


def test_files_of_one_day_are_not_overwritten(tmp_path: Path) -> None:
    first = file_for(tmp_path, t4(), DAY)
    assert first.name == "amp-tesla-t4-2026-05-01.md"
    first.write_text("kept")
    assert file_for(tmp_path, t4(), DAY).name == "amp-tesla-t4-2026-05-01-2.md"


def test_nothing_is_written_without_being_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    assert record(t4(), h100_node(), {}, DAY) is None
    monkeypatch.setenv(FOLDER, str(tmp_path))
    file = record(t4(), h100_node(), {}, DAY)
    assert file is not None and file.read_text().startswith("# gpudoctor amp on Tesla T4\n")


def test_the_plain_loop_runs_where_torch_does() -> None:
    """The yardstick itself, on a CPU and small: it must give a rate, or the comparison on a GPU compares nothing."""
    assert plain_rate("cpu", 64, {}) > 0
