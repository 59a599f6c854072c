"""Lines to paste: nobody's text becomes more than the word it stands for."""

import shlex

import pytest

from gpudoctor.command import command
from tests.attacks.registry import attacks


@attacks(
    "text",
    "template, value",
    ("a value of a command to paste", "a second command", "ls {}", "x; rm -rf /srv"),
    ("a value of a command to paste", "a substitution", "ls {}", "$(rm -rf /srv)`rm x`${IFS}"),
    ("a value of a command to paste", "a second line", "ls {}", "x\nrm -rf /srv"),
    ("a value of a command to paste", "a sequence that the terminal obeys", "ls {}", "x\x1b]0;y\x07"),
    ("a value of a command to paste", "text that shows in another order than it runs", "ls {}", "x\u202eexe.y"),
    ("a value of a command to paste", "an end of the quotes", "ls {}", "x'; rm -rf /srv; '"),
    ("a value of a command to paste", "an option", "ls {}", "--color=always"),
    ("a host of a command to paste", "an option of ssh that runs a program", "ssh {:host} id", "-oProxyCommand=id"),
    ("a pid of a command to paste", "a signal for every process", "kill -CONT {:pid}", "-1"),
    ("an interpreter of a command to paste", "a program that is none", "{:python} -m pip check", "/bin/rm"),
)
def test_a_value_stays_a_word_or_there_is_no_line(template: str, value: str) -> None:
    line = command(template, value)
    assert line == "" or (line.isprintable() and shlex.split(line) == ["ls", value])


def test_the_cases_above_do_give_lines() -> None:
    assert shlex.split(command("ls {}", "x; rm -rf /srv")) == ["ls", "x; rm -rf /srv"]
    with pytest.raises(ValueError, match="not a placeholder"):
        command("ls {x}", "y")
