"""An eleventh lot: training loops with all that users have in them (accumulation, a guard against NaN, patience,
meters, a keeper of the best), of which one thing is wrong, and helpers from a file that is copied around.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read the rules and has
seen where each stands with py-spy. Each program is its own healthy twin with `--healthy`: the same without the fault.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
ORDER = ("collective-order-mismatch",)
UNEVEN = ("uneven-inputs",)
BOTH = ((0,), (0, 1))

LAST = {
    "meter_seen_on_one": "ends epoch 0",
    "logs_reduced_on_main": "step 4",
    "validation_rows_unpadded": "train 15",
    "returns_on_own_loss": "ends epoch 0",
    "keeps_best_where_better": "ends epoch 3",
    "extra_barrier_of_main": "fold 0 step 5",
    "pickle_refused": "step 7",
    "draws_until_positive": "step 5",
    "gathers_after_own_rows": "step 6",
    "masks_by_length": "step 4",
    "overlap_of_node": "step 3",
    "returns_at_overflow": "step 5",
    "gathers_when_better": "step 14",
    "callback_of_zero": "step 5",
    "remote_debugger": "step 5",
    "matches_all_pairs": "step 5",
}
"""What each rank writes last before the hang, or some steps before it."""
THREE = ("meter_seen_on_one", "extra_barrier_of_main", "pickle_refused")


def of_references() -> Iterator[Scenario]:
    yield stranger(
        "meter_seen_on_one",
        DIFFERS,
        (2,),
        *("logger.synchronize_between", 'if "loss_mask" in', "logger.update(mask", "has_masks ="),
    )
    yield stranger(
        "logs_reduced_on_main",
        RANK0,
        (0,),
        *("progress.show(", "if step % self.every or", 'print(f"step {step}'),
    )
    yield stranger(
        "validation_rows_unpadded",
        UNEVEN,
        (1,),
        *(
            "for (rows,) in logger.log_every",
            "losses = reduce_dict(",
            "logger.synchronize_between",
            "test = DataLoader(",
        ),
        "if stopping.should_stop(evaluate",
    )
    yield stranger(
        "returns_on_own_loss",
        DIFFERS,
        (1,),
        *("return", "if not math.isfinite", "dist.barrier()", "(loss / accumulate).backward()"),
    )
    yield stranger(
        "keeps_best_where_better",
        DIFFERS,
        (0, 1),
        *("if accuracy <= self.best", "return", "dist.gather_object(", "self.save(", "keeper.offer("),
        "loss.backward()",
    )._replace(or_culprits=((0,), (1,)))


def own_loops() -> Iterator[Scenario]:
    yield stranger(
        "extra_barrier_of_main",
        RANK0,
        (0,),
        *(
            "if strategy.is_global_zero or",
            "strategy.save_checkpoint(",
            'self.barrier("save',
            'strategy.barrier("check',
        ),
        *("finalize_alias(", "dist.barrier()"),
    )
    yield stranger(
        "pickle_refused",
        DIFFERS,
        (2,),
        *("except TypeError", "dist.all_gather_object(", "report.flush()", "log.warning(", "loss.backward()"),
    )
    yield stranger(
        "draws_until_positive",
        DIFFERS,
        (1,),
        *(
            "while not self.has_positive",
            "rows = self.draw()",
            "dist.all_reduce(length",
            "for step, rows in enumerate(",
        ),
    )
    yield stranger(
        "gathers_after_own_rows",
        DIFFERS,
        (1,),
        *("if self.seen < self.after", "return", "dist.broadcast(shadow", "average.update("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "masks_by_length",
        DIFFERS,
        (1,),
        *("if length not in self.masks", "dist.all_reduce(mask", "return (scores *", "loss = layer("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "overlap_of_node",
        (*ORDER, *DIFFERS),
        (1,),
        *("if self.overlap and", "self.of_gradient(", "self.of_rows(", "dist.all_reduce(", "exchange.step("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "returns_at_overflow",
        DIFFERS,
        (1,),
        *("if self.overflows(", "return False", "if not optimizer.step(", "dist.all_gather(everybody"),
    )._replace(or_culprits=BOTH)


def in_frameworks() -> Iterator[Scenario]:
    yield stranger(
        "gathers_when_better",
        DIFFERS,
        (0,),
        *("if score > self.best", "every = self.all_gather(", "score = 1.0"),
    )._replace(or_culprits=((1,), (0, 1)))
    yield stranger(
        "callback_of_zero",
        RANK0,
        (0,),
        *("if not (state.is_world", "return", "dist.broadcast_object_list(", "dist.barrier()", "self.publish("),
    )


def away() -> Iterator[Scenario]:
    yield stranger(
        "remote_debugger",
        ("stopped-rank", "service-no-answer", "slow-rank-timeout"),
        (1,),
        *("connection, _ = listener", "RemotePdb().set_trace"),
    )
    yield stranger(
        "matches_all_pairs",
        ("slow-rank-timeout",),
        (1,),
        *(
            "for one in boxes",
            "for other in boxes",
            "value = overlap(",
            "width =",
            "height =",
            "return max(",
            "if value",
        ),
        *("best, found = value", "found = torch.tensor("),
    )._replace(states=("hung", "slow"), polls=4.0)


def hanging() -> Iterator[Scenario]:
    for scenario in (*of_references(), *own_loops(), *in_frameworks(), *away()):
        name = scenario.name
        yield scenario._replace(reached=f"rank {{rank}} {LAST[name]}", ranks=3 if name in THREE else 2)


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    every = list(hanging())
    yield from (twin._replace(reached=one.reached) for one, twin in zip(every, twins(every), strict=True))
