"""A seventeenth lot: what parts the ranks lies away from where they stand: in an object chosen by a factory, a list of
callbacks, an order by own numbers, a class body, layered settings, a decorator's count, an IndexError that ends an
iteration, Lightning's and Transformers' own loops.

Expectations were committed before gpudoctor had been run on any of them. Each program is its own healthy twin with
`--healthy`; every second of them is looked at. Which lines count, of the user's program only:

1. the statement that sends ranks different ways: a condition, the head of a loop, a conditional expression, a call of
   what is an object of another class there, and within its branch the `return`, `continue`, `break` or `raise`;
2. a statement that gave it a value which differs between ranks, or in a library's stead: the setting handed to it;
3. of a wait that is nobody's decision: the statement that waits, or where what it waits for failed.

Not the collective in which a rank stands (unless its group is chosen there), no call above it that decides nothing, and
no loop that is alike on all.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)
EITHER = ((0,), (1,), (0, 1))
"""Of two, whichever is named: nothing but the program's intention says who went astray."""

STEPS = {
    "accumulation_by_memory": 2,
    "bucket_hook_waits_for_all": 6,
    "callbacks_where_data_lies": 6,
    "groups_of_who_answers": 4,
    "handler_by_name": 6,
    "index_error_ends_rows": 7,
    "lightning_own_shards": 7,
    "lightning_stops_after_time": 6,
    "meters_with_samples": 1,
    "phases_by_own_plateau": 8,
    "plugin_enabled_in_class": 6,
    "refills_when_low": 6,
    "registry_of_meters": 7,
    "rows_clamped_on_last": 7,
    "settings_layered": 8,
    "statistics_by_own_size": 7,
    "ternary_agrees": 7,
    "trainer_own_dataloader": 9,
    "trainer_stops_on_own_score": 12,
    "walrus_until_none": 31,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""
GOES_ON = (
    "ternary_agrees",
    "bucket_hook_waits_for_all",
    "decorator_counts_calls",
    "reducer_by_bandwidth",
    "accumulation_by_memory",
    "registry_of_meters",
)
"""Some ranks make steps after that, until they wait too."""


def decisions() -> Iterator[Scenario]:
    for name, lines in {
        "decorator_counts_calls": ("if calls %", "calls += 1", "if rank == 1 and", 'print("preview"'),
        "reducer_by_bandwidth": (
            *("if measured <", "return Delayed(", "return 0.8 if", "measured = gig", "reducer = make"),
            *("if self.seen %", "return torch.zeros_like", "weight.grad = (reducer or"),
        ),
        "handler_by_name": ("if handler is not", "handler = getattr(", 'return "outlier" if', "spread = 3.5 if"),
        "ternary_agrees": ("return self.shared() if", "self.value += 0.4", "drifts = self"),
        "meters_with_samples": (
            *("return {kind: meter.average()", 'if kind == "code"', 'kind = "long"', "meters[kind].update("),
        ),
        "lightning_stops_after_time": ("if self.spent >", "trainer.should_stop = True", "self.spent += "),
        "accumulation_by_memory": (
            *("if accelerator.sync_gradients", "accelerator = Acc", "with accelerator.acc", "fits = 64 if"),
            *("crowded = os", "return 20 if", "return batch //"),
        ),
        "phases_by_own_plateau": (
            *("match schedule.phase", "case Phase.", "if len(recent) ==", "self.phase = self.phase", "flat = rank"),
            "return 0.5 if",
        ),
        "trainer_stops_on_own_score": ("spans = [", "grows = sum(", 'metrics = {"eval', "stops = EarlyStop"),
        "refills_when_low": ("if len(self.rows) <", "take = 4 if", "rows, self.rows ="),
    }.items():
        yield stranger(name, DIFFERS, (1,), *lines)._replace(or_culprits=EITHER)
    for name, lines in {
        "registry_of_meters": ("for meter in cls.made", "Meter.made.append(", "height = Meter(", "if rank == 0:"),
        "plugin_enabled_in_class": ("if plugin.due(", "return self.enabled and", "enabled = os.env"),
        "callbacks_where_data_lies": (
            *("for callback in callbacks", "if validation.is_dir", "found.append(", "callbacks = callbacks_for"),
            'if os.environ["LOCAL_RANK"]',
        ),
    }.items():
        yield stranger(name, (*DIFFERS, *RANK0), (0,), *lines)._replace(or_culprits=EITHER)
    yield stranger(
        "settings_layered",
        DIFFERS,
        (2,),
        *("if step > 5 and step %", "settings = ChainMap(", "return json.loads(", '(folder / "train.json").write'),
        ranks=3,
    )
    yield stranger(
        "bucket_hook_waits_for_all",
        (*DIFFERS, "rank-dependent-graph"),
        (1,),
        *("if len(self.ready) ==", "if masks.any()", "masks[:] = False", "if (rank, step) =="),
    )._replace(or_culprits=EITHER)


def orders() -> Iterator[Scenario]:
    for name, lines in {
        "statistics_by_own_size": (
            "for task in pending",
            "pending = sorted(",
            "return float(self.sums",
            "self.sums[task] +=",
            "easy = rank",
            "statistics.add(",
        ),
        "tasks_by_own_cost": ("_, _, layer = heapq.heappop", "heapq.heappush(", 'self.cost["head"] =', "while waiting"),
    }.items():
        yield stranger(name, (*ORDER, *DIFFERS), (0, 1), *lines)._replace(or_culprits=EITHER)
    yield stranger(
        "groups_of_who_answers",
        (*ORDER, *DIFFERS),
        (0,),
        *("return tuple(peer", "late = self.rank", "self.seen[peer] =", "dist.all_reduce(loss, group="),
        ranks=3,
    )
    yield stranger(
        "replies_to_last_sender",
        ("p2p-order", *DIFFERS),
        (0,),
        *("to = self.last", "dist.send(question * 2, to)", "self.world, self.last"),
        ranks=3,
    )


def lengths() -> Iterator[Scenario]:
    for name, culprit, ranks, lines in (
        (
            "rows_clamped_on_last",
            2,
            3,
            ("for (rows,) in self.loader", "self.end = samples", "if self.end > samples", "return self.end - self"),
        ),
        (
            "walrus_until_none",
            0,
            2,
            ("while (record :=", "return self.lines.pop()", "self.lines = [", "empty = range("),
        ),
        (
            "lightning_own_shards",
            1,
            2,
            (
                "self.mine = sorted",
                "return DataLoader(Shards",
                "return len(self.rows)",
                "self.rows = torch",
                "SHARDS =",
            ),
        ),
        (
            "trainer_own_dataloader",
            1,
            2,
            ("return DataLoader(self.train", "for _ in range(pieces)", "pieces = 1 if", "short = self.rank"),
        ),
        ("index_error_ends_rows", 1, 2, ("for row in rows:", "label = self.names[", "self.labels[8] = 3")),
    ):
        made = stranger(name, (*UNEVEN, *DIFFERS), (culprit,), *lines, ranks=ranks)
        yield made._replace(or_culprits=EITHER if ranks == 2 else ())


def waits() -> Iterator[Scenario]:
    yield stranger(
        "asyncio_join_without_done", ("asyncio-wait",), (1,), "await queue.join()", "if not text", "continue"
    )
    yield stranger(
        "child_never_sets_event",
        ("child-process-wait", "thread-wait"),
        (1,),
        *("self.ready.wait()", "raise KeyError("),
    )
    yield stranger(
        "lock_held_while_joining",
        ("lock-held", "thread-wait"),
        (1,),
        *("with self.lock:", "self.thread.join()"),
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *orders(), *lengths(), *waits()):
        reached = f"rank {{rank}} step {STEPS.get(scenario.name, 5)}"
        polls = 4.0 if scenario.name in GOES_ON else 0.0
        yield scenario._replace(reached=reached, polls=polls)


def get_on() -> Iterator[Scenario]:
    """Every second of the programs without its fault: none of them may be called hung."""
    yield from twins(sorted(hanging(), key=lambda scenario: scenario.name)[::2])
