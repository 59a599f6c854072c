"""No network, no names, a resolver that never answers; a clock that jumps, and files from another century."""

import json
import os
import sys
from pathlib import Path

from tests.attacks.faulty import CHECK, LINUX, checkpoint, faulty, one_line
from tests.attacks.registry import attack, attacks

pytestmark = LINUX

SILENT = """
import os, socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
if os.fork() == 0:  # answers nothing, until the namespace goes with the command
    for number in (0, 1, 2):
        os.close(number)
    parent = int(sys.argv[1])
    server.settimeout(0.2)
    while os.path.exists(f"/proc/{parent}"):
        try:
            server.recv(512)
        except OSError:
            pass
    os._exit(0)
"""
NOBODY = "mount -t tmpfs none /mnt && : > /mnt/none && mount --bind /mnt/none /etc/resolv.conf"
NEVER = (
    "ip link set lo up && mount -t tmpfs none /mnt && echo nameserver 127.0.0.1 > /mnt/r && "
    f"mount --bind /mnt/r /etc/resolv.conf && {sys.executable} -c '{SILENT}' $$"
)
HOSTS = ("--hosts", "gpudoctor-a.invalid,gpudoctor-b.invalid")


@attack(
    "faults",
    way="check --hosts: no name is resolved",
    weakness="nodes unseen are healthy",
)
def test_no_names_for_a_fleet() -> None:
    done = faulty(NOBODY, "check", "--no-torch", "-v", *HOSTS, unshare="-m")
    assert done.returncode in (1, 2) and "Could not resolve" in done.stdout + done.stderr, done
    assert "ClusterShell" not in done.stdout + done.stderr and "[Errno" not in done.stdout + done.stderr, done
    assert "node-unresolvable" in done.stdout and "not taken for healthy" in done.stdout, done


@attack("faults", way="hang --hosts: no name is resolved", weakness="no job is said to be there")
def test_no_names_for_a_hang() -> None:
    done = faulty(NOBODY, "hang", *HOSTS, unshare="-m")
    assert "no distributed job is seen" not in done.stderr, done
    one_line(done, "none of 2 nodes can be asked", "gpudoctor-a.invalid: unresolvable", status=1)


@attack("faults", way="check: a resolver that never answers", weakness="the examination waits for it, or blames others")
def test_a_resolver_that_is_silent() -> None:
    done = faulty(
        NEVER,
        "check",
        "--no-torch",
        "--timeout",
        "8",
        "--json",
        unshare="-m -n",
        more={"MASTER_ADDR": "gpudoctor.invalid"},
    )
    report = json.loads(done.stdout)
    outcomes = {each["check"]: each["outcome"] for each in report["results"]}
    assert outcomes["kernel-too-old"] == "ok" and outcomes["master-addr-unresolvable"] in ("problem", "skipped"), done


@attack("faults", way="check: no interface is up", weakness="it waits, or a bug of ours is said")
def test_no_interface_is_up() -> None:
    done = faulty("", *CHECK, "--json", unshare="-n")
    assert not [each for each in json.loads(done.stdout)["results"] if each["outcome"] == "crashed"], done


@attack(
    "faults",
    way="nccl-test: the loopback interface is down",
    weakness="its ranks wait for each other",
)
def test_a_test_without_loopback() -> None:
    done = faulty("", "nccl-test", unshare="-n")
    assert done.returncode == 1 and "unreachable" in done.stdout, done


JUMPS = """
import time
real, calls = time.time, [0]
def jumping():
    calls[0] += 1
    return real() + (calls[0] % 3 - 1) * 4e8  # twelve years back, now, twelve years on
time.time = jumping
"""


@attacks("faults", "command",
    ("check: the clock jumps by years at every look", "a deadline passes at once", ("check", "--no-torch")),
    ("hang: the clock jumps by years at every look", "an agent passes for silent", ("hang",)),
    ("checkpoint: the clock jumps by years at every look", "its reader passes for silent", ("checkpoint",)),
)  # fmt: skip
def test_clocks_that_jump(command: tuple[str, ...], tmp_path: Path) -> None:
    tmp_path.joinpath("sitecustomize.py").write_text(JUMPS)
    more = (str(checkpoint(tmp_path)),) if command == ("checkpoint",) else ()
    done = faulty("", *command, *more, more={"PYTHONPATH": str(tmp_path)})
    said = done.stdout + done.stderr
    assert "within" not in said or "deadline" not in said, done
    # 3: a job of another test runs meanwhile, and may not be looked at
    assert done.returncode in (0, 1, 2, 3) and "no answer" not in said and "silent" not in said, done
    if command == ("checkpoint",):
        assert done.returncode == 0, done


@attacks(
    "faults",
    "year",
    ("the clock stands at 1970", "its time cannot be written", -2e9),
    ("the clock stands behind 2106", "its time cannot be written", 3e9),
    way="capture:",
)
def test_clocks_that_are_far_off(year: float, tmp_path: Path) -> None:
    source = f"import time\nreal = time.time\ntime.time = lambda: max(0.0, real() + {year!r})\n"
    tmp_path.joinpath("sitecustomize.py").write_text(source)
    done = faulty("", "capture", "--no-torch", "--timeout", "60", more={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0 and json.loads(done.stdout)["taken_at"], done


@attacks(
    "faults",
    "moment",
    ("written in the year 2242", "its age is computed with", 2**33),
    ("written before 1970", "its age is computed with", -(2**31)),
    way="checkpoint:",
)
def test_files_of_another_time(moment: int, tmp_path: Path) -> None:
    file = checkpoint(tmp_path)
    os.utime(file, (moment, moment))
    done = faulty("", "checkpoint", str(file))
    assert done.returncode == 0 and done.stderr == "", done


@attack("faults", way="check: started long after boot, on another monotonic clock", weakness="a sum of times overflows")
def test_a_monotonic_clock_that_is_far_on() -> None:
    done = faulty("", *CHECK, "--nagios", unshare="-T --fork --monotonic 1000000000 --boottime 1000000000")
    assert done.stdout.startswith("GPUDOCTOR ") and done.returncode in (0, 1), done
