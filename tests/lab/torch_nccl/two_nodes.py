"""`gpudoctor nccl-test` over several nodes on the real NCCL: `python -m tests.lab.torch_nccl.two_nodes MODE [WORD...]`.

Nodes are network and UTS namespaces (tests/lab/hosts.py), so that NCCL takes them for machines of their own: ranks find
each other over eth0. What they send goes through the stand-ins, and so no link can be made slow here: rounds, logs,
settings and answers are real, speeds are not.

| mode | |
|---|---|
| symmetric | each node's torchrun starts `-m gpudoctor nccl-test` |
| find-slow | the head waits for the others to join, and runs its rounds over them |
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal, NamedTuple

from tests.lab import machines
from tests.lab.hosts import Host, hosts
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl import looks

Mode = Literal["symmetric", "find-slow"]
SMALL = ("--max-bytes", "512", "--factor", "8", "--warmup", "1", "--iters", "2")
WORDS: dict[Mode, tuple[str, ...]] = {
    "symmetric": SMALL,
    "find-slow": ("--gpus-per-node", "2", "--find-slow", "--max-bytes", "64M", "--interface", "eth0"),
}
PATIENCE = 400.0
INVITATION = re.compile(r"GPUDOCTOR_TOKEN=(?P<token>\S+) .*--join (?P<head>\S+)")


class Part(NamedTuple):
    """What a node's command said."""

    status: int
    output: str
    errors: str


def ask(mode: Mode, folder: Path, *words: str, nodes: int = 2, **settings: str) -> list[Part]:
    """The answer of each node, the head's first."""
    release = looks.Wheels.of(wheels.NEWEST_TORCH)
    with hosts(*"abcd"[:nodes]) as machines_, looks.meeting_place() as place, fake_nvidia(machines.hgx_h100()) as here:
        variables = {**os.environ, **here, **looks.environment(release, "plain", folder, place), "OMP_NUM_THREADS": "1"}
        variables["LD_LIBRARY_PATH"] = f"{release.standins}:{here.get('LD_LIBRARY_PATH', '')}"
        ours = str(Path(__file__).parents[3])
        variables |= {"PYTHONPATH": f"{release.site}:{ours}", "NCCL_SOCKET_IFNAME": "eth0", **settings}
        started: list[tuple[Host, subprocess.Popen[bytes]]] = []

        def start(host: Host, *command: str, **more: str) -> None:
            with (folder / f"{host.name}.out").open("wb") as output, (folder / f"{host.name}.err").open("wb") as errors:
                process = subprocess.Popen(
                    host.command(sys.executable, "-m", *command),
                    env=variables | more,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                )
            started.append((host, process))

        words = words or WORDS[mode]
        until = time.monotonic() + PATIENCE
        try:
            if mode == "symmetric":
                around = ("--nnodes", str(nodes), "--master-addr", machines_[0].address(), "--nproc-per-node", "2")
                for number, host in enumerate(machines_):
                    rank = ("--node-rank", str(number), "--master-port", "29511")
                    start(host, "torch.distributed.run", *around, *rank, "-m", "gpudoctor", "nccl-test", *words)
            else:
                start(machines_[0], "gpudoctor", "nccl-test", "--nodes", str(nodes), "--wait", "120", *words)
                token, head = _invited(folder / f"{machines_[0].name}.err", until)
                for host in machines_[1:]:
                    start(host, "gpudoctor", "nccl-test", "--join", head, GPUDOCTOR_TOKEN=token)
            statuses = [process.wait(max(1.0, until - time.monotonic())) for _, process in started]
        finally:
            for _, process in started:
                process.kill()
                process.wait()
        texts = [[(folder / f"{host.name}.{end}").read_text() for end in ("out", "err")] for host in machines_]
        return [Part(status, *own) for status, own in zip(statuses, texts, strict=True)]


def _invited(errors: Path, until: float) -> tuple[str, str]:
    """The token and the address that the head prints."""
    while (match := INVITATION.search(errors.read_text())) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"the head invites nobody\n{errors.read_text()}")
        time.sleep(0.2)
    return match["token"], match["head"]


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in WORDS:
        print(__doc__)
        return 2
    mode: Mode = "symmetric" if sys.argv[1] == "symmetric" else "find-slow"
    with tempfile.TemporaryDirectory(prefix="gpudoctor-two-nodes-") as folder:
        parts = ask(mode, Path(folder), *sys.argv[2:])
    for part in parts:
        print(f"--- {part.status}\n{part.output}\n{part.errors}")
    return max(part.status for part in parts)


if __name__ == "__main__":
    sys.exit(main())
