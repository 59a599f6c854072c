"""Whether an answer is right, by what the scenario says, written down before; and how many are.

What lots keep is never printed but in sums (`table` by half): nobody is to learn from it.
"""

from collections import Counter
from collections.abc import Iterable

from tests.lab.hangs.of_users import half
from tests.lab.hangs.on_gpus import EVERY, LOTS
from tests.lab.torch_nccl.looks import Row

SURE = 0.5
"""From which certainty on a first cause is claimed."""
NAMES_NO_CAUSE = "rank-away"
"""What dumps say of a rank that stands in its program, or has ended: which of these, they do not tell."""
ABOUT_RANKS = ("state", "cause", "ranks")
SPLIT = {name: lot for lot, scenarios in LOTS.items() for name in scenarios}
"""The lot of each scenario that is tune or keep; those that are in none are all tune."""


def judged(row: Row) -> dict[str, str]:
    """ "right", "wrong" or "undecided" for each thing that is asked of this answer; nothing of a run that failed."""
    if row.failed:
        return {}
    scenario = EVERY[row.scenario]
    if row.healthy:
        fine = row.state in ("running", "slow") and {cause[0] for cause in row.causes} <= {"straggler"}
        return {"state": "right" if fine else "wrong"}
    found = {}
    if row.view in ("bare", "container"):
        found["state"] = "right" if row.state in scenario.states else "wrong"
    sure = row.certainty >= SURE and row.first != NAMES_NO_CAUSE
    found["cause"] = "undecided" if not sure else "right" if row.first in scenario.causes else "wrong"
    if sure or row.first == NAMES_NO_CAUSE:
        found["ranks"] = "right" if row.ranks in (scenario.culprits, *scenario.or_culprits) else "wrong"
    return found


def is_kept(row: Row) -> bool:
    return row.scenario in SPLIT and half(row.scenario) == "keep"


def line(row: Row) -> str:
    """A row for people."""
    scenario = EVERY[row.scenario]
    if row.failed:
        return f"FAILED {row.scenario} [{row.way}, {row.view}]: {row.text.strip().splitlines()[-1:]}"
    verdict = judged(row)
    good = all(each == "right" for each in verdict.values())
    mark = "ok   " if good else "?    " if "wrong" not in verdict.values() else "WRONG"
    first = f"{row.first} {row.certainty:.2f} ranks {list(row.ranks)}" if row.causes else "no cause"
    wanted = "it gets on" if row.healthy else f"{'/'.join(scenario.causes)} ranks {list(scenario.culprits)}"
    state = f"{row.state}, " if row.state else ""
    where = f"{row.scenario} [{row.way}{' healthy' if row.healthy else ''}, {row.view}]"
    text = f"{mark} {where}: {state}{first} | wanted {wanted} | {row.seconds:g} s"
    return text if good else f"{text}\n        {row.text or row.undecided}"


def table(rows: Iterable[Row]) -> str:
    """Counts for each lot, half, way and view."""
    counts: dict[tuple[str, str, str, str], Counter[str]] = {}
    for row in rows:
        way = f"{row.way} healthy" if row.healthy else row.way
        lot = SPLIT.get(row.scenario, "")
        for each in dict.fromkeys((lot, "all")):
            count = counts.setdefault((each, half(row.scenario) if lot else "", way, row.view), Counter())
            count["failed" if row.failed else "answers"] += 1
            for what, verdict in judged(row).items():
                count[f"{what} {verdict}"] += 1
    heads = ["answers", "state right", "state wrong", "cause right", "cause undecided", "cause wrong", "ranks right",
             "ranks wrong", "failed"]  # fmt: skip
    lines = [f"| lot | half | way | view | {' | '.join(heads)} |", f"|---|---|---|---|{'---|' * len(heads)}"]
    for key, count in sorted(counts.items()):
        lines.append(f"| {' | '.join(key)} | {' | '.join(str(count[head]) for head in heads)} |")
    return "\n".join(lines)
