"""A sixteenth lot: values of closures, partials and context variables, failed tasks of executors, flags that are
polled, hooks of gradients, batches of sends, keys of a store, DeepSpeed, gRPC and meshes.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules
that day. Each program is its own healthy twin with `--healthy`; every second of them is looked at. A line that counts
decides that the ranks differ, or made the value that does: not the call above it, and not the collective behind it.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
EITHER = ((0,), (1,), (0, 1))
"""Of two, whichever is named: nothing but the program's intention says who went astray."""

STEPS = {
    "channel_never_ready": 2,
    "comm_hook_skips_bucket": 9,
    "context_variable_unset": 3,
    "done_callback_failed": 2,
    "engine_steps_of_own_batches": 15,
    "epoch_key_of_resume": 2,
    "flag_of_failed_thread": 3,
    "hook_skips_the_epoch": 6,
    "maps_under_lock": 1,
    "mesh_dimension_by_size": 6,
    "milestones_of_own_loader": 8,
    "polls_failed_future": 2,
    "save_error_before_barrier": 6,
    "saves_if_upload_done": 8,
    "semaphore_taken_twice": 4,
    "slices_of_own_budget": 13,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""
GOES_ON = ("context_variable_unset", "halo_batch_filtered", "mesh_dimension_by_size", "needs_no_gradient_here")
"""Some ranks make steps after that, until they wait too."""


def decisions() -> Iterator[Scenario]:
    for name, culprit, lines in (
        ("nonlocal_patience", 1, ("if is_over()", "return step", "return worse >=", "worse = 0 if", "made = phase(")),
        ("save_error_before_barrier", 2, ("except Exception", "future.result()", "raise OSError", "if self.rank == 2")),
        (
            "saves_if_upload_done",
            1,
            ("if self.last is not", "return", "return 30.0", "time.sleep(seconds)", "self.last = self.exec"),
        ),
        ("skips_batch_without_answers", 1, ("if answered.sum()", "continue", "labels[40:48]", "answered = labels")),
        (
            "hook_skips_the_epoch",
            1,
            ("if self.tokens >", "return -1", "self.tokens += ", "long = self.", "return 90 if"),
        ),
        ("interval_in_partial", 1, ("if (step + 1) %", "return", "after = [", "memory = 64", "return max(1")),
        (
            "context_variable_unset",
            2,
            ("if AVERAGED.get()", "behind = threading", "if rank == 2", "AVERAGED = ", "AVERAGED.set("),
        ),
        ("comm_hook_skips_bucket", 1, ("if not gradients.any()", "return done", "nothing = rank", "return value *")),
        ("milestones_of_own_loader", 1, ("if plan.due(", "return step in", "self.marks = ", "rows = 100", "plan = P")),
    ):
        yield stranger(name, DIFFERS, (culprit,), *lines, ranks=max(2, culprit + 1))._replace(
            or_culprits=EITHER if culprit < 2 else ()
        )
    yield stranger(
        "needs_no_gradient_here",
        (*DIFFERS, "rank-dependent-graph", "unused-parameters"),
        (1,),
        *("model.thaw(best", "best = min(", "low = step", "self.trunk.requires_grad_("),
    )._replace(or_culprits=EITHER)
    yield stranger(
        "halo_batch_filtered",
        (*DIFFERS, "p2p-order"),
        (2,),
        *(
            "if peer in self.converged",
            "continue",
            "self.converged.add(",
            "if (row - self",
            "return 1e9",
            "late = self",
        ),
        ranks=3,
    )
    yield stranger(
        "mesh_dimension_by_size",
        ("collective-order-mismatch", *DIFFERS),
        (3,),
        *('return "data" if', "few = rank", "return torch.rand(2 if"),
        *("dist.all_reduce(total, group=",),  # the group is chosen there
        ranks=4,
    )
    yield stranger("progress_of_main", (*RANK0, *DIFFERS), (0,), "if bar.n and", "bar = tqdm(", "bar.update(")._replace(
        or_culprits=EITHER
    )
    yield stranger("norm_of_sharded_weights", RANK0, (0,), "if log and step", "log = Log(")


def others() -> Iterator[Scenario]:
    for name, lines in {
        "engine_steps_of_own_batches": ("for rows in batches(", "few = rank", "return torch.rand(12"),
        "slices_of_own_budget": ("for rows in itertools", "budget = afford", "slow = rank", "return int("),
    }.items():
        yield stranger(name, (*UNEVEN, *DIFFERS), (1,), *lines)._replace(or_culprits=EITHER)
    for name, culprit, lines in (
        (
            "result_raises_timeout",
            1,
            (
                "return future.result(timeout",
                "except concurrent",
                "raise TimeoutError",
                "time.sleep(0.5)",
                "while True",
            ),
        ),
        (
            "done_callback_failed",
            1,
            ("self.built.wait()", "raise ValueError", "self.rows = future.res", "self.executor.submit("),
        ),
        ("polls_failed_future", 0, ("while not all(", "raise OSError", "return future.done()")),
        (
            "flag_of_failed_thread",
            1,
            ("while not self.warm", "time.sleep(0.1)", "self.rows[number] = 1.0", "threading.Thread("),
        ),
    ):
        yield stranger(name, ("thread-wait",), (culprit,), *lines)
    yield stranger(
        "polls_queue_of_dead",
        ("queue-wait", "child-process-wait"),
        (1,),
        *("yield self.queue.get(", "except queue.Empty", "raise RuntimeError", "while True"),
    )
    yield stranger(
        "warmup_of_own_depth",
        ("p2p-order", *DIFFERS),
        (1,),
        *("warmup = min(", "stage.depth = 7", "if step == 5 and", "for _ in range(warmup)", "for _ in range(MICRO"),
        ranks=3,
    )._replace(or_culprits=((0, 1), (0, 1, 2)))
    yield stranger(
        "epoch_key_of_resume",
        ("store-key-missing",),
        (2,),
        *("store.wait(", "epoch = torch.load(", "if number == 3 and"),
        ranks=3,
    )
    yield stranger("maps_under_lock", ("pool-worker-died",), (0,), "rows = pool.map(", "os.kill(")
    yield stranger(
        "semaphore_taken_twice",
        ("asyncio-wait",),
        (1,),
        *("async with self.places", "lengths = torch.tensor(asyncio", "return await self.get(", "return await asyncio"),
    )
    yield stranger(
        "channel_never_ready", ("service-no-answer", "thread-wait"), (1,), "grpc.channel_ready_future(", "gone = rank"
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *others()):
        reached = f"rank {{rank}} step {STEPS.get(scenario.name, 5)}"
        polls = 4.0 if scenario.name in GOES_ON else 0.0
        yield scenario._replace(reached=reached, polls=polls)


def get_on() -> Iterator[Scenario]:
    """Every second of the programs without its fault: none of them may be called hung."""
    yield from twins(sorted(hanging(), key=lambda scenario: scenario.name)[::2])
