"""A seventh lot: programs as users write them with Transformers, Lightning, accelerate, datasets, wandb, FSDP2,
DTensor, join(), averagers and compiled models, and without: saves that fail or are tried again, markers, hooks,
samplers that agree on a seed, pipes that a daemon keeps, a loop that waits for itself, queues that are joined, stores.

Expectations were committed before gpudoctor had been run on any of them, by somebody who has worked on its rules. Each
program is its own healthy twin with `--healthy`: the same without the fault.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)

LAST = {
    "precise_stats_where_file": "step 4",
    "pause_marker_times_out": "step 5",
    "pending_save_failed": "step 6",
    "retries_by_kind_of_error": "step 5",
    "best_checkpoint_on_some": "step 8",
    "predicts_without_labels": "step 6",
    "full_norm_where_large": "step 5",
    "compiled_forward_gathers_long": "step 6",
    "halves_until_it_fits": "step 4",
    "enough_predictions": "step 3",
    "averages_every_own_steps": "step 4",
    "finalizes_async_on_main": "step 4",
    "consolidates_on_first": "step 4",
    "places_table_on_first": "step 4",
    "cycles_seeded_sampler": "step 4",
    "reloads_filtered_loader": "step 9",
    "gathers_under_join": "step 5",
    "daemon_keeps_stdout": "step 4",
    "handler_blocks_its_loop": "step 5",
    "joins_queue_of_threads": "step 7",
    "worker_waits_for_shard_list": "step 3",
    "map_forks_with_lock": "has started",
    "wandb_init_waits": "has joined",
}
"""What each rank writes last before the hang."""
TWO = ("reloads_filtered_loader", "halves_until_it_fits", "map_forks_with_lock", "wandb_init_waits")


def decisions() -> Iterator[Scenario]:
    """A condition, or an exception, has another answer on some ranks."""
    yield stranger(
        "precise_stats_where_file",
        DIFFERS,
        (1,),
        *("if not best_path.is_file()", "return False", "dist.barrier()", "self.refresh_best()"),
        *("dist.all_reduce(buffer", "self.precise_statistics()"),
    )
    yield stranger(
        "pause_marker_times_out",
        (*DIFFERS, "program-error", *RANK0),
        (0,),
        *("raise TimeoutError", "except Exception", "log.exception(", "pause.pause(step)", "save(pause"),
        *("dist.all_reduce(gradient", "dist.barrier()", "self.wait_for_marker(f"),
    )
    yield stranger(
        "pending_save_failed",
        (*DIFFERS, "program-error"),
        (2,),
        *("pending.result()", "except OSError", "logging.warning(", "raise OSError", "self.checkpointer.save("),
        *("dist.barrier()", "dist.all_gather(gradients", "callback.on_step_end("),
    )
    yield stranger(
        "retries_by_kind_of_error",
        DIFFERS,
        (1,),
        *("except Busy", "continue", "dist.barrier()", "for _ in range(5)", "raise Busy", "save_sharded("),
        "dist.all_reduce(total",
    )
    yield stranger(
        "best_checkpoint_on_some",
        (*DIFFERS, *ORDER, *RANK0),
        (0,),
        *("if os.path.isdir(", "self.accelerator.wait_for_everyone()", "totals = self.accelerator", "trainer.finish()"),
    )._replace(or_culprits=((1, 2),))
    yield stranger(
        "predicts_without_labels",
        (*DIFFERS, *ORDER),
        (1,),
        *('if (inputs["labels"] < 0)', "return loss, None", ").train()", "Scored("),
    )
    yield stranger(
        "full_norm_where_large",
        DIFFERS,
        (2,),
        *("if norms.max() < LIMIT", "return", "whole = torch.nn.utils", "self.spikes.append(("),
        *("monitor.after_backward(", "out = model("),
    )
    yield stranger(
        "compiled_forward_gathers_long",
        DIFFERS,
        (1,),
        *("if longest > WORTH", "dist.all_gather(lengths", "compiled(torch.randint", "dist.all_reduce(parameter.grad"),
    )
    yield stranger(
        "halves_until_it_fits",
        (*DIFFERS, "program-error"),
        (1,),
        *("raise RuntimeError(", "model = accelerator.prepare(", "train()", "accelerator.backward(model(allocate"),
        "@find_executable_batch_size(",
    )
    yield stranger(
        "enough_predictions",
        DIFFERS,
        (2,),
        *("if usable >= wanted", "break", "accelerator.wait_for_everyone()", "scores.append(accelerator."),
        *("for (batch,) in loader", "score = evaluate("),
    )._replace(or_culprits=((0, 1),))
    yield stranger(
        "averages_every_own_steps",
        (*DIFFERS, *ORDER),
        (2,),
        *("if good", "averager.average_parameters(", "dist.all_gather(losses"),
    )


def of_some() -> Iterator[Scenario]:
    """Only the first, or only some, call what all must."""
    yield stranger(
        "finalizes_async_on_main",
        RANK0,
        (0,),
        *("if self.hook is None or", "self.calls.maybe_finalize(blocking", "dist.all_reduce(alive", "return"),
        "actor.save_model(",
    )
    yield stranger(
        "consolidates_on_first",
        RANK0,
        (0,),
        *("if not self.writes", "if not TOGETHER", "self.optimizer.consolidate_state_dict(", "run.checkpoint()"),
        "return None",
    )
    yield stranger(
        "places_table_on_first",
        RANK0,
        (0,),
        *("if mesh.get_rank() == 0", "torch.save(whole(", "return table.redistribute("),
    )


def uneven() -> Iterator[Scenario]:
    yield stranger(
        "cycles_seeded_sampler",
        (*UNEVEN, *DIFFERS, *ORDER),
        (2,),
        *("dist.broadcast(seed", "(batch,) = next(batches)", "yield from loader", "while True:"),
        "dist.all_reduce(gradient",
    )
    yield stranger(
        "reloads_filtered_loader",
        UNEVEN,
        (1,),
        *("steps = self.all_gather(", "trainer.fit(", "hard = ", "return DataLoader("),
    )
    yield stranger(
        "gathers_under_join",
        (*UNEVEN, *ORDER, *DIFFERS),
        (1,),
        *("with model.join()", "dist.all_gather(losses", "for batch in inputs", "loss = model(batch)"),
    )


def waits() -> Iterator[Scenario]:
    """A rank waits for something else than ranks."""
    yield stranger(
        "daemon_keeps_stdout",
        ("child-process-wait", "queue-wait"),
        (0,),
        *("done = subprocess.run(", "print(start_metrics_server("),
    )
    yield stranger(
        "handler_blocks_its_loop",
        ("service-no-answer", "asyncio-wait", "thread-wait"),
        (1,),
        *("with urllib.request.urlopen(", "rewards = torch.tensor([reward(", "self.cache[text] = asyncio.run"),
    )._replace(or_culprits=((0,), (0, 1), (1, 2), (0, 1, 2)))
    yield stranger(
        "joins_queue_of_threads",
        ("queue-wait", "thread-wait"),
        (1,),
        *("self.samples.join()", "writer.flush()"),
    )
    yield stranger(
        "worker_waits_for_shard_list",
        ("store-key-missing", "dataloader-worker-slow"),
        (1,),
        *("names = store.get(", "for batch in DataLoader("),
    )
    yield stranger(
        "map_forks_with_lock",
        ("fork-held-lock", "child-process-wait", "lock-held"),
        (0,),
        *("data = data.map(", "with LOCK:"),
    )._replace(polls=8.0)
    yield stranger(
        "wandb_init_waits",
        ("service-no-answer", "child-process-wait", "thread-wait"),
        (0,),
        *("return wandb.init(", "run = begin("),
    )._replace(polls=8.0)


def ranks_of(name: str) -> int:
    return 2 if name in TWO else 3


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *of_some(), *uneven(), *waits()):
        name = scenario.name
        yield scenario._replace(reached="rank {rank} " + LAST[name], ranks=ranks_of(name))


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    for name in LAST:
        yield gets_on(f"{name}_well", ranks=ranks_of(name))._replace(script=f"{STRANGERS}{name}.py")
