"""Languages within languages: a value does not get out of the second shell, of sed, of YAML, of a file of settings."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gpudoctor.command import command
from gpudoctor.diagnose import ask
from gpudoctor.emit import EMITTERS
from gpudoctor.emit.comments import CannotExpress
from gpudoctor.knowledge.nccl.repair import set_to, take_out
from gpudoctor.knowledge.nccl.settings import Setting
from gpudoctor.launch.claims_software import SoftwareClaims
from gpudoctor.launch.write import emission
from gpudoctor.plugins import find_checks
from tests.attacks.mutations import HOSTILE, mutated, texts
from tests.attacks.registry import attack, attacks
from tests.every_case import every_case
from tests.test_env_formats import advice, expanded, read_by, wanted
from tests.test_launch_emitters_elsewhere import commands, documents, emitted, planned
from tests.test_launch_words import FAKES, by_shell, plan as plan_of

CANARY = "canary"
BREAKS_OUT = f"'; >{CANARY}; '$(>{CANARY})"
"""Of either kind of quotes, and of none."""
SAYABLE = {name: text for name, text in HOSTILE.items() if text.isprintable() and len(text) < 4000}
SHELLS = [name for name in ("dash", "bash", "zsh", "ksh") if shutil.which(name)]


def ran(line: str, folder: Path, shell: str = "sh", **programs: str) -> str:
    """What a line prints in a real shell, in a folder of its own; `programs` are shell functions."""
    functions = "".join(f"{name}() {{ {body}\n}}\n" for name, body in programs.items())
    done = subprocess.run(
        [shell, "-c", functions + line], cwd=folder, capture_output=True, timeout=60, check=False, text=True
    )
    assert not (folder / CANARY).exists()
    return done.stdout


@pytest.mark.parametrize("quotes", ["", "'", '"'])
def test_the_canary_would_sing(quotes: str, tmp_path: Path) -> None:
    line = f"echo {quotes}{BREAKS_OUT}{quotes}"
    subprocess.run(["sh", "-c", line], cwd=tmp_path, timeout=60, check=False, capture_output=True)
    assert (tmp_path / CANARY).exists()


# ---------------------------------------------------------------- shells behind shells

FAR = 'shift; sh -c "$*"'
"""ssh, as far as its words go: it joins them, and a shell over there reads them again."""


@attacks(
    "text",
    "depth",
    ("a value in a command behind ssh", "it ends the quotes of the shell over there", 1),
    ("a value in a command behind ssh behind sh -c", "it ends the quotes of the third shell", 2),
)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_value_stays_a_word_in_the_innermost_shell(depth: int, shell: str, tmp_path: Path) -> None:
    for value in (BREAKS_OUT, *SAYABLE.values()):
        line = command("printf '%s' {:value}", value)
        for _ in range(depth - 1):
            line = command("sh -c {:remote}", line)
        there = command("ssh {:host} {:remote}", "n1", line)
        assert ran(there, tmp_path, shell, ssh=FAR) == value


@attack("text", way="an address in a redirection of bash -c", weakness="bash opens a file, or runs a command")
@pytest.mark.parametrize("address", ["$(>canary)", "x/../../../../../../etc/passwd", "1.2.3.4/22;>canary", "-", "a b"])
def test_only_an_address_stands_in_a_redirection(address: str) -> None:
    assert command("timeout 3 bash -c {:remote}", command("</dev/tcp/{:host}/{:number}", address, 22)) == ""


@attack("text", way="the name of a node in ssh's own arguments", weakness="ssh runs a program")
@pytest.mark.parametrize("name", ["-oProxyCommand=touch canary", "%h;x", "a@-oProxyCommand=x", "h -F x", "ssh://h -x"])
def test_no_node_is_an_option_of_ssh(name: str) -> None:
    assert command("ssh {:host} true", name) == command("ssh {:login} true", name) == ""


@pytest.mark.skipif(not shutil.which("ssh"), reason="no ssh")
@attack("text", way="the name of a node that looks like a host", weakness="ssh reads something else in it")
@pytest.mark.parametrize("name", ["n1", "fe80::1%eth0", "a_b.c", "::1", "0", "x--"])
def test_ssh_itself_takes_it_for_the_host(name: str) -> None:
    line = command("ssh -G -F none {:host}", name)
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=60, check=False)
    assert f"host {name}" in done.stdout.splitlines() or f"hostname {name}" in done.stdout.splitlines(), done.stderr


# ---------------------------------------------------------------- sed, grep, python -c, files of settings


@attack("text", way="check: the name of a setting in a file", weakness="sed runs a program, or deletes another line")
@pytest.mark.parametrize("name", ["x/d;1e>canary\\", "NCCL_A=/d\n1e>canary", ".*", "a/,/b", "]", "NCCL_A$"])
def test_sed_deletes_the_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.conf"
    kept = "NCCL_DEBUG=INFO\nNCCL_ALGO=Ring\n"
    file.write_text(f"{kept}{name.replace(chr(10), ' ')}=1\n")
    for line in take_out(Setting(name.replace("\n", " "), "1", str(file))):
        ran(line, tmp_path)
    assert file.read_text() == kept


@attack("text", way="check: the path of a file of settings", weakness="sed or the shell takes it for an option")
@pytest.mark.parametrize("path", ["-n", "--expression=1e>canary", "-s", "$(>canary)", ";>canary", "--"])
def test_a_file_of_settings_is_a_file(path: str, tmp_path: Path) -> None:
    file = tmp_path / path
    file.write_text("NCCL_A=1\nNCCL_B=2\n")
    for line in take_out(Setting("NCCL_A", "1", path)):
        ran(line, tmp_path)
    assert file.read_text() == "NCCL_B=2\n"


@attack("text", way="check: the value of a setting that is written again", weakness="echo makes a second line of it")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("value", ["a\\nNCCL_NET_PLUGIN=/tmp/x.so", "\\0", "\\c", "-n", "%s%n", BREAKS_OUT])
def test_a_value_is_written_as_it_is(value: str, shell: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.conf"
    file.write_text("NCCL_SHM_DISABLED=0\nNCCL_DEBUG=INFO\n")
    for line in set_to(Setting("NCCL_SHM_DISABLED", value, str(file)), value, "NCCL_SHM_DISABLE"):
        ran(line, tmp_path, shell)
    assert file.read_text() == f"NCCL_DEBUG=INFO\nNCCL_SHM_DISABLE={value}\n"


@attack("text", way="check: a line of a file that grep looks for", weakness="an option of grep reads another file")
@pytest.mark.parametrize("pattern", ["-f/etc/passwd", "--file=/etc/passwd", "-r"])
def test_a_pattern_is_no_option(pattern: str) -> None:
    assert command("grep -n {} {:path}", pattern, "/etc/nccl.conf") == ""


@attack("text", way="launch --check: a module's name in python -c", weakness="Python runs what the name says")
@pytest.mark.parametrize(
    "module", ["x'); open('canary', 'w') #", 'x"); open("canary", "w") #', "x\\'); open('canary','w')#"]
)
def test_a_module_is_a_text_to_python(module: str, tmp_path: Path) -> None:
    asked: Any = SimpleNamespace(
        script="",
        names=("n1",),
        plan=SimpleNamespace(program=("-m", module), python=sys.executable),
        unknown=lambda kind, claim, why, line: line,
    )
    line = str(SoftwareClaims.script_exists(asked))
    assert module.split("'")[0].split('"')[0] in line
    ran(line, tmp_path)


@attack("text", way="check: the name of this host in /etc/hosts", weakness="a second name or line stands there")
def test_one_name_is_added_to_the_hosts_file(tmp_path: Path) -> None:
    (check,) = (check for check in find_checks()[0] if check.id == "hostname-unresolvable")
    case = next(case for case in every_case()[check.id] if case.speaks)
    here = case.machine.host.hostname.value
    for value in ("n1 www.bank.example", "n1\\n6.6.6.6 www.bank.example", BREAKS_OUT, "#", "n2"):
        machine = mutated(case.machine, texts(case.machine), here, value)
        for problem in ask(check, machine).problems:
            for line in problem.fix.commands:
                ran(line, tmp_path, sudo="shift 2; cat >> hosts", hostname="echo 10.0.0.1")
    assert (tmp_path / "hosts").read_text() == "10.0.0.1 n2\n"


# ---------------------------------------------------------------- env


def emitted_as(form: str, value: str, reason: str = "eth0 was seen.") -> str | None:
    """None where the format refuses, which takes one line."""
    try:
        return EMITTERS[form](advice([value], reason))
    except CannotExpress as error:
        assert str(error).isprintable()
        return None
    except UnicodeEncodeError:  # half of a character, which no snapshot holds
        assert form == "json"
        return None


def by_docker(text: str) -> dict[str, str]:
    """docker/cli, kvfile: lines that begin with # are comments, the first = ends the name."""
    lines = [line.lstrip(" \t") for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def by_fish(text: str) -> dict[str, str]:
    """Within fish's single quotes, only \\\\ and \\' mean something."""
    if shutil.which("fish"):
        return read_by(["fish", "--no-config", "-c"], text, {"V0": ""})
    found = re.findall(r"^set -gx (\w+) '((?:[^'\\]|\\[\\'])*)'$", text, re.MULTILINE)
    return {name: re.sub(r"\\([\\'])", r"\1", value) for name, value in found}


def by_yaml(text: str) -> dict[str, str]:
    content = yaml.safe_load(text)
    assert list(content) == ["env"]
    return {each["name"]: expanded(each["value"]) for each in content["env"] if set(each) == {"name", "value"}}


def by_json(text: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in json.loads(text)["suggestions"]}


READERS: dict[str, Any] = {
    "shell": lambda text: read_by(["bash", "-c"], text, {"V0": ""}),
    "slurm": lambda text: read_by(["bash", "-c"], text, {"V0": ""}),
    "dotenv": lambda text: read_by(["sh", "-ac"], text, {"V0": ""}),
    "docker": by_docker,
    "fish": by_fish,
    "kubernetes": by_yaml,
    "json": by_json,
}
ENDS = {
    "shell": "the quotes of a shell end",
    "slurm": "the quotes of a batch script end",
    "dotenv": "one of the readers of .env files expands it",
    "docker": "a second variable stands on its line",
    "fish": "the quotes of fish end",
    "kubernetes": "a tag, an anchor or a second key of YAML, or a variable of the kubelet",
    "json": "the text of JSON ends",
}
OF_FORMATS = (
    "!!python/object/apply:os.system [x]",
    "&a *a",
    "x: y",
    "- z",
    "$(NAME)",
    "${HOME}",
    '"',
    "'",
    "\\'",
    BREAKS_OUT,
)


@attacks("text", "form", *((f"env --format {form}: a value", ENDS[form], form) for form in READERS))
def test_a_value_stays_in_its_format(form: str) -> None:
    read_back = 0
    for value in (*HOSTILE.values(), *OF_FORMATS):
        text = emitted_as(form, value[:2000])
        if text is not None:
            read_back += 1
            assert READERS[form](text) == wanted([value[:2000]])
    assert read_back > 8


@attack("text", way="env: a reason in a comment", weakness="the comment ends, and a shell runs what follows")
@pytest.mark.parametrize("form", ["shell", "slurm", "dotenv", "kubernetes", "fish", "docker"])
def test_a_reason_stays_a_comment(form: str, tmp_path: Path) -> None:
    for ends in ("\n", "\r\n", "\x85", "\u2028", "\x0b", "\0"):
        text = emitted_as(form, "1", f"seen.{ends}>{CANARY}{ends}V1=2{ends}  - name: V1")
        assert text is not None
        assert READERS[form](text) == {"V0": "1"}
        if form in ("shell", "slurm", "dotenv"):
            ran(text, tmp_path)


# ---------------------------------------------------------------- launch


@attacks(
    "text",
    "framework",
    *(
        (f"launch --framework {name}: a word of the program", "it gets out of the line", name)
        for name in ("torchrun", "accelerate", "mpirun", "slurm")
    ),
)
def test_a_word_of_the_program_reaches_it_as_it_is(framework: str) -> None:
    """In mpirun's and srun's case through a second shell."""
    for value in (BREAKS_OUT, *SAYABLE.values()):
        program = ("train.py", value, "last")
        for file in (found := emission(plan_of(framework, program, value))).files or found.blocks:
            assert by_shell("bash", f"{FAKES}\n{file.text}\n") == [value, *program]


@attack("text", way="launch --framework kubernetes: a word of the program", weakness="YAML reads a tag, a key")
def test_a_word_of_the_program_is_a_text_of_yaml() -> None:
    for value in (*OF_FORMATS, *SAYABLE.values()):
        for words in commands(emitted("kubernetes", planned(program=("train.py", value)))):
            assert words[-2:] == ["train.py", value.replace("$", "$$")]


@attack("text", way="launch --framework skypilot: a word of the program", weakness="it ends the block or the word")
def test_a_word_of_the_program_is_a_text_of_a_task() -> None:
    for value in (*OF_FORMATS, *SAYABLE.values()):
        (task,) = documents(emitted("skypilot", planned(program=("train.py", value))), ".sky.yaml")
        assert shlex.split(task["run"].splitlines()[-1])[-2:] == ["train.py", value]


@attack("text", way="launch --framework ray: a word of the program", weakness="Python runs what it says")
def test_a_word_of_the_program_is_a_text_of_python() -> None:
    for value in ("'); open('canary', 'w') #", '"""', "\\", *SAYABLE.values()):
        (file, *_) = emitted("ray", planned(program=("train.py", value))).files
        lists = [node for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.List)]
        assert ["train.py", value] in [ast.literal_eval(node) for node in lists if all_constant(node)]


def all_constant(node: ast.List) -> bool:
    return all(isinstance(each, ast.Constant) for each in node.elts)


@attack("text", way="launch --framework xla: a word of the program", weakness="it gets out of the shell of each worker")
def test_a_word_of_the_program_is_one_on_each_worker(tmp_path: Path) -> None:
    for value in (BREAKS_OUT, *SAYABLE.values()):
        text = emitted("xla", planned(program=("train.py", value))).blocks[0].text
        there = shlex.split(text.splitlines()[-1])[-1].removeprefix("--command=")
        assert ran(there, tmp_path, python='shift; printf "%s" "$@"') == value
