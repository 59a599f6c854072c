"""Programs and the modules of their own folders, as one text."""

import ast
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from gpudoctor.lint import submission
from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.beside import typed, with_modules
from gpudoctor.lint.given import gathered
from gpudoctor.lint.linking import linked, placed
from gpudoctor.lint.model import MODULES_LINE, MODULES_START, LinkedProgram, Span
from gpudoctor.lint.places import Piece, Places, TextPlace
from gpudoctor.lint.python_code import read_code
from gpudoctor.lint.report import ImportPlace
from gpudoctor.lint.several import every_start, judged
from gpudoctor.render.lint import show_files
from gpudoctor.render.lint_forms import github_lines, sarif, short_lines

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
    assert found is not None and (found.text, found.own) == (program, own)
    (module,) = found.modules
    assert (module.file, module.text, module.written) == ("here/tools.py", SETUP, SETUP)
    assert program[module.through.start : module.through.end].startswith(("from tools", "import tools"))


@pytest.mark.parametrize(
    ("program", "tools"),
    [
        ("import torch\ntorch.ones(1)\n", SETUP),  # nothing of its own
        ("from tools import setup\nsetup()\n", "def setup(:\n"),
        ("from tools import setup\ndef chief(): pass\nsetup()\n", SETUP),  # two mean something else by chief
        ("import numpy as dist\nfrom tools import setup\nsetup()\n", SETUP),
        ("from toolbox import setup\nsetup()\n", SETUP),
        ("from tools import setup\r\rsetup()\r\n", SETUP),
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
    late, dist, kit = found.modules
    assert [each.file for each in found.modules] == ["here/kit/more.py", "here/kit/dist.py", "here/kit/__init__.py"]
    assert late.written == late.text == "def late():\n    pass\n"
    assert "    late     ()\nif 0                     :" in dist.written
    assert {each.through.line for each in (late, dist, kit)} == {1}
    assert found.own.split() == ["pass", "pass", "setup()", "late()"]


def test_a_folder_on_the_path_of_which_the_program_is_below() -> None:
    files = {"tools/data/util.py": "import os\ndef ready():\n    os.environ['RANK'] = '0'\n"}.get
    program = "import os\nos.environ['A'] = '1'\nfrom tools.data.util import ready\nready()\n"
    for path in ("tools/data/run.py", "/srv/tools/data/run.py"):
        found = linked(path, program, lambda name: files(name.removeprefix("/srv/")))
        assert found is not None and [module.file for module in found.modules] == [path.replace("run", "util")]


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
        ast.parse("\n".join([*(each.written for each in found.modules), found.own]))


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


ENGINE = HEAD + "def look():\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
USER = HEAD + "from kit.tools import setup\nfrom engine import look\nsetup()\n" + WRAPPED + "look()\n"


def test_what_is_wrong_in_a_module_is_told_at_its_place_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(tmp_path, monkeypatch, train=USER, kit__tools=SETUP, engine=ENGINE) == ["engine.py:5 T01"]
    told = judged(typed(["torchrun", "--standalone", "--nproc-per-node=2", "train.py"]), AskedFacts())
    (problem,) = told.report.problems
    assert problem.imported == ImportPlace(file="train.py", line=4)
    assert (problem.column, problem.end_column, problem.fix.corrected) == (9, 23, "")


def test_a_module_has_comments_that_ignore_rules_and_nothing_is_complained_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ENGINE.replace("        dist", "        # gpudoctor: ignore[T01] tried\n        dist")
    assert answer(tmp_path, monkeypatch, train=USER, kit__tools=SETUP, engine=silent) == []
    good = silent.replace("    if dist.get_rank() == 0:\n", "    if True:\n")
    assert answer(tmp_path, monkeypatch, train=USER, kit__tools=SETUP, engine=good) == []


@pytest.fixture
def two_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two programs, each with a script, that import a module with a fault."""
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit/tools.py").write_text(SETUP)
    (tmp_path / "engine.py").write_text(ENGINE)
    for name in ("train", "tune"):
        (tmp_path / f"{name}.py").write_text(USER)
        (tmp_path / f"{name}.sh").write_text(f"torchrun --standalone --nproc-per-node=2 {name}.py\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_module_of_two_programs_is_told_once(two_starts: Path) -> None:
    both = every_start(gathered(["."]), lambda start: judged(with_modules(start), AskedFacts()))
    assert [(each.file, each.line, each.code) for each in both.report.problems] == [("engine.py", 5, "T01")]
    assert [start.verdict for start in both.report.starts] == ["bad", "bad"]
    screen = Console(file=io.StringIO(), width=100)
    show_files(both, screen)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("error engine.py line 5: dist.barrier() stands below") == 2
    assert text.count("|         dist.barrier()") == 1
    assert "engine.py:5:9: error: dist.barrier() stands below" in next(short_lines(both.report))
    assert "file=engine.py,line=5,col=9" in next(github_lines(both.report))
    (result,) = json.loads(sarif(both.report))["runs"][0]["results"]
    (through,) = result["relatedLocations"]
    assert through["physicalLocation"]["artifactLocation"]["uri"] == "train.py"
    assert through["physicalLocation"]["region"] == {"startLine": 4}


def test_a_batch_script_is_submitted_by_what_its_program_imports(two_starts: Path) -> None:
    Path("job.sh").write_text(
        "#!/bin/bash\n#SBATCH --nodes=1 --gpus=2\ntorchrun --standalone --nproc-per-node=2 train.py\n"
    )
    told = submission.judge(submission.taken_apart(["job.sh"]), AskedFacts(), None).report
    assert ("engine.py", 5, "T01") in {(each.file, each.line, each.code) for each in told.problems}


def test_lines_are_those_of_the_job() -> None:
    (program,) = placed([link("from tools import net\nnet()\n", tools="\ndef net():\n    pass\n")])  # type: ignore[list-item]
    code = read_code(program.own, 40, 7, program.modules)
    assert code is not None
    lines = (6, 7, 8, 9, MODULES_LINE, MODULES_LINE + 3, MODULES_LINE + 4)
    assert [line for line in lines if code.holds(line)] == [7, 8, 9, MODULES_LINE, MODULES_LINE + 3]
    made, _, called = code.tree.body
    assert code.span(called) == Span(62, 67, 8)
    assert (code.line_of(called), code.line_of(made)) == ("8", str(MODULES_LINE + 1))
    assert code.span(made).start == MODULES_START + 1 and code.is_elsewhere(made) and not code.is_elsewhere(called)
    places = Places("x" * 62 + program.own, (Piece("train.py", 40, 70),), program.modules)
    assert places.told(f"as of line {MODULES_LINE + 1}") == "as of here/tools.py line 2"
    assert places.of(code.span(made)) == TextPlace("here/tools.py", 2, 1, 3, 9)
