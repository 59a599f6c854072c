"""The documentation is what the program says: generated pages are current, examples run, everything is described."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import jsonschema
import msgspec
import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.check import Check
from gpudoctor.cli import run
from gpudoctor.cli.commands import COMMANDS, TROUBLES
from gpudoctor.devices import what_if
from gpudoctor.diagnose import ask, diagnose
from gpudoctor.envelope import encode
from gpudoctor.plugins import find_checks
from gpudoctor.snapshot import to_json
from gpudoctor.symptoms import TABLE
from gpudoctor.testing import cases, machines
from gpudoctor.testing.cases import Case, lacks
from gpudoctor.testing.machines import h100_node
from tests import sources
from tests.command_lines import calls, refused

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.thorough
@pytest.mark.skipif(sys.version_info < (3, 11), reason="msgspec cannot describe generic structures on Python 3.10")
@pytest.mark.usefixtures("forks")
def test_generated_pages_are_current() -> None:
    stale = load(DOCS / "generate.py", "generate").stale()
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    assert not stale, f"{names} changed; run: python docs/generate.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_that_readme_or_docs_link(command: str) -> None:
    assert (DOCS / f"{command}.md").exists()
    assert f"{command}.md" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_gpudoctor_takes_every_line_of_it_that_a_page_shows(page: Path) -> None:
    """What a page's `<!-- run: -->` names is run too, by docs/generate.py."""
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            for shown in re.findall(r"(?<![\w./-])gpudoctor [^\n]*", line.partition("  #")[0]):
                words = next(calls(shown.partition(')"')[0]), [""])
                assert words[0] != "gpudoctor" or not refused(words[1:]), (line, refused(words[1:]))


@pytest.mark.parametrize("page", [*COMMANDS, "network", "nccl-settings", "check-hosts"])
def test_a_page_starts_from_a_trouble_and_ends_with_what_to_do_next(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.match(r'# .+\n\n\*"', text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[-1] == "What to do next"


def test_an_option_means_the_same_in_every_command() -> None:
    """One spelling, one help text."""
    meanings: dict[str, dict[str, str]] = {}
    for command, option in load(DOCS / "generate.py", "generate").options():
        for spelling in (*option.opts, *option.secondary_opts):
            assert option.help, (command, spelling)
            meanings.setdefault(spelling, {})[command] = option.help
    differing = {spelling: found for spelling, found in meanings.items() if len(set(found.values())) > 1}
    assert len(meanings) > 60 and not differing, differing


def test_every_cause_of_a_hang_has_a_section() -> None:
    text = (DOCS / "hang-causes.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert sections == list(CAUSES)
    for symptom in TABLE:
        assert not symptom.cause or f"- {symptom.id}" in text or symptom.id.startswith("xid-"), symptom.id


def test_the_files_and_commands_that_contributors_are_told_of_exist() -> None:
    for page in ("adding-a-check", "contributing"):
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert "python -m tests.machines" in text
        for path in re.findall(r"`((?:tests|docs|checks)/[\w./-]+)`", text):
            new = path.replace("swap_too_small", "shm_too_small").replace("NAME.json", "recorded-vm.json")
            assert (ROOT / new).exists(), path


def test_the_example_check_works_as_it_stands(tmp_path: Path) -> None:
    text = (DOCS / "adding-a-check.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, re.DOTALL))
    file = tmp_path / "swap_too_small.py"
    file.write_text(blocks["swap_too_small.py"])
    assert max(map(len, blocks["swap_too_small.py"].splitlines())) <= 120
    example: Check = load(file, "swap_too_small").swap_too_small
    rows: list[Case] = eval(blocks["case.py"], {**vars(machines), **vars(cases)})[example.id]  # noqa: S307 - our own
    assert {row.expected for row in rows} == {"info", "silent", "skipped"}
    for row in rows:
        assert not list(lacks(row, example))
    assert ask(example, h100_node()).outcome == "ok"
    package = tmp_path / "acme_checks"
    package.mkdir()
    package.joinpath("__init__.py").touch()
    file.rename(package / file.name)
    tmp_path.joinpath("test_it.py").write_text(blocks["test_swap_too_small.py"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, timeout=120
    )
    assert "3 passed" in done.stdout, done


@pytest.mark.thorough
def test_published_schemas_describe_what_is_written() -> None:
    machine = h100_node()
    written = diagnose(machine, find_checks()[0])
    answer = encode(what_if(machine, "3,1,9", machine.cuda.visible))
    for name, content in (
        ("snapshot", to_json(machine)),
        ("report", encode(written)),
        ("devices", answer),
    ):
        schema = msgspec.json.decode((DOCS / "schemas" / f"{name}.json").read_bytes())
        jsonschema.validate(msgspec.json.decode(content), schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"schema": "1", "visible": 3}, schema)


FINDING_CALLS = {"Finding", "finding", "Advice", "_finding", "Fault", "fault", "story.blamed", "_Start"}


def finding_ids() -> set[str]:
    """The ids of findings of several nodes that stand as literals in the code."""
    found: set[str] = set()
    for path in sorted((ROOT / "gpudoctor" / "nccl").glob("*.py")):
        for call in sources.walk(sources.tree(path)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in FINDING_CALLS:
                words = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "id")]
                values = [word.value for word in words if isinstance(word, ast.Constant)]
                found |= {value for value in values if isinstance(value, str) and "-" in value}
    return found


def test_every_finding_of_several_nodes_is_described() -> None:
    described = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("nccl-test.md", "preflight.md"))
    missing = sorted(id for id in finding_ids() if f"`{id}`" not in described)
    assert len(finding_ids()) > 40 and not missing, missing


def test_gpudoctor_alone_leads_by_trouble_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    for line, sentence in (row for rows in TROUBLES.values() for row in rows.items()):
        assert f"  gpudoctor {line} " in "\n".join(lines) and sentence.endswith("?")
        assert line.split()[0] in {*COMMANDS, "--help"}
