"""The hang lab's jobs under `gpudoctor run`: `python -m tests.lab.ends.stalls healthy|hung [NAME...]`.

Each is started by torchrun, as a user starts it. Healthy ones get so many seconds, and must never be called a stall; a
job that hangs is to be named by itself, with its cause, within the stall time and 15 s. Of *keep* only sums are
printed. Exit status: 1 where a healthy job was called a stall.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from tests.lab.ends.started import truly
from tests.lab.hangs.of_users import GETTING_ON, OF_USERS, half
from tests.lab.hangs.training import HANGS, MARK, SCENARIOS, Scenario, end
from tests.lab.sshd import user_environment

STALL = 8.0
WATCHED = 50.0
"""Seconds that a healthy job is watched, from its start."""
LONGEST = 150.0
STANDS = re.compile(r"gpudoctor: it has (?:begun no collective|said nothing) for (\d+) s, and stands still")
NAMED = re.compile(r"gpudoctor: cause: .*\[([\w-]+)\]")


def looked(scenario: Scenario, healthy: bool) -> tuple[float | None, str, str]:
    """After how many seconds it was said that it stands still; the cause; all that was said of ours."""
    mark = uuid.uuid4().hex
    option = ["--healthy"] if healthy and scenario.name in SCENARIOS else []
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={scenario.ranks}"]
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        ours = ["--preflight", "none", "--report", name, "--stall", str(STALL)]
        words = [sys.executable, "-m", "gpudoctor", "run", *ours, "--", *job, str(HANGS / scenario.script)]
        variables = {**truly(user_environment()), MARK: mark, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        place = Path(name, "said")
        with place.open("wb") as file:
            process = subprocess.Popen(
                [*words, *scenario.options, *option],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                cwd=name,
            )
            drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, start_new_session=True)
            until = time.monotonic() + (WATCHED if healthy else LONGEST)
            while time.monotonic() < until and process.poll() is None:
                time.sleep(0.2)
                if not healthy and NAMED.search(place.read_text(errors="replace")):
                    break
            said = "".join(line for line in place.open(errors="replace") if line.startswith("gpudoctor:"))
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(40)
            end(mark, [process, drain])
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
    stands, named = STANDS.search(said), NAMED.search(said)
    return (float(stands[1]) if stands else None), (named[1] if named else ""), said


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["healthy", "hung"])
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    healthy = asked.which == "healthy"
    twins = {name: each for name, each in SCENARIOS.items() if each.healthy or not healthy}
    every = {**twins, **(GETTING_ON if healthy else {name: OF_USERS[name] for name in OF_USERS.keys() - GETTING_ON})}
    chosen = [
        each
        for name, each in sorted(every.items())
        if each.launcher == "torchrun" and not each.memory_limit and name in (asked.names or every)
    ]
    stood = right = late = 0
    for scenario in chosen:
        seconds, cause, said = looked(scenario, healthy)
        stood += seconds is not None
        right += cause in scenario.causes
        late += seconds is not None and seconds > STALL + 15
        if healthy or scenario.name in SCENARIOS or half(scenario.name) == "tune":
            words = "no stall" if seconds is None else f"a stall after {seconds:.0f} s, {cause or 'undecided'}"
            print(f"{scenario.name}: {words}", flush=True)
            if (seconds is not None) == healthy:
                print(said, flush=True)
    print(
        f"{len(chosen)} jobs; called a stall: {stood}; with the right cause: {right}; later than stall + 15 s: {late}"
    )
    return int(healthy and stood > 0)


if __name__ == "__main__":
    sys.exit(main())
