"""The console that every report is shown on."""

import io

import pytest

from gpudoctor.render.prose import console, show, show_command


@pytest.mark.parametrize("columns", ["0", "1", "x", ""])
def test_whatever_width_is_told_everything_is_shown(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    file = io.StringIO()
    screen = console(file=file)
    show("error GPU 3 is lost", screen)
    show_command("nvidia-smi -r -i 3", screen)
    assert file.getvalue().split() == ["error", "GPU", "3", "is", "lost", "nvidia-smi", "-r", "-i", "3"]
