"""CPU of `gpudoctor lint`, and 10,000 random and mutated texts: none may raise, none may take a second.

    python -m tests.bench.lint [--texts 10000] [--seed 0]

Printed beside the promises: 0.3 s of CPU an answer. Nothing is asserted.
"""

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
import traceback

from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.rule import every_rule
from tests.test_cli_lint import PIECES, mutated

CPU_SECONDS = 0.3
RUNS = 7
SHOWN = 5
TEXT = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
    + "export NCCL_DEBUG=INFO\n" * 30
    + ("srun torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_PROCID --master-addr=10.20.0.11 train.py\n")
)


def cpu(*arguments: str) -> float:
    """CPU seconds of one run, descendants included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "gpudoctor", "lint", *arguments],
        input=TEXT.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def texts(number: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    examples = [example.text for rule in every_rule() for example in (*rule.bad, *rule.good)]
    return [
        mutated(chance, chance.choice(examples))
        if turn % 2
        else " ".join(chance.choices(PIECES, k=chance.randint(0, 40)))
        for turn in range(number)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, arguments in (("lint -", ("-",)), ("lint --json -", ("--json", "-"))):
        cpu(*arguments)
        median = statistics.median(cpu(*arguments) for _ in range(RUNS))
        print(f"{name:14} {median:.3f} s CPU, median of {RUNS} (promised: {CPU_SECONDS})")
    rules = every_rule()
    worst, slow, broken = 0.0, "", 0
    for text in texts(given.texts, given.seed):
        started = time.perf_counter()
        try:
            answer = lint(read_job(text, LintFacts(nodes=2)), rules)
            crashed = [each for each in answer.unknown if "a bug in gpudoctor" in each]
            if crashed:
                broken += 1
                if broken <= SHOWN:
                    print(crashed, repr(text))
        except UnreadableText:
            pass
        except Exception:
            broken += 1
            if broken <= SHOWN:
                print(repr(text))
                traceback.print_exc()
        seconds = time.perf_counter() - started
        if seconds > worst:
            worst, slow = seconds, text
    print(f"{given.texts} texts: {broken} broken, the slowest {worst:.3f} s: {slow[:200]!r}")


if __name__ == "__main__":
    main()
