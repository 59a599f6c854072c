"""A twelfth lot, after threads: Lightning, Fabric, Transformers, TRL, accelerate, DeepSpeed, ignite, Ray Train,
datasets, WebDataset, mlflow, torchmetrics, huggingface_hub, DCP and FSDP2, and seven of a program's own code.

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
BOTH = ((0,), (0, 1))

LAST = {
    "prepares_data_with_barrier": "has a trainer",
    "stopper_lacks_metric": "epoch 0 step 5",
    "log_reduces_on_zero": "step 4",
    "tokens_seen_not_counted": "step 5",
    "prompts_split_between": "step 2",
    "resamples_flat_groups": "step 4",
    "boundary_by_own_tokens": "step 14",
    "evaluates_on_one_rank_only": "step 6",
    "terminates_on_own_score": "step 9",
    "worker_returns_first": "step 3",
    "broken_samples_skipped": "epoch 0 step 3",
    "cache_lock_of_stopped_run": "begins",
    "tracking_server_silent": "has joined",
    "metric_synced_on_step": "step 8",
    "stateful_of_first": "step 4",
    "unshards_for_average": "step 4",
    "meets_inside_rank_zero_first": "is launched",
    "hub_body_stalls": "has joined",
    "forks_after_openmp": "step 5",
    "asserts_on_some_nodes": "step 4",
    "epoch_of_own_checkpoint": "step 5",
    "worker_asks_image_server": "step 3",
    "next_stops_at_first": "step 7",
    "steps_where_tokens": "step 6",
}
"""What each rank writes last before the hang, or some steps before it."""


def in_lightning() -> Iterator[Scenario]:
    yield stranger(
        "prepares_data_with_barrier",
        RANK0,
        (0,),
        *("dist.barrier()", "if SYNCED and"),
    )
    yield stranger(
        "stopper_lacks_metric",
        DIFFERS,
        (1,),
        *("if positives.any()", 'self.log("val_recall", (found', "elif PAD_RECALL", "trainer.fit("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "meets_inside_rank_zero_first",
        (*RANK0, *ORDER),
        (0,),
        *(
            "with fabric.rank_zero_first",
            "corpus = Corpus(",
            "self.longest = None",
            "return int(self.fabric.all_gather",
        ),
    )


def in_transformers() -> Iterator[Scenario]:
    yield stranger(
        "log_reduces_on_zero",
        RANK0,
        (0,),
        *("if (self.is_world_process_zero()", 'logs["spread"] ='),
    )
    yield stranger(
        "tokens_seen_not_counted",
        DIFFERS,
        (1,),
        *("InOrder(LlamaForCausalLM", "if index == 11", "return {name: torch.stack", 'return {"inputs_embeds"'),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "resamples_flat_groups",
        DIFFERS,
        (1,),
        *(
            "for _ in range(self.redraws",
            'if batch["advantages"]',
            "break",
            "batch = super()._generate",
            "DynamicGRPOTrainer(",
        ),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "prompts_split_between",
        UNEVEN,
        (1,),
        *("for prompt in mine", "texts += gather_object", "with state.split_between", "state.wait_for"),
    )


def in_others() -> Iterator[Scenario]:
    yield stranger(
        "boundary_by_own_tokens",
        DIFFERS,
        (1,),
        *("engine.set_gradient_accumulation", "enough = tokens", "engine.backward(", "if enough", "length = 16"),
        "dist.barrier()",
    )._replace(or_culprits=BOTH)
    yield stranger(
        "evaluates_on_one_rank_only",
        RANK0,
        (0,),
        *("evaluator.run(", "validate = idist.one_rank_only", "trainer.run("),
    )
    yield stranger(
        "terminates_on_own_score",
        DIFFERS,
        (1,),
        *("Events.COMPLETED, EarlyStopping", "return -(idist", "idist.barrier()", "self.evaluator.run("),
        *("self.trainer.run(", "loss.backward()"),
    )
    yield stranger(
        "worker_returns_first",
        (*DIFFERS, *UNEVEN),
        (1,),
        *("return", "if not mine", "dist.all_reduce(weight)", "mine = files"),
    )._replace(launcher="spawn")
    yield stranger(
        "broken_samples_skipped",
        UNEVEN,
        (1,),
        *("for step, rows in enumerate(", "dist.all_gather_object(every", ".map(parse, handler"),
    )
    yield stranger("cache_lock_of_stopped_run", ("file-lock-wait",), (0,), "return Dataset.from_gen", "rows = table()")
    yield stranger(
        "tracking_server_silent",
        ("service-no-answer",),
        (0,),
        *("self.mlflow.set_experiment(", "self.mlflow.start_run(", "run = Mlflow("),
    )
    yield stranger(
        "metric_synced_on_step",
        DIFFERS,
        (1,),
        *("score = metric(logits", "if step % every", "if score is not None"),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "hub_body_stalls",
        ("service-no-answer",),
        (0,),
        *("return hf_hub_download(", "path = fetch()"),
    )


def of_torch() -> Iterator[Scenario]:
    yield stranger(
        "stateful_of_first",
        RANK0,
        (0,),
        *("if self.rank == 0", 'found = {"progress"', "dist.all_gather_object(offsets", "dcp.save("),
    )
    yield stranger(
        "unshards_for_average",
        RANK0,
        (0,),
        *("model.unshard()", "if average is not None", "average.update(", "average = Average()"),
    )
    yield stranger(
        "asserts_on_some_nodes",
        DIFFERS,
        (1,),
        *("assert same_everywhere(", "if step % 5"),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "epoch_of_own_checkpoint",
        DIFFERS,
        (1,),
        *("if (epoch + 1) %", "score = validate(", "start = resume(", "for epoch in range(start"),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "next_stops_at_first",
        (*DIFFERS, *UNEVEN),
        (1,),
        *("return next((", "every = gathered(", "found = wild(", "return (every.max()", "dist.all_gather("),
    )._replace(or_culprits=BOTH)
    yield stranger(
        "steps_where_tokens",
        DIFFERS,
        (1,),
        *("if num_tokens > 0", "self.global_step += 1", "if self.global_step %", "val_loss = self.validate"),
    )._replace(or_culprits=BOTH)


def away() -> Iterator[Scenario]:
    yield stranger(
        "forks_after_openmp",
        ("fork-held-lock", "child-process-wait"),
        (1,),
        *("helper.join()", 'print("alike:", dedup', "wide = rows"),
    )
    yield stranger(
        "worker_asks_image_server",
        ("service-no-answer", "dataloader-worker-slow"),
        (1,),
        *("for step, images in enumerate", "with urllib.request.urlopen("),
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*in_lightning(), *in_transformers(), *in_others(), *of_torch(), *away()):
        yield scenario._replace(reached=f"rank {{rank}} {LAST[scenario.name]}")


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault: none of them may be called hung."""
    every = list(hanging())
    for one, twin in zip(every, twins(every), strict=True):
        yield twin._replace(reached=one.reached) if "epoch" in one.reached else twin
