"""Every line to paste in the source: its program takes its words, root is asked for, and nothing is left to fill in."""

import re
import shlex
from functools import cache

import pytest

from gpudoctor.diagnose import ask
from gpudoctor.effect import effect_of
from gpudoctor.plugins import find_checks
from gpudoctor.testing.machines import t4_node
from tests.command_lines import calls
from tests.programs import FIELDS, PROGRAMS, SECTIONS
from tests.suggesting import environment
from tests.test_command import PLACEHOLDER, calls as sites, literals

OF_PYTHON = re.compile(r"\s|def |for \w+ in [^;]*:|if rank|with |from |[\w., \[\]\"']+ = |[\w.]+\(")
SAMPLES = {"python": "python", "path": "/a"}
"""What stands for a value; "x1" for all others."""
LEFT_OPEN = re.compile(
    r"\.\.\.|(?<![$\w{%-])(?:NODE|SERVER|HOST|OUT|FILE|IMAGE|SCRIPT|NAME|PATH|PID|ADDRESS|N)(?![\w=:])|\beth0\b"
)
OF_ROOT = re.compile(
    r"(?:dmesg|nft|iptables|firewall-cmd|ufw|modprobe|rmmod|setpci|mlxlink|mlxfwmanager|cma_roce_mode|sminfo|fuser"
    r"|journalctl|reboot|apt|apt-get|dnf|zypper|pacman|update-grub|update-initramfs|dracut|grubby|nvidia-modprobe|usermod"
    r"|setfacl|chown|lspci .*-vv|ethtool|chronyc makestep|ip link set|mount -o|sysctl .*=|timedatectl set-ntp"
    r"|systemctl (?:start|restart|enable|disable)|scontrol reconfigure|mokutil --import|nvidia-bug-report\.sh"
    r"|nvidia-smi .*(?:--gpu-reset|-pm|-pl|-mig|-re|-e \w|-c [A-Z])|tee (?:-a )?/)\b"
)
"""Without root's hand these do nothing, or show a part only (the kernel's log, a unit's, others' processes)."""
TAKEN_ELSEWHERE = frozenset(["x1", "python", "python3", "gpudoctor"])
"""Values, and what has tests of its own."""
CHANGES = re.compile(
    r"systemctl (?!status)|sudo sysctl|prune\b|mokutil --import|reconfigure|\b(?:apt|apt-get|dnf|zypper|conda) install"
    r"|pip (?:un)?install|\b(?:chown|chmod|setfacl|usermod|rm|mkdir|modprobe|rmmod|reboot|kill|tee|setpci|dracut) "
    r"|\b(?:grubby|update-\w+|nvidia-modprobe|pacman|ubuntu-drivers|curl) |sed -i|ssh-keygen -[tR]|ssh-copy-id"
    r"|-m venv|git lfs|makestep|set-ntp|nvidia-ctk (?:system|runtime|config|cdi g)|mps-control -d| >> |docker run"
    r"|podman run|--gpu-reset| -(?:pm|pl|mig|re) | -e [01]|link set|mount -o"
)
CHECKS_OF_VALUES = [
    check
    for check in find_checks()[0]
    if check.id.startswith(("nccl-variable-", "nccl-value-", "nccl-word-", "torch-nccl-v"))
]
OF_A_VALUE = re.compile(r"export (?:NCCL|TORCH)_\w+=(?!x1)[^$]*$")


@cache
def templates() -> list[tuple[str, str]]:
    """(where, line) of every template for a shell, with a word in the place of each value."""
    return [
        (where, PLACEHOLDER.sub(lambda at: SAMPLES.get(at[1], "x1") if at[1] is not None else at[0][0], template))
        for where, call in sites("command")
        for template in literals(call.args[0])
        if not OF_PYTHON.match(template)
    ]


def of(line: str) -> list[list[str]]:
    """Its programs with their words, where the program is ours to name and not a value."""
    found = []
    for words in calls(re.sub(r"\s[\d&]*[<>]+\s?(?:&\d|\S+)|\$\(id -un\)", " ", line)):
        name = words[0].rpartition("/")[2]
        if name == "ssh":  # what stands behind the host is the other machine's
            there = next((at for at, word in enumerate(words[1:], 1) if not word.startswith("-")), len(words))
            words = words[: there + 1]
        if re.fullmatch(r"[a-z][a-z_.-]*\d*", name) and name not in TAKEN_ELSEWHERE:
            found.append([name, *words[1:]])
    return found


def test_every_word_was_looked_up() -> None:
    wrong = []
    assert len(templates()) > 1000
    for where, line in templates():
        for name, *words in of(line):
            known = PROGRAMS[name].split() if name in PROGRAMS else None
            verbs = [word for word in known or () if not word.startswith("-")]
            options = [word.partition("=")[0] for word in words if re.match(r"-\D", word)]
            first = words[0] if words and not words[0].startswith("-") else ""
            if (
                known is None
                or {*options} - {*known}
                or (verbs and first and first not in verbs and name != "nvidia-smi")
            ):
                wrong.append((where, name, words))
    assert not wrong, "see the program's manual, then tests/programs.py"


def test_nvidia_smi_is_asked_for_what_it_has() -> None:
    for where, line in templates():
        for asked in re.findall(r"--query-[\w-]+=(\S+)", line):
            assert {*asked.split(",")} <= FIELDS, where
        if "nvidia-smi" in line:
            for asked in re.findall(r" -d (\S+)", line):
                assert {*asked.split(",")} <= SECTIONS, where


def test_nothing_is_left_to_fill_in() -> None:
    assert not [each for each in templates() if LEFT_OPEN.search(each[1])]


def test_what_wants_root_says_so() -> None:
    parts = [(where, part.strip()) for where, line in templates() for part in re.split(r"\|\|?|&&|;", line)]
    assert not [(where, part) for where, part in parts if OF_ROOT.match(part)]


def test_a_line_that_changes_something_is_known_to() -> None:
    changing = [(where, line) for where, line in templates() if CHANGES.search(line) and "/bin/sudo" not in line]
    assert len(changing) > 100
    assert not [each for each in changing if effect_of(each[1]) is None]


def test_no_shell_takes_a_version_for_a_pattern() -> None:
    """zsh ends a line whose pattern matches no file."""
    assert not [each for each in templates() if re.search(r"""(?<!['"\w])[\w.-]+[=<>~]=?[\w.]*[*<>]""", each[1])]


@pytest.mark.parametrize("line", sorted({line for _, line in templates() if OF_A_VALUE.match(line)}))
def test_our_checks_have_nothing_against_a_value_that_we_advise(line: str) -> None:
    machine = environment(t4_node(), **dict(word.split("=", 1) for word in shlex.split(line)[1:]))
    assert CHECKS_OF_VALUES
    for check in CHECKS_OF_VALUES:
        problems = ask(check, machine).problems
        assert not problems, (check.id, problems)
