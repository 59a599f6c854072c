"""A third lot after public threads: compilers, RPC, FSDP2, pipelines, asynchronous saves, workers that stay, trackers,
signals, asyncio, forked tokenizers, locks, pipes, elastic restarts, actors.

Expectations were committed before any of them had been run, by somebody who had read no rule on what ranks wait for.
"""

from collections.abc import Iterator

from tests.lab.hangs.expected import STRANGERS, gets_on, stranger
from tests.lab.hangs.training import Scenario


def hanging() -> Iterator[Scenario]:
    """Each stands still in the end, or one of its ranks works for ever."""
    differs = ("rank-divergent-decision",)
    order = ("collective-order-mismatch", "concurrent-communicators")
    yield stranger(
        "barrier_beside_async_save", order, (0, 1), "dist.barrier()", "self.pending = dcp.async_save(", "manager.save("
    )
    yield stranger(
        "evaluates_to_exhaustion",
        ("uneven-inputs",),
        (1,),
        "for batch in packed(",
        "dist.all_reduce(total)",
        'print("validation", run_eval_loop(',
        ranks=3,
    )
    yield stranger(
        "drops_masked_sample",
        (*differs, "uneven-inputs"),
        (2,),
        "continue",
        "if self._should_skip",
        "for batch, mask in",
        "dist.all_reduce(counts)",
        ranks=3,
    )
    yield stranger(
        "counts_micro_batches",
        (*differs, "uneven-inputs"),
        (1,),
        "for micro_batch in",
        "number = -(-sum",
        "loss = self.module(",
        "loss.backward()",
        "loss = actor.update_policy(",
        ranks=3,
    )
    yield stranger(
        "stage_without_labels",
        (*differs, "collective-order-mismatch", "p2p-order"),
        (1,),
        "continue",
        "if labels is None",
        "schedule.step(target=labels)",
    )
    yield stranger("inbox_of_rpc_worker", ("queue-wait",), (2,), "task = INBOX.get()", ranks=3)._replace(
        reached="rank {rank} step 2", polls=8.0
    )
    yield stranger(
        "barrier_of_loader_workers",
        ("dataloader-worker-slow", "dataloader-fork-deadlock", "lock-held", "thread-wait"),
        (0,),
        "for step, batch in enumerate(loader)",
        "self.barrier.wait()",
    )
    yield stranger(
        "tracker_retries",
        ("thread-wait", "service-no-answer"),
        (0,),
        "self.sender.join()",
        "time.sleep(delay)",
        "tracker.finish()",
        "urllib.request.urlopen(",
    )
    yield stranger(
        "leaves_on_term",
        differs,
        (0,),
        "raise SIGTERMException",
        "if self.received_sigterm",
        "except SIGTERMException",
        "finally:",
        "teardown()",
        "dist.all_gather_object(everyone",
        "self.on_advance_end()",
        ranks=3,
    )
    yield stranger(
        "rollouts_gathered",
        ("asyncio-wait",),
        (1,),
        "rollouts = await asyncio.gather(",
        "rollouts = asyncio.run(",
        "return await answer",
    )
    yield stranger(
        "tokenizes_before_fork",
        ("dataloader-fork-deadlock", "fork-held-lock", "dataloader-worker-slow"),
        (0,),
        "for step, batch in enumerate(DataLoader(TEXTS, batch",
        "return torch.tensor([encoding",
        'print("longest"',
    )
    yield stranger(
        "lock_by_exclusive_file",
        ("file-lock-wait", "slow-rank-timeout"),
        (0,),
        "with claimed(Path(f",
        "time.sleep(1.0)",
        "descriptor = os.open(",
    )._replace(states=("hung", "slow"))
    yield stranger(
        "reads_line_of_child",
        ("child-process-wait",),
        (2,),
        "line = process.stdout.readline()",
        "run(READER",
        ranks=3,
    )
    yield stranger(
        "resumes_after_restart",
        (*differs, "uneven-inputs"),
        (1,),
        "for step in range(newest(",
        "dist.broadcast(weights, src=0)",
        "steps = [int(",
        "return max(steps)",
        ranks=3,
    )._replace(launcher="spawn", reached="rank {rank} step 8", polls=4.0, truly=True)
    yield stranger(
        "compiled_cache_missing",
        differs,
        (2,),
        "except ImportError",
        'print("not compiled:"',
        "return torch.add",
        "module = load(",
        "raise ImportError(",
        "dist.all_reduce(total)",
        "forward = compiled_forward(",
        ranks=3,
    )
    yield stranger(
        "skips_zero_step",
        differs,
        (1,),
        "return",
        "if not all(torch.isfinite",
        "scaler.step(",
        "dist.all_reduce(mean",
        ranks=3,
    )
    yield stranger(
        "halves_microbatch",
        differs,
        (2,),
        "except RuntimeError",
        "failed += 1",
        "dist.all_reduce(failed)",
        "if hidden.shape[0]",
        'raise RuntimeError("CUDA',
        ranks=3,
    )
    yield stranger(
        "attaches_to_other_prefix",
        ("slow-rank-timeout",),
        (1, 2),
        "time.sleep(TICK)",
        'with open(name, "r+b")',
        "self.memory = self._attached(",
        "WorkerBarrier(rank, prefix)",
        ranks=3,
    )._replace(states=("hung", "slow"), reached="rank {rank} step 2", polls=4.0)
    yield stranger(
        "regex_without_end",
        ("slow-rank-timeout", "gil-deadlock"),
        (2,),
        "return NOT_ALPHANUM.match(",
        "kept = [text for",
        ranks=3,
    )._replace(states=("slow", "hung"), polls=4.0)
    yield stranger(
        "group_at_first_use",
        (*differs, "collective-order-mismatch"),
        (1,),
        "group = dist.new_group(",
        "with suspended_timeout(",
        "if experts > 4",
        "quantize(step",
        ranks=3,
    )
    yield stranger(
        "tears_down_alone",
        (*differs, "program-error"),
        (1,),
        "finally:",
        "trainer.close()",
        "dist.barrier()",
        'raise ValueError("tokens',
        "trainer.train()",
        "self.model(self.batch(",
        ranks=3,
    )
    yield stranger(
        "entropies_gathered",
        (*differs, "rank-dependent-graph"),
        (2,),
        "return torch.zeros_like",
        "if local.numel()",
        "chosen = high_entropy_mask(",
        "everywhere = accelerator.gather(",
        ranks=3,
    )
    yield stranger(
        "actor_asks_actor",
        ("rpc-wait", "thread-wait", "queue-wait", "service-no-answer"),
        (1,),
        "self.temperature = ray.get(",
    )._replace(launcher="spawn", reached="rank {rank} step 4", polls=8.0, truly=True)


def get_on() -> Iterator[Scenario]:
    """None of them may be called hung."""
    folder = f"{STRANGERS}healthy/"
    for name in (
        *("scores_slowly", "schedule_of_stages", "asks_over_rpc", "workers_of_epochs", "streams_over_http"),
        *("flushes_tracker", "saves_on_signal", "awaits_rollouts", "claims_in_turn"),
    ):
        yield gets_on(name, folder=folder)
    yield gets_on("restarted_once", folder=folder)._replace(launcher="spawn")
