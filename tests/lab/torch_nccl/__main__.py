"""The hangs of the lab on the real ProcessGroupNCCL: `python -m tests.lab.torch_nccl [NAME...] [--ways plain,pipe]`.

`fetch` as the only name downloads torch and NCCL into the cache (wheels.py). Exit status: 1 when an answer is wrong.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.hangs.on_gpus import EVERY
from tests.lab.hangs.training import SCENARIOS
from tests.lab.nccl import standins, wheels
from tests.lab.torch_nccl import looks, score


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.torch_nccl", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of tests/lab/hangs; none: all")
    parser.add_argument(
        "--ways", default="plain", help=f"how jobs are started: {', '.join(looks.WAYS)}; default: plain"
    )
    parser.add_argument("--healthy", action="store_true", help="the same programs without the fault")
    parser.add_argument("--live", action="store_true", help="do not wait for the time-out")
    parser.add_argument("--after", action="store_true", help="no look before the time-out")
    parser.add_argument("--torch", default=wheels.NEWEST_TORCH, choices=list(wheels.TORCH_RELEASES))
    parser.add_argument("--limit", type=int, default=looks.LIMIT, help="the group's time-out, in seconds")
    parser.add_argument("--at-once", type=int, default=1, help="so many jobs at a time")
    parser.add_argument("--keep", type=Path, help="a folder for logs, answers, dumps and rows.jsonl")
    chosen = parser.parse_args()
    if chosen.names == ["fetch"]:
        print(wheels.fetch_torch(chosen.torch))
        return 0
    if unknown := {*chosen.names} - {*EVERY}:
        parser.error(f"{', '.join(sorted(unknown))}: no such scenario; there are {', '.join(EVERY)}")
    release = looks.Wheels(wheels.fetch_torch(chosen.torch), Path())
    release = release._replace(standins=standins.for_torch(release.site))
    starts = [
        (name, way)
        for way in chosen.ways.split(",")
        for name in chosen.names or SCENARIOS
        if (way != "arm" or name in looks.KNOWS_ARM) and (EVERY[name].healthy or not chosen.healthy)
    ]

    def rows_of(start: tuple[str, str]) -> list[looks.Row]:
        live: tuple[looks.View, ...] = () if chosen.after else ("bare", "container")
        options = {"healthy": chosen.healthy, "limit": chosen.limit, "after": not chosen.live, "keep": chosen.keep}
        return list(looks.run(*start, release, live=live, **options))

    rows: list[looks.Row] = []
    with ThreadPoolExecutor(chosen.at_once) as pool:
        for row in flat(pool.map(rows_of, starts)):
            if not score.is_kept(row):
                print(score.line(row), flush=True)
            rows.append(row)
            if chosen.keep:
                with (chosen.keep / "rows.jsonl").open("a") as file:
                    file.write(json.dumps(row._asdict()) + "\n")
    print(f"\n{score.table(rows)}")
    return int(any("wrong" in score.judged(row).values() for row in rows))


def flat(groups: Iterator[list[looks.Row]]) -> Iterator[looks.Row]:
    for group in groups:
        yield from group


if __name__ == "__main__":
    sys.exit(main())
