"""Every fix of every check and cause: where it is done, what it risks, and what no block to paste may hold."""

import re
from collections.abc import Iterator
from functools import cache

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.diagnose import ask
from gpudoctor.effect import effect_of
from gpudoctor.plugins import find_checks
from tests.every_case import every_case

ENDS_THE_MACHINE = ("sudo reboot", "rmmod ", "--gpu-reset")
"""Each is the end of what runs: of two, one is an alternative."""
WEAKENS = re.compile(r"chmod 0?666|-j ACCEPT|ECAP_ACS|ufw allow|--privileged")
BEFORE = re.compile(r"^((sudo|time|env|timeout \d+|-u \S+|[A-Z_0-9]+=\S*) )+")
LOOKS = frozenset(
    [
        "nvidia-smi",
        "dmesg",
        "lspci",
        "ls",
        "cat",
        "grep",
        "ps",
        "printenv",
        "pgrep",
        "ss",
        "ip",
        "ldconfig",
        "journalctl",
        "systemctl",
        "ibstat",
        "sminfo",
        "mlxlink",
        "mlxfwmanager",
        "ethtool",
        "getent",
        "ping",
        "df",
        "du",
        "findmnt",
        "lscpu",
        "lsmod",
        "kubectl",
        "scontrol",
        "chronyc",
        "ntpq",
        "timedatectl",
        "gpudoctor",
        "fuser",
        "dcgmi",
        "docker",
        "dkms",
        "mokutil",
        "nvidia-bug-report.sh",
        "nvidia-ctk",
        "nft",
        "iptables",
        "vmstat",
        "ulimit",
        "env",
        "find",
        "firewall-cmd",
        "ssh",
        "tar",
        "mount",
        "python3",
        "python",
        "curl",
        "echo",
    ]
)
"""Programs that only look, as long as `gpudoctor.effect` knows no effect of the line."""


def only_looks(line: str) -> bool:
    return BEFORE.sub("", line).split()[0].rpartition("/")[2] in LOOKS


def flat(fix: Fix) -> Iterator[Fix]:
    yield fix
    for other in fix.otherwise:
        yield from flat(other)


@cache
def of_checks() -> tuple[tuple[str, str, Fix], ...]:
    """(severity, id, fix) of every problem that the cases of our checks raise, alternatives too."""
    cases, found = every_case(), {}
    for check in find_checks()[0]:
        for machine in (machine for case in cases.get(check.id, ()) if case.speaks for machine in case.machines):
            for problem in ask(check, machine).problems:
                for fix in flat(problem.fix):
                    found[problem.severity, check.id, fix.text, fix.commands] = fix
    return tuple((severity, id, fix) for (severity, id, *_), fix in found.items())


def every_fix() -> list[tuple[str, Fix]]:
    of_causes = [
        (id, fix) for id, cause in CAUSES.items() for name in ("", *cause.variants) for fix in flat(cause.fix_for(name))
    ]
    return [*((id, fix) for _, id, fix in of_checks()), *of_causes]


def test_lines_say_where_they_run_and_what_changes_something_is_known() -> None:
    assert len(of_checks()) > 200
    assert not [(id, fix) for id, fix in every_fix() if fix.commands and not fix.where]
    changing = [(id, line) for _, id, fix in of_checks() for line in fix.commands if not only_looks(line)]
    assert not [each for each in changing if effect_of(each[1]) is None], (
        "a program that neither looks nor has an effect"
    )


def test_alternatives_are_never_in_one_block() -> None:
    for id, fix in every_fix():
        ends = [word for word in ENDS_THE_MACHINE if any(word in line for line in fix.commands)]
        assert len(ends) <= 1, (id, fix.commands)


def test_what_weakens_a_machine_says_so_and_stands_behind_the_narrow_form() -> None:
    for id, fix in every_fix():
        assert not (any(map(WEAKENS.search, fix.commands)) and not fix.risk), (id, fix)
    for check in find_checks()[0]:
        for case in every_case().get(check.id, ()):
            for machine in case.machines if case.speaks else ():
                for problem in ask(check, machine).problems:
                    assert not any("chmod 0666" in line for line in problem.fix.commands), check.id


def test_an_info_offers_nothing_with_sudo() -> None:
    assert not [
        (id, fix) for severity, id, fix in of_checks() if severity == "info" and "sudo " in " ".join(fix.commands)
    ]


def test_a_reset_and_all_of_roots_is_said_to_be_for_the_host() -> None:
    for id, fix in every_fix():
        if fix.commands and all(line.startswith("sudo ") for line in fix.commands):
            assert fix.where in ("the host as root", "the provider"), (id, fix)


def test_nobody_is_told_to_reseat_an_sxm_module() -> None:
    for check in find_checks()[0]:
        for case in every_case().get(check.id, ()):
            for machine in case.machines if case.speaks else ():
                gpus = machine.nvidia.gpus.value_or(())
                if any("80GB HBM3" in gpu.name.value_or("") for gpu in gpus):
                    for problem in ask(check, machine).problems:
                        assert "reseat" not in " ".join(fix.text.lower() for fix in flat(problem.fix)), check.id
