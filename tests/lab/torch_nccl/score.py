"""Whether an answer is right, by what the scenario says, written down before; and how many are."""

from collections import Counter
from collections.abc import Iterable

from tests.lab.hangs.on_gpus import EVERY
from tests.lab.torch_nccl.looks import Row

SURE = 0.5
"""From which certainty on a first cause is claimed."""
NAMES_NO_CAUSE = "rank-away"
"""What dumps say of a rank that stands in its program, or has ended: which of these, they do not tell."""
ABOUT_RANKS = ("state", "cause", "ranks")


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
        found["ranks"] = "right" if row.ranks == scenario.culprits else "wrong"
    return found


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
    """Counts for each way and view."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        way = f"{row.way} healthy" if row.healthy else row.way
        count = counts.setdefault((way, row.view), Counter())
        count["failed" if row.failed else "answers"] += 1
        for what, verdict in judged(row).items():
            count[f"{what} {verdict}"] += 1
    heads = ["answers", "state right", "state wrong", "cause right", "cause undecided", "cause wrong", "ranks right",
             "ranks wrong", "failed"]  # fmt: skip
    lines = [f"| way | view | {' | '.join(heads)} |", f"|---|---|{'---|' * len(heads)}"]
    for (way, view), count in counts.items():
        lines.append(f"| {way} | {view} | {' | '.join(str(count[head]) for head in heads)} |")
    return "\n".join(lines)
