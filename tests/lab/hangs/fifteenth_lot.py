"""A fifteenth lot: decorators, context managers, lambdas, caches, generators that are sent to, retries, logging
handlers, classes that override a number, configurations of one machine, and what frameworks hand back.

Expectations were committed before gpudoctor had been run on any of them, by somebody who had read none of its rules
that day. Each program is its own healthy twin with `--healthy`; every second of them is looked at. A line that counts
decides that the ranks differ, or made the value that does: not the call above it, and not the collective behind it.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import stranger, twins
from tests.lab.hangs.training import Scenario

DIFFERS = ("rank-divergent-decision",)
RANK0 = ("rank0-only-collective",)
UNEVEN = ("uneven-inputs",)
EITHER = ((0,), (1,), (0, 1))
"""Of two, whichever is named: nothing but the program's intention says who went astray."""

STEPS = {
    "packs_until_shards_end": 8,
    "actions_by_lambda": 4,
    "interval_of_environment": 7,
    "interval_of_role": 4,
    "loss_counts_labels": 7,
    "tracker_enabled_here": 3,
    "norms_where_watched": 6,
    "reads_until_none": 7,
    "select_by_caption": 6,
    "waits_for_version": 6,
    "empty_queue_skips": 8,
}
"""What each rank writes last before the hang, or some steps before it, where it is not step 5."""


def decisions() -> Iterator[Scenario]:
    for name, culprit, lines in (
        (
            "shape_error_tolerated",
            1,
            (
                "if loss is None",
                "continue",
                "except ValueError",
                "return None",
                "if low.shape",
                "raise V",
                "return method(",
            ),
        ),
        (
            "task_error_appends_none",
            0,
            (
                "except Exception",
                "results.append(",
                "rows.append(task.score",
                "raise KeyError",
                "if rank in self.broken",
            ),
        ),
        (
            "run_name_by_clock",
            1,
            ("if where is None", "return", "where = last_ch", "self.folder = ", "late = 0.0", "again = Sess"),
        ),
        (
            "actions_by_lambda",
            1,
            ("if step % number == 0", "text = OF_SECOND", "plan = planned(", "every = json"),
        ),
        ("guard_in_decorator", 2, ("if condition(self)", "return None", "@when(lambda", "self.agreement = min(self")),
        (
            "region_reports_when_long",
            1,
            ("if taken > self.limit", "taken = ", "with timer.region(", "if step == 5 and", "time.sleep(1.5)"),
        ),
        ("computes_where_counted", 1, ("return {name: metric.compute()", "metrics[source].update(", "source = drawn(")),
        ("interval_of_environment", 1, ("if self.number % self.config", "sync_every: int", 'os.environ["TRAIN_SYNC')),
        ("cached_by_length", 1, ("@functools.lru_cache", "hidden = self.embed(", "if number == 7", "longest = 21")),
        (
            "curriculum_sends",
            1,
            ('if phase == "contrast"', "phase = ", 'if phase == "warmup"', "good = good + 1", "if rank == 1 and"),
        ),
        ("agrees_if_high", 1, ("if guard.spike(value) and", "return self.mean is not None and", "if number == 6 and")),
        (
            "handler_gathers_warnings",
            1,
            ("if not math.isfinite", "log.warning(", "if step == 6 and", "return math"),
        ),
        ("interval_of_role", 2, ("if self.steps % self.average", "average_every = 40", "kind = Learner", "small = ")),
        (
            "empty_queue_skips",
            1,
            (
                "except queue.Empty",
                "continue",
                "rows = augmenter",
                "return self.items.",
                "if step % 10",
                "skipped += 1",
            ),
        ),
        ("loss_counts_labels", 1, ("if counted > 0", "counted = (labels", "labels[: 6 if")),
        ("datamodule_builds_cache", 1, ("if not self.cache.exists()", "self.cache = ", 'old_cache("cache")')),
        ("norms_where_watched", 0, ("if self.wants(name)", "return any(fnm", 'return ["*.up', "watch = Watch(")),
    ):
        yield stranger(name, DIFFERS, (culprit,), *lines, ranks=max(2, culprit + 1))._replace(
            or_culprits=EITHER if culprit < 2 else ()
        )
    yield stranger(
        "repeats_after_write_error",
        (*DIFFERS, "collective-order-mismatch"),
        (1,),
        *("except OSError", "for attempt in range", "disk.write(", "raise OSError", "return function()"),
        *("return retry(once)", "if self.rank == 1 and self.written"),
    )._replace(or_culprits=EITHER)


def others() -> Iterator[Scenario]:
    for name, lines in {
        "packs_until_shards_end": ("for step, tokens in", "while self.state", "for document in self", "files = [["),
        "reads_until_none": ("while (rows :=", "return None if rows is None", "rows = 16000 if"),
        "select_by_caption": ("for step, (_, texts)", ".select(lambda"),
    }.items():
        yield stranger(name, (*UNEVEN, *DIFFERS), (1,), *lines)._replace(or_culprits=EITHER)
    yield stranger("tracker_enabled_here", RANK0, (0,), "if self.enabled", "return self.config.all_processes or")
    yield stranger(
        "waits_for_version",
        ("rpc-wait", "lock-held", "thread-wait"),
        (2,),
        *("while self.version < version", "version, values = rpc.", "wanted += 1", "self.changed.wait()"),
        ranks=3,
    )._replace(polls=8.0, or_culprits=((0,), (1,), (1, 2), (0, 1, 2)))
    yield stranger(
        "event_of_upload",
        ("thread-wait",),
        (1,),
        *("self.finished.wait()", "self.store.put(", "raise PermissionError", "self.executor.submit("),
    )


def hanging() -> Iterator[Scenario]:
    for scenario in (*decisions(), *others()):
        reached = f"rank {{rank}} step {STEPS.get(scenario.name, 5)}"
        if scenario.name == "datamodule_builds_cache":
            yield scenario._replace(reached="rank {rank} begins", age=8.0)
        elif scenario.name in ("region_reports_when_long", "empty_queue_skips"):  # it sleeps before it hangs
            yield scenario._replace(reached=reached, polls=5.0)
        else:
            yield scenario._replace(reached=reached)


def get_on() -> Iterator[Scenario]:
    """Every second of the programs without its fault: none of them may be called hung."""
    yield from twins(sorted(hanging(), key=lambda scenario: scenario.name)[::2])
