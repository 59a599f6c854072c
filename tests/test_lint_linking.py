"""Programs and the modules of their own folders, as one text."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.beside import typed
from gpudoctor.lint.linking import linked
from gpudoctor.lint.model import LinkedProgram, Span
from gpudoctor.lint.python_code import read_code
from gpudoctor.lint.several import judged

HEAD = "import torch\nimport torch.distributed as dist\n"
SETUP = (
    "import os\n" + HEAD + "def chief():\n    return dist.get_rank() == 0\n"
    "def setup():\n    dist.init_process_group('nccl')\n    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
)


def link(program: str, **modules: str) -> LinkedProgram | None:
    files = {f"here/{name}.py": text for name, text in modules.items()}
    return linked("here/train.py", program, files.get)


@pytest.mark.parametrize(
    ("program", "own"),
    [
        ("from tools import setup\nsetup()\n", "pass                   \nsetup()\n"),
        ("from tools import setup as go\ngo()\n", "go = setup                   \ngo()\n"),
        ("from tools import *\nsetup()\n", "pass               \nsetup()\n"),
        ("from tools import (\n    setup,\n)\nsetup()\n", "pass               \n          \n \nsetup()\n"),
        ("import tools\ntools.setup()\n", "pass        \nsetup      ()\n"),
        ("import tools as t\nx = t.chief(1)\n", "pass             \nx = chief  (1)\n"),
    ],
)
def test_the_program_keeps_its_length_and_lines(program: str, own: str) -> None:
    found = link(program, tools=SETUP)
    assert found == LinkedProgram(text=program, own=own, before=SETUP + "\n")


@pytest.mark.parametrize(
    ("program", "tools"),
    [
        ("import torch\ntorch.ones(1)\n", SETUP),  # nothing of its own
        ("from tools import setup\nsetup()\n", "def setup(:\n"),
        ("from tools import setup\ndef chief(): pass\nsetup()\n", SETUP),  # two mean something else by chief
        ("import numpy as dist\nfrom tools import setup\nsetup()\n", SETUP),
        ("from toolbox import setup\nsetup()\n", SETUP),
        ("from tools import setup\r\nsetup()\r\n", SETUP),
    ],
)
def test_what_is_not_certain_stays_apart(program: str, tools: str) -> None:
    assert link(program, tools=tools) is None


def test_a_module_that_is_handed_on_keeps_its_name() -> None:
    found = link("import tools\nrun(tools)\ntools.setup()\n", tools=SETUP)
    assert found is not None and found.own == found.text


def test_modules_of_modules_and_packages() -> None:
    found = link(
        "from kit import setup\nfrom kit.more import late\nsetup()\nlate()\n",
        **{
            "kit/__init__": "from .dist import setup\n",
            "kit/dist": "from . import more\ndef setup():\n    more.late()\nif __name__ == '__main__':\n    setup()\n",
            "kit/more": "def late():\n    pass\n",
        },
    )
    assert found is not None
    assert found.before.split("\n")[:2] == ["def late():", "    pass"]
    assert "    late     ()\nif 0                     :" in found.before
    assert found.own.split() == ["pass", "pass", "setup()", "late()"]


@given(
    st.lists(
        st.sampled_from(
            ["from tools import setup", "import tools", "import tools as é", "from tools import chief as c, setup as s",
             "é.setup()", "tools.setup(); x = tools.chief", "from tools import (chief,\n  setup)", "c(); s()",
             "def f():\n    from tools import setup\n    tools.chief()", "'é'; tools.setup", "x = 'tools.setup()'"]
        ),
        max_size=6,
    )
)  # fmt: skip
def test_places_stay(lines: list[str]) -> None:
    program = "\n".join(lines) + "\n"
    found = link(program, tools=SETUP)
    if found is not None:
        assert [len(line) for line in found.own.split("\n")] == [len(line) for line in program.split("\n")]
        ast.parse(found.before + found.own)


def answer(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> list[str]:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(folder)
    start = typed(["torchrun", "--standalone", "--nproc-per-node=2", "train.py"])
    told = judged(start, AskedFacts()).report.problems
    return [f"{each.file}:{each.line} {each.code}" for each in told if each.severity != "info"]


WRAPPED = "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())\n"


def test_what_a_helper_does_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = HEAD + "from kit.tools import chief, setup\nsetup()\n" + WRAPPED
    assert answer(tmp_path, monkeypatch, train=program, kit__tools=SETUP) == []
    late = program + "if chief():\n    dist.barrier()\n"
    assert answer(tmp_path, monkeypatch, train=late, kit__tools=SETUP) == ["train.py:7 T54"]
    none = SETUP.replace("    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n", "")
    assert answer(tmp_path, monkeypatch, train=program, kit__tools=none) == ["train.py:5 T23"]
    none = (SETUP + "def move(batch):\n    return batch.cuda()\n").replace(
        "    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n", ""
    )
    assert answer(tmp_path, monkeypatch, train=program, kit__tools=none) == ["train.py:5 T23"]


def test_nothing_is_told_of_a_place_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is no part of the start; it is judged where it is given."""
    engine = HEAD + "def look():\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    program = HEAD + "from kit.tools import setup\nfrom engine import look\nsetup()\n" + WRAPPED + "look()\n"
    assert answer(tmp_path, monkeypatch, train=program, kit__tools=SETUP, engine=engine) == []


def test_lines_are_those_of_the_job() -> None:
    code = read_code("net()\n", start=40, line=7, before="def net():\n    pass\n")
    assert code is not None and code.own_text == "net()\n"
    made, called = code.tree.body
    assert code.span(called) == Span(40, 45, 7)
    assert (code.line_of(called), code.line_of(made)) == ("7", "? of a file that is imported")
    assert code.span(made).start < 0
