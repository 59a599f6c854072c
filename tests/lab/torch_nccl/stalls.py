"""Hangs on NCCL under `gpudoctor run --stall 8`: `python -m tests.lab.torch_nccl.stalls [NAME...]`.

As tests/lab/ends/stalls.py for gloo: nothing asks for a look but `run` itself. Of *keep* only sums are printed.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.lab import machines
from tests.lab.ends.stalls import IN_TIME, LONGEST, NAMED, STALL, STANDS, UNDECIDED
from tests.lab.ends.started import truly
from tests.lab.hangs.of_users import half
from tests.lab.hangs.on_gpus import ON_GPUS
from tests.lab.hangs.training import MARK, Scenario, end
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.sshd import user_environment
from tests.lab.torch_nccl import scripts
from tests.lab.torch_nccl.looks import Wheels, environment, meeting_place

SPINS = 14.0
"""Seconds after its start from which on a job's ranks wait as on a GPU: at 100 %."""
LIMIT = 600


class NcclStall(NamedTuple):
    name: str
    half: str
    seconds: float | None
    """Since its last collective, when it was said that it stands still."""
    cause: str
    right: bool
    ranks_right: bool
    said: str


def looked(scenario: Scenario, release: Wheels) -> NcclStall:
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="stalls-") as name, meeting_place() as place:
        folder = Path(name)
        with fake_nvidia(machines.hgx_h100()) as around:
            variables = {**truly(user_environment()), **around, **environment(release, "plain", folder, place)}
            variables |= {"PYTHONPATH": str(release.site), MARK: mark, "OMP_NUM_THREADS": "1"}
            script = scripts.write(folder / "scripts", LIMIT) / scenario.script
            ours = ["--preflight", "none", "--report", str(folder / "report"), "--stall", str(STALL)]
            words = [sys.executable, "-m", "gpudoctor", "run", *ours, "--", sys.executable, "-m"]
            words += ["torch.distributed.run", "--standalone", f"--nproc-per-node={scenario.ranks}", str(script)]
            errors = folder / "said"
            with errors.open("wb") as file:
                process = subprocess.Popen(
                    [*words, *scenario.options],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=file,
                    cwd=name,
                    start_new_session=True,
                )
            try:
                text = waited_for(process, errors, folder / "spin")
            finally:
                (folder / "spin").unlink(missing_ok=True)
                process.send_signal(signal.SIGTERM)
                with_patience(process)
                end(mark, [process])
            answers = sorted(folder.rglob("hang-*[0-9].json"), key=lambda path: path.stat().st_mtime)
            causes = json.loads(answers[-1].read_text())["jobs"][0]["causes"] if answers else []
    stands, named = STANDS.search(text), NAMED.search(text)
    cause = named[1] if named else ""
    ranks = tuple(causes[0]["ranks"]) if causes else ()
    return NcclStall(
        scenario.name,
        half(scenario.name),
        float(stands[1]) if stands else None,
        cause,
        cause in scenario.causes,
        ranks in (scenario.culprits, *scenario.or_culprits),
        text,
    )


def waited_for(process: subprocess.Popen[bytes], errors: Path, spin: Path) -> str:
    """What `run` has said, once it has named a cause or was watched long enough."""
    begin = time.monotonic()
    until = begin + LONGEST
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.3)
        if time.monotonic() - begin > SPINS:
            spin.touch()
        text = errors.read_text(errors="replace")
        if NAMED.search(text):
            break
        if STANDS.search(text):
            until = min(until, time.monotonic() + UNDECIDED)
    return errors.read_text(errors="replace")


def with_patience(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()


def scored(rows: Sequence[NcclStall]) -> str:
    lines = [
        "| half | jobs | said that it stands | cause named | right | rank too | late |",
        "|---|---|---|---|---|---|---|",
    ]
    for side in ("keep", "tune"):
        own = [row for row in rows if row.half == side]
        right = [row for row in own if row.right]
        late = [row for row in own if row.seconds is not None and row.seconds > IN_TIME]
        told = sum(row.seconds is not None for row in own)
        sums = (
            len(own),
            told,
            sum(bool(row.cause) for row in own),
            len(right),
            sum(r.ranks_right for r in right),
            len(late),
        )
        lines.append(f"| {side} | {' | '.join(map(str, sums))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.torch_nccl.stalls", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--at-once", type=int, default=1)
    chosen = parser.parse_args()
    release = Wheels.of(wheels.NEWEST_TORCH)

    def one(name: str) -> NcclStall | None:
        try:
            row = looked(ON_GPUS[name], release)
        except Exception as error:  # the others go on
            print(f"FAILED {name}: {type(error).__name__}: {error}"[-500:], flush=True)
            return None
        if row.half == "tune":
            print(f"{'ok   ' if row.right else 'WRONG'} {name} after {row.seconds} s: {row.cause}", flush=True)
            print("" if row.right else row.said[-1500:], end="", flush=True)
        return row

    with ThreadPoolExecutor(chosen.at_once) as pool:
        rows = [row for row in pool.map(one, chosen.names or ON_GPUS) if row is not None]
    print(scored(rows))
    return int(not all(row.right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
