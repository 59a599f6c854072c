"""Jobs as users write them (users/), whose expectation was written before anything had looked at one.

`python -m tests.lab.hangs` runs and scores them. Half are *tune*, half *keep*, by a hash of the name: rules are mended
for what is seen on *tune*; of *keep* the sums alone are looked at.
"""

import hashlib
from collections.abc import Iterator
from typing import Literal

from tests.lab.hangs.training import Scenario

Half = Literal["tune", "keep"]
USERS = "users/"
HEALTHY = "users/healthy/"


def half(name: str) -> Half:
    """Which half a scenario belongs to."""
    return "tune" if hashlib.sha256(name.encode()).digest()[0] % 2 else "keep"


def hangs(name: str, causes: tuple[str, ...], culprits: tuple[int, ...], *lines: str, ranks: int = 2) -> Scenario:
    """One that hangs."""
    return Scenario(name, f"{USERS}{name}.py", causes, culprits, lines, ranks=ranks, healthy=False)


def gets_on(name: str, ranks: int = 2) -> Scenario:
    """One of which no look may say that it hangs."""
    return Scenario(name, f"{HEALTHY}{name}.py", (), (), ranks=ranks, states=("running", "slow"))


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
    yield hangs("rpc_circle", ("rpc-wait",), (0,), "gate.wait()")
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
    yield hangs("guard_decorator", rank0, (0,), "dist.all_gather_object(", "function(*args", ranks=3)
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


LATER = {scenario.name: scenario for scenario in _later()}
HANGING = {scenario.name: scenario for scenario in _hanging()} | LATER
GETTING_ON = {scenario.name: scenario for scenario in _healthy()}
"""None of them may be called hung in any of three looks; an idle server waits for work."""
OF_USERS = HANGING | GETTING_ON
