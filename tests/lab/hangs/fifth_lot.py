"""A fifth lot, after public threads and after what training programs usually look like: conditions on files, clocks,
chances, counters and attributes, exceptions that are swallowed, loops that decide for themselves, early returns,
properties and callbacks that ask all; semaphores, barriers of threads, forked locks, commands, tags.

Expectations were committed before gpudoctor had been run on any of them, by the one who then mended its rules and had
read them before.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
ORDER = ("collective-order-mismatch",)

LAST = {
    "resume_by_exists": "resumes",
    "log_buffer_of_main": "step 6",
    "keys_of_log_dict": "step 5",
    "modules_in_other_order": "step 5",
    "lazy_average": "step 5",
    "callback_fails_on_main": "step 6",
    "stop_by_callback": "step 6",
    "read_error_ends_reading": "step 2",
    "dropped_by_mask": "step 4",
    "no_valid_anchor": "step 9",
    "deadline_of_each": "leaves",
    "indices_of_each_rank": "epoch 0 step 2",
    "caches_on_node": "begins",
    "plateau_restores_best": "epoch 5",
    "gan_skips_discriminator": "step 7",
    "stops_by_divergence": "step 3",
    "episode_done_first": "step 2",
    "semaphore_of_uploads": "step 5",
    "barrier_of_threads": "step 5",
    "executor_forks_with_lock": "step 4",
    "evaluator_inherits_ranks": "step 5",
    "tags_apart": "step 5",
    "buckets_by_length": "is through",
    "line_search_of_each": "step 0",
    "returns_if_not_main": "step 4",
    "mixes_by_chance": "step 5",
    "claims_tasks": "is through",
    "logs_every_seconds": "step 3",
    "writer_of_main": "epoch 2",
    "gathers_at_spike": "step 6",
    "gathers_where_positive": "step 4",
    "saves_dcp_on_main": "step 6",
    "grads_that_are_none": "step 5",
    "retries_with_barrier": "step 4",
    "evaluates_by_samples": "step 5",
}
"""What each rank writes last before the hang, but for those that are `silent`."""


def decisions() -> Iterator[Scenario]:
    """A condition has another answer on some ranks."""
    yield stranger(
        "resume_by_exists",
        DIFFERS,
        (2,),
        *("if path.exists()", "dist.all_gather_object(steps", "state = manager.load()", "dist.all_reduce(gradient)"),
        ranks=3,
    )
    yield stranger(
        "log_buffer_of_main",
        DIFFERS,
        (0,),
        *("return", "if not runner.buffer.ready", "dist.all_gather(memory", "runner.buffer.clear()"),
        *("if runner.rank == 0 and runner.step", "hook.after_train_iter(", "dist.all_reduce(weight)"),
        ranks=3,
    )
    yield stranger(
        "keys_of_log_dict",
        (*DIFFERS, *ORDER),
        (1,),
        *("for name, value in values.items()", "dist.all_reduce(value)", "averages = log_dict(", "dist.barrier()"),
        *("names = CLASSES", "return {f"),
        ranks=3,
    )
    yield stranger(
        "modules_in_other_order",
        ORDER,
        (2,),
        *("for name, rows in batch.items()", "dist.all_reduce(gradient, group", "learner.update(", "names.reverse()"),
        *("if rank == 2 and step",),
        ranks=3,
    )
    yield stranger(
        "callback_fails_on_main",
        DIFFERS,
        (0,),
        *("except ConnectionError", "raise ConnectionError(", "getattr(callback, event)", "if self.is_main_process"),
        *("dist.broadcast_object_list(flags", 'self.fire("on_log")', "logger.warning(", "dist.all_reduce(loss)"),
        ranks=3,
    )
    yield stranger(
        "stop_by_callback",
        DIFFERS,
        (1,),
        *("break", "if stop", "stop = True", "if not callback(", 'return data["energy"]', "dist.all_gather(final"),
        ranks=3,
    )
    yield stranger(
        "read_error_ends_reading",
        DIFFERS,
        (2,),
        *("return FAILED", "if block is None", "return None", "except OSError", "status, rows = read_all("),
        *("dist.all_gather(parts", "dist.all_reduce(total)"),
        ranks=3,
    )
    yield stranger(
        "no_valid_anchor",
        DIFFERS,
        (1,),
        *("continue", "except NoValidAnchors", "loss = model(rows)", "dist.barrier()", "loss.backward()"),
        ranks=3,
    )
    yield stranger(
        "deadline_of_each",
        DIFFERS,
        (0,),
        *("while budget.left()", "return self.deadline", "dist.all_gather_object(parts", "dist.all_reduce(weight)"),
        ranks=3,
    )._replace(silent=(1, 2), or_culprits=((1, 2),))
    yield stranger(
        "caches_on_node",
        DIFFERS,
        (0,),
        *("if not os.path.isfile(", "dist.barrier()", "data = tokenized(", "dist.broadcast_object_list("),
        ranks=3,
    )._replace(or_culprits=((1, 2),))
    yield stranger(
        "plateau_restores_best",
        DIFFERS,
        (1,),
        *("if rate_of(optimizer) < before", "dist.barrier()", "scheduler.step("),
        ranks=3,
    )
    yield stranger(
        "gan_skips_discriminator",
        DIFFERS,
        (2,),
        *("if accuracy < threshold", "average_gradients(self.discriminator)", "gan.train_discriminator("),
        *("dist.all_gather(scores", "dist.all_reduce(parameter.grad)", "gan.train_generator()"),
        *("average_gradients(self.generator)",),
        ranks=3,
    )
    yield stranger(
        "stops_by_divergence",
        DIFFERS,
        (1,),
        *("break", "if self.target_kl is not None", "continue_training = False", "if not continue_training"),
        *("loss = algorithm.update(", "dist.all_gather_object(losses", "self.reduce_parameters()"),
        ranks=3,
    )
    yield stranger(
        "episode_done_first",
        (*DIFFERS, *UNEVEN),
        (1,),
        *("while not done", "dist.all_reduce(batch)", "action = normalize(", "dist.all_gather_object(totals"),
        *("observation, done =", "steps = play("),
        ranks=3,
    )
    yield stranger(
        "line_search_of_each",
        (*DIFFERS, *UNEVEN),
        (1,),
        *(
            "return float(self.optimizer.step",
            "dist.all_gather(parts",
            "losses = torch.tensor(",
            "return loss.detach()",
        ),
        *("dist.all_reduce(losses)",),
        ranks=3,
    )
    yield stranger(
        "mixes_by_chance",
        DIFFERS,
        (0,),
        *("if coin.random()", "dist.all_gather(others", "rows = mixer(", "dist.all_reduce(weight)"),
        ranks=3,
    )
    yield stranger(
        "claims_tasks",
        (*DIFFERS, *UNEVEN),
        (0,),
        *("while (document := claim(", "embed(document)", "dist.all_reduce(vector)", "dist.all_gather_object(counts"),
        ranks=3,
    )._replace(silent=(0,), or_culprits=((1, 2),))
    yield stranger(
        "logs_every_seconds",
        DIFFERS,
        (0,),
        *("if now - self.last", "return", "dist.all_gather_object(losses", "self.log.tick(", "dist.all_reduce(self"),
        ranks=3,
    )._replace(polls=6.0, or_culprits=((1, 2),))
    yield stranger(
        "gathers_at_spike",
        DIFFERS,
        (2,),
        *("if loss.item() > 50.0", "scores = accelerator.gather(", "accelerator.wait_for_everyone()"),
        ranks=3,
    )
    yield stranger(
        "gathers_where_positive",
        DIFFERS,
        (1,),
        *("if mask.any()", "everybody = self.all_gather(", "loss = loss + self.hardest(", "trainer.fit("),
        ranks=3,
    )._replace(or_culprits=((0, 2),))
    yield stranger(
        "grads_that_are_none",
        (*DIFFERS, "rank-dependent-graph", "unused-parameters"),
        (1,),
        *(
            "continue",
            "if parameter.grad is None",
            "dist.all_reduce(parameter.grad)",
            "average(model",
            "dist.barrier()",
        ),
        ranks=3,
    )
    yield stranger(
        "retries_with_barrier",
        DIFFERS,
        (0,),
        *("except TimeoutError", "dist.barrier()", "put_with_retries(", "bucket.put("),
        ranks=3,
    )
    yield stranger(
        "evaluates_by_samples",
        DIFFERS,
        (2,),
        *("if self.samples_seen >=", "self.evaluate()", "dist.all_gather(scores", "self.samples_seen +="),
        *("dist.all_reduce(self.weight)",),
        ranks=3,
    )


def of_the_first() -> Iterator[Scenario]:
    """Only the first rank comes there, or not all have as many batches."""
    yield stranger(
        "lazy_average",
        RANK0,
        (0,),
        *("dist.all_gather(parts", "if step and step % 5", "bar.postfix(loss", "def average"),
        ranks=3,
    )
    yield stranger(
        "returns_if_not_main", RANK0, (0,), "dist.barrier()", "if self.rank", "return", "checkpointer.save(", ranks=3
    )
    yield stranger(
        "writer_of_main",
        (*RANK0, *DIFFERS),
        (0,),
        *("dist.all_gather_object(parts", "if self.writer is not None", "self.writer.add_figure("),
        *("self.writer = Writer()", "self.epoch_end("),
        ranks=3,
    )
    yield stranger("saves_dcp_on_main", RANK0, (0,), "dcp.save(", "if self.master and", "self.keep(step)", ranks=3)
    yield stranger(
        "dropped_by_mask",
        (*UNEVEN, *DIFFERS),
        (1,),
        *("for mask in itertools.islice(", "if not self._skips(", "dist.all_gather(shards", "dist.all_reduce(norm)"),
        *("self.forward_backward(mask)", "trainer.train_step("),
        ranks=3,
    )
    yield stranger(
        "indices_of_each_rank",
        UNEVEN,
        (2,),
        *("for step, files in enumerate(", "for begin in range(", "dist.barrier()", "dist.all_reduce(seen)"),
        *("run_epoch(reader", "self.mine ="),
        ranks=3,
    )
    yield stranger(
        "buckets_by_length",
        UNEVEN,
        (2,),
        *("for number, batch in enumerate(loader)", "train_one_epoch(", "dist.barrier()", "dist.all_reduce(weight)"),
        ranks=3,
    )._replace(silent=(0, 1))


def waits() -> Iterator[Scenario]:
    """Somebody waits for something else than a rank."""
    yield stranger(
        "semaphore_of_uploads", ("lock-held", "thread-wait"), (0,), "self.slots.acquire()", "uploader.submit("
    )
    yield stranger(
        "barrier_of_threads",
        ("lock-held", "thread-wait"),
        (1,),
        *("self.ready.wait()", "rows = assembler.batch("),
        ranks=3,
    )
    yield stranger(
        "executor_forks_with_lock",
        ("fork-held-lock",),
        (1,),
        *("print(list(pool.map(", "with ProcessPoolExecutor(", "with CACHE_LOCK"),
    )
    yield stranger(
        "evaluator_inherits_ranks",
        ("child-process-wait",),
        (0,),
        *("done = subprocess.run(", 'print("score"'),
        ranks=3,
    )
    yield stranger(
        "tags_apart",
        ("p2p-order",),
        (1,),
        *("dist.recv(hidden", "dist.send(hidden", "stage.forward("),
    )._replace(or_culprits=((0,), (0, 1)))


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *of_the_first(), *waits()):
        yield scenario._replace(reached="rank {rank} " + LAST[scenario.name])


def get_on() -> Iterator[Scenario]:
    """None of them may be called hung."""
    for name in (
        *("sums_in_group_of_main", "compresses_on_main", "waits_for_slowest_episode", "backs_off_and_goes_on"),
        *("keeps_checkpoint_of_all", "evaluates_in_subset", "searches_with_line_search", "logs_where_due"),
        *("reads_from_decoder", "builds_under_file_lock"),
    ):
        yield gets_on(name, ranks=3, folder=f"{STRANGERS}healthy/")
