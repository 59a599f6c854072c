"""An eighth lot, half of it in frameworks: a reward of TRL that returns early, the best model on a node's own disk, a
checkpoint of Lightning at a process's own low, accelerate's trigger and its first process, Ray Train's report, FSDP2
where a batch has no pictures; and without: an alarm, a model that stays in evaluation, a loss without its gather, a
dispatcher, requests between steps, an event that is cleared late, a learning rate of one's own.

Expectations were committed before gpudoctor had been run on any of them, by somebody who has worked on its rules; where
each stands was seen with py-spy. Each program is its own healthy twin with `--healthy`: the same without the fault.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
ORDER = ("collective-order-mismatch",)

LAST = {
    "grpo_reward_returns_early": "step 4",
    "best_model_on_node_disk": "step 6",
    "saves_at_own_low": "step 6",
    "trigger_checked_where_set": "step 5",
    "reports_on_first_worker": "step 3",
    "builds_cache_main_first": "step 1",
    "text_batch_skips_tower": "step 5",
    "alarm_ends_verification": "step 5",
    "forgets_train_mode": "step 4",
    "zero_loss_without_gather": "step 6",
    "dispatcher_forgets_last": "step 3",
    "serves_between_steps": "step 4",
    "event_cleared_late": "step 5",
    "stops_at_min_lr": "step 7",
    "dask_worker_stops_early": "step 5",
    "spark_partition_has_fewer": "step 5",
}
"""What each rank writes last before the hang."""
TWO = (
    *("grpo_reward_returns_early", "best_model_on_node_disk", "reports_on_first_worker", "builds_cache_main_first"),
    *("event_cleared_late", "dask_worker_stops_early", "spark_partition_has_fewer"),
)


def in_frameworks() -> Iterator[Scenario]:
    yield stranger(
        "grpo_reward_returns_early",
        DIFFERS,
        (1,),
        *("if not readable", "return [0.0]", "dist.all_reduce(total", ").train()"),
    )
    yield stranger(
        "best_model_on_node_disk",
        DIFFERS,
        (1,),
        *("if trainer.state.best_model_checkpoint", "results |= trainer.evaluate(", "trainer.accelerator.wait_for"),
    )._replace(or_culprits=((0,),))
    yield stranger(
        "saves_at_own_low",
        DIFFERS,
        (2,),
        *("if loss < self.low", "trainer.save_checkpoint(", "trainer.fit("),
    )
    yield stranger(
        "trigger_checked_where_set",
        DIFFERS,
        (0,),
        *("if not math.isfinite(", "if accelerator.check_trigger()", "policy.update(accelerator.gather("),
    )
    yield stranger(
        "reports_on_first_worker",
        RANK0,
        (0,),
        *('ray.train.report({"step": step}, checkpoint', "if rank > 0", "if everybody", "save(weight"),
    )._replace(launcher="spawn", polls=8.0)
    yield stranger(
        "builds_cache_main_first",
        DIFFERS,
        (1,),
        *("if ASKS_INSIDE or not os.path.exists", "with accelerator.main_process_first()", "weight += 0.01 *"),
        "features = features_of(",
    )._replace(or_culprits=((0,),))
    yield stranger(
        "text_batch_skips_tower",
        (*DIFFERS, "rank-dependent-graph", "unused-parameters"),
        (1,),
        *("if pictures is not None", "hidden = hidden + self.tower(", "loss = model(", "loss.backward("),
    )


def without() -> Iterator[Scenario]:
    yield stranger(
        "alarm_ends_verification",
        (*DIFFERS, "program-error"),
        (2,),
        *(
            "except TooLong",
            "with time_limit(",
            "dist.all_reduce(mean",
            "advantages = verifier.score(",
            "return scores",
        ),
        "raise TooLong",
    )
    yield stranger(
        "forgets_train_mode",
        DIFFERS,
        (1,),
        *("if self.training", "dist.all_gather(means", "self.model.eval(", "studio.draw("),
    )
    yield stranger(
        "zero_loss_without_gather",
        (*DIFFERS, "rank-dependent-graph"),
        (1,),
        *("if not pairs.any()", "return torch.zeros((", "dist.reduce(gradient", "loss.backward("),
    )
    yield stranger(
        "dispatcher_forgets_last",
        ("p2p-order", *DIFFERS, *ORDER),
        (0,),
        *(
            "for worker in workers if",
            "dist.barrier()",
            "dist.send(torch.tensor([DONE])",
            "dist.recv(number",
            "hand_out(",
        ),
        "while True",
    )._replace(or_culprits=((1, 2),))
    yield stranger(
        "serves_between_steps",
        ("service-no-answer",),
        (2,),
        'with urllib.request.urlopen(f"{url}/{step}?more"',
        *("gradient = batch_from(", "server.handle_request("),
    )._replace(or_culprits=((0,), (0, 2)))
    yield stranger(
        "event_cleared_late",
        ("thread-wait",),
        (1,),
        *("self.ready.wait()", "self.wanted.wait()", "gradient = batches.next()"),
    )
    yield stranger(
        "stops_at_min_lr",
        DIFFERS,
        (0,),
        *("while self.is_worth_it()", 'return self.optimizer.param_groups[0]["lr"]', "dist.barrier()"),
    )


def on_clusters() -> Iterator[Scenario]:
    """Workers of Dask and of Spark, added after the first run of the others, and before any look at these."""
    yield stranger(
        "dask_worker_stops_early",
        DIFFERS,
        (1,),
        *("if loss < 0.3", "break", "dist.all_gather(losses"),
    )._replace(launcher="spawn", polls=8.0)
    yield stranger(
        "spark_partition_has_fewer",
        ("uneven-inputs",),
        (1,),
        *("for step, row in enumerate(rows)", "dist.barrier()"),
    )._replace(launcher="spawn", polls=8.0)


def ranks_of(name: str) -> int:
    return 2 if name in TWO else 3


def hanging() -> Iterator[Scenario]:
    for scenario in (*in_frameworks(), *without(), *on_clusters()):
        name = scenario.name
        yield scenario._replace(reached="rank {rank} " + LAST[name], ranks=ranks_of(name))


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    yield from twins(hanging())
