"""Sets of dumps with a fault in them, and what must be told of each: written before `hang` saw any of them.

    python -m tests.recorder_sets FOLDER [ID...]

Half of them, by a hash of their names, are *keep*: of these only the sums are looked at.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.recorder_play import TIMEOUT, Fault, SetOfDumps, write

AWAY, STUCK, DEAD = "away", "stuck", "dead"
TP, PP, DP, EP = (f"{name}_PARALLEL_GROUP" for name in ("TENSOR_MODEL", "PIPELINE_MODEL", "DATA", "EXPERT_MODEL"))
ALL = "default_pg"

SETS = (
    # data parallel
    SetOfDumps("dp8-away", "dp8", (Fault(5, "away", 8),), {5: AWAY}, ALL),
    SetOfDumps("dp8-away-in-buckets", "dp8", (Fault(2, "away", 6),), {2: AWAY}, DP),
    SetOfDumps("dp8-gpu-error", "dp8", (Fault(3, "ended by peers", 6),), {3: STUCK}, DP),
    SetOfDumps("dp8-dead", "dp8", (Fault(7, "dead", 8),), {7: DEAD}, ALL),
    SetOfDumps("dp8-skips-one", "dp8", (Fault(1, "skips", 8),), {1: AWAY}, ALL),
    SetOfDumps("dp8-link", "dp8", (Fault(0, "link", 4),), {}, DP, decidable=False),
    SetOfDumps("dp8-in-flight", "dp8", (), {}, in_flight=4, decidable=False),
    SetOfDumps("dp8-finished", "dp8", (), {}, decidable=False),
    SetOfDumps("dp8-wrapped", "dp8", (Fault(6, "away", 13),), {6: AWAY}, ALL, ring=4),
    SetOfDumps("dp8-old-dump", "dp8", (Fault(5, "away", 13),), {5: AWAY}, ALL, written_after={3: -TIMEOUT - 3}),
    # tensor and pipeline parallel
    SetOfDumps("pp4-away-before-receive", "tp2-pp4", (Fault(4, "away", 50),), {4: AWAY}, f"{PP}|{TP}"),
    SetOfDumps("pp4-gpu-error-in-send", "tp2-pp4", (Fault(2, "ended by peers", 45),), {2: STUCK}, PP),
    SetOfDumps(
        "pp4-two-away", "tp2-pp4", (Fault(3, "away", 24), Fault(6, "away", 21)), {3: AWAY, 6: AWAY}, f"{PP}|{TP}"
    ),
    SetOfDumps("pp4-gpu-error", "tp2-pp4", (Fault(5, "ended by peers", 22),), {5: STUCK}, TP),
    SetOfDumps("pp4-only-active", "tp2-pp4", (Fault(1, "away", 35),), {1: AWAY}, f"{PP}|{TP}", only_active=True),
    SetOfDumps("pp4-in-flight", "tp2-pp4", (), {}, in_flight=80, decidable=False),
    SetOfDumps("pp4-link", "tp2-pp4", (Fault(0, "link", 40),), {}, decidable=False),
    SetOfDumps(
        "pp4-node-lost", "tp2-pp4", (Fault(0, "dead", 20), Fault(1, "dead", 20)), {0: DEAD, 1: DEAD}, f"{PP}|{TP}"
    ),
    SetOfDumps("pp4-dp2-dead", "pp4-dp2", (Fault(5, "dead", 20),), {5: DEAD}, PP),
    SetOfDumps("pp4-dp2-some-dumps", "pp4-dp2", (Fault(2, "away", 27),), {2: AWAY}, PP, without=(6, 7)),
    SetOfDumps("pp4-dp2-without-it", "pp4-dp2", (Fault(4, "away", 27),), {}, PP, without=(4, 5, 6), decidable=False),
    # pipelines that ask for what they receive one microbatch ahead, written after the others were first read
    SetOfDumps("ahead-away", "tp2-pp4-ahead", (Fault(4, "away", 75),), {4: AWAY}, f"{PP}|{TP}"),
    SetOfDumps("ahead-two-away", "tp2-pp4-ahead", (Fault(2, "away", 60), Fault(7, "away", 45)), {2: AWAY, 7: AWAY}, TP),
    SetOfDumps("ahead-gpu-error", "tp2-pp4-ahead", (Fault(5, "ended by peers", 55),), {5: STUCK}, TP),
    SetOfDumps("ahead-dead", "tp2-pp4-ahead", (Fault(3, "dead", 90),), {3: DEAD}, f"{PP}|{TP}"),
    SetOfDumps("ahead-wrapped", "tp2-pp4-ahead", (Fault(4, "away", 80),), {4: AWAY}, f"{PP}|{TP}", ring=20),
    SetOfDumps("ahead-in-flight", "tp2-pp4-ahead", (), {}, in_flight=100, decidable=False),
    SetOfDumps(
        "ahead-only-active", "tp2-pp4-ahead", (Fault(2, "away", 70),), {2: AWAY}, f"{PP}|{TP}", only_active=True
    ),
    # expert parallel
    SetOfDumps(
        "ep16-two-gpu-errors",
        "tp2-pp2-dp4-ep",
        (Fault(12, "ended by peers", 36), Fault(14, "ended by peers", 36)),
        {12: STUCK, 14: STUCK},
        TP,
    ),
    SetOfDumps(
        "ep16-two-away",
        "tp2-pp2-dp4-ep",
        (Fault(10, "away", 37), Fault(15, "away", 37)),
        {10: AWAY, 15: AWAY},
        f"{EP}|{TP}",
    ),
    SetOfDumps(
        "ep16-away-and-gpu-error",
        "tp2-pp2-dp4-ep",
        (Fault(3, "away", 42), Fault(9, "ended by peers", 36)),
        {3: AWAY, 9: STUCK},
        f"{EP}|{TP}",
    ),
    SetOfDumps("ep16-wrapped", "tp2-pp2-dp4-ep", (Fault(6, "away", 74),), {6: AWAY}, f"{EP}|{TP}|{PP}", ring=12),
    SetOfDumps("ep8-away", "ep8", (Fault(4, "away", 15),), {4: AWAY}, EP),
    SetOfDumps("ep8-gpu-error-only-active", "ep8", (Fault(1, "ended by peers", 16),), {1: STUCK}, EP, only_active=True),
    # tensor and data parallel
    SetOfDumps("tp4-order", "tp4-dp4", (Fault(9, "crossed", 0),), {9: "diverged"}, TP),
    SetOfDumps("tp4-gpu-hangs-timing", "tp4-dp4", (Fault(10, "never begun", 15),), {10: STUCK}, TP, timing=True),
    SetOfDumps("tp4-gpu-hangs", "tp4-dp4", (Fault(10, "never begun", 15),), {}, TP, decidable=False),
    SetOfDumps("tp4-two-moments", "tp4-dp4", (Fault(11, "away", 16),), {11: AWAY}, TP, written_after={0: 400.0}),
    SetOfDumps("tp4-dp4-wrapped-and-dead", "tp4-dp4", (Fault(13, "dead", 30),), {13: DEAD}, f"{TP}|{DP}", ring=6),
)


def main(arguments: Sequence[str]) -> None:
    folder, *ids = arguments
    for each in SETS:
        if not ids or each.id in ids:
            print(write(each, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
