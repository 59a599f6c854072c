"""A fourteenth lot: callbacks, closures, generators, weak listeners, executors, checkpoints by an own clock, what waits
in a child or under a lock.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules
that day. Each program is its own healthy twin with `--healthy`; every second of them is looked at.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)

STEPS = {
    "patience_of_callback": 4,
    "replay_not_warm": 2,
    "events_of_generator": 3,
    "suppresses_empty_cat": 4,
    "any_over_checks": 6,
    "listener_forgotten": 4,
    "clips_in_tensor_group": 4,
    "lightning_ends_own_fit": 3,
    "saves_by_own_clock": 4,
    "flushes_where_memory_grows": 7,
    "barrier_named_by_own_count": 6,
    "ships_logs_to_child": 4,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""


def decisions() -> Iterator[Scenario]:
    """A process that went another way: by an object's attribute, a closure, a count, a clock, an error."""
    for name, culprit, lines in (
        ("patience_of_callback", 1, ("if self.bad >=", "trainer.stop_training =", "if self.stop_training", "break")),
        ("stopper_in_closure", 2, ("if done(loss)", "break", "return not improved", "improved =")),
        ("replay_not_warm", 1, ("if not self.replay.warm", "return None", "return len(self) >=", "agent.learn()")),
        ("events_of_generator", 1, ("if self.tokens >=", 'yield "evaluate"', "for kind, number, payload", "getattr(")),
        ("suppresses_empty_cat", 2, ("with contextlib.suppress", "everything = torch.cat(")),
        ("any_over_checks", 1, ("return any(", "if unhealthy(", "continue", "return dist.get_rank() == 1 and")),
        ("listener_forgotten", 1, ("for listener in", 'self.bus.publish("round"', "del meter", "self._listeners =")),
        ("clips_in_tensor_group", 3, ("if norm > self.limit", "self.clip()")),
        ("lightning_ends_own_fit", 1, ("if self.low_enough", "self.trainer.should_stop", "trainer.fit(")),
        ("saves_by_own_clock", 0, ("if not self.due", "return self.clock", "checkpointer.maybe_save(")),
        ("flushes_where_memory_grows", 0, ("if used - self.base", "guard()")),
    ):
        ranks = {"clips_in_tensor_group": 4}.get(name, max(2, culprit + 1))
        yield stranger(name, DIFFERS, (culprit,), *lines, ranks=ranks)._replace(or_culprits=either(ranks))
    yield stranger(
        "trace_ready_gathers", DIFFERS, (0,), "if not torch.isfinite", "continue", "profiler.step()", "with profile("
    )._replace(or_culprits=either(2))
    yield stranger("collective_in_executor", DIFFERS, (1,), "if rewards", "rewards = await", "scores = await")._replace(
        or_culprits=either(2)
    )
    yield stranger(
        "worker_lacks_command",
        (*DIFFERS, "collective-order-mismatch"),
        (2,),
        *("if command is None", "return None", "command = self.commands.get", 'parts = everywhere("offload"'),
        *("worker.execute(name", "return worker.execute(name"),
        ranks=3,
    )._replace(or_culprits=((1, 2), (0,)))
    yield stranger(
        "halo_without_neighbours",
        (*DIFFERS, "p2p-order"),
        (1,),
        *("if here > 0", "operations.append(dist.P2POp(dist.isend", "received = exchange("),
        ranks=3,
    )


def either(ranks: int) -> tuple[tuple[int, ...], ...]:
    """Of two, whichever is named: nothing but the program's intention says who went astray."""
    return ((0,), (1,), (0, 1)) if ranks == 2 else ()


def others() -> Iterator[Scenario]:
    yield stranger(
        "sampler_promises_more",
        (*UNEVEN, *DIFFERS),
        (1,),
        *("for anchors, positives in", "train(model", "else:", "for index in remaining", "while remaining"),
    )._replace(or_culprits=either(2))
    yield stranger(
        "trainers_of_server",
        ("rpc-wait", *UNEVEN),
        (2,),
        *("for step, batch in", "for _ in range(LENGTHS", "model = rpc.rpc_sync(", "rpc.shutdown()"),
        *("done = torch.futures.wait_all", "if len(self.received)"),
        ranks=3,
    )._replace(polls=8.0, or_culprits=((1,), (1, 2), (0,)))
    yield stranger("histograms_where_writer", RANK0, (0,), "if step % self.every", "recorder.report(")
    yield stranger(
        "pickles_under_lock", ("lock-held",), (1,), "with self.lock", "dist.all_gather_object(", "with self.statistics."
    )
    yield stranger(
        "barrier_named_by_own_count",
        ("store-key-missing", *DIFFERS),
        (1,),
        *('self.sync.barrier("shard")', "if shard == self.loaded", "shards.ensure(", "self.store.wait("),
    )._replace(or_culprits=either(2))
    yield stranger(
        "ships_logs_to_child",
        ("child-process-wait",),
        (1,),
        *("self.process.stdin.", "self.shipper.send("),
    )
    yield stranger(
        "rank_of_embedding",
        ("slow-rank-timeout", "straggler"),
        (1,),
        *("values = torch.linalg.", "rank_here = "),
    )._replace(polls=6.0, states=("hung", "slow"))
    yield stranger(
        "leaves_into_atexit",
        ("teardown-deadlock", *DIFFERS),
        (2,),
        *("sys.exit(", "except OSError", "rows = corpus.read", "raise OSError", "atexit.register", "dist.all_gather_o"),
        ranks=3,
    )
    yield stranger(
        "flock_in_shell",
        ("child-process-wait", "file-lock-wait"),
        (1,),
        *("subprocess.check_call(", "stage(step", "for step, rows in"),
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *others()):
        yield scenario._replace(reached=f"rank {{rank}} step {STEPS.get(scenario.name, 5)}")


def get_on() -> Iterator[Scenario]:
    """Every second of the programs without its fault: none of them may be called hung."""
    yield from twins(sorted(hanging(), key=lambda scenario: scenario.name)[::2])
