"""The real NCCL on described machines, beside what we say of it: `python -m tests.lab.nccl [WORD...] [--releases ...]`.

WORDs choose cases by what is in their names; `fetch` as the only one downloads NCCL into the cache. `--drawn N` asks
about N machines of each kind that hypothesis makes, and not about those of cases.py. As root. Exit status: 1 when
something differs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.lab.nccl import wheels
from tests.lab.nccl.cases import all_cases
from tests.lab.nccl.drawn import drawn
from tests.lab.nccl.failures import failure_cases
from tests.lab.nccl.oracle import Case, Outcome, ask


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.nccl", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--releases", default=",".join(wheels.NCCL_RELEASES), help="default: all")
    parser.add_argument("--at-once", type=int, default=2, help="so many machines at a time")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="so many machines made by hypothesis")
    parser.add_argument("--seed", type=int, default=0, help="of those machines")
    chosen = parser.parse_args()
    releases = chosen.releases.split(",")
    if chosen.words == ["fetch"]:
        for release in releases:
            print(wheels.fetch_nccl(release))
        return 0
    made = drawn(chosen.drawn, chosen.seed) if chosen.drawn else [*all_cases(), *failure_cases()]
    cases = [
        replace(case, releases=releases if chosen.drawn else [each for each in case.releases if each in releases])
        for case in made
        if not chosen.words or any(word in case.name for word in chosen.words)
    ]
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(chosen.at_once) as pool:
        for found in pool.map(asked, cases):
            for outcome in found:
                outcomes.append(outcome)
                if not outcome.agrees:
                    settings = " ".join(f"{name}={value!r}" for name, value in outcome.settings.items())
                    print(f"{outcome.case} [{outcome.release}] {settings}", flush=True)
                    for difference in outcome.differences[:6]:
                        print(f"    {difference}")
                    if outcome.said:
                        print(f"    NCCL: {outcome.said}")
    print(f"\n{table(outcomes)}")
    return int(any(not outcome.agrees for outcome in outcomes))


TRIES = 3
NOT_IN_TIME = ("no answer within", "did not end within", "had not come to its first call within")
"""What a crowded machine says of itself, and not of NCCL."""


def asked(case: Case) -> list[Outcome]:
    """Those again of which NCCL, or we, did not answer in time."""
    outcomes = _asked_once(case)
    for _ in range(TRIES):
        for late in filter(_is_late, outcomes):
            settings = [late.settings] if late.release != "-" else case.settings
            again = replace(case, releases=case.releases if late.release == "-" else [late.release], settings=settings)
            at = outcomes.index(late)
            outcomes = [*outcomes[:at], *_asked_once(again), *outcomes[at + 1 :]]
    return outcomes


def _is_late(outcome: Outcome) -> bool:
    return any(words in text for text in (*outcome.differences, outcome.said) for words in NOT_IN_TIME)


def _asked_once(case: Case) -> list[Outcome]:
    try:
        return list(ask(case, own_captures=True))
    except Exception as error:  # a machine that cannot be made is told, and the others go on
        text = f"the case failed: {type(error).__name__}: {str(error)[-600:]}"
        return [Outcome(case.name, f"{case.kind} failed", "-", {}, 1, [text], "")]


def table(outcomes: Iterable[Outcome]) -> str:
    """Agreement by kind and release: of runs, and of what is compared within them."""
    runs: Counter[tuple[str, str, str]] = Counter()
    for outcome in outcomes:
        found = {"runs": 1, "agree": outcome.agrees, "things": outcome.compared, "differ": len(outcome.differences)}
        for name, number in found.items():
            runs[outcome.kind, outcome.release, name] += number
    lines = ["| kind | NCCL | runs that agree | of | things that agree | of |", "|---|---|---|---|---|---|"]
    for kind, release in dict.fromkeys(key[:2] for key in runs):
        count = {name: runs[kind, release, name] for name in ("runs", "agree", "things", "differ")}
        alike = count["things"] - count["differ"]
        lines.append(f"| {kind} | {release} | {count['agree']} | {count['runs']} | {alike} | {count['things']} |")
    total = {
        name: sum(n for key, n in runs.items() if key[2] == name) for name in ("runs", "agree", "things", "differ")
    }
    lines.append(
        f"| all | | {total['agree']} | {total['runs']} | {total['things'] - total['differ']} | {total['things']} |"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
