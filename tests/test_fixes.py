"""Every fix of every check and cause: where it is done, what it risks, and what no block to paste may hold."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache

from gpudoctor.about import entries
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.diagnose import ask
from gpudoctor.effect import effect_of
from gpudoctor.plugins import find_checks
from tests.command_lines import calls, refused
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


OPTIONS = {
    "nvidia-smi": "-L -q -d -i -c -s -e -m -p2p -pm -mig -pl -lgip -re --gpu-reset --query-gpu --query-compute-apps "
    "--format",
    "dmesg": "-T --ctime",
    "journalctl": "-u -n -k --no-pager --since",
    "systemctl": "--now",
    "lspci": "-D -k -s -nn -nnk -tv -vv",
    "ls": "-d -l -ld -lhS",
    "df": "-h -hT -i",
    "du": "-x -xh --inodes --max-depth",
    "findmnt": "-T -o",
    "ps": "-eo -fp -o -p --sort",
    "ss": "-ltnp -tlnp",
    "ip": "-o -br -brief -details -s",
    "free": "-h",
    "ldconfig": "-p",
    "grep": "-A -E -Ei -e -i -iA20 -iE -n -rs -s",
    "tail": "-n",
    "head": "-n",
    "sort": "-rn -rh",
    "rm": "-f",
    "sed": "-n -i -i.bak",
    "taskset": "-pc",
    "fuser": "-v",
    "hostname": "-I -f",
    "getent": "",
    "ping": "-c -W",
    "ethtool": "-m -S",
    "kubectl": "--sort-by --all-namespaces --field-selector --show-labels -o",
    "sinfo": "--format --list-reasons",
    "mlxlink": "-d -m -e",
    "cma_roce_mode": "-d -p",
    "sminfo": "-C",
    "ibv_devinfo": "-v",
    "ucx_info": "-d",
    "fi_info": "-l -p",
    "dcgmi": "-r -i",
    "nvidia-ctk": "--version --output --runtime --create-all --set --in-place --set-as-default",
    "nvidia-modprobe": "-c -u",
    "nvidia-cuda-mps-control": "-d",
    "nvidia-imex-ctl": "-N",
    "mokutil": "--sb-state --import",
    "update-initramfs": "-u",
    "grubby": "--update-kernel --args",
    "usermod": "-aG",
    "ntpq": "-n -p",
    "sysctl": "-e -w",
    "quota": "-s",
    "setfacl": "-m",
    "setpci": "-v -s",
    "ssh-keygen": "-t",
    "docker": "--gpus --device --ulimit --rm -e",
    "torchrun": "--nproc-per-node",
}
"""Program -> options that stand in a fix, each looked up in the program's manual (man-pages, util-linux, iproute2,
pciutils, infiniband-diags, MFT, NVIDIA's nvidia-smi and container toolkit, Slurm)."""


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


def lines_to_paste() -> list[tuple[str, str]]:
    """(id, line) of every fix, also of those that `about` shows."""
    told = [(each.id, fix) for found in entries().values() for each in found if each.fix for fix in flat(each.fix)]
    return sorted({(id, line) for id, fix in (*every_fix(), *told) for line in blocks(fix)})


def blocks(fix: Fix) -> Iterator[str]:
    """Its lines; what is a program of Python together."""
    whole = "\n".join(fix.commands)
    yield from [whole] if whole and is_python(whole) else fix.commands


def is_python(text: str) -> bool:
    try:
        compile(text, "fix", "exec")
    except SyntaxError:
        return False
    return True


def test_a_shell_takes_every_line() -> None:
    lines = [line for _, line in lines_to_paste() if not is_python(line)]
    assert len(lines) > 500
    read = subprocess.run(["bash", "-n"], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60)
    assert (read.returncode, read.stderr) == (0, "")


def test_every_option_is_one_of_its_program_s() -> None:
    wrong = []
    for id, line in lines_to_paste():
        for words in calls(line) if "\n" not in line and not line.startswith(("def ", "for ", "with ", "if ")) else ():
            program = words[0].rpartition("/")[2]
            if program == "gpudoctor" and (why := refused(words[1:])):
                wrong.append((id, line, why))
            known = OPTIONS.get(program, "").split()
            given = (word.partition("=")[0] for word in words[1:] if word.startswith("-") and program in OPTIONS)
            wrong += [(id, line, word) for word in given if word not in known and not word[1:].isdigit()]
    assert not wrong, "looked up nowhere: see the program's manual, then OPTIONS"


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
