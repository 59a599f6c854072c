"""What the real command answers to a case, and what is wrong with it."""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from gpudoctor.cli import run
from tests.corpus.tutorials import STANDARD_INPUT, TutorialCase

OF_A_JOB = re.compile(r"CUDA_|MASTER_|NCCL_|SLURM_|RANK|LOCAL_RANK|WORLD_SIZE|NODE_RANK|TORCH_|OMP_")


class TutorialAnswer(NamedTuple):
    case: TutorialCase
    status: int
    said: str

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is wrong with it; empty where it is as labelled."""
        words = " ".join(self.said.split())
        faults = [f"exit status {self.status}"] if self.status not in self.case.statuses else []
        faults += [f"not told: {each}" for each in self.case.told if not re.search(each, words)]
        return (*faults, *(f"told: {each}" for each in self.case.untold if re.search(each, words)))

    @property
    def accuses(self) -> bool:
        """One of which nothing is to be told, and that is called bad."""
        return self.case.statuses == {0} and not self.case.told and self.status == 1


@contextlib.contextmanager
def _in_folder(case: TutorialCase) -> Iterator[None]:
    """Its files in a folder of their own, in which the command runs, without what this machine sets for jobs."""
    before = Path.cwd()
    quiet = {name: value for name, value in os.environ.items() if not OF_A_JOB.match(name)} | {"COLUMNS": "110"}
    with tempfile.TemporaryDirectory() as place, patch.dict(os.environ, quiet, clear=True):
        for name, text in case.files.items():
            if name != STANDARD_INPUT:
                (Path(place) / name).write_text(text, encoding="utf-8")
        os.chdir(place)
        try:
            yield
        finally:
            os.chdir(before)


def answer(case: TutorialCase) -> TutorialAnswer:
    first, *words = shlex.split(case.command)
    assert first == "gpudoctor"
    given = io.TextIOWrapper(io.BytesIO(case.files.get(STANDARD_INPUT, "").encode()))
    out, err = io.StringIO(), io.StringIO()
    with (
        _in_folder(case), patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        status = run(words)
    return TutorialAnswer(case, status, out.getvalue() + err.getvalue())
