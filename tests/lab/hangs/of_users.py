"""Jobs as users write them (users/), whose expectation was written before anything had looked at one.

`python -m tests.lab.hangs` runs and scores them. Half are *tune*, half *keep*, by a hash of the name: rules are mended
for what is seen on *tune*; of *keep* the sums alone are looked at.
"""

from collections.abc import Iterator

from tests.lab.hangs.eighteenth_lot import get_on as eighteenth_gets_on, hanging as eighteenth_hangs
from tests.lab.hangs.eighth_lot import get_on as eighth_gets_on, hanging as eighth_hangs
from tests.lab.hangs.eleventh_lot import get_on as eleventh_gets_on, hanging as eleventh_hangs
from tests.lab.hangs.expected import STRANGERS, gets_on, half, hangs, stranger
from tests.lab.hangs.fifteenth_lot import get_on as fifteenth_gets_on, hanging as fifteenth_hangs
from tests.lab.hangs.fifth_lot import get_on as fifth_gets_on, hanging as fifth_hangs
from tests.lab.hangs.fourteenth_lot import get_on as fourteenth_gets_on, hanging as fourteenth_hangs
from tests.lab.hangs.fourth_lot import get_on as fourth_gets_on, hanging as fourth_hangs
from tests.lab.hangs.ninth_lot import get_on as ninth_gets_on, hanging as ninth_hangs
from tests.lab.hangs.seventeenth_lot import get_on as seventeenth_gets_on, hanging as seventeenth_hangs
from tests.lab.hangs.seventh_lot import get_on as seventh_gets_on, hanging as seventh_hangs
from tests.lab.hangs.sixteenth_lot import get_on as sixteenth_gets_on, hanging as sixteenth_hangs
from tests.lab.hangs.sixth_lot import get_on as sixth_gets_on, hanging as sixth_hangs
from tests.lab.hangs.tenth_lot import get_on as tenth_gets_on, hanging as tenth_hangs
from tests.lab.hangs.third_lot import get_on as third_gets_on, hanging as third_hangs
from tests.lab.hangs.thirteenth_lot import get_on as thirteenth_gets_on, hanging as thirteenth_hangs
from tests.lab.hangs.training import Scenario
from tests.lab.hangs.twelfth_lot import get_on as twelfth_gets_on, hanging as twelfth_hangs


def _hanging() -> Iterator[Scenario]:
    yield hangs("pool_worker_killed", ("pool-worker-died",), (1,), "scores = pool.map(")
    yield hangs("join_before_get", ("join-before-get",), (0,), "child.join()")
    yield hangs("child_asks", ("child-process-wait",), (0,), "output, _ = process.communicate()")
    yield hangs("child_follows", ("child-process-wait",), (1,), "subprocess.run(")
    yield hangs("child_pipe_full", ("child-process-wait",), (1,), "if listing.wait()", ranks=3)
    yield hangs("nested_executor", ("thread-wait",), (1,), "return sum(EXECUTOR", "dist.all_reduce(torch.tensor(")
    yield hangs("producer_failed", ("queue-wait",), (1,), "batch = torch.tensor(queue.get())")
    yield hangs("soft_lock_left", ("file-lock-wait",), (0,), "with SoftFileLock(")
    yield hangs("lock_around_barrier", ("file-lock-wait",), (1,), "with filelock.FileLock(")
    yield hangs("extension_baton", ("file-lock-wait",), (0, 1), "baton.wait()")
    yield hangs("flock_by_another", ("file-lock-wait",), (1,), "fcntl.flock(results")
    yield hangs("two_orders", ("lock-held",), (0,), "with file_lock:", "with model_lock:")
    yield hangs("lock_twice", ("lock-held",), (2,), "self.lock.acquire()", ranks=3)
    yield hangs("finalizer_lock", ("lock-held",), (1,), "with LOCK:")
    yield hangs("log_queue_full", ("queue-wait",), (1,), "self.queue.put(", "log.info(")
    yield hangs("log_socket", ("service-no-answer",), (1,), "log.info(")
    yield hangs("fork_with_lock", ("fork-held-lock",), (0,), "evaluator.join()", "with CONFIG_LOCK:")
    yield hangs("asks_token", ("stopped-rank",), (0,), "token = getpass.getpass(", ranks=3)
    yield hangs("post_mortem", ("stopped-rank",), (2,), "pdb.post_mortem(", ranks=3)
    yield hangs("silent_http", ("service-no-answer",), (1,), "with urllib.request.urlopen(")
    yield hangs("database_lock", ("file-lock-wait",), (1,), 'database.execute("begin')
    yield hangs("key_misspelt", ("store-key-missing",), (1, 2), "store.wait(", ranks=3)
    yield hangs("key_of_crashed", ("store-key-missing",), (1,), "store.get(", ranks=3)._replace(launcher="by hand")
    yield hangs("rpc_circle", ("rpc-wait",), (0,), "gate.wait()")._replace(polls=8.0)
    yield hangs("asyncio_event", ("asyncio-wait",), (1,), "number = asyncio.run(", "await ready.wait()")
    yield hangs("asyncio_queue", ("asyncio-wait",), (0,), "asyncio.run(work(", "await items.join()")
    yield hangs("pauses_for_signal", ("signal-wait",), (1,), "signal.pause()")
    yield hangs("handler_saves", ("signal-handler-wait", "rank-divergent-decision"), (1,), "dist.barrier()", ranks=3)
    yield hangs("handler_lock", ("lock-held", "signal-handler-wait"), (0,), "with LOCK:")
    slow = "dataloader-worker-slow"
    yield hangs("loader_backs_off", (slow,), (1,), "time.sleep(10", "for step, batch in enumerate(")
    yield hangs(
        "loader_fifo", ("storage-stall", slow), (0,), "with open(self.paths", "for step, batch in enumerate(data."
    )
    rank0 = ("rank0-only-collective",)
    yield hangs("guard_helper", rank0, (0,), "dist.barrier()", "save_checkpoint(", "if step % 3", ranks=3)
    yield hangs("guard_return", rank0, (0,), "dist.all_reduce(mean)", "return", "if self.global_rank:", ranks=3)
    yield hangs("guard_config", rank0, (0,), "dist.all_gather(parts", "print(metrics(", "if step % cfg")
    yield hangs("guard_environment", rank0, (0,), "dist.reduce(total", "if step == 3 and")
    yield hangs("guard_decorator", rank0, (0,), "dist.all_gather_object(", "function(*args", "if dist.", ranks=3)
    yield hangs("guard_in_group", rank0, (0, 2), "dist.barrier()", "if step > 2 and", ranks=4)
    yield hangs("guard_short", rank0, (0,), "master and step", ranks=3)
    yield hangs("guard_table", rank0, (0,), "dist.gather(", "role(step)", "ROLES =")
    yield hangs("guard_attribute", rank0, (0,), "dist.all_reduce(correct)", "print(evaluate(", "if state.")
    yield hangs("guard_others", rank0, (0,), "dist.barrier()", "if index != 0", ranks=3)
    diverged = ("rank-divergent-decision", "uneven-inputs")
    yield hangs("one_ahead", ("rank-divergent-decision",), (2,), "continue", "dist.all_gather(", ranks=3)
    yield hangs("metrics_put", ("queue-wait",), (1,), "metrics.put(")
    yield hangs("polls_for_file", ("slow-rank-timeout",), (1,), "time.sleep(1)", "while not os.path")
    yield hangs("event_of_thread", ("thread-wait",), (0,), "self.ready.wait()")
    yield hangs("joins_uploader", ("service-no-answer", "thread-wait"), (0,), "uploader.join()", "connection.recv(")
    yield hangs("shared_lock", ("lock-held",), (1,), "with lock:")._replace(launcher="spawn")
    yield hangs("waits_after_leaving", diverged, (1,), "break", "dist.all_gather(", "for epoch", ranks=3)
    yield hangs("stdout_pipe_full", ("child-process-wait",), (1,), "viewer.stdin.write(")
    yield hangs("condition_lost", ("thread-wait",), (2,), "CONDITION.wait()", ranks=3)


def _later() -> Iterator[Scenario]:
    """A second lot, written when the rules for the first had been: what is right of it was right unseen."""
    rank0 = ("rank0-only-collective",)
    barrier = 'trainer.strategy.barrier("report")'
    yield hangs("lightning_callback", rank0, (0,), barrier, "if trainer.is_global")
    yield hangs("accelerate_gather", rank0, (0,), "print(accelerator.gather(", "if accelerator.is_local")
    yield hangs("checkpoint_of_first", rank0, (0,), "dcp.save(", "if am_first", ranks=3)
    yield hangs("guard_walrus", rank0, (0,), "dist.gather_object(", "print(me, summary", "if (me :=")
    yield hangs("guard_property", rank0, (0,), "dist.all_gather(scores", "self.evaluate()", "if self.leads")
    yield hangs("guard_continue", rank0, (0,), "dist.barrier()", "continue", "if not node_leader", ranks=3)
    yield hangs(
        "guard_loop", (*rank0, "rank-divergent-decision"), (0,), "dist.all_reduce(", "for job in", "if position"
    )
    yield hangs("waits_for_fork", ("child-process-wait",), (1,), "os.waitpid(")
    yield hangs("system_call", ("child-process-wait",), (0,), "os.system(")
    yield hangs("executor_of_processes", ("thread-wait", "child-process-wait"), (1,), "result = executor.submit(")
    yield hangs("semaphore_empty", ("lock-held", "thread-wait"), (0,), "SLOTS.acquire()")
    yield hangs("rlock_of_thread", ("lock-held",), (1,), "with self.guard:")
    yield hangs("loop_of_thread", ("thread-wait", "asyncio-wait"), (0,), "number = asyncio.run_coroutine")
    yield hangs("waits_for_usr1", ("signal-wait",), (1, 2), "signal.sigwait(", ranks=3)
    yield hangs("tls_handshake", ("service-no-answer",), (1,), "with context.wrap_socket(")
    yield hangs("reads_socket", ("service-no-answer",), (2,), "ours.recv(3)", ranks=3)
    yield hangs("lockf_of_rank", ("file-lock-wait",), (1,), "fcntl.lockf(log, fcntl.LOCK_EX)")
    yield hangs("process_event", ("thread-wait", "child-process-wait"), (0,), "ready.wait()")
    locked = ("dataloader-fork-deadlock", "fork-held-lock")
    yield hangs("loader_lock", locked, (1,), "for batch in DataLoader(", "with INDEX:")
    yield hangs("debugger_of_child", ("stopped-rank",), (1,), "code.interact(")
    yield hangs("sleeps_after_backward", ("slow-rank-timeout",), (0,), "time.sleep(5000)")
    yield hangs("waits_for_store_key", ("store-key-missing",), (1,), "return str(self.kv.get(")
    yield hangs(
        "thread_pool_fifo", ("thread-wait", "storage-stall"), (1,), "with ThreadPoolExecutor(", "with open(path"
    )
    graph = ("unused-parameters", "rank-dependent-graph")
    yield hangs("no_grad_branch", graph, (1,), "dist.barrier()", "model(torch.ones(", ranks=3)


def _healthy() -> Iterator[Scenario]:
    for name in (
        *("slow_loader", "slow_workers", "validation", "validation_child", "checkpoints"),
        *("idle_http", "idle_queue", "idle_asyncio", "idle_accept"),
        *("cache_in_turn", "polls", "backs_off", "pool_of_four", "slow_download", "simulates"),
    ):
        yield gets_on(name)
    yield gets_on("pipeline", ranks=3)
    for name in ("sleeps_nine", "child_in_steps", "prefetches", "serves_in_thread", "lock_of_cache", "async_saver"):
        yield gets_on(name)


def _strangers() -> Iterator[Scenario]:
    """After public threads, each named in its program: the fault is theirs. The expectation was committed before any of
    them had been run, by somebody who had not read the rules."""
    rank0 = ("rank0-only-collective",)
    differs = ("rank-divergent-decision",)
    yield stranger(
        "bar_of_main",
        (*rank0, *differs),
        (0,),
        "losses.append(accelerator.gather_for",
        "if progress_bar.n",
        'accelerator.print("loss"',
        ranks=3,
    )
    yield stranger(
        "saves_or_waits",
        (*rank0, *differs),
        (0,),
        "accelerator.wait_for_everyone()",
        "if accelerator.is_main",
        "else:",
        "accelerator.backward(",
        "save(accelerator, model)",
        ranks=3,
    )
    yield stranger("stops_on_own_metric", differs, (2,), "break", "dist.barrier()", "if stopper.step", ranks=3)
    yield stranger("skips_out_of_memory", differs, (1,), "continue", "dist.barrier()", "except RuntimeError", ranks=3)
    yield stranger(
        "tracker_service",
        ("service-no-answer", "child-process-wait"),
        (0,),
        "data += self.sock.recv(",
        "return self._read_reply()",
        'print("tracking as"',
    )
    yield stranger(
        "window_reads_stdout", ("child-process-wait", "queue-wait", "storage-stall"), (0,), 'log.info("step'
    )._replace(launcher="spawn")
    yield stranger(
        "computes_metric_once",
        rank0,
        (0,),
        "accuracy = metric.compute()",
        "if local_rank == 0",
        "test(net.module",
        ranks=3,
    )
    yield stranger("logs_from_zero", rank0, (0,), 'self.log("train', "if batch_idx > 2 and")
    order = ("collective-order-mismatch", "concurrent-communicators")
    yield stranger(
        "saver_in_background", order, (0, 1), "dist.gather_object(digest", "dist.barrier()", "checkpointer.save("
    )
    yield stranger("shards_run_out", ("uneven-inputs",), (1,), "for step, batch in", "dist.barrier()", "self.urls =")
    yield stranger("validates_wrapped", rank0, (0,), "output = model(", 'print("accuracy"', "if gpu == 0", ranks=3)
    yield stranger(
        "generates_until_eos", differs, (1,), "break", "if token == EOS", "dist.all_reduce(reward)", "answer =", ranks=3
    )
    yield stranger(
        "expert_without_tokens",
        ("unused-parameters", "rank-dependent-graph"),
        (2,),
        "if chosen.numel()",
        "dist.barrier()",
        "loss.backward()",
        "loss = layer(",
        "layer = Distributed",
        ranks=3,
    )
    yield stranger(
        "buffered_iterator", ("queue-wait",), (0,), "return self._queue.get(True)", "for step, batch in enumerate("
    )
    yield stranger(
        "writer_of_checkpoint",
        ("fork-held-lock", "child-process-wait"),
        (0,),
        "self.process.join()",
        "with CACHE:",
        "caller.close()",
        "self.process.start()",
    )
    yield stranger(
        "signal_of_one",
        differs,
        (0,),
        "break",
        "if preemption.asked",
        "dist.all_gather(everything",
        "save(rank, weights)",
        ranks=3,
    )
    yield stranger(
        "parameter_server", ("rpc-wait",), (1, 2), "weights = rpc.rpc_sync(", "torch.futures.wait_all(", ranks=3
    )._replace(silent=(0,), reached="rank {rank} step 2", polls=4.0)
    yield stranger(
        "lists_adapters",
        ("collective-order-mismatch", *rank0, *differs),
        (0,),
        "dist.all_gather_object(found",
        "print(await loop.run_in",
        ranks=3,
    )
    yield stranger("both_send", ("p2p-order",), (0, 1), "dist.send(output", "activation = stage.exchange(")
    yield stranger(
        "pruned_trial",
        (*differs, "collective-order-mismatch"),
        (0,),
        "raise TrialPruned",
        "if trial.should_prune",
        "except TrialPruned",
        "dist.broadcast_object_list(chosen",
        ranks=3,
    )


def _strangers_get_on() -> Iterator[Scenario]:
    for name in (
        *("builds_index", "evaluates_on_main", "saves_often", "generates_together", "serves_aiohttp"),
        *("uploads_behind", "starts_workers", "retries_download", "plays_games"),
    ):
        yield gets_on(name, folder=f"{STRANGERS}healthy/")
    yield gets_on("stages_of_pipeline", ranks=3, folder=f"{STRANGERS}healthy/")


def _later_strangers() -> Iterator[Scenario]:
    """A second lot after public threads, with the frameworks of the `frameworks` extra: expectations committed before
    any of them had been run, by somebody who had read no rule."""
    rank0 = ("rank0-only-collective",)
    differs = ("rank-divergent-decision",)
    yield stranger(
        "preempted_callback",
        differs,
        (2,),
        "control.should_training_stop",
        "if self.notice_has_come",
        "trainer.train()",
        ranks=3,
    )
    yield stranger("tokens_of_main", rank0, (0,), "total = self.accelerator.gather", "if self.state.is_world", ranks=3)
    yield stranger(
        "full_weights_on_first",
        rank0,
        (0,),
        "weights[name] = parameter.full_tensor()",
        "if step % 5 == 4 and local_rank",
        "export(model",
    )
    yield stranger(
        "loss_at_first_only",
        differs,
        (0,),
        "if current_loss < best_loss",
        'dcp.save({"model"',
        "dist.reduce(part",
        "current_loss = validate(",
        ranks=3,
    )
    yield stranger(
        "resumes_where_seen",
        differs,
        (2,),
        "return",
        "if not path.exists()",
        "dist.broadcast_object_list(state",
        "manager.load()",
        ranks=3,
    )
    yield stranger(
        "upload_refused",
        differs,
        (1,),
        "except Exception",
        "dist.barrier()",
        "self.bucket.put(f",
        "strategy.save_checkpoint(",
        'log.exception("checkpoint',
        ranks=3,
    )
    yield stranger(
        "upload_without_end",
        ("service-no-answer", "thread-wait"),
        (1,),
        "for future in concurrent.futures",
        "return connection.getresponse()",
        "Uploader(port).upload(",
    )
    yield stranger(
        "lock_of_other_run", ("file-lock-wait",), (0,), "with WeakFileLock(lock)", 'print("have", fetch(', ranks=3
    )
    yield stranger(
        "maps_in_processes",
        ("child-process-wait", "service-no-answer"),
        (0,),
        "dataset = dataset.map(",
        "with urllib.request.urlopen(",
        ranks=3,
    )._replace(polls=8.0)
    yield stranger(
        "nodes_of_stream",
        ("uneven-inputs",),
        (1,),
        "for step, batch in",
        "losses = accelerator.gather(",
        "mine = split_dataset_by_node",
        ranks=3,
    )
    yield stranger(
        "budget_of_tokens",
        ("uneven-inputs",),
        (1,),
        "for step, tokens in",
        "dist.all_gather_object(counts",
        "loader = DataLoader(",
        "batches = ApproxBatchSampler(",
        ranks=3,
    )._replace(reached="rank {rank} step 1 of epoch 0")
    yield stranger(
        "rollout_ends_early",
        (*differs, "rank-dependent-graph"),
        (1,),
        "break",
        "if token == END",
        "dist.broadcast(reward",
        "answer = rollout(",
        "token = next_token(",
        ranks=3,
    )
    yield stranger(
        "heads_called_again",
        (*differs, "rank-dependent-graph"),
        (1,),
        "for _ in range(objects",
        "boxes = boxes + self.head(",
        "boxes = engine(",
        ranks=3,
    )
    yield stranger(
        "notice_to_worker",
        differs,
        (1,),
        "if get_preemption_info(",
        "dist.all_gather_object(everybody",
        "self.report(",
        ranks=3,
    )._replace(launcher="spawn", polls=8.0)
    yield stranger(
        "request_times_out",
        differs,
        (2,),
        "self.running = [request for",
        "while self.running and",
        "self.abort_on_timeout(",
        "dist.broadcast_object_list(message",
        "self.receive(number)",
        ranks=3,
    )._replace(reached="rank {rank} step 2")
    yield stranger(
        "marker_never_written",
        ("slow-rank-timeout",),
        (1, 2),
        "while not signal_file.exists()",
        "time.sleep(0.5)",
        "download_checkpoint(",
        ranks=3,
    )._replace(states=("hung", "slow"))
    yield stranger(
        "saves_what_failed",
        (*differs, "program-error"),
        (1,),
        'trainer.save_checkpoint("on',
        "except Exception",
        "trainer.fit(model",
        'raise ValueError("image',
        ranks=3,
    )
    yield stranger(
        "decoder_killed",
        ("queue-wait", "pool-worker-died"),
        (1,),
        "image = self.queue.get()",
        "for step, image in enumerate(images)",
    )
    yield stranger(
        "prefetcher_shuts_down",
        ("thread-wait", "queue-wait"),
        (1,),
        "self.thread.join()",
        "self.buffer.put(item)",
        "reader.shutdown()",
    )
    yield stranger(
        "spike_skipped",
        differs,
        (2,),
        "continue",
        "if detector.is_bad(",
        "losses = accelerator.gather(",
        ranks=3,
    )
    yield stranger("scores_on_main", rank0, (0,), "metrics = trainer.evaluate()", "if do_eval and", ranks=3)
    yield stranger("texts_on_main", rank0, (0,), "texts = gather_object(", "if distributed_state.is_main")
    yield stranger(
        "metric_without_samples",
        differs,
        (1,),
        "if metric.update_called",
        "return float(metric.compute())",
        "return None",
        "accuracy = evaluate(",
        ranks=3,
    )
    yield stranger(
        "distance_of_zero", rank0, (0,), 'print("distance", self.distance.compute()', "@rank_zero_only", ranks=3
    )
    yield stranger(
        "curl_of_shard",
        ("child-process-wait", "storage-stall", "service-no-answer"),
        (1,),
        "for step, sample in enumerate(dataset)",
    )
    yield stranger(
        "promotes_staged",
        differs,
        (0,),
        "dist.barrier()",
        "except OSError",
        "finally:",
        "shutil.copytree(",
        'print("not promoted:"',
        "self.promote(",
        "checkpointer.save(",
        ranks=3,
    )


def _later_strangers_get_on() -> Iterator[Scenario]:
    folder = f"{STRANGERS}healthy/"
    for name in (
        *("idle_engine", "tokenizes_first", "writes_artifacts", "downloads_on_node", "compiles_first"),
        *("slow_collate", "evaluates_unevenly", "draws_samples", "asks_generator", "saves_behind"),
        *("storage_says_slower", "long_sequences", "builds_kernels"),
    ):
        yield gets_on(name, folder=folder)
    yield gets_on("actors_of_ray", folder=folder)._replace(launcher="spawn")


LATER = {scenario.name: scenario for scenario in _later()}
LOTS = {
    "strangers": (_strangers, _strangers_get_on),
    "later": (_later_strangers, _later_strangers_get_on),
    "third": (third_hangs, third_gets_on),
    "fourth": (fourth_hangs, fourth_gets_on),
    "fifth": (fifth_hangs, fifth_gets_on),
    "sixth": (sixth_hangs, sixth_gets_on),
    "seventh": (seventh_hangs, seventh_gets_on),
    "eighth": (eighth_hangs, eighth_gets_on),
    "ninth": (ninth_hangs, ninth_gets_on),
    "tenth": (tenth_hangs, tenth_gets_on),
    "eleventh": (eleventh_hangs, eleventh_gets_on),
    "twelfth": (twelfth_hangs, twelfth_gets_on),
    "thirteenth": (thirteenth_hangs, thirteenth_gets_on),
    "fourteenth": (fourteenth_hangs, fourteenth_gets_on),
    "fifteenth": (fifteenth_hangs, fifteenth_gets_on),
    "sixteenth": (sixteenth_hangs, sixteenth_gets_on),
    "seventeenth": (seventeenth_hangs, seventeenth_gets_on),
    "eighteenth": (eighteenth_hangs, eighteenth_gets_on),
}
"""Those after public threads: what makes the jobs of a lot that hang, and those that get on."""
HANGING = {
    scenario.name: scenario for made in (_hanging, _later, *(lot[0] for lot in LOTS.values())) for scenario in made()
}
GETTING_ON = {scenario.name: scenario for made in (_healthy, *(lot[1] for lot in LOTS.values())) for scenario in made()}
"""None of them may be called hung in any of three looks; an idle server waits for work."""
OF_USERS = HANGING | GETTING_ON

__all__ = ["GETTING_ON", "HANGING", "LATER", "LOTS", "OF_USERS", "half"]
