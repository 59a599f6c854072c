"""A rank, or a data loader that it waits for, gets no memory from its cgroup, and the kernel kills nobody for it."""

from collections.abc import Iterator

from gpudoctor.command import Command, command
from gpudoctor.hang.causes import CAUSES, PROVED, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.doing import held_in
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import and_waiting, at, on_host, process_of, who
from gpudoctor.knowledge.place_markers import NO_MEMORY
from gpudoctor.knowledge.wording import size
from gpudoctor.snapshot.evidence import ProcessEvidence

MOST_NAMED = 8


def memory_is_not_granted(job: HangJob) -> Iterator[HangCause]:
    """In both looks it waits in the kernel where a cgroup's limit holds it."""
    progress = progress_of(job)
    if progress.verdict == "moves":
        return
    by_variant: dict[str, list[tuple[Rank, ProcessEvidence]]] = {}
    for rank in job.ranks:
        loaders = rank.data_loaders if rank.place.kind == "data" else ()
        for process in (rank.evidence, *loaders):
            if variant := NO_MEMORY.get(held_in(process), ""):
                by_variant.setdefault(variant, []).append((rank, process))
                break
    for variant, held in by_variant.items():
        ranks = [rank for rank, _ in held]
        frame, memory = ranks[0].place.user_frame, held[0][1].memory
        whose = "" if held[0][1] is ranks[0].evidence else "a data loader of "
        amounts = f" ({size(memory.used_bytes)} of {size(memory.limit_bytes)})" if memory is not None else ""
        yield blame(
            "memory-limit-wait",
            PROVED if variant == "no killer" else SEEN,  # the kernel gives back what it can, and then goes on
            ranks,
            f"{whose}{who(ranks, 'waits', 'wait')}{at(frame)} for memory that the cgroup does not grant{amounts}"
            f"{and_waiting(progress.waiting, ranks)}",
            [
                Seen(
                    process_of(rank)
                    if process is rank.evidence
                    else f"data loader pid {process.pid} of rank {rank.rank}",
                    f"in the kernel function {held_in(process)} in both looks"
                    + (f"; {process.memory.folder}" if process.memory is not None else ""),
                )
                for rank, process in held[:MOST_NAMED]
            ],
            at=frame,
            fix=CAUSES["memory-limit-wait"].remedy(variant, *_line(variant, ranks[0], held[0][1], job)),
        )


def _line(variant: str, rank: Rank, process: ProcessEvidence, job: HangJob) -> Iterator[Command]:
    if process.memory is not None:
        folder = process.memory.folder
        line = (
            command("echo 0 | sudo tee {:path}", f"{folder}/memory.oom_control")
            if variant == "no killer"
            else command("cat {:path} {:path}", f"{folder}/memory.high", f"{folder}/memory.current")
        )
        yield on_host(job, rank, line)


RULES = (memory_is_not_granted,)
