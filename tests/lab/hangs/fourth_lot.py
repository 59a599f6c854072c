"""A fourth lot after public threads: caches, buckets, groups made on the way, trackers, joins, collectors, stages,
bars, resumed loaders, exports, shared locks, keys, results, environments, votes, libraries that keep Python's lock,
mounts, git, discarded errors, handlers, watchers, event loops, pauses, nested calls, sweeps, curricula, pipes.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)

LAST = {
    "writes_in_flight": "step 10",
    "steps_of_buckets": "step 9",
    "group_of_loader": "epoch 0 step 2",
    "reduces_where_tracked": "step 4",
    "joins_by_monitored_barrier": "step 6",
    "buckets_by_arrival": "step 5",
    "frees_in_collection": "step 4",
    "collects_on_last_stage": "step 3",
    "skips_unused_module": "step 5",
    "bar_gets_metrics": "step 4",
    "best_of_each_process": "step 5",
    "pipelined_inputs": "step 6",
    "skips_on_resume": "has joined",
    "validates_first": "epoch 1 step 6",
    "barrier_of_make_dataset": "has joined",
    "joins_export_process": "step 7",
    "bar_lock_of_killed": "step 2",
    "keys_for_all_but_last": "epoch 0 step 3",
    "once_on_main": "prepares",
    "world_from_config": "begins",
    "results_not_done": "step 4",
    "closes_environments": "step 5",
    "asymmetric_batch": "step 5",
    "searches_in_fork": "step 5",
    "search_keeps_gil": "step 2",
    "untars_from_mount": "step 6",
    "asks_git": "step 6",
    "sync_discards_errors": "step 5",
    "samplers_meet": "step 6",
    "future_set_twice": "step 5",
    "cache_hit_skips_vote": "step 5",
    "finalizes_gradients": "step 2",
    "debug_barriers": "step 3",
    "rng_state_at_first_use": "step 5",
    "update_fails_before_barrier": "step 8",
    "feeder_at_exit": "has done its work",
    "pipe_of_dead_actor": "step 5",
    "writer_waits_for_paused": "step 5",
    "two_ways_into_group": "step 4",
    "nested_calls_eat_threads": "step 2",
    "levels_from_main": "step 11",
    "drops_layers": "step 1",
    "moves_if_lock_is_free": "step 1",
    "sweep_config_of_main": "step 3",
    "exits_in_handler": "step 3",
    "stopped_by_watcher": "step 3",
}
"""What each rank writes last before the hang: steps are short, so that a job that makes them looks at rest."""


def conditions() -> Iterator[Scenario]:
    """Somebody has taken another way through the program, or has had fewer batches."""
    yield stranger(
        "writes_in_flight",
        DIFFERS,
        (2,),
        "return",
        "if len(self.ongoing) == 0",
        "self.tree_cache.writing_check()",
        "dist.broadcast_object_list(requests",
        "batch = self.receive(",
        "if self.pages > 0",
        ranks=3,
    )
    yield stranger(
        "steps_of_buckets",
        (*UNEVEN, *DIFFERS),
        (2,),
        "while global_step < self.max_train_steps",
        "self.accelerator.wait_for_everyone()",
        "self.max_train_steps = epochs",
        "trainer.train()",
        ranks=3,
    )
    yield stranger(
        "group_of_loader",
        (*RANK0, *ORDER, *DIFFERS),
        (0,),
        "group = dist.new_group(",
        "for step, batch in enumerate(SyncedLoader(",
        "for batch in SyncedLoader(",
        "if self.is_writer",
        'print("dev score"',
        ranks=3,
    )
    yield stranger(
        "reduces_where_tracked",
        RANK0,
        (0,),
        "dist.all_gather(parts",
        "if iteration % self.every",
        "callback.on_training_step_end(",
        "return Run() if",
        ranks=3,
    )._replace(launcher="spawn")
    yield stranger(
        "joins_by_monitored_barrier",
        UNEVEN,
        (1,),
        "for batch_idx, batch in enumerate(loader)",
        "dist.barrier()",
        "executor.train_one_epoch(",
        ranks=3,
    )
    yield stranger(
        "buckets_by_arrival",
        (*ORDER, *DIFFERS),
        (1,),
        "for kind, parameters in buckets.items()",
        "parameter.data.copy_(CALLS",
        "dist.all_gather(rows",
        "dist.all_reduce(gradient)",
        "return pair if",
        "flat_dist_call(model.used(",
        ranks=3,
    )
    yield stranger(
        "frees_in_collection",
        (*DIFFERS, *ORDER),
        (1,),
        "dist.barrier()",
        "gc.collect()",
        "if self.tokens // self.every",
        "sampler.count(",
        ranks=3,
    )
    yield stranger(
        "collects_on_last_stage",
        (*DIFFERS, *RANK0, "p2p-order"),
        (2,),
        "dist.recv(hidden",
        "if stage.is_pipeline_last_stage()",
        "process_non_loss_data(stage.forward_step()",
        "hidden = self.layer(self.recv_forward())",
        "evaluate(stage",
        ranks=3,
    )
    yield stranger(
        "skips_unused_module",
        (*DIFFERS, "rank-dependent-graph"),
        (2,),
        "return stuff",
        "if self.iter == 1",
        "dist.all_reduce(parameter.grad)",
        "loss = model(",
        "for _ in range(frames_of_clip)",
        ranks=3,
    )
    yield stranger("bar_gets_metrics", RANK0, (0,), 'items["acc"] =', "trainer.fit(Classifier()")
    yield stranger(
        "best_of_each_process",
        DIFFERS,
        (1,),
        "trainer.save_checkpoint(self",
        "if score < self.best",
        "trainer.fit(Regression()",
        ranks=3,
    )
    yield stranger(
        "pipelined_inputs",
        UNEVEN,
        (1,),
        "dist.barrier()",
        "except StopIteration",
        "raise StopIteration",
        "if not self.batches",
        "if batch is None",
        "batch = next(loader, None)",
        "pipeline.progress(loader)",
        "break",
        "while True",
        ranks=3,
    )
    yield stranger(
        "skips_on_resume",
        (*DIFFERS, *RANK0, *ORDER),
        (0,),
        "next(self.epoch_iterator)",
        "for _ in range(consumed)",
        "if self.loader._has_data",
        "dist.broadcast(batch",
        "self.skip_first_batches(",
        "logits = next(self.epoch_iterator)",
        "dist.all_reduce(logits)",
    )._replace(or_culprits=((1,),))
    yield stranger(
        "validates_first",
        UNEVEN,
        (1,),
        "for batch_idx, batch in enumerate(cuts(",
        "dist.reduce(values",
        "tot_loss.reduce()",
        "valid_info = compute_validation_loss(",
        "for number in range(7 if",
        ranks=3,
    )._replace(launcher="spawn")
    yield stranger(
        "barrier_of_make_dataset",
        (*RANK0, *DIFFERS),
        (0,),
        "return TensorDataset(x, y)",
        "if self.fabric.is_global_zero",
        "dataset = self.make_dataset(",
        "model, optimizer = self.fabric.setup(",
        "self.fabric.barrier()",
        ranks=3,
    )
    yield stranger(
        "drops_layers",
        (*DIFFERS, "rank-dependent-graph", *ORDER),
        (1,),
        "continue",
        "if self.training and",
        "hidden = layer(hidden)",
        "loss = model(",
        "loss.backward()",
        ranks=3,
    )
    yield stranger(
        "cache_hit_skips_vote",
        DIFFERS,
        (2,),
        "return json.loads(entry",
        "if entry.exists()",
        "dist.all_reduce(total)",
        "kernel = tuner.best(",
        ranks=3,
    )._replace(launcher="by hand")
    yield stranger(
        "exits_in_handler",
        (*DIFFERS, "teardown-deadlock", "signal-handler-wait"),
        (1,),
        "raise SystemExit",
        "finally:",
        "worker.shutdown()",
        "dist.barrier()",
        "worker.denoise(step)",
        "def _on_terminate",
        ranks=3,
    )._replace(launcher="spawn", polls=3.0)
    yield stranger(
        "finalizes_gradients",
        (*DIFFERS, *RANK0),
        (0,),
        "dist.all_reduce(grad)",
        "if skip and not",
        "return",
        "self.finalize_model_grads(",
        "gnorm = engine.train_step(",
        ranks=3,
    )
    yield stranger(
        "debug_barriers",
        (*UNEVEN, *DIFFERS),
        (0,),
        "for _micro in range(",
        "dist.all_reduce(self.grad)",
        "dist.barrier()",
        "self.forward_backward(",
        "engine.train_batch(",
        ranks=3,
    )
    yield stranger(
        "rng_state_at_first_use",
        (*DIFFERS, *RANK0, *ORDER),
        (2,),
        "dist.broadcast(self.state",
        "if step == 5 and",
        'print("projection"',
        "if _rng_tracker is None",
        "_rng_tracker = RNGTracker()",
        "dist.all_reduce(weights)",
        ranks=3,
    )._replace(or_culprits=((0,), (0, 1)))
    yield stranger(
        "moves_if_lock_is_free",
        DIFFERS,
        (1,),
        "return False",
        "if not self.ep_buffer_ready",
        "eplb.move_to_workspace()",
        "dist.all_reduce(hidden)",
        ranks=3,
    )._replace(polls=5.0)
    yield stranger(
        "update_fails_before_barrier",
        DIFFERS,
        (0,),
        "except ClientResponseError",
        "logger.exception(",
        "async with ClientSession(",
        "await strategy.send_chunks(",
        "dist.all_reduce(loss)",
        ranks=3,
    )
    yield stranger(
        "sweep_config_of_main",
        (*UNEVEN, *DIFFERS),
        (0,),
        "dist.barrier()",
        "for batch_idx in range(",
        "last = (batch_idx",
        "if last",
        "with contextlib.nullcontext()",
        "if rank == 0",
        "config.update(",
        "train_epoch(model",
        ranks=3,
    )


def waits() -> Iterator[Scenario]:
    """Somebody waits for something else than a rank."""
    yield stranger("joins_export_process", ("child-process-wait",), (0,), "proc.join()", "export(step)", ranks=3)
    yield stranger("bar_lock_of_killed", ("lock-held",), (1,), "with self.lock:", "bar.update()")._replace(polls=3.0)
    yield stranger(
        "keys_for_all_but_last",
        ("store-key-missing",),
        (2,),
        "return json.loads(self._store.get(",
        "first, last = store.mine(",
        ranks=3,
    )
    yield stranger(
        "once_on_main",
        ("store-key-missing", *DIFFERS),
        (1, 2),
        "store.wait([key])",
        "store = run_once_on_main(",
        "except urllib.error.URLError",
        ranks=3,
    )._replace(launcher="by hand", or_culprits=((0,),))
    yield stranger(
        "world_from_config",
        ("launcher-world-mismatch",),
        (2, 3),
        "dist.init_process_group(",
        "initialize_distributed(",
        "world_size = machine.gpus",
    )._replace(or_culprits=((), (0, 1)), age=10.0)
    yield stranger(
        "results_not_done",
        ("queue-wait", "thread-wait"),
        (1,),
        "self.results_queue.join()",
        "reward = torch.tensor(results.drain())",
        ranks=3,
    )._replace(launcher="by hand")
    yield stranger(
        "closes_environments",
        ("join-before-get", "child-process-wait"),
        (1,),
        "self.process.join()",
        "worker.close()",
        "manager.close()",
    )
    yield stranger(
        "asymmetric_batch",
        ("p2p-order", *DIFFERS),
        (0,),
        "request.wait()",
        "self._exchange(1, 1)",
        "if self.rank == 0 and",
        "attention.forward(",
        "operations += [dist.P2POp(dist.irecv",
        "self._exchange(0, 1)",
        "dist.barrier()",
    )._replace(or_culprits=((1,), (0, 1)))
    yield stranger(
        "searches_in_fork",
        ("fork-held-lock", "child-process-wait"),
        (0,),
        "miner.join()",
        "refresh(index)",
        "distances = (self.vectors",
    )
    yield stranger(
        "search_keeps_gil", ("gil-deadlock",), (1,), "LIBRARY.sem_wait(", "found = search.find_all(", ranks=3
    )
    yield stranger(
        "untars_from_mount",
        ("dataloader-worker-slow", "child-process-wait", "storage-stall"),
        (1,),
        "for step, batch in enumerate(loader)",
        'subprocess.run(["tar"',
    )
    yield stranger(
        "asks_git",
        ("child-process-wait", "service-no-answer"),
        (0,),
        "done = subprocess.run(command",
        "message = [{",
    )
    yield stranger(
        "sync_discards_errors",
        (*DIFFERS, "service-no-answer"),
        (2,),
        "server.serve_forever()",
        "except KeyError",
        "except OSError",
        "raise KeyError(",
        "dist.broadcast(weights",
        "serve(Engine(",
        "engine.update_named_param(",
        "client.update_named_param(",
        ranks=3,
    )._replace(or_culprits=((0,),), silent=(2,))
    yield stranger(
        "samplers_meet",
        ("child-process-wait", "pool-worker-died", "lock-held"),
        (0,),
        "self.barrier.wait()",
        "features = context.next()",
        ranks=3,
    )
    yield stranger(
        "future_set_twice",
        ("asyncio-wait",),
        (1,),
        "return await self.model_update_result",
        "answer = await manager.update_weights(",
        "asyncio.run(train(",
        ranks=3,
    )._replace(launcher="by hand")
    yield stranger(
        "writer_waits_for_paused",
        ("lock-held", "thread-wait"),
        (1,),
        "self._cond.wait()",
        "self.model_update_lock.acquire_write()",
        "generator.update_weights(",
        ranks=3,
    )
    yield stranger(
        "two_ways_into_group",
        (*ORDER, "concurrent-communicators"),
        (0, 1),
        "dist.all_gather(parts",
        "dist.all_reduce(gradient)",
        "await worker.update_weights(0.4",
        "training = loop.run_in_executor(",
    )._replace(or_culprits=((1,), (0,)))
    yield stranger(
        "nested_calls_eat_threads",
        ("rpc-wait",),
        (0, 1),
        "rows = torch.futures.wait_all(calls)",
        "return rpc.rpc_sync(",
    )._replace(polls=8.0)
    yield stranger(
        "levels_from_main",
        ("dataloader-worker-slow", "queue-wait"),
        (1,),
        "for step, batch in enumerate(loader)",
        "level = self.curriculum.levels.get()",
    )
    yield stranger(
        "feeder_at_exit",
        ("teardown-deadlock", "queue-wait", "thread-wait", "join-before-get"),
        (1,),
    )._replace(launcher="spawn")
    yield stranger(
        "pipe_of_dead_actor",
        ("child-process-wait", "pool-worker-died", "queue-wait"),
        (1,),
        "return [remote.recv()",
        'returns = [result["return"]',
    )
    yield stranger("stopped_by_watcher", ("stopped-rank",), (2,), ranks=3)._replace(launcher="by hand", polls=4.0)


def hanging() -> Iterator[Scenario]:
    for scenario in (*conditions(), *waits()):
        yield scenario._replace(reached="rank {rank} " + LAST[scenario.name])


def get_on() -> Iterator[Scenario]:
    """None of them may be called hung."""
    folder = f"{STRANGERS}healthy/"
    for name in (
        *(
            "opens_run_each_epoch",
            "joins_uneven_inputs",
            "waits_for_parts",
            "meets_before_batches",
            "exports_in_process",
        ),
        *("asks_slow_forge", "judges_answer_slowly", "engine_between_updates", "accumulates_longer"),
        *("workers_of_slow_start", "drains_results", "untars_slowly"),
    ):
        yield gets_on(name, folder=folder)
    yield gets_on("writes_under_one_lock", folder=folder)._replace(launcher="spawn")
    yield gets_on("last_stage_looks_at_outputs", ranks=3, folder=folder)
