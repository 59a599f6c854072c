"""`gpudoctor run` beside GPUAlert and TraceML: start, end, and step time of the same training in one run.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install gpualert traceml-ai      # and a torch that it can import
    python -m tests.bench.run_peers --peers /tmp/peers [--rounds 20] [--pairs 20]

Alternating rounds, in turning order, on a machine that does nothing else: each round runs the command by itself and
under each of the three. Nothing is asserted, nothing is sent anywhere (GPUAlert: --no-notify). TraceML starts a script
by torchrun: beside it stands torchrun itself.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.run import TRAINS

SAYS = "import time; print('now', time.time(), flush=True)\n"
TIMED = TRAINS.replace("import time, torch", "import os, time, torch").replace(
    'print("median", steps[len(steps) // 2], flush=True)',
    'open(os.environ["RESULT"], "w").write(str(steps[len(steps) // 2]))',
)
"""What it measured goes into a file: some of these do not pass on what the command says."""


def ways(script: Path, peers: Path, folder: Path) -> dict[str, list[str]]:
    """How the same script is started."""
    python, report = sys.executable, ["--report", str(folder / "reports")]
    plain = [python, str(script)]
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", str(script)]
    ours = [python, "-m", "gpudoctor", "run", "-q", *report]
    logs = str(folder / f"traceml-{time.monotonic_ns()}")
    return {
        "plain": plain,
        "gpudoctor run": [*ours, "--preflight", "none", "--", *plain],
        "gpudoctor run, with the look before": [*ours, "--", *plain],
        "gpualert run": [str(peers / "bin/gpualert"), "run", "--no-notify", *plain],
        "torchrun": torchrun,
        "gpudoctor run, torchrun": [*ours, "--preflight", "none", "--", *torchrun],
        "traceml run": [str(peers / "bin/traceml"), "run", "--nproc-per-node", "1", "--logs-dir", logs, str(script)],
    }


def once(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[float, float] | None:
    """Seconds until the end, and what the script measured; None: it failed."""
    result = folder / "result"
    result.unlink(missing_ok=True)
    began = time.time()
    done = subprocess.run(
        words, env={**environment, "RESULT": str(result)}, capture_output=True, check=False, cwd=folder
    )
    ended = time.time() - began
    if done.returncode or not result.exists():
        return None
    return ended, float(result.read_text())


def told(name: str, ratios: Sequence[float], unit: str) -> str:
    cuts = statistics.quantiles(ratios, n=10) if len(ratios) > 1 else [*ratios, *ratios]
    return f"| {name} | {statistics.median(ratios):.3f}{unit} | {cuts[0]:.3f} to {cuts[-1]:.3f} | {len(ratios)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=20)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "XDG_STATE_HOME": name, "HOME": name, "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
        for title, text, rounds in (
            ("all of a command that does nothing, seconds more than by itself", SAYS, asked.rounds),
            ("step time, times that by itself", TIMED, asked.pairs),
        ):
            script = folder / "train.py"
            by_file = "import os, time; open(os.environ['RESULT'], 'w').write(str(time.time()))\n"
            script.write_text(by_file if text is SAYS else text)
            found: dict[str, list[float]] = {}
            for number in range(rounds):
                every = list(ways(script, asked.peers, folder).items())
                turned = every[number % len(every) :] + every[: number % len(every)]
                seen = {each: once(words, environment, folder) for each, words in turned}
                for each, value in seen.items():
                    base = seen["torchrun" if each in ("traceml run", "gpudoctor run, torchrun") else "plain"]
                    if value is not None and base is not None and each not in ("plain", "torchrun"):
                        more = value[0] - base[0] if text is SAYS else value[1] / base[1]
                        found.setdefault(each, []).append(more)
            print(f"\n{title}\n| | median | 10th to 90th percentile | rounds |\n|---|---|---|---|")
            for each, values in found.items():
                print(told(each, values, ""))
            print(json.dumps({each: len(values) for each, values in found.items()}))


if __name__ == "__main__":
    main()
