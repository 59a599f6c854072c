"""A thirteenth lot: decisions that lie in objects, closures, defaults, tables and properties, iterators that end apart,
guards that do not look like a rank's, and ranks that wait for themselves.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules
that day and has seen where each stands with py-spy. Each program is its own healthy twin with `--healthy`.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
BOTH = ((0,), (0, 1))

STEPS = {
    "control_evaluates_on_spike": 6,
    "default_argument_counts": 4,
    "drains_own_requests": 3,
    "gathers_to_own_head": 11,
    "global_best_of_each": 3,
    "heartbeat_thread_failed": 1,
    "hook_counts_for_itself": 5,
    "mines_hard_examples": 1,
    "next_batch_is_none": 0,
    "nothing_monitored_here": 4,
    "producer_task_failed": 5,
    "scores_last_stage_alone": 4,
    "sync_by_own_counter": 10,
    "worker_waits_for_level": 7,
    "path_told_after_barrier": 4,
    "saver_lock_and_upload": 4,
    "copies_under_flock": 4,
    "save_ranks_of_config": 4,
    "static_graph_head_off": 4,
    "takes_while_high": 4,
    "ring_steps_of_own_chunks": 4,
    "match_on_action": 6,
    "lightning_batches_by_tokens": 4,
    "restarts_iterator_with_barrier": 6,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""
FOUR = ("found_inf_of_stage", "ring_steps_of_own_chunks")


def decisions() -> Iterator[Scenario]:
    for name, lines in {
        "nothing_monitored_here": ("if not self.norms", "return {}", "monitor.aggregate", "told = monitor"),
        "property_error_hidden": ("mean = getattr(", "gained = (self", "dist.all_gather_object(every, gained"),
        "sync_by_own_counter": ("context = ", "if not torch.isfinite", "return", "self.seen = 0", "return (self.seen"),
        "control_evaluates_on_spike": ("if spike >", "control.should_evaluate =", "trainer.train("),
        "hook_counts_for_itself": ("if calls %", "calls += 1", 'print("preview"', "if rank == 0 and step == 4"),
        "default_argument_counts": ("if len(kept)", "if loss > 0", "return None", "mean = smoothed("),
        "global_best_of_each": ("if score > best", "snapshot = maybe_snapshot("),
        "match_on_action": ("match advisor", 'case "rewind"', "rewind(model.module", "if step and step % 7"),
        "and_skips_agreement": ("return mine and", "if guard.safe("),
        "dispatch_by_kind": ("loss = OBJECTIVES[kind]",),
        "else_of_search": ("break", "if fits(", "else:", "for size in", "weights -= step_size("),
        "terminates_on_nan": ("trainer.add_event_handler(", "trainer.run("),
        "filtered_event": ("return engine.state.output >", "@trainer.on(", "trainer.run("),
        "found_inf_of_stage": ("if not scaler.found_inf",),
    }.items():
        yield stranger(name, DIFFERS, (1,), *lines)._replace(or_culprits=BOTH)
    yield stranger(
        "should_stop_of_zero",
        (*DIFFERS, *RANK0),
        (0,),
        *("while not self.should_stop", "if self.is_global_zero and", "self.should_stop = True"),
    )._replace(or_culprits=((1,), (0, 1)))
    yield stranger(
        "gathers_to_own_head",
        (*DIFFERS, "collective-order-mismatch"),
        (0, 1),
        *("head = balancer.head()", "dist.gather_object(", "return self.load.index("),
    )._replace(or_culprits=((0,), (1,)))


def uneven() -> Iterator[Scenario]:
    for name, lines in {
        "takes_while_high": ("for score in itertools",),
        "mines_hard_examples": ("for rows in self.hard", "difficult =", "if difficult", "self.hard.append("),
        "drains_own_requests": ("while engine.has_unf", "return bool(self.requests"),
        "restarts_iterator_with_barrier": ("except StopIteration", "return next(self.iterator", "(rows,) = endless"),
        "next_batch_is_none": ("while (batch := ",),
        "lightning_batches_by_tokens": ("trainer.fit(", "batches = TokenBatches(", "if tokens + length", "yield batch"),
    }.items():
        yield stranger(name, (*UNEVEN, *DIFFERS), (1,), *lines)._replace(or_culprits=BOTH)
    yield stranger(
        "ring_steps_of_own_chunks",
        (*DIFFERS, *UNEVEN, "p2p-order"),
        (2,),
        *("for _ in range(chunks", "out = attend("),
        ranks=4,
    )


def some_only() -> Iterator[Scenario]:
    yield stranger(
        "scores_last_stage_alone",
        (*RANK0, *DIFFERS, "p2p-order"),
        (1,),
        *("if process_outputs is not None or", "kept = stage.forward_only(", "evaluate(stage"),
    )
    yield stranger(
        "save_ranks_of_config",
        (*RANK0, *DIFFERS),
        (0,),
        *("if step % self.due", "return get_optimizer_state_dict(", "saver(step", "self.writes ="),
    )
    yield stranger(
        "report_on_last_process",
        RANK0,
        (1,),
        *("@state.on_last_process", "losses = loss if", "report(accelerator"),
    )
    yield stranger(
        "static_graph_head_off",
        ("unused-parameters", "rank-dependent-graph", *DIFFERS),
        (1,),
        *("if has_second", "out = out + self.second", "model(torch.rand", "has_second ="),
    )


def away() -> Iterator[Scenario]:
    yield stranger(
        "saver_lock_and_upload",
        ("lock-held", "thread-wait"),
        (0,),
        *("pending.result()", "with self._lock", "saver.save("),
    )
    yield stranger(
        "asks_own_loop",
        ("asyncio-wait", "thread-wait"),
        (1,),
        *("return asyncio.run_coroutine", "reward = judge.score_sync"),
    )
    yield stranger(
        "producer_task_failed",
        ("asyncio-wait", "queue-wait"),
        (1,),
        *("rewards = [await", "asyncio.run(learn", "await queue.put(row"),
    )
    yield stranger(
        "worker_waits_for_level",
        ("dataloader-worker-slow", "queue-wait"),
        (1,),
        *("self.level = self.levels.get", "for step, rows in enumerate(loader"),
    )
    yield stranger(
        "locks_same_path_twice",
        ("file-lock-wait", "lock-held"),
        (0,),
        *("with locked(path", "fcntl.flock(file", "meta = read_meta(", "order = build_index("),
    )
    yield stranger(
        "copies_under_flock",
        ("file-lock-wait", "child-process-wait"),
        (1,),
        *("subprocess.run(", "fcntl.flock(held, fcntl.LOCK_EX", "publish(folder"),
    )
    yield stranger(
        "path_told_after_barrier",
        ("store-key-missing", "collective-order-mismatch"),
        (1,),
        *("path = store.get(", "dist.barrier()", "tell_path("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "sqlite_held_over_barrier",
        ("file-lock-wait", "lock-held"),
        (1,),
        *('database.execute("BEGIN', "write(database", "summary(database", "dist.barrier()"),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "heartbeat_thread_failed",
        ("thread-wait", *DIFFERS),
        (1,),
        *("heart.join()", "dist.all_reduce(alive", "raise OSError("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "imports_in_thread_of_import",
        ("thread-wait", "lock-held"),
        (1,),
        *("return importlib.import_module(", "plugin = load_plugin("),
    )
    yield stranger("condition_missed", ("thread-wait", "lock-held"), (1,), "self.ready.wait()", "batch = stager.take(")


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *uneven(), *some_only(), *away()):
        reached = f"rank {{rank}} step {STEPS.get(scenario.name, 5)}"
        scenario = scenario._replace(reached=reached)
        if scenario.name in FOUR:
            scenario = scenario._replace(ranks=4)
        if scenario.name == "found_inf_of_stage":
            scenario = scenario._replace(culprits=(2, 3), or_culprits=((3,), (2,), (0, 1), (0, 1, 2, 3)))
        yield scenario


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    yield from twins(hanging())
