"""Commands to paste: every template in the source is ours to the letter, and a value is never more than a word."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from gpudoctor.check import Fix
from gpudoctor.command import KINDS, KNOWN, NONE, command, is_sayable, joined, over_ssh, word
from tests import sources

ROOT = Path(__file__).parent.parent
DOORS = ("gpudoctor.command", "gpudoctor.check", "gpudoctor.cause", "gpudoctor.hang.causes")
SOURCES = [*sorted((ROOT / "gpudoctor").rglob("*.py")), *sorted((ROOT / "checks").rglob("*.py"))]


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    """The sources that use gpudoctor.command, under its own name or as gpudoctor.check hands it to checks."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in SOURCES]
    return [(path, sources.tree(path)) for path, text in texts if any(door in text for door in DOORS)]


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of what gpudoctor.command gives by this name, with where it stands."""
    for path, tree in trees():
        local = {
            alias.asname or alias.name
            for node in sources.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in DOORS
            for alias in node.names
            if alias.name == name
        }
        for node in sources.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in local:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def literals(node: ast.expr) -> list[str]:
    """The texts that an expression of literals can be."""
    if isinstance(node, ast.IfExp):
        return literals(node.body) + literals(node.orelse)
    assert isinstance(node, ast.Constant) and isinstance(node.value, str), "a template is a literal"
    return [node.value]


PLACEHOLDER = re.compile(r"\{\{|\}\}|\{:?([a-z]*)\}")


def test_every_module_that_hands_command_on_is_known() -> None:
    """Its templates would be read by no test."""
    doors = {
        node.module
        for path in SOURCES
        for node in sources.walk(sources.tree(path))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "command" for alias in node.names)
    }
    assert doors - {"gpudoctor", "gpudoctor.fleet.ssh_command"} == set(DOORS)  # these two hold modules of that name


@pytest.mark.thorough
def test_every_template_is_a_literal_whose_values_stand_outside_quotes() -> None:
    seen = 0
    for where, call in calls("command"):
        for template in literals(call.args[0]):
            seen += 1
            kinds = [match[1] for match in PLACEHOLDER.finditer(template) if match[1] is not None]
            assert all(kind in KNOWN for kind in kinds), where
            assert any(isinstance(each, ast.Starred) for each in call.args) or len(kinds) == len(call.args) - 1, where
            assert "\n" not in template, where
            if not kinds:  # may be a line of Python, for the user's script
                continue
            # A value within quotes would end them: each placeholder must come back as (part of) a bare word.
            marked = PLACEHOLDER.sub(lambda match: "\x00" if match[1] is not None else match[0][0], template)
            lexer = shlex.shlex(marked, posix=False, punctuation_chars=True)
            lexer.whitespace_split = True
            for part in lexer:
                assert "\x00" not in part or not re.search(r"""(['"`]|\$\().*\x00""", part), where
    assert seen


def test_what_stands_in_a_command_as_a_command_was_made_as_one() -> None:
    """Their words are not quoted again one by one, so that a text of another making must not get there."""
    for where, call in calls("command"):
        for template in literals(call.args[0]):
            kinds = [match[1] for match in PLACEHOLDER.finditer(template) if match[1] is not None]
            for kind, value in zip(kinds, call.args[1:], strict=False):
                if kind in ("remote", "line"):
                    assert isinstance(value, (ast.Name, ast.Call)), where


def test_sudo_gets_a_terminal_to_ask_for_a_password_on() -> None:
    node = command("{:login}", "me@n1")
    assert over_ssh(node, command("sudo dmesg | tail")) == "ssh -t me@n1 'sudo dmesg | tail'"
    assert over_ssh(node, command("uptime")) == "ssh me@n1 uptime"
    assert over_ssh(NONE, command("uptime")) == over_ssh(node, NONE) == NONE


def test_only_this_module_makes_commands() -> None:
    assert not list(calls("Command"))


@pytest.mark.parametrize(
    ("template", "values", "line"),
    [
        ("nvidia-smi", (), "nvidia-smi"),
        ("sudo nvidia-smi --gpu-reset -i {:number}", (3,), "sudo nvidia-smi --gpu-reset -i 3"),
        ("kill -CONT {:pid}", (4711,), "kill -CONT 4711"),
        ("kill -CONT {:pid}", (-1,), ""),
        ("kill -CONT {:pid}", (0,), ""),
        ("ssh {:host} ss -ltn", ("node-7.example",), "ssh node-7.example ss -ltn"),
        ("ssh {:host} ss -ltn", ("fe80::1%eth0",), "ssh fe80::1%eth0 ss -ltn"),
        ("ssh {:host} ss -ltn", ("-oProxyCommand=reboot",), ""),
        ("ssh {:host} ss -ltn", ("x;touch${IFS}y",), ""),
        ("ls {}", ("a b",), "ls 'a b'"),
        ("ls {}", ("$(reboot)",), "ls '$(reboot)'"),
        ("ls {}", ("it's",), """ls 'it'"'"'s'"""),
        ("ls {}", ("a\nreboot",), ""),
        ("ls {}", ("a\x1b[2Jb",), ""),
        ("ls {}", ("a\u202eb",), ""),
        ("ls {}", ("a\udcffb",), ""),
        ("ls {}", ("-rf",), ""),
        ("ls {}", ("",), ""),
        ("ls {:path}", ("-rf",), "ls ./-rf"),
        ("ls {:path}", (Path("/a b"),), "ls '/a b'"),
        ("export {:variable}={:value}", ("NCCL_SOCKET_IFNAME", "=eth0"), "export NCCL_SOCKET_IFNAME='=eth0'"),
        ("export {:variable}={:value}", ("A B", "x"), ""),
        ("export A={:value}", ("",), "export A=''"),
        ("env {:words} true", (["-u", "X"],), ""),
        ("gpudoctor check {:words}", (["gpu", "a b"],), "gpudoctor check gpu 'a b'"),
        ("unset {:variables}", (["A", "B"],), "unset A B"),
        ("unset {:variables}", (["A", "B C"],), ""),
        ("unset {:variables}", ([],), ""),
        ("rm -f {:paths}", (["-rf", "a b"],), "rm -f ./-rf 'a b'"),
        ("taskset -pc {:numbers} $$", ("0-3,8",), "taskset -pc 0-3,8 $$"),
        ("taskset -pc {:numbers} $$", ("0-",), ""),
        ("lspci -s {:pci}", ("0000:5d:00.0",), "lspci -s 0000:5d:00.0"),
        ("lspci -s {:pci}", ("5d:00",), "lspci -s 5d:00"),
        ("lspci -s {:pci}", ("::",), ""),
        ("python train.py {:arguments}", ([],), "python train.py"),
        ("python train.py {:arguments}", (["--lr", "1 e"],), "python train.py --lr '1 e'"),
        ("{:python} -m pip check", ("/opt/my venv/bin/python3.11",), "'/opt/my venv/bin/python3.11' -m pip check"),
        ("{:python} -m pip check", ("/usr/bin/python3.13t",), "/usr/bin/python3.13t -m pip check"),
        ("{:python} -m pip check", ("/usr/bin/python3.13/x",), ""),
        ("{:python} -m pip check", ("/bin/rm",), ""),
        ("ssh {:host} {:remote}", ("n1", command("kill {:pid}", 7)), "ssh n1 'kill 7'"),
        ("ssh {:host} {:remote}", ("n1", command("kill {:pid}", -7)), ""),
        ("ssh {:login} {:remote}", ("me@n1", command("id")), "ssh me@n1 id"),
        ("ssh {:login} {:remote}", ("-oProxyCommand=x@n1", command("id")), ""),
        ("torchrun --rdzv-endpoint={:endpoint}", ("[fd00::1]:29500",), "torchrun --rdzv-endpoint='[fd00::1]:29500'"),
        ("torchrun --rdzv-endpoint={:endpoint}", ("n1;x:1",), ""),
        ("sudo ufw allow from {:subnet}", ("10.0.0.0/24",), "sudo ufw allow from 10.0.0.0/24"),
        ("{:line} | head", (command("ls {:path}", "a b"),), "ls 'a b' | head"),
        ("{:line} | head", (command("ls {:path}", "a\nb"),), ""),
        ("awk '{{print $1}}' {:path}", ("x",), "awk '{print $1}' x"),
    ],
)
def test_a_value_is_the_word_it_stands_for_or_there_is_no_line(
    template: str, values: tuple[object, ...], line: str
) -> None:
    assert command(template, *values) == line


@given(st.text(max_size=40), st.sampled_from(sorted({*KINDS, "", "path", "value"})))
@example("=x", "value")
@example("~", "")
@example("!!", "value")
def test_whatever_a_value_is_the_line_gains_no_word(value: str, kind: str) -> None:
    line = command("ls --one={:value} " + f"{{:{kind}}}" + " --two", "1", value)
    if line:
        assert is_sayable(line)
        words = shlex.split(line)
        assert words[::3] == ["ls", "--two"] and len(words) == 4
        assert words[2] in (value, f"./{value}")


def test_a_fix_leaves_out_what_could_not_be_said() -> None:
    fix = Fix("Look.", commands=(command("ls {}", "a\nb"), command("ls")))
    assert fix.commands == ("ls",)


def test_commands_that_are_joined_are_all_there_or_none() -> None:
    assert joined(command("cd {:path}", "/x"), command("ls")) == "cd /x && ls"
    assert joined(command("cd {:path}", "/\n"), command("ls")) == NONE


def test_a_word_is_read_back_by_zsh_too() -> None:
    assert word("=eth0") == "'=eth0'"
