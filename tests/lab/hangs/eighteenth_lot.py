"""An eighteenth lot: libraries and kinds that the lots before did not have: Hugging Face datasets, torchdata's nodes,
Ignite, Accelerate's LocalSGD and dispatched batches, torch's pipelining, distributed checkpoints on machines' own
disks, queues of a store, objects that are sent, caches of metrics and of sizes, and truth of objects.

Expectations were committed before gpudoctor had been run on any of them. Each program is its own healthy twin with
`--healthy`; every second of them is looked at. Which lines count is what `seventeenth_lot` says. What must never be
said: another cause as likely or surer, and of a healthy twin that it hangs.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)
GRAPH = ("rank-dependent-graph",)
EITHER = ((0,), (1,), (0, 1))
"""Of two, whichever is named: nothing but the program's intention says who went astray."""

STEPS = {
    "datasets_split_by_node": 11,
    "dispatched_loop_left_early": 6,
    "checkpoint_complete_on_coordinator": 6,
    "contrastive_gather_detached": 6,
    "empty_memory_is_false": 6,
    "evaluates_each_quarter": 8,
    "exchanges_sizes_when_changed": 7,
    "free_buffers_lost": 3,
    "gradient_sync_by_tokens": 4,
    "idle_engine_skips_step": 6,
    "ignite_stops_on_own_output": 12,
    "local_sgd_step_skipped": 8,
    "metric_cached_without_update": 6,
    "microbatches_of_each_stage": 0,
    "optimizer_skips_without_gradients": 6,
    "singledispatch_of_batch": 7,
    "sync_norm_of_later_frames": 6,
    "tasks_zipped_with_workers": 6,
    "weighted_nodes_exhausted": 8,
    "weights_sent_where_trainable": 0,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""
GOES_ON = ("idle_engine_skips_step",)
"""One of the ranks polls without end."""

BEFORE_STEPS = ("validation_sets_on_disk",)
"""Lightning asks for the lengths of all loaders before it begins."""


def decisions() -> Iterator[Scenario]:
    for name, causes, lines in (
        (
            "prefetch_done_here",
            DIFFERS,
            ("if request not in", "return True", "self.ongoing[request] = [", "if short", "return  #", "short = self"),
        ),
        (
            "optimizer_skips_without_gradients",
            (*DIFFERS, *GRAPH),
            ("if not with_gradient", "continue", "with_gradient = [", "heads = (0,) if"),
        ),
        (
            "metric_cached_without_update",
            DIFFERS,
            ("if sure.numel()", "self.error.update(", "sure = scores[", "return scores - 0.4"),
        ),
        ("local_sgd_step_skipped", DIFFERS, ("if not torch.isfinite", "continue", "if (rank, step) ==", "rows[0, 0]")),
        (
            "gradient_sync_by_tokens",
            (*DIFFERS, *ORDER),
            (
                *("self.model.set_requires_gradient_sync(", "enough = self.tokens", "self.tokens += len", "if enough"),
                *("short = rank", "step.micro("),
            ),
        ),
        (
            "sync_norm_of_later_frames",
            (*DIFFERS, *GRAPH),
            ("if self.memory is not", "if begins", "self.memory = None", "begins = self.left", "clips = Clips("),
        ),
        (
            "evaluates_each_quarter",
            DIFFERS,
            ("if step % self.evaluate_every", "self.evaluate_every = max", "rows = 72 if", "self.loader = DataLoader("),
        ),
        (
            "singledispatch_of_batch",
            (*DIFFERS, *ORDER),
            (
                *("loss = loss_of(", "if len({len(row)", "return rows", "@loss_of.register", "def _(batch"),
                *("rows[2] = ", "return sum("),
            ),
        ),
        (
            "exchanges_sizes_when_changed",
            (*DIFFERS, *ORDER),
            (
                "if counts == self",
                "return self.received",
                "self.counts, self.received = counts",
                "return torch.tensor(",
            ),
        ),
        (
            "contrastive_gather_detached",
            (*GRAPH, *DIFFERS),
            ("if not positive.any", "shared = shared.detach", "positive = torch.zeros", "if (rank, step) =="),
        ),
        (
            "idle_engine_skips_step",
            DIFFERS,
            ("if not self.has_work", "continue", "return bool(self.running", "self.waiting = deque("),
        ),
        (
            "weights_sent_where_trainable",
            (*DIFFERS, *ORDER),
            ("if weight.requires_grad", 'self.policy["embed"]', "role = Trainer", "for weight in"),
        ),
        (
            "empty_memory_is_false",
            DIFFERS,
            ("if self.memory", "if surprise >", "self.rows = [*", "return len(self.rows)", "return 0.9 if", "dull ="),
        ),
    ):
        yield stranger(name, causes, (1,), *lines)._replace(or_culprits=EITHER)
    of_first: dict[str, tuple[str, ...]] = {
        "threshold_of_rank_zero": ("if threshold is not", "@rank_zero_only", "threshold = self.choose"),
        "ignite_validates_on_first": ("if self.rank == 0", "self.trainer.add_event_handler("),
        "checkpoint_complete_on_coordinator": (
            *("if found is None", "return False", "complete = [", "self.folder = Path("),
            "found = checkpoints",
        ),
    }
    for name, parted in of_first.items():
        yield stranger(name, (*RANK0, *DIFFERS), (0,), *parted)._replace(or_culprits=EITHER)


def lengths() -> Iterator[Scenario]:
    for name, lines in {
        "dynamic_batch_without_group": (
            *("for rows in micro", "count = max(1", "if dp_group is not", "group = self.mesh", "micro_batches = prep"),
            *("return [lengths[", "longer = 9 if", "actor.update("),
        ),
        "datasets_split_by_node": ("for batch in data", "data = split_dataset", "ROWS =", "for number in range(ROWS"),
        "weighted_nodes_exhausted": (
            *("for rows in loader", "mixed = MultiNode", "loader = pipeline", "SEEDS =", "stop_criteria="),
        ),
        "validation_sets_on_disk": ("return [DataLoader(", "found = [", "copied = self", "for name in copied"),
        "ignite_stops_on_own_output": (
            *("evaluator.add_event_handler(", "return engine.state.output", "better = trainer"),
        ),
        "dispatched_loop_left_early": ("if self.goal and", "break", "loss = float", "self.goal ="),
        "zero_limit_means_all": ("count = self.limit or", "for row in self.rows", "self.limit =", "LIMITS ="),
    }.items():
        yield stranger(name, (*UNEVEN, *DIFFERS), (1,), *lines)._replace(or_culprits=EITHER)


def between_two() -> Iterator[Scenario]:
    yield stranger(
        "microbatches_of_each_stage",
        ("p2p-order", *UNEVEN, *DIFFERS),
        (1,),
        *("schedule = ScheduleGPipe(", 'count = BATCH // setting["micro', "size = 1 if", "path.write_text("),
    )._replace(or_culprits=EITHER)
    yield stranger(
        "tasks_zipped_with_workers",
        ("p2p-order", *DIFFERS, *RANK0),
        (2,),
        *("for worker, task in zip", "return names[:1]"),
        ranks=3,
    )._replace(or_culprits=((0,), (0, 2)))


def waits() -> Iterator[Scenario]:
    yield stranger(
        "free_buffers_lost",
        ("queue-wait", "child-process-wait"),
        (1,),
        *("index = self.full_queue.get", "continue", "if self.stale"),
    )
    yield stranger(
        "batcher_waits_for_full",
        ("asyncio-wait",),
        (1,),
        *("return await future", "if len(self.waiting) ==", "done.append(await task)", "batcher = Batcher("),
    )
    yield stranger(
        "shards_from_store_queue",
        ("store-key-missing", "queue-wait"),
        (1,),
        *("return self.store.queue_pop", "if name in BROKEN", "continue", "self.store.queue_push("),
    )._replace(or_culprits=((0,),))


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *lengths(), *between_two(), *waits()):
        reached = f"rank {{rank}} step {STEPS.get(scenario.name, 5)}"
        if scenario.name in BEFORE_STEPS:
            reached = "GLOBAL_RANK: {rank}"
        polls = 4.0 if scenario.name in GOES_ON else 0.0
        yield scenario._replace(reached=reached, polls=polls)


def get_on() -> Iterator[Scenario]:
    """Every second of the programs without its fault: none of them may be called hung."""
    yield from twins(sorted(hanging(), key=lambda scenario: scenario.name)[::2])
