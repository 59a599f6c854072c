"""`python -m tests.lab.slow.over_hosts`: a job of `job.py` on two hosts of the lab, asked by ssh from the first.

What must be said, written before: the late rank on b with its host; nobody where all are even; nobody either, and exit
status 3, where the ranks of b have a clock that is 2 s ahead and nobody has measured it (their node's is right).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpudoctor.run.arming import SITE
from tests.lab.hangs.hosts import job
from tests.lab.slow.jobs import SCRIPT
from tests.lab.sshd import ssh_hosts, user_environment

AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (!status && id == CLOCK_REALTIME) at->tv_sec += 2;
    return status;
}
"""
RANKS, OF_A_HOST = 4, 2
PORT = "29577"


def asked(options: tuple[str, ...], preload: str = "") -> tuple[int, dict[str, object]]:
    """The exit status and the answer for a job with two ranks on each of two hosts."""
    with ssh_hosts("a", "b") as cluster, job(cluster, truly=True) as running:
        armed = {"PYTHONPATH": str(SITE), "MASTER_ADDR": cluster["a"].address(), "MASTER_PORT": PORT}
        armed |= {"WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "eth0"}
        for rank in range(RANKS):
            host = "a" if rank < OF_A_HOST else "b"
            own = armed | {"RANK": str(rank), "LOCAL_RANK": str(rank % OF_A_HOST)}
            own |= {"LD_PRELOAD": preload} if preload and host == "b" else {}
            running.start(host, sys.executable, str(SCRIPT), *options, **own)
        for rank in range(RANKS):
            running.wait_for("", f"rank {rank} step 1")
        words = (sys.executable, "-m", "gpudoctor", "slow", "--hosts", "a,b", "--json")
        done = cluster.head.run(*words, environment=user_environment() | cluster.environment(), timeout=280)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"error": done.stderr[-500:]}


def main() -> None:
    late = ("--at", "forward", "--rank", "3", "--ms", "20", "--step-ms", "15")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "ahead.c"), Path(folder, "ahead.so")
        source.write_text(AHEAD)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        for name, options, preload in (
            ("rank 3 late", late, ""),
            ("even", ("--step-ms", "15"), ""),
            ("even, b's ranks 2 s ahead", ("--step-ms", "15"), str(library)),
        ):
            status, answer = asked(options, preload)
            paces = answer.get("paces")
            pace: dict[str, Any] = (
                next((each for each in paces if each["world_size"] == RANKS), {}) if isinstance(paces, list) else {}
            )
            said = [each["summary"] for each in pace.get("slow", ())] or pace.get("unknown") or pace.get("verdict")
            print(f"{name} [{status}]: {said or answer}", flush=True)


if __name__ == "__main__":
    main()
