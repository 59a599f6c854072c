"""A sixth lot, after public threads and usual programs: counters that stop, guards of gradients, hooks, generators,
caches of functions, texts that ask all, stacks of what is to be done, threads that call collectives, groups of rings
and replicas, pipes, permits, health checks, locks that children keep.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules on
what ranks wait for (but their history in docs/measured/hang.md).
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)

LAST = {
    "saves_inside_main_branch": "step 4",
    "counter_with_stopper": "step 4",
    "skips_by_grad_norm": "step 5",
    "saves_on_exception": "step 6",
    "samples_on_ring_first": "step 4",
    "shard_of_dp_first": "step 5",
    "readers_of_replica": "step 4",
    "stage_asks_loss": "step 4",
    "reduces_in_hook": "step 5",
    "generator_closed_early": "step 5",
    "suppresses_underflow": "step 5",
    "config_of_node": "step 4",
    "best_full_weights": "epoch 3",
    "trace_handler_of_main": "step 4",
    "skips_epoch_rest": "step 5",
    "logs_if_mask_any": "step 6",
    "cache_seen_late": "has tokens",
    "logger_puts_itself": "step 5",
    "notifier_forked": "step 5",
    "encoder_stderr_unread": "step 5",
    "grader_never_answers": "step 4",
    "writer_thread_failed": "step 7",
    "permits_lost": "step 5",
    "half_of_body": "step 5",
    "asks_coordinator": "step 6",
    "pipe_open_in_reader": "step 5",
    "counts_arrivals": "step 5",
    "listener_joined_at_rotation": "step 5",
    "lock_kept_by_child": "step 5",
    "worker_takes_from_feeder": "step 5",
    "sends_nothing_if_empty": "step 5",
    "broadcast_from_each_other": "step 0",
    "monitor_of_main": "step 1",
    "prefetch_thread_broadcasts": "step 4",
    "strided_range": "step 2",
    "pairs_of_loaders": "epoch 0 step 5",
    "clusters_converge": "step 4",
    "splits_by_local_count": "step 1",
    "cached_count": "step 5",
    "summary_reduces": "step 5",
    "norm_at_debug": "step 5",
    "exit_stack_of_main": "step 3",
    "health_of_dead_server": "step 4",
    "accepts_one_too_many": "step 2",
}
"""What each rank writes last before the hang, but for those that are `silent`."""


def decisions() -> Iterator[Scenario]:
    """A condition has another answer on some ranks."""
    yield stranger(
        "counter_with_stopper",
        DIFFERS,
        (2,),
        *("if self.current >= self.limit", "return self.since >= self.patience", "for epoch in counter"),
        *("if counter.should_stop", "counter.current = counter.limit", "dist.all_gather_object("),
        ranks=3,
    )
    yield stranger(
        "skips_by_grad_norm",
        DIFFERS,
        (2,),
        *("if norm > self.most", "if not self.guard.should_skip", "dist.all_gather(losses", "engine.train_batch("),
        ranks=3,
    )
    yield stranger(
        "saves_on_exception",
        (*DIFFERS, "program-error"),
        (1,),
        *("raise ValueError", "trainer.fit("),
    )
    yield stranger(
        "generator_closed_early",
        DIFFERS,
        (1,),
        *("if loss > 100", "break", "dist.barrier()", "for step, batch in", "train_epoch("),
        ranks=3,
    )
    yield stranger(
        "suppresses_underflow",
        DIFFERS,
        (1,),
        *("with contextlib.suppress", "values = torch.from_numpy", "return (scores", "dist.barrier()"),
        "statistics.update(",
        ranks=3,
    )
    yield stranger(
        "config_of_node",
        DIFFERS,
        (2,),
        *("if settings.evaluate_every", 'print("score", evaluate', "dist.all_gather(scores"),
        ranks=3,
    )
    yield stranger(
        "best_full_weights",
        DIFFERS,
        (0,),
        *("if loss < best", "save_best(model)", "weights = get_model_state_dict("),
        ranks=3,
    )
    yield stranger(
        "skips_epoch_rest",
        (*DIFFERS, *UNEVEN),
        (1,),
        *("if self.tokens > 1000", "return -1", "self.all_gather(", "trainer.fit("),
    )
    yield stranger(
        "logs_if_mask_any",
        DIFFERS,
        (1,),
        *("if mask.any()", 'self.log("masked_loss"', "trainer.fit("),
    )._replace(or_culprits=((0,),))
    yield stranger(
        "cache_seen_late",
        DIFFERS,
        (1,),
        *("if not cache.exists()", "with accelerator.main_process_first()", "tokens = prepared("),
        *("model = accelerator.prepare(model)", "accelerator.backward("),
    )._replace(or_culprits=((0,),), silent=(0,))
    yield stranger(
        "counts_arrivals",
        (*DIFFERS, *ORDER),
        (1,),
        *("if samples <= 0", "continue", "while self.store.add", "dist.all_reduce(", "barrier.wait()"),
        ranks=3,
    )._replace(polls=4.0)
    yield stranger(
        "clusters_converge",
        DIFFERS,
        (1,),
        *("while shift > self.tolerance", "shift = float((moved", "dist.barrier()", "centres = KMeans("),
        ranks=3,
    )
    yield stranger(
        "splits_by_local_count",
        DIFFERS,
        (1,),
        *("if len(rows) < LEAST", "return", "dist.barrier()", "self.left =", "self.right =", "tree = Node("),
        ranks=3,
    )
    yield stranger(
        "cached_count",
        DIFFERS,
        (2,),
        *("@functools.cache", "total = tokens_in(", "dist.all_gather(everybody", "dist.all_reduce(count)"),
        ranks=3,
    )
    yield stranger(
        "broadcast_from_each_other",
        (*DIFFERS, *ORDER),
        (0, 1),
        *("best = max(", "dist.broadcast(weight", "population.exploit("),
    )._replace(or_culprits=((0,), (1,)))
    yield stranger(
        "sends_nothing_if_empty",
        (*DIFFERS, "p2p-order"),
        (2,),
        *("if not len(rows)", "return", "dist.barrier()", "collect(find("),
        ranks=3,
    )
    yield stranger(
        "reduces_in_hook",
        ("rank-dependent-graph", *DIFFERS, "unused-parameters"),
        (1,),
        *("if audio is not None", "silent = rank", "loss = model(", "dist.barrier()", "loss.backward()"),
        ranks=3,
    )


def of_some() -> Iterator[Scenario]:
    """Only the first, or the first of each group, calls what all must."""
    yield stranger(
        "saves_inside_main_branch",
        RANK0,
        (0,),
        *("if self.is_main and", "self.save(", "self.accelerator.wait_for_everyone()"),
        ranks=3,
    )
    yield stranger(
        "samples_on_ring_first",
        (*RANK0, *ORDER),
        (0, 2),
        *("if strategy.ring_rank == 0", "samples = self.generate(", "dist.barrier()", "if step >= 4"),
        ranks=4,
    )
    yield stranger(
        "shard_of_dp_first",
        RANK0,
        (0, 1),
        *("if dist.get_rank(parallel.dp) == 0", "dist.barrier()", "save_shard(weight"),
        ranks=4,
    )
    yield stranger(
        "stage_asks_loss",
        RANK0,
        (2,),
        *("if self.rank == self.last", "dist.broadcast(loss", "stage.report("),
        ranks=3,
    )
    yield stranger(
        "trace_handler_of_main",
        RANK0,
        (0,),
        *("if rank == 0", "if profiler is not None", "profiler.step()", "dist.all_gather_object(names"),
        "profile(activities",
        ranks=3,
    )
    yield stranger(
        "monitor_of_main",
        (*RANK0, *ORDER, "concurrent-communicators"),
        (0,),
        *("if rank == 0", "MemoryMonitor(2.0).start()", "dist.all_gather(used", "dist.all_reduce(weight)"),
        ranks=3,
    )
    yield stranger(
        "summary_reduces",
        RANK0,
        (0,),
        *("if step == 5 and rank == 0", "print(meter", "dist.all_reduce(numbers)", "return f"),
        ranks=3,
    )
    yield stranger(
        "norm_at_debug",
        (*RANK0, *DIFFERS),
        (0,),
        *("if step % 6 == 5 and log.isEnabledFor", 'log.debug("norm', "dist.all_reduce(square)"),
        "log.setLevel(",
        ranks=3,
    )
    yield stranger(
        "exit_stack_of_main",
        RANK0,
        (0,),
        *("if rank == 0", "stack.callback(remove", "dist.barrier()", "with contextlib.ExitStack"),
        ranks=3,
    )


def uneven() -> Iterator[Scenario]:
    yield stranger(
        "readers_of_replica",
        UNEVEN,
        (2, 3),
        *("for step, _batch in enumerate(reader)", "dist.barrier()", "raise StopIteration", "if batch[0] is None"),
        ranks=4,
    )
    yield stranger(
        "strided_range",
        UNEVEN,
        (1, 2),
        *("for number in range(", "dist.all_gather_object(shares", 'print("accuracy"'),
        ranks=3,
    )
    yield stranger(
        "pairs_of_loaders",
        UNEVEN,
        (2,),
        *("for step, ((seen,)", "dist.all_gather(everybody"),
        ranks=3,
    )


def waits() -> Iterator[Scenario]:
    """A rank waits for something else than ranks."""
    yield stranger("logger_puts_itself", ("lock-held",), (1,), 'log.debug("step')
    yield stranger(
        "notifier_forked",
        ("fork-held-lock",),
        (1,),
        *("os.waitpid(pid", "pid = os.fork()", "notify(f", "SINK.write(text)", "with self.lock"),
        ranks=3,
    )
    yield stranger(
        "encoder_stderr_unread",
        ("child-process-wait",),
        (0,),
        *("self.process.stdin.write", "self.process.stdin.flush", "encoder.add(", "render(step)", "self.process.wait"),
        *("self.process.stdin.close", "encoder.close()"),
    )
    yield stranger(
        "grader_never_answers",
        ("child-process-wait",),
        (1,),
        *("return torch.tensor([result.get()", "scores = grader.scores(", "done = subprocess.run("),
        ranks=3,
    )
    yield stranger(
        "writer_thread_failed",
        ("queue-wait",),
        (2,),
        *("self.records.put(record)", "writer.add("),
        ranks=3,
    )
    yield stranger(
        "permits_lost",
        ("asyncio-wait", "lock-held"),
        (0,),
        *("await self.permits.acquire()", "answers = await asyncio.gather(", "rewards = await rollouts("),
        "asyncio.run(train(",
        ranks=3,
    )
    yield stranger(
        "half_of_body",
        ("service-no-answer", "storage-stall"),
        (1,),
        *("return answer.read()", "fetch(port[0]"),
        ranks=3,
    )
    yield stranger(
        "asks_coordinator",
        ("service-no-answer", "queue-wait"),
        (1, 2),
        'print("range", connection.recv())',
        ranks=3,
    )
    yield stranger(
        "pipe_open_in_reader",
        ("child-process-wait", "queue-wait"),
        (0,),
        *("while part := os.read(", "print(len(in_child("),
        ranks=3,
    )
    yield stranger(
        "listener_joined_at_rotation",
        ("thread-wait", "storage-stall"),
        (0,),
        *("self.listener.stop()", "log.rotate()"),
        ranks=3,
    )
    yield stranger(
        "lock_kept_by_child",
        ("file-lock-wait",),
        (0,),
        *("fcntl.flock(self.file", "with lock", "start_viewer(lock)"),
        ranks=3,
    )
    yield stranger(
        "worker_takes_from_feeder",
        ("queue-wait", "dataloader-worker-slow"),
        (1,),
        *("name = self.names.get()", "for step, batch in enumerate(loader)"),
        ranks=3,
    )
    yield stranger(
        "prefetch_thread_broadcasts",
        (*ORDER, "concurrent-communicators", "queue-wait"),
        (1,),
        *("dist.broadcast(batch", "dist.all_gather(gathered", "batch = prefetcher.batches.get()"),
    )._replace(or_culprits=((0,), (0, 1)))
    yield stranger(
        "health_of_dead_server",
        ("child-process-wait", "service-no-answer"),
        (0,),
        *("time.sleep(1.0)", "with urllib.request.urlopen(", "Engine().wait_until_healthy()"),
        ranks=3,
    )._replace(polls=6.0, states=("hung", "slow"))
    yield stranger(
        "accepts_one_too_many",
        ("service-no-answer", "rank-away"),
        (0,),
        *("client, _address = server.accept()", "clients = collect_clients("),
        ranks=3,
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *of_some(), *uneven(), *waits()):
        yield scenario._replace(reached="rank {rank} " + LAST[scenario.name])


def get_on() -> Iterator[Scenario]:
    """None of them may be called hung."""
    for name in (
        *("monitors_in_own_group", "clusters_together", "samples_in_rings", "health_of_slow_server"),
        *("encodes_frames", "strides_padded", "plots_on_main", "reads_archive_in_turn", "validates_between"),
        *("accumulates_over_accelerate", "writes_full_weights", "rollouts_with_permits"),
    ):
        two = name in ("validates_between", "accumulates_over_accelerate")
        yield gets_on(name, ranks=2 if two else 4 if name == "samples_in_rings" else 3, folder=f"{STRANGERS}healthy/")
