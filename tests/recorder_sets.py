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

FURTHER = (
    # each rank holds two parts of a pipeline, and sends and receives in batches
    SetOfDumps("halves-away", "interleaved", (Fault(4, "away", 30),), {4: AWAY}),
    SetOfDumps("halves-two-away", "interleaved", (Fault(2, "away", 27), Fault(5, "away", 25)), {2: AWAY, 5: AWAY}),
    SetOfDumps("halves-gpu-error-in-batch", "interleaved", (Fault(6, "ended by peers", 35),), {6: STUCK}),
    SetOfDumps("halves-gpu-error", "interleaved", (Fault(1, "ended by peers", 36),), {1: STUCK}),
    SetOfDumps("halves-dead", "interleaved", (Fault(3, "dead", 60),), {3: DEAD}),
    SetOfDumps("halves-only-active", "interleaved", (Fault(7, "away", 45),), {7: AWAY}, only_active=True),
    SetOfDumps("halves-wrapped", "interleaved", (Fault(2, "away", 80),), {2: AWAY}, ring=16),
    SetOfDumps("halves-in-flight", "interleaved", (), {}, in_flight=60, decidable=False),
    SetOfDumps("halves-some-dumps", "interleaved", (Fault(5, "away", 50),), {5: AWAY}, without=(0,)),
    # rings of keys and values
    SetOfDumps("keys-away", "ring", (Fault(6, "away", 26),), {6: AWAY}),
    SetOfDumps("keys-gpu-error", "ring", (Fault(1, "ended by peers", 25),), {1: STUCK}),
    SetOfDumps("keys-dead", "ring", (Fault(4, "dead", 31),), {4: DEAD}),
    SetOfDumps("keys-two-away", "ring", (Fault(2, "away", 10), Fault(7, "away", 14)), {2: AWAY, 7: AWAY}),
    SetOfDumps("keys-gpu-error-active", "ring", (Fault(3, "ended by peers", 29),), {3: STUCK}, only_active=True),
    SetOfDumps("keys-link", "ring", (Fault(0, "link", 12),), {}, decidable=False),
    SetOfDumps("keys-away-wrapped", "ring", (Fault(0, "away", 48),), {0: AWAY}, ring=12),
    # shards, and replicas of these
    SetOfDumps("shards-away", "hybrid", (Fault(3, "away", 24),), {3: AWAY}),
    SetOfDumps("shards-gpu-error", "hybrid", (Fault(5, "ended by peers", 24),), {5: STUCK}),
    SetOfDumps("shards-dead", "hybrid", (Fault(0, "dead", 29),), {0: DEAD}),
    SetOfDumps("shards-crossed", "hybrid", (Fault(2, "crossed", 5),), {2: "diverged"}),
    SetOfDumps("shards-skip-the-norm", "hybrid", (Fault(5, "skips", 16),), {5: "diverged"}),
    SetOfDumps("shards-gpu-hangs-timing", "hybrid", (Fault(6, "never begun", 22),), {6: STUCK}, timing=True),
    SetOfDumps("replicas-away", "hybrid", (Fault(1, "away", 25),), {1: AWAY}),
    # groups by stride
    SetOfDumps("strides-away", "strided", (Fault(10, "away", 14),), {10: AWAY}),
    SetOfDumps("strides-gpu-error", "strided", (Fault(3, "ended by peers", 12),), {3: STUCK}),
    SetOfDumps(
        "strides-node-lost",
        "strided",
        tuple(Fault(rank, "dead", 13) for rank in range(8, 16)),
        dict.fromkeys(range(8, 16), DEAD),
    ),
    SetOfDumps("strides-old-dump", "strided", (Fault(12, "away", 15),), {12: AWAY}, written_after={2: -TIMEOUT - 2}),
    # several in one work
    SetOfDumps("several-away", "coalesced", (Fault(2, "away", 12),), {2: AWAY}),
    SetOfDumps("several-gpu-error", "coalesced", (Fault(6, "ended by peers", 11),), {6: STUCK}),
    SetOfDumps("several-in-flight", "coalesced", (), {}, in_flight=9, decidable=False),
    SetOfDumps("several-only-active", "coalesced", (Fault(7, "away", 14),), {7: AWAY}, only_active=True),
    SetOfDumps("several-dead", "coalesced", (Fault(4, "dead", 17),), {4: DEAD}),
)
"""Of other shapes (`recorder_shapes`), written and landed before any rule had seen what is coalesced there."""


def main(arguments: Sequence[str]) -> None:
    folder, *ids = arguments
    for each in SETS + FURTHER:
        if not ids or each.id in ids:
            print(write(each, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
