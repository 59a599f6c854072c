"""How long `gpudoctor nccl-test` takes on hosts of the lab, part by part: `python -m tests.bench.nccl_test [HOSTS]`.

    3 hosts by ssh, gloo, sizes up to 64 MiB: command to verdict (promised: 25 s), and its preflight (3 s)
    64 stand-ins on this machine: their preflight (10 s, as far as the machine carries)

Needs root and the lab's packages (docs/contributing.md). Prints seconds; asserts nothing: machines are shared.
"""

import json
import subprocess
import sys
import time

from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.reach import reach
from gpudoctor.nccl.preflight import PreflightWish, preflight
from tests.lab.sshd import ssh_hosts


def on_lab_hosts(count: int) -> None:
    """The whole command, as a user at the first host types it."""
    names = [f"n{number:02}" for number in range(1, count + 1)]
    with ssh_hosts(*names) as cluster:
        began = time.monotonic()
        words = ("nccl-test", "--hosts", ",".join(names), "--max-bytes", "64M", "--json")
        command = cluster[names[0]].command(sys.executable, "-m", "gpudoctor", *words)
        done = subprocess.run(
            command, env=cluster.environment(), capture_output=True, text=True, timeout=300, check=False
        )
        whole = time.monotonic() - began
    seconds = json.loads(done.stdout)["seconds"]
    parts = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    print(f"{count} hosts by ssh, 8 B to 64 MiB: {whole:.1f} s in all; {parts}; exit status {done.returncode}")


def preflight_of_stand_ins(count: int) -> None:
    """So many agents on this machine, each examined and connected with all or some of the others."""
    with LocalFleet([f"n{number:02}" for number in range(1, count + 1)]) as fleet:
        began = time.monotonic()
        reach(fleet, timeout=120)
        reached = time.monotonic()
        preflight(fleet, PreflightWish())
        print(
            f"{count} agents on this machine: started in {reached - began:.2f} s, "
            f"preflight in {time.monotonic() - reached:.2f} s"
        )


def main() -> None:
    on_lab_hosts(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    preflight_of_stand_ins(64)


if __name__ == "__main__":
    main()
