"""A ninth lot, after threads and the kinds of threads: Lightning, Transformers, datasets, webdataset, hydra, FSDP2;
pipelines, meshes, experts, chunks, what is computed again; and one rank away in a mail,
a manager's lock, a coroutine's lock, a pool that is closed, a command that asks, an import, shared memory, a draw that
nothing satisfies.

Expectations were committed before gpudoctor had been run on any of them, by somebody who has seen where each stands
with py-spy. Each program is its own healthy twin with `--healthy`: the same without the fault. Ten programs more get on
and look as if they did not.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
ORDER = ("collective-order-mismatch",)
UNEVEN = ("uneven-inputs",)

LAST = {
    "drops_bad_loss_before_gather": "step 5",
    "exports_under_rank_zero": "step 5",
    "tests_on_global_zero": "step 2",
    "predicts_in_callback": "step 4",
    "evaluates_own_rows": "step 5",
    "interleaves_until_first_ends": "step 16",
    "three_shards_for_two": "step 3",
    "directory_of_each_process": "step 0",
    "finalizer_in_loader_worker": "step 3",
    "profiles_sharded_on_first": "step 4",
    "stage_without_metrics": "step 4",
    "meshes_of_own_modality": "step 2",
    "target_before_hidden": "step 3",
    "answer_not_sent": "step 6",
    "imap_worker_gone": "step 28",
    "warms_up_new_shapes": "step 6",
    "mails_when_high": "step 5",
    "lock_of_manager": "step 5",
    "asyncio_lock_again": "step 3",
    "pool_waits_for_filler": "step 1",
    "copy_asks_first": "step 5",
    "chunks_of_own_length": "step 5",
    "freezes_on_own_plateau": "step 6",
    "plugin_waits_for_itself": "step 4",
    "recomputes_where_memory_is_short": "step 4",
    "asks_server_of_first": "step 4",
    "spins_on_shared_step": "step 6",
    "sampler_never_accepts": "step 5",
    "bar_asks_length": "step 1",
    "skips_shared_expert": "step 5",
}
"""What each rank writes last before the hang."""
THREE = (
    *("exports_under_rank_zero", "stage_without_metrics", "meshes_of_own_modality", "target_before_hidden"),
    *("mails_when_high", "pool_waits_for_filler", "recomputes_where_memory_is_short", "asks_server_of_first"),
    *("skips_shared_expert", "chunks_of_own_length"),
)


def in_frameworks() -> Iterator[Scenario]:
    yield stranger(
        "drops_bad_loss_before_gather",
        DIFFERS,
        (1,),
        *("if not torch.isfinite(loss)", "return", "counts = self.all_gather(", "self.trainer.strategy.barrier("),
    )
    yield stranger(
        "exports_under_rank_zero",
        RANK0,
        (0,),
        *("self.export(trainer)", "trainer.save_checkpoint(", "Deploys.export = rank_zero", "def export("),
    )
    yield stranger(
        "tests_on_global_zero",
        RANK0,
        (0,),
        *("if TOGETHER or trainer.is_global", "scores[fold] = trainer.test(", "dist.all_reduce(scores)"),
    )
    yield stranger(
        "predicts_in_callback",
        RANK0,
        (0,),
        *("output = self.trainer.predict(", "if state.global_step % 4"),
    )
    yield stranger(
        "evaluates_own_rows",
        UNEVEN,
        (1,),
        *("for row in mine", "hits.append(self.accelerator.gather(", "mine = self.eval_dataset"),
    )
    yield stranger(
        "interleaves_until_first_ends",
        UNEVEN,
        (1,),
        *("for step, row in enumerate(mixture(", "dist.barrier()", "loss.backward()", "return datasets.interleave"),
    )
    yield stranger(
        "three_shards_for_two",
        UNEVEN,
        (1,),
        *("for step, (text,) in enumerate(data)", "dist.barrier()", "loss.backward()", "data = wds.WebDataset("),
    )
    yield stranger(
        "directory_of_each_process",
        ("slow-rank-timeout",),
        (1,),
        *("time.sleep(1)", "while not os.path.exists("),
    )._replace(polls=4.0)
    yield stranger(
        "finalizer_in_loader_worker",
        ("dataloader-fork-deadlock", "fork-held-lock", "dataloader-worker-slow"),
        (1,),
        *("for step, batch in enumerate(DataLoader(", "gc.collect()", "return asyncio.run_coroutine_threadsafe("),
    )
    yield stranger(
        "profiles_sharded_on_first",
        RANK0,
        (0,),
        *("model(batch)", "profiler.measure(", "if profiler.due(", "return (step + 1)", "loss = model(", "loss.backw"),
    )


def of_collectives() -> Iterator[Scenario]:
    yield stranger(
        "stage_without_metrics",
        DIFFERS,
        (2,),
        *("if not local and", "return {}", "dist.all_gather_object(everything"),
    )
    yield stranger(
        "meshes_of_own_modality",
        (*DIFFERS, *ORDER),
        (2,),
        *("meshes[modality] = DeviceMesh(", "if [rank] not in ranks", "continue", "meshes = materialize("),
    )._replace(or_culprits=((0,), (1,), (0, 1), (1, 2), (0, 2), (0, 1, 2)), polls=4.0)
    yield stranger(
        "target_before_hidden",
        ("p2p-order",),
        (0, 2),
        *("dist.send(target, 2)", "dist.recv(hidden, 1)", "dist.recv(hidden, 0)"),
    )._replace(or_culprits=((0,), (2,), (0, 1, 2)))
    yield stranger(
        "answer_not_sent",
        ("p2p-order", *DIFFERS),
        (1,),
        *("if border is not None", "works.append(", "work.wait()", "halo = swap(", "dist.all_reduce(change"),
    )
    yield stranger(
        "chunks_of_own_length",
        (*UNEVEN, *DIFFERS),
        (1,),
        *("for part, target in zip(", "dist.all_gather(counts", "dist.all_reduce(embedding.grad"),
    )
    yield stranger(
        "freezes_on_own_plateau",
        ("rank-dependent-graph", "unused-parameters", *DIFFERS),
        (1,),
        *("if self.stale == self.patience", "parameter.requires_grad = False", "loss.backward()"),
        *("dist.all_gather(list(losses", "freezer.look("),
    )
    yield stranger(
        "recomputes_where_memory_is_short",
        (*DIFFERS, "rank-dependent-graph"),
        (2,),
        *("if self.checkpoints and", "return checkpoint(", "dist.all_gather(scales", "loss.backward()"),
        *("dist.all_reduce(parameter.grad", "block.checkpoints = "),
    )
    yield stranger(
        "bar_asks_length",
        (*RANK0, *DIFFERS),
        (0,),
        *("shown = batches if rank", "dist.all_reduce(count", "dist.all_reduce(mean)"),
    )
    yield stranger(
        "skips_shared_expert",
        DIFFERS,
        (1,),
        *("if away.sum() == 0", "return tokens", "dist.all_gather(theirs", "tokens = exchange.dispatch("),
    )
    yield stranger(
        "warms_up_new_shapes",
        DIFFERS,
        (1,),
        *("if batch.shape not in self.seen", "self.compile(batch.shape)", "dist.barrier()", "loss = model(batch_of("),
    )


def away() -> Iterator[Scenario]:
    yield stranger("imap_worker_gone", ("pool-worker-died",), (1,), "for feature in pool.imap_unordered(")
    yield stranger("mails_when_high", ("service-no-answer",), (2,), "with smtplib.SMTP(", "alerts.check(")
    yield stranger(
        "lock_of_manager",
        ("lock-held", "child-process-wait"),
        (1,),
        *("with self.lock", "dist.all_reduce(total.fill_(cache.row("),
    )
    yield stranger(
        "asyncio_lock_again",
        ("asyncio-wait", "lock-held"),
        (0,),
        *("async with self.lock", "await self.flush()", "reward = torch.tensor([runner", "await asyncio.gather("),
    )
    yield stranger(
        "pool_waits_for_filler",
        ("thread-wait", "queue-wait"),
        (2,),
        *("with ThreadPoolExecutor(", "batches.put(", "epoch_of(rank, epoch"),
    )
    yield stranger("copy_asks_first", ("child-process-wait", "stopped-rank"), (0,), "subprocess.run(", "archive(weig")
    yield stranger(
        "plugin_waits_for_itself",
        ("lock-held", "thread-wait"),
        (1,),
        *("return importlib.import_module(", "tasks[name] = plugin("),
    )
    yield stranger(
        "asks_server_of_first",
        ("service-no-answer",),
        (2,),
        *("number = self.connection.recv()", "while connection.recv()", "dist.all_reduce(total.fill_(float(source"),
    )._replace(or_culprits=((0,), (0, 2), (1, 2)))
    yield stranger(
        "spins_on_shared_step",
        ("slow-rank-timeout",),
        (1,),
        *("while self.memory.buf[0] != number", "time.sleep(0.005)", "value = board.wait_for("),
    )._replace(states=("hung", "slow"), polls=4.0)
    yield stranger(
        "sampler_never_accepts",
        ("slow-rank-timeout",),
        (1,),
        *("while self.counts[index]", "index = self._draw(", "return part * 8", "gradient = boxes["),
    )._replace(states=("hung", "slow"), polls=4.0)


def hanging() -> Iterator[Scenario]:
    for scenario in (*in_frameworks(), *of_collectives(), *away()):
        name = scenario.name
        yield scenario._replace(reached="rank {rank} " + LAST[name], ranks=3 if name in THREE else 2)


FRIGHTENING = {
    "compiles_for_all": 2,
    "validates_long_alone": 2,
    "waits_for_simulator": 2,
    "locks_in_turn": 3,
    "asks_for_next_shard": 2,
    "limits_its_requests": 2,
    "learner_waits_for_actors": 3,
    "starts_workers_each_epoch": 2,
    "trickles_upload": 2,
    "compresses_checkpoint": 3,
}
"""Programs that get on and wait long, and their ranks."""


def get_on() -> Iterator[Scenario]:
    """The same programs without their fault, and the frightening ones: none of them may be called hung."""
    for name, ranks in FRIGHTENING.items():
        yield gets_on(name, ranks=ranks, folder=f"{STRANGERS}healthy/")
    yield from twins(hanging())
