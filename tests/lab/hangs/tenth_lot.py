"""A tenth lot: twelve inside of Transformers, Lightning, Fabric, accelerate, DeepSpeed and datasets, and twelve of a
program's own code: what a property asks, what an iterator agrees on, flags, collators, recursion, keys, pools.

Expectations were committed before gpudoctor had been run on any of them, by somebody who works on the rules and has
seen where each stands with py-spy. Each program is its own healthy twin with `--healthy`: the same without the fault.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
ORDER = ("collective-order-mismatch",)
UNEVEN = ("uneven-inputs",)

LAST = {
    "log_dir_of_first": "step 3",
    "saves_state_under_main": "step 5",
    "stops_on_ungathered_metric": "step 6",
    "rows_of_own_loader": "step 7",
    "gathers_on_last": "step 5",
    "logs_each_validation_step": "step 3",
    "fabric_saves_on_zero": "step 4",
    "predictions_gathered": "step 6",
    "engine_saves_on_master": "step 4",
    "steps_of_filtered_rows": "step 2",
    "generates_sharded": "step 3",
    "callback_errors_swallowed": "step 5",
    "accumulation_of_node": "step 0",
    "looks_at_first_batch": "step 3",
    "collator_agrees_on_length": "step 7",
    "metrics_in_order_seen": "step 2",
    "stop_flag_not_sent": "step 3",
    "best_of_candidates": "step 3",
    "walks_own_tree": "step 3",
    "retry_after_an_hour": "step 4",
    "worker_skips_for_ever": "step 3",
    "breakpoint_of_all": "step 4",
    "results_in_simple_queue": "step 5",
    "connections_of_pool": "step 5",
}
"""What each rank writes last before the hang, or some steps before it."""
THREE = ("gathers_on_last", "fabric_saves_on_zero", "collator_agrees_on_length", "walks_own_tree", "breakpoint_of_all")


def in_frameworks() -> Iterator[Scenario]:
    yield stranger(
        "log_dir_of_first",
        RANK0,
        (0,),
        *("folder = self.folder or Path(trainer.log_dir", "@rank_zero_only", "self.write("),
    )
    yield stranger(
        "saves_state_under_main",
        RANK0,
        (0,),
        *("if accelerator.is_main_process or", 'print("saving", accelerator.save_state('),
    )
    yield stranger(
        "stops_on_ungathered_metric",
        DIFFERS,
        (1,),
        *("trainer.train()", "trainer.accelerator.wait_for", "metrics = {", "good = min("),
    )
    yield stranger(
        "rows_of_own_loader",
        UNEVEN,
        (1,),
        *("trainer.train()", "trainer.accelerator.wait_for", "rows = Rows(40 if", "return DataLoader(rows"),
    )
    yield stranger(
        "gathers_on_last",
        RANK0,
        (2,),
        *("every = loss if", "@accelerator.on_last_process", "report(step, loss)"),
    )
    yield stranger(
        "logs_each_validation_step",
        UNEVEN,
        (1,),
        *('self.log("val_loss"', "rows = 12 if", "return DataLoader(", "trainer.fit(", "time.sleep(0.3)"),
        *("def training_step", "def validation_step", "return self.layer(batch[0]).square"),
    )
    yield stranger(
        "fabric_saves_on_zero",
        RANK0,
        (0,),
        *("self.fabric.save(", "if EVERYBODY or not self.fabric", "run.keep_best("),
    )
    yield stranger(
        "predictions_gathered",
        UNEVEN,
        (1,),
        *("return self.all_gather(", "scores = trainer.predict(", "trainer.strategy.barrier(", "data = DataLoader("),
    )
    yield stranger(
        "engine_saves_on_master",
        RANK0,
        (0,),
        *("self.engine.save_checkpoint(", "checkpointer = Checkpointer(", "if checkpointer is not", "checkpointer.may"),
    )
    yield stranger(
        "steps_of_filtered_rows",
        UNEVEN,
        (1,),
        *("for step in range(steps", "dist.all_gather(everybody", "steps_per_epoch = len(", "dist.all_reduce(loss)"),
    )
    yield stranger(
        "generates_sharded",
        DIFFERS,
        (1,),
        *("return model.generate(", "longest = 24", "dist.all_reduce(length)", "tokens = answers("),
    )
    yield stranger(
        "callback_errors_swallowed",
        DIFFERS,
        (1,),
        *("except Exception", "trainer.strategy.barrier(", "self.seen[batch_idx]", "log.exception(", "return hook("),
        *("loss.backward", "return self.layer(", "return float(weights"),
    )


def of_collectives() -> Iterator[Scenario]:
    yield stranger(
        "accumulation_of_node",
        DIFFERS,
        (1,),
        *("with nullcontext() if syncs", "syncs = (step", "accumulate = settings(", "loss.backward()"),
        "dist.all_gather_object(every",
    )
    yield stranger(
        "looks_at_first_batch",
        (*RANK0, *DIFFERS),
        (0,),
        *("if rank == 0 and not HIDDEN", 'print("looks like"', "show(rank, data)", "dist.all_reduce(seed"),
    )
    yield stranger(
        "collator_agrees_on_length",
        UNEVEN,
        (2,),
        *("for step, batch in enumerate(loader)", "dist.all_reduce(longest", "dist.barrier()", "files = 4 if"),
        "loader = DataLoader(texts(",
    )
    yield stranger(
        "metrics_in_order_seen",
        (*ORDER, *DIFFERS),
        (1,),
        *("names = sorted(", "for name in names", "if isinstance(values[0]", "dist.all_gather_object(everybody"),
        *("dist.all_reduce(mean)", "else:"),
    )._replace(or_culprits=((0,), (0, 1)))
    yield stranger(
        "stop_flag_not_sent",
        DIFFERS,
        (0,),
        *("break", "if watch.look(", "dist.barrier()", "if self.worse >", "self.enough.fill_("),
    )
    yield stranger(
        "best_of_candidates",
        (*UNEVEN, *DIFFERS),
        (1,),
        *(
            "return max(candidates",
            "candidates = [",
            "dist.all_reduce(hits)",
            "dist.all_gather(parts",
            "weights = soup",
        ),
    )
    yield stranger(
        "walks_own_tree",
        (*DIFFERS, *UNEVEN),
        (2,),
        *("dist.all_reduce(node.count)", "return float(node.count)", "dist.barrier()", "total = summed(", "leaves.pop"),
    )


def away() -> Iterator[Scenario]:
    yield stranger("retry_after_an_hour", ("slow-rank-timeout",), (1,), "time.sleep(delay)", "part = fetch(")
    yield stranger(
        "worker_skips_for_ever",
        ("dataloader-worker-slow", "slow-rank-timeout"),
        (1,),
        *("for step, batch in enumerate(loader)", "while not self.readable(", "clip = random", "time.sleep(0.02)"),
        "return GOOD or",
    )._replace(states=("hung", "slow"), polls=4.0)
    yield stranger(
        "breakpoint_of_all",
        ("stopped-rank",),
        (0,),
        *("dist.breakpoint(0)", 'print("loss"'),
    )
    yield stranger(
        "results_in_simple_queue",
        ("queue-wait", "join-before-get", "child-process-wait"),
        (1,),
        "results.put(",
    )._replace(launcher="spawn", or_culprits=((0, 1),))
    yield stranger(
        "connections_of_pool",
        ("queue-wait", "thread-wait"),
        (1,),
        *("answer = self.pool.request(", "part = client.part("),
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*in_frameworks(), *of_collectives(), *away()):
        name = scenario.name
        reached = f"rank {{rank}} {LAST[name]}"
        yield scenario._replace(reached=reached, ranks=3 if name in THREE else 2)


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    yield from twins(hanging())
