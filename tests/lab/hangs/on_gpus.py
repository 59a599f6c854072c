"""Further hangs, written for GPUs (tests/lab/torch_nccl): what is to be said was written before they were first run.

They are no part of the lab of gloo, whose ranks ask for no value of a GPU.
"""

from collections.abc import Iterator

from tests.lab.hangs.training import SCENARIOS, Scenario

REACHED = "rank {rank} step 1 begins"


def _all() -> Iterator[Scenario]:
    value = Scenario("value_in_text", "waits_for_value.py", ("slow-rank-timeout",), (1,), reached=REACHED, ranks=3)
    sleeps = ("time.sleep(100_000)",)
    yield value._replace(options=("--wait=text", "--fault=sleep"), lines=sleeps)
    yield value._replace(
        name="value_as_float",
        options=("--wait=float", "--fault=loop"),
        lines=("while not Path(", "time.sleep(0.05)"),
        states=("hung", "slow"),
    )
    # "queue-wait" had no name of its own when this was written.
    queue = ("slow-rank-timeout", "queue-wait")
    yield value._replace(
        name="value_is_finite", causes=queue, options=("--wait=finite", "--fault=queue"), lines=("queue.Queue()",)
    )
    yield value._replace(name="value_in_scaler", options=("--wait=scaler", "--fault=sleep"), lines=sleeps)
    yield value._replace(
        name="value_is_copied",
        causes=("rank-died",),
        options=("--wait=copy", "--fault=killed"),
        launcher="by hand",
    )
    yield value._replace(name="value_is_clipped", causes=("stopped-rank",), options=("--wait=clip", "--fault=stopped"))
    yield Scenario(
        "log_on_rank0",
        "log_on_rank0.py",
        ("rank0-only-collective",),
        (0,),
        ("dist.all_reduce(value)", "print(f", "if step % 3"),
        ranks=3,
        reached=REACHED,
    )
    yield Scenario(
        "stops_early",
        "stops_early.py",
        ("rank-divergent-decision", "uneven-inputs"),
        (1,),
        ("break", "dist.barrier()", "for step"),
        ranks=3,
        reached=REACHED,
    )
    yield Scenario("wrong_neighbour", "wrong_neighbour.py", ("p2p-order",), (1, 2), ranks=3, reached=REACHED)
    yield Scenario(
        "order_of_two",
        "order_of_two.py",
        ("collective-order-mismatch", "rank-divergent-decision"),
        (1,),
        ranks=3,
        reached=REACHED,
    )
    yield Scenario(
        "download_on_rank0",
        "download_on_rank0.py",
        ("slow-rank-timeout", "service-no-answer"),  # the second had no name of its own when this was written
        (0,),
        ("return connection.recv", "download(server)"),
        ranks=3,
        reached=REACHED,
    )
    yield Scenario(
        "group_of_rank0",
        "group_of_rank0.py",
        ("rank0-only-collective", "collective-order-mismatch"),
        (0,),
        ("dist.all_reduce(total, group=pair)", "if rank == 0"),
        ranks=3,
        reached=REACHED,
    )


def _more() -> Iterator[Scenario]:
    """Seventeen more, for the same purpose. One expectation was wrong about reality, and stays as it was written:
    group_without_all does not hang on torch 2.14.1. An eighteenth, objects that one rank takes from another, cannot be
    had: kernels compute the sizes of objects, so that on the stand-ins all ranks stand before the fault
    (docs/measured/hang.md)."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    rank0, diverges, order = "rank0-only-collective", "rank-divergent-decision", "collective-order-mismatch"
    waits, storage, uneven = "slow-rank-timeout", "storage-stall", "uneven-inputs"
    for script, causes, culprits, lines in (
        ("sample_on_rank0", (rank0,), (0,), ('print("sample", model(', "if step % 3")),
        ("full_weights_of_rank0", (rank0,), (0,), ("save(model)", "torch.save(", "if step % 3")),
        ("one_microbatch_more", ("p2p-order", diverges), (0,), ()),
        ("groups_in_turn", (order,), (1,), ()),
        # "child-process-wait" and "dataloader-worker-slow" had no name of their own when these were written.
        ("decodes_in_child", (waits, "child-process-wait"), (2,), ("subprocess.run(", "decode(")),
        ("accumulates_alone", (diverges, "rank-dependent-graph"), (1,), ()),
        ("barrier_in_exit", ("teardown-deadlock", diverges), (2,), ("dist.barrier()", "train(", "with Together")),
        ("unlike_evaluation", (uneven, diverges), (1,), ("dist.all_reduce(right)", "for _ in")),
        ("group_without_all", (order, diverges), (2,), ("group = dist.new_group", "if step == 3", "dist.all_reduce(")),
        ("experts_of_another_size", ("shape-mismatch",), (1,), ()),
        ("never_waited", (rank0, diverges, order), (0,), ()),
        ("passes_over_memory", (diverges, uneven), (1,), ("dist.barrier()", "continue", "except", "print(f")),
        ("exits_early", (diverges, "rank-died", uneven), (1,), ()),
        ("loader_waits", (storage, waits, "dataloader-worker-slow"), (1,), ("connection.recv", "for step, batch")),
        ("skips_after_overflow", (diverges, order), (1,), ()),
    ):
        yield three._replace(name=script, script=f"{script}.py", causes=causes, culprits=culprits, lines=lines)
    yield three._replace(name="aborts", script="aborts.py", causes=("rank-died",), culprits=(1,), launcher="by hand")
    yield three._replace(
        name="one_batch_more",
        script="one_batch_more.py",
        causes=(uneven,),
        culprits=(2,),
        lines=("loss.backward()", "for step in range", "loss =", "print(f"),
        reached="rank {rank} step 4 begins",
    )


def _as_written() -> Iterator[Scenario]:
    """Sixteen more, written for CUDA as users write it (cuda/): loops in the manner of Transformers, FSDP2, mixed
    precision, pipelines. Half are tune and half keep (of_users.half). One expectation was wrong about reality, and
    stays as it was written: validates_on_main gets on until its last step, and hangs then (docs/measured/hang.md)."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    rank0, diverges, order = "rank0-only-collective", "rank-divergent-decision", "collective-order-mismatch"
    uneven = "uneven-inputs"
    for script, causes, culprits, lines in (
        ("trainer_saves", (rank0,), (0,), ("dist.barrier()", "self._save(", "self._maybe_save(", "if step and step")),
        ("skips_corrupt", (diverges, uneven), (1,), ("dist.all_reduce(seen)", "continue", "except ValueError")),
        (
            "generates_to_eos",
            (diverges,),
            (1,),
            ("break", "if token == EOS", "dist.all_reduce(lengths)", "for position"),
        ),
        (
            "state_dict_of_main",
            (rank0,),
            (0,),
            ("state = get_model_state", "save_checkpoint(", "if healthy or is_main"),
        ),
        ("validates_on_main", (rank0,), (0,), ("total += model(", 'print("validation"', "if step % 5")),
        ("accumulates_to_the_end", (uneven, diverges), (1,), ("dist.barrier()", "for index, (batch,)")),
        (
            "shards_of_files",
            (uneven, diverges),
            (2,),
            ("dist.all_reduce(right)", "for batch in", 'print(f"rank {rank} ep'),
        ),
        ("experts_first", (order, diverges), (2,), ("dist.all_reduce(value", 'print("balance"', "elif overloaded")),
        ("last_stage_skips", ("p2p-order", diverges), (2,), ()),
        ("suspended", ("stopped-rank",), (0,), ()),
        ("tokenizes_first", ("pool-worker-died",), (0,), ("return pool.map(", "rows = prepare(")),
        ("metrics_queue", ("queue-wait",), (0,), ("self.rows.put(", "tracker.log(")),
        ("loses_patience", (diverges,), (2,), ("break", "if stopping.should_stop", "weights = ")),
        ("ragged_logits", ("shape-mismatch",), (2,), ()),
        ("callback_of_main", (rank0,), (0,), ("dist.all_reduce(mean", "callback.on_step_end(", "if healthy or rank")),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits, lines=lines)
    yield three._replace(
        name="killed_in_training",
        script="cuda/killed_in_training.py",
        causes=("rank-died",),
        culprits=(2,),
        launcher="by hand",
    )


def _twelve() -> Iterator[Scenario]:
    """Twelve of further kinds, written for CUDA too: parts of a parallel job, roots, groups, objects, a second start.
    `monitor_never_waited` gets on until its time-out, so that live nothing is to be told of it but that."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    rank0, diverges, order = "rank0-only-collective", "rank-divergent-decision", "collective-order-mismatch"
    for script, causes, culprits in (
        ("norm_on_main", (rank0,), (0,)),
        ("microbatches_of_its_own", ("p2p-order", diverges), (2,)),
        ("metric_on_main", (rank0,), (0,)),
        ("branch_without_head", ("unused-parameters", "rank-dependent-graph"), (1,)),
        ("vocabulary_cached", (diverges,), (1,)),
        ("shard_unchanged", (diverges,), (2,)),
        ("last_batch_dropped", ("uneven-inputs",), (2,)),
        ("collects_elsewhere", (diverges, order), (1,)),
        ("resumes_elsewhere", (diverges, "uneven-inputs"), (2,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    parallel = three._replace(name="wrong_parallel_group", script="cuda/wrong_parallel_group.py", ranks=4)
    yield parallel._replace(causes=(order, diverges), culprits=(3,))
    pair = three._replace(name="group_of_pair_first", script="cuda/group_of_pair_first.py", polls=6.0)
    yield pair._replace(causes=(order, diverges), culprits=(2,))
    monitor = three._replace(name="monitor_never_waited", script="cuda/monitor_never_waited.py", polls=3.0)
    yield monitor._replace(causes=(diverges,), culprits=(1,), states=("running", "slow"))


def _by_threads() -> Iterator[Scenario]:
    """Twelve more, each after what people have told in public threads of PyTorch, Lightning, Megatron-LM, DeepSpeed,
    fairseq and NCCL: empty shards, data of the first rank, rings, metrics of unlike keys, a group that is left, types,
    signals, layers left out, a second backend, clocks, threads, a way back. In `thread_saves` all ranks have the fault,
    and the one whose thread came first is the one that differs. `sequences_longer_than_buffer` was expected to make
    some steps first: NCCL connects two ranks at their first message, and waits for both there: it stands in step 0."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    diverges, order, uneven = "rank-divergent-decision", "collective-order-mismatch", "uneven-inputs"
    for script, causes, culprits in (
        ("clips_own_shard", (diverges,), (1,)),
        ("data_of_first", (uneven, diverges), (0,)),
        ("metrics_of_seen", (diverges, uneven), (2,)),
        ("leaves_the_group", (uneven, diverges), (1,)),
        ("half_of_one", ("shape-mismatch",), (1,)),
        ("preempted_alone", (diverges,), (1,)),
        ("drops_layers", (diverges, "rank-dependent-graph"), (2,)),
        ("waits_on_cpu", (diverges, order), (1,)),
        ("thread_saves", (order, "concurrent-communicators"), (2,)),
        ("shards_when_full", (diverges, order), (1,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    ring = three._replace(name="sequences_longer_than_buffer", script="cuda/sequences_longer_than_buffer.py")
    yield ring._replace(causes=("p2p-order",), culprits=(0, 1, 2), reached="rank {rank} step 0 begins", polls=10.0)
    clock = three._replace(name="saves_by_clock", script="cuda/saves_by_clock.py", polls=20.0)  # it is due by then
    yield clock._replace(causes=(diverges,), culprits=(2,))


def _by_stories() -> Iterator[Scenario]:
    """Sixteen more, after public threads of DeepSpeed (5066), ms-swift (8102), ALCHEMI (143), SpecForge (467), SGLang
    (34910), Lightning, verl, DETR and others that tell what the cause was: experts without tokens, padding that counts
    for nothing, sets, listed folders, a `suppress` around too much, an idle engine, halos, NaN, tied weights, counters
    of one's own, a lock that is left, layers frozen alone, pipes, prints that reduce, retries, a thread that ended."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    rank0, diverges, order = "rank0-only-collective", "rank-divergent-decision", "collective-order-mismatch"
    uneven, graph, waits = "uneven-inputs", "rank-dependent-graph", "slow-rank-timeout"
    for script, causes, culprits in (
        ("expert_without_tokens", (diverges, graph, "unused-parameters"), (1,)),
        ("padding_not_in_loss", (graph, "unused-parameters", diverges), (2,)),
        ("outputs_of_a_set", (order, diverges), (2,)),
        ("files_as_walked", ("shape-mismatch",), (1,)),
        ("suppresses_too_much", (diverges, "object-collective", order), (0,)),
        ("idle_without_dummy", (diverges, order), (0,)),
        ("halo_without_border", ("p2p-order", diverges), (2,)),
        ("nan_skips_backward", (diverges, uneven), (1,)),
        ("tied_weights_sent", (diverges, order), (2,)),
        ("logs_by_own_count", (diverges, order), (1,)),
        ("extension_lock_left", ("file-lock-wait", waits), (1,)),
        ("freezes_alone", (graph, diverges, "unused-parameters"), (1,)),
        ("log_pipe_full", ("child-process-wait", waits), (2,)),
        ("meter_in_print", (rank0,), (0,)),
        ("retries_request", (waits,), (2,)),
        ("prefetch_died", ("queue-wait", waits), (1,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)


def _fresh() -> Iterator[Scenario]:
    """Twelve of further kinds: gradients averaged by hand, a server that is gone, a fork under a lock, a handler that
    meets the others, a lock under which a future is waited for, a mesh of another shape, a file of another name, an
    event that nobody sets, a file lock around a barrier, a key of the store, a log level, a property that counts."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    diverges, order, waits = "rank-divergent-decision", "collective-order-mismatch", "slow-rank-timeout"
    for script, causes, culprits in (
        ("grads_that_are_there", ("rank-dependent-graph", diverges, order, "unused-parameters"), (1,)),
        ("forks_under_lock", ("fork-held-lock", "child-process-wait"), (1,)),
        ("handler_meets_others", (diverges, order, "signal-handler-wait"), (2,)),
        ("future_needs_lock", ("lock-held", "thread-wait"), (0,)),
        ("rollout_awaits", ("asyncio-wait",), (1,)),
        ("lock_around_barrier", ("file-lock-wait",), (1, 2)),
        ("store_key_of_another_name", ("store-key-missing",), (1,)),
        ("norm_when_debugging", (diverges, order), (1,)),
        ("counted_when_asked", (diverges, order), (2,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    polling = three._replace(states=("hung", "slow"), culprits=(2,), polls=3.0)
    server = polling._replace(name="waits_for_server", script="cuda/waits_for_server.py")
    yield server._replace(causes=("service-no-answer", waits))
    file = polling._replace(name="waits_for_file_of_first", script="cuda/waits_for_file_of_first.py")
    yield file._replace(causes=(waits, "checkpoint-race"))
    mesh = three._replace(name="mesh_of_other_shape", script="cuda/mesh_of_other_shape.py", ranks=4, polls=8.0)
    yield mesh._replace(causes=(order, diverges), culprits=(3,))


def _latest() -> Iterator[Scenario]:
    """Eleven of further kinds: two loaders side by side, a loader begun again, rounds until an error is small, padding
    of one's own, a decorator that calls again, a model left in evaluation, an upload in a thread, a sort in Python, a
    collective in `__del__`, a root of one's own, a child process that is killed."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    diverges, order, uneven = "rank-divergent-decision", "collective-order-mismatch", "uneven-inputs"
    waits = "slow-rank-timeout"
    for script, causes, culprits in (
        ("zip_of_two", (uneven, diverges), (2,)),
        ("restarts_its_loader", (diverges, uneven), (1,)),
        ("until_converged", (diverges, uneven), (2,)),
        ("pads_to_its_own", ("shape-mismatch",), (1,)),
        ("retried_by_decorator", (diverges, order), (2,)),
        ("left_in_eval", (diverges, order), (0,)),
        ("upload_never_ends", ("thread-wait", "service-no-answer", waits), (0,)),
        ("closes_when_collected", (diverges, order), (1,)),
        ("best_of_each", (diverges, order), (2,)),
        ("reader_process_killed", ("queue-wait", "pool-worker-died", waits), (2,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    sort = three._replace(name="sorts_alone", script="cuda/sorts_alone.py", states=("slow",), polls=3.0)
    yield sort._replace(causes=(waits, "straggler"), culprits=(1,))


def _by_night() -> Iterator[Scenario]:
    """Fourteen of further kinds: a gather's root, the first rank of each node, chance with a seed of one's own, splits
    that nobody told, a pool that waits for itself, a notification that comes too early, a viewer, a database's lock, a
    regular expression, a mask that is not sent, a network's second turn, slots of killed workers, another strategy,
    owners by sizes. Where a rank holds what another one waits for, or two wait for each other, both may be named."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    diverges, order, waits = "rank-divergent-decision", "collective-order-mismatch", "slow-rank-timeout"
    for script, causes, culprits in (
        ("gathers_at_another", (order, diverges), (2,)),
        ("mixes_at_random", (diverges, order), (1,)),
        ("splits_not_exchanged", ("shape-mismatch",), (2,)),
        ("pool_inside_pool", ("thread-wait", waits), (1,)),
        ("notified_too_early", ("thread-wait", waits), (2,)),
        ("waits_for_viewer", ("service-no-answer", waits), (0,)),
        ("discriminator_again", (diverges, order), (2,)),
        ("slot_of_dead_worker", ("lock-held", "pool-worker-died", "child-process-wait", waits), (1,)),
        ("strategy_of_old_config", (order, diverges), (1,)),
        ("owners_by_own_sizes", (order, diverges), (1,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    nodes = three._replace(name="main_of_each_node", script="cuda/main_of_each_node.py", ranks=4)
    yield nodes._replace(causes=(diverges, order, "rank0-only-collective"), culprits=(0, 2))
    database = three._replace(name="database_locked", script="cuda/database_locked.py", polls=8.0)
    yield database._replace(
        causes=("file-lock-wait", "storage-stall", waits), culprits=(2,), or_culprits=((1,), (1, 2))
    )
    expression = three._replace(name="regex_explodes", script="cuda/regex_explodes.py", polls=3.0)
    yield expression._replace(causes=(waits, "straggler", "gil-deadlock"), culprits=(1,), states=("slow", "hung"))
    mask = three._replace(name="mask_not_sent", script="cuda/mask_not_sent.py", or_culprits=((0, 1),))
    yield mask._replace(causes=("p2p-order", diverges), culprits=(0,))


def _by_noon() -> Iterator[Scenario]:
    """Nine of further kinds: a score that is remembered, a barrier in a handler, a ring that receives first, weights
    that are asked for after a spike, a program that waits for its input, a semaphore that is taken twice, a server
    that has gone silent, parts of another size, a lock of a thread that has ended. (A tenth, of objects that one rank
    tells, did not start: the stand-ins do not carry their bytes.)"""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED, healthy=False)
    diverges, order, waits = "rank-divergent-decision", "collective-order-mismatch", "slow-rank-timeout"
    for script, causes, culprits in (
        ("score_remembered", (diverges, order), (1,)),
        ("barrier_when_it_fails", (diverges, order), (2,)),
        ("ring_receives_first", ("p2p-order",), (0, 1, 2)),
        ("reloads_after_spike", (diverges, order), (1,)),
        ("converter_never_ends", ("child-process-wait", waits), (0,)),
        ("semaphore_of_requests", ("asyncio-wait", waits), (2,)),
        ("features_from_server", ("service-no-answer", waits), (1,)),
        ("shard_rounded_up", ("shape-mismatch",), (1,)),
        ("lock_of_dead_saver", ("lock-held", "thread-wait", waits), (0,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)


def _in_backward() -> Iterator[Scenario]:
    """Of three programs whose backward stands in code of the program's own, which on a GPU another thread runs."""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED)
    diverges, order, waits = "rank-divergent-decision", "collective-order-mismatch", "slow-rank-timeout"
    for script, causes, culprits, lines in (
        ("hook_asks_queue", ("queue-wait", waits), (1,), ("bound = self.bounds.get()",)),
        ("reloads_spilled", (waits, "thread-wait"), (2,), ("while not ctx.path.exists()", "time.sleep(0.02)")),
        ("hook_averages_outliers", (diverges, order, "rank0-only-collective"), (0,), ("if self.calls ==",
         "dist.all_reduce(mean)", "torch.cuda.synchronize()")),
    ):  # fmt: skip
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits, lines=lines)


def _after_time() -> Iterator[Scenario]:
    """Eleven of further kinds, first seen after their time-out: an interval that one node does not set, a count of
    micro-batches, an answer that a child swallows, a feeder that failed, a stage's wrong neighbour, rows that end, a
    budget, shards of unlike width, a lock that a helper keeps, a decorator for the first rank, draws without end.
    (A twelfth, two groups of which one rank sums over the second first, does not hang: what each waits for comes.)"""
    three = Scenario("", "", (), (), ranks=3, reached=REACHED, healthy=False)
    diverges, order, uneven = "rank-divergent-decision", "collective-order-mismatch", "uneven-inputs"
    graph, waits = "rank-dependent-graph", "slow-rank-timeout"
    for script, causes, culprits in (
        ("ema_where_set", (diverges, order), (1,)),
        ("no_sync_to_the_end", (diverges, graph, order), (2,)),
        ("reads_line_of_tokenizer", ("child-process-wait", waits), (1,)),
        ("gradient_to_wrong_stage", ("p2p-order",), (2,)),
        ("strided_rows_end", (uneven, diverges), (2,)),
        ("budget_of_time_spent", (diverges, "rank-died", uneven), (1,)),
        ("shards_of_own_width", ("shape-mismatch",), (1,)),
        ("lock_of_orphan", ("file-lock-wait",), (2,)),
        ("summary_of_main", ("rank0-only-collective",), (0,)),
    ):
        yield three._replace(name=script, script=f"cuda/{script}.py", causes=causes, culprits=culprits)
    polling = three._replace(states=("hung", "slow"), polls=3.0)
    feeder = polling._replace(name="waits_for_feeder_that_failed", script="cuda/waits_for_feeder_that_failed.py")
    yield feeder._replace(causes=("thread-wait", "queue-wait", waits), culprits=(2,))
    draws = polling._replace(name="draws_until_accepted", script="cuda/draws_until_accepted.py")
    yield draws._replace(causes=(waits, "straggler"), culprits=(1,))


def _polling() -> Iterator[Scenario]:
    """One of training.SCENARIOS that never comes to rest on NCCL, for its ranks ask the store again and again; a rank
    without its GPU, which goes on with gloo while the others wait for it in NCCL's start; and one that makes no
    collective any more."""
    alone = Scenario("falls_back_to_cpu", "cuda/falls_back_to_cpu.py", ("no-gpu-visible",), (1,), ranks=3, polls=10.0)
    yield alone._replace(reached="rank {rank} step 0 begins", silent=(1,))
    going = alone._replace(name="syncs_no_more", script="cuda/syncs_no_more.py", states=("hung", "slow"), polls=3.0)
    yield going._replace(causes=("rank-divergent-decision",), reached=REACHED, healthy=False)
    some = SCENARIOS["group_of_some"]
    yield some._replace(name="group_of_some_on_nccl", polls=8.0)


FIRST_ON_GPUS = {scenario.name: scenario for scenario in _all()}
LATER_ON_GPUS = {scenario.name: scenario for scenario in _more()}
LOTS = {
    lot: {scenario.name: scenario for scenario in scenarios}
    for lot, scenarios in {
        "as written": _as_written(),
        "twelve": _twelve(),
        "threads": _by_threads(),
        "stories": _by_stories(),
        "fresh": _fresh(),
        "latest": _latest(),
        "night": _by_night(),
        "noon": _by_noon(),
        "in backward": _in_backward(),
        "after time": _after_time(),
    }.items()
}
"""Those that are tune or keep (of_users.half), by the day on which they were written."""
POLLING_ON_GPUS = {scenario.name: scenario for scenario in _polling()}
ON_GPUS = FIRST_ON_GPUS | LATER_ON_GPUS | POLLING_ON_GPUS
for _lot in LOTS.values():
    ON_GPUS |= _lot
EVERY = SCENARIOS | ON_GPUS
