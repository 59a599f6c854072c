"""What lint knows besides the text: --facts, --env, installed packages, a snapshot; and hostfiles."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from gpudoctor.lint import pins
from gpudoctor.lint.asked import AskedFacts
from gpudoctor.lint.facts import FactsProblem, installed, merged, parse_facts, read_env_file
from gpudoctor.lint.hostfiles import looks_like_hostfile, read_hostfile
from gpudoctor.lint.model import LintFacts


def test_facts_of_the_command_line() -> None:
    facts = parse_facts("nodes=2, gpus-per-node=4,torch=2.4,pytorch_lightning=1.9")
    assert (facts.nodes, facts.gpus_per_node) == (2, 4)
    assert facts.versions == {"torch": "2.4", "lightning": "1.9"}
    assert facts.given == ("nodes", "gpus_per_node", "torch", "lightning")
    assert facts.version("torch") == (2, 4)
    assert parse_facts("") == LintFacts()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nodes", "NAME=VALUE"),
        ("nodes=", "NAME=VALUE"),
        ("nodes=two", "whole number"),
        ("nodes=0", "whole number"),
        ("nodes=-1", "whole number"),
        ("nodes=²", "whole number"),
        ("gpus_per_node=99999999", "whole number"),
        ("nodes=1,nodes=2", "twice"),
        ("torch=new", "a version"),
        ("to rch=1", "package"),
        ("=1", "package"),
    ],
)
def test_facts_that_cannot_be_read(text: str, told: str) -> None:
    with pytest.raises(FactsProblem, match=told) as raised:
        parse_facts(text)
    assert "\n" not in str(raised.value)


@given(st.text(max_size=60))
def test_any_facts_are_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_facts(text)
    except FactsProblem as problem:
        assert "\n" not in str(problem) and str(problem).isprintable()


def test_env_files() -> None:
    text = "# hello\n\nexport A=1\nB='x y'  # why\nC=\nD=a b\nE=\"q\"\r\n"
    assert read_env_file(text) == {"A": "1", "B": "x y", "C": "", "D": "a b", "E": "q"}


@pytest.mark.parametrize(
    ("text", "told"), [("A\n", "line 1"), ("A=1\n2B=1", "line 2"), ("A='x", "a quote"), ("A=\0", "NUL")]
)
def test_env_files_that_cannot_be_read(text: str, told: str) -> None:
    with pytest.raises(FactsProblem, match=told):
        read_env_file(text)


@given(st.text(alphabet=st.sampled_from("AB=1'\"\\\n #\0\r é"), max_size=40))
def test_any_env_file_is_read_or_refused(text: str) -> None:
    try:
        found = read_env_file(text)
    except FactsProblem as problem:
        assert "\n" not in str(problem)
    else:
        assert all("\0" not in value for value in found.values())


def environment(root: Path, *folders: str, base: str = "env") -> Path:
    python = root / base / "bin" / "python"
    packages = root / base / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir(parents=True)
    python.touch()
    for folder in folders:
        (packages / folder).mkdir()
    return python


def test_installed_packages_are_read_from_their_folders(tmp_path: Path) -> None:
    python = environment(
        tmp_path,
        "torch-2.4.1+cu121.dist-info",
        "pytorch_lightning-1.9.5.dist-info",
        "torch_xla-2.4.0-py3.11.egg-info",
        "numpy-2.0.dist-info",
        "torch",
        "deepspeed-.dist-info",
    )
    assert installed(python) == {"torch": "2.4.1+cu121", "torch-xla": "2.4.0", "lightning": "1.9.5"}
    assert installed(str(python)) == installed(python)


def test_a_virtual_environment_does_not_show_its_base(tmp_path: Path) -> None:
    base = environment(tmp_path, "torch-1.0.dist-info", base="base")
    python = environment(tmp_path, "accelerate-1.1.dist-info")
    python.unlink()
    python.symlink_to(base)
    assert installed(python) == {"accelerate": "1.1", "torch": "1.0"}
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert installed(python) == {"accelerate": "1.1"}


@pytest.mark.parametrize("python", ["", "/nowhere/bin/python", "a\0b", "relative"])
def test_no_interpreter_no_packages(python: str) -> None:
    assert installed(python) == {}


def test_what_was_given_wins() -> None:
    given_ = parse_facts("nodes=2,torch=2.0")
    found = LintFacts(nodes=5, gpus_per_node=8, versions={"torch": "2.4", "lightning": "2.1"}, variables={"A": "1"})
    both = merged(given_, found)
    assert (both.nodes, both.gpus_per_node, both.given) == (2, 8, ("nodes", "torch"))
    assert both.versions == {"torch": "2.0", "lightning": "2.1"} and both.variables == {"A": "1"}


HOSTFILE = """\
# two hosts
192.168.3.100 slots=2

  host2   slots=4 max_slots=8  # big
host3:8
[fd00::1] slots=2
host4
"""


def test_hostfiles() -> None:
    lines = read_hostfile(HOSTFILE, "hf", start=100, line=7).lines
    assert [(each.name, each.slots, each.fault) for each in lines] == [
        ("192.168.3.100", 2, ""),
        ("host2", 4, ""),
        ("host3", 8, ""),
        ("[fd00::1]", 2, ""),
        ("host4", None, ""),
    ]
    assert [each.span.line for each in lines] == [8, 10, 11, 12, 13]
    assert [HOSTFILE[each.span.start - 100 : each.span.end - 100].split()[0] for each in lines] == [
        "192.168.3.100", "host2", "host3:8", "[fd00::1]", "host4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("host2 lots=8", "lots="),
        ("host2 slots=x", "no number"),
        ("host2 slots=0", "no slots"),
        ("host2 8", "NAME slots=N"),
        ("host1 slots=2", "line 1 too"),
        ("host2, slots=2", ""),
    ],
)
def test_lines_that_are_no_hosts(line: str, fault: str) -> None:
    assert fault in read_hostfile(f"host1 slots=1\n{line}").lines[1].fault


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (HOSTFILE, True),
        ("h1 slots=8\nh2 lots=8\n", True),
        ("h1:4\nh2:4", True),
        ("h1\nh2", False),
        ("python train.py", False),
        ("A=1\nB=2", False),
        ("torchrun --nnodes=2 train.py\nh1 slots=2", False),
        ("", False),
    ],
)
def test_what_looks_like_a_hostfile(text: str, is_one: bool) -> None:
    assert looks_like_hostfile(text) is is_one


@given(st.text(alphabet=st.sampled_from("ab:[]=# slots1\n\r\t.é"), max_size=60) | st.text(max_size=60))
def test_any_hostfile_is_read(text: str) -> None:
    looks_like_hostfile(text)
    for each in read_hostfile(text).lines:
        assert (
            text[each.span.start : each.span.end].strip() and text.count("\n", 0, each.span.start) + 1 == each.span.line
        )


@pytest.mark.parametrize(
    ("name", "asks", "told"),
    [
        ("requirements.txt", "numpy\ntransformers==4.37.2\n", "4.37.2"),
        ("requirements-gpu.txt", "transformers ~= 4.49.0  # as trained\n", "4.49.0"),
        ("environment.yml", "dependencies:\n  - python=3.9\n  - transformers=4.30.1=pyhd8\n", "4.30.1"),
        ("pyproject.toml", '[project]\ndependencies = [\n  "transformers[torch]>=4.40,<5",\n]\n', "4.40"),
        ("requirements.txt", "transformers<5\n", ""),
        ("requirements.txt", "transformers>=4.40\n", None),
        ("requirements.txt", "# transformers==4.1\nsentence-transformers==2.2.2\n", None),
        ("notes.txt", "transformers==4.37.2\n", None),
    ],
)
def test_what_a_repository_asks_for(tmp_path: Path, name: str, asks: str, told: str | None) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / name).write_text(asks)
    pins.forget()
    assert pins.pinned(str(tmp_path / "jobs" / "a.sh"), {"transformers": "5.2.0"}).get("transformers") == told


def test_what_a_repository_asks_for_wins_over_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pytorch-lightning==1.7.7\ntorch==1.13\n")
    (tmp_path / "requirements-dev.txt").write_text("torch==2.1\n")
    pins.forget()
    found = AskedFacts(found=LintFacts(versions={"lightning": "2.6.6", "torch": "2.4.0"}))
    file = str(tmp_path / "train.py")
    assert found.of("", file=file).versions == {"lightning": "1.7.7", "torch": "2.4.0"}
    assert (
        structs.replace(found, given=LintFacts(versions={"lightning": "2.0"})).of("", file=file).versions["lightning"]
        == "2.0"
    )
    assert structs.replace(found, is_chosen=True).of("", file=file).versions["lightning"] == "2.6.6"
