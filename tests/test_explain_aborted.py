"""After torch's watchdog has given a communicator up, ranks begin another step before they are ended: no getting on.

The lines have the form that torch 2.14.1 wrote in the lab (python -m tests.lab.torch_nccl).
"""

import io
from pathlib import Path

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

SUMS = ((0, "ALLREDUCE", "all_reduce", 11), (1, "BROADCAST", "broadcast", 15), (2, "ALLREDUCE", "all_reduce", 11))
C10D = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def watchdog(rank: int, operation: str, function: str, line: int, number: int = 7) -> str:
    head = f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp"
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={number}, OpType={operation}, NumelIn=64, NumelOut=64, Timeout(ms)=100000) ran for 100008 "
        "milliseconds before timing out.\n"
        f"{head}:785] Stack trace of the failed collective: \n"
        f"#0 {function} from {C10D}:3906\n#1 main from /home/mara/train.py:{line}\n\n"
    )


def end(rank: int) -> str:
    return (
        f"[rank{rank}]:[E1123 21:01:58.7 ProcessGroupNCCL.cpp:816] [PG GUID 0(default_pg) Rank {rank}] To avoid data "
        "inconsistency, we are taking the entire process down.\n"
    )


def explained(text: str, folder: Path) -> Explanation:
    log = folder / "job.log"
    log.write_text(text)
    return explain([str(log)], stdin=io.BytesIO())


BEFORE = "".join(f"rank {rank} step {step} begins\n" for step in (2, 3) for rank in (0, 1, 2))
WAITED = "".join(watchdog(*each) for each in SUMS)
LAUNCHER = (
    "E1123 21:01:58.865000 13701 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) "
    "local_rank: 1 (pid: 14068) of binary: /opt/env/bin/python\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/run.py", line 1142, in <module>\n'
    "    main()\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
)


def test_steps_of_aborted_ranks_do_not_hide_what_they_waited_in(tmp_path: Path) -> None:
    after = "rank 1 step 4 begins\n" + end(1) + "rank 0 step 4 begins\nrank 2 step 4 begins\n"
    first = explained(BEFORE + WAITED + after + LAUNCHER, tmp_path).causes[0]
    assert (first.cause, first.ranks) == ("collective-order-mismatch", (1,))


def test_a_log_that_ends_there_is_not_called_well(tmp_path: Path) -> None:
    answer = explained(BEFORE + WAITED + "".join(f"rank {rank} step 4 begins\n" for rank in (0, 1, 2)), tmp_path)
    assert answer.causes and not answer.well


def test_a_job_that_gets_on_for_long_did_survive_it(tmp_path: Path) -> None:
    steps = "".join(f"rank {rank} step {step} begins\n" for step in range(4, 40) for rank in (0, 1, 2))
    answer = explained(BEFORE + WAITED + steps, tmp_path)
    assert not answer.causes


def asked(rank: int, launched: int, completed: int) -> str:
    return (
        f"[rank{rank}]:[E1123 21:01:54.8 ProcessGroupNCCL.cpp:1982] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug "
        f"info. Last enqueued NCCL work: {launched}, last completed NCCL work: {completed}.This is most likely caused "
        "by incorrect usages of collectives\n"
    )


def test_a_rank_that_had_launched_nothing_did_not_wait_whatever_it_meets_later(tmp_path: Path) -> None:
    """download_on_rank0 of tests/lab/hangs: it comes to the collective once the others have given up."""
    waited = "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 11) for rank in (1, 2))
    later = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/mara/train.py", line 11, in main\n'
        "[rank0]:     dist.all_reduce(total)\n"
        f'[rank0]:   File "{C10D}", line 3906, in all_reduce\n'
        "[rank0]:     work = group.allreduce([tensor], opts)\n"
        "[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.\n"
    )
    text = BEFORE + waited + asked(0, 6, 6) + asked(1, 7, 6) + asked(2, 7, 6) + later + end(1) + LAUNCHER
    answer = explained(text, tmp_path)
    assert "ranks 1-2 waited" in answer.causes[0].summary and "rank 0 did not come" in answer.causes[0].summary
    assert answer.causes[0].confidence < 0.5


def test_who_did_not_come_is_told_with_its_own_last_line(tmp_path: Path) -> None:
    """Far above the end, before torch's lines of the others; what it writes later is no place where it was."""
    waited = "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 11) for rank in (1, 2))
    text = BEFORE + "rank 0 asks for samples\n" + waited + "rank 0 was answered\n" + end(1)
    (first, *_) = explained(text, tmp_path).causes
    assert 'The last from it before: "rank 0 asks for samples"' in first.summary
    assert [line.line for line in first.evidence if "samples" in line.text] == [7]


def test_the_last_line_of_a_rank_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("epoch 3\nreading shard 7\n\nn1:4:5 [0] NCCL INFO Channel 00\n")
    for rank in (1, 2):
        (tmp_path / f"rank_{rank}.log").write_text("epoch 3\n" + watchdog(rank, "ALLREDUCE", "all_reduce", 11))
    answer = explain(sorted(map(str, tmp_path.iterdir())), stdin=io.BytesIO())
    assert "reading shard 7" in answer.causes[0].summary, answer.causes[0].summary


def row(number: int, rank: int, status: int, pid: int, name: str) -> str:
    return (
        f"[{number}]:\n  time      : 2026-11-23_21:29:36\n  host      : localhost\n  rank      : {rank} (local_rank: "
        f"{rank})\n  exitcode  : {status} (pid: {pid})  ({name})\n  error_file: <N/A>\n"
        f"  traceback : Signal {-status} ({name}) received by PID {pid}\n"
    )


TABLE = (
    "============================================================\ntrain.py FAILED\n"
    "------------------------------------------------------------\nFailures:\n"
    + row(1, 2, -15, 30353, "SIGTERM")
    + "------------------------------------------------------------\nRoot Cause (first observed failure):\n"
    + row(0, 0, -6, 30347, "SIGABRT")
    + "============================================================\n"
)


def closing(pid: int) -> str:
    place = "torch/distributed/elastic/multiprocessing/api.py:1028]"
    return f"W1123 21:29:36.569000 17864 {place} Sending process {pid} closing signal SIGTERM\n"


def test_a_rank_that_torchrun_does_not_list_had_ended_well(tmp_path: Path) -> None:
    """exits_early of tests/lab/hangs; not so where torchrun had to end a process that it does not list."""
    waited = "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 11) for rank in (0, 2))
    before = "".join(f"rank {rank} step {step} begins\n" for step in (2, 3) for rank in (0, 2))
    told = LAUNCHER.replace("local_rank: 1 (pid: 14068)", "local_rank: 0 (pid: 30347)") + TABLE
    first = explained(before + waited + end(0) + closing(30353) + told, tmp_path).causes[0]
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (1,))
    assert "not rank 1: ended well" in first.summary and first.confidence < 0.5
    lives = explained(before + waited + end(0) + closing(30353) + closing(30350) + told, tmp_path)
    assert "ended well" not in lives.causes[0].summary


def alone(rank: int) -> str:
    return watchdog(rank, "ALLREDUCE", "all_reduce", 11)


def test_who_says_nothing_while_all_that_live_are_asked_is_gone_or_stopped(tmp_path: Path) -> None:
    waits = BEFORE + alone(0) + alone(1) + asked(0, 7, 6) + asked(1, 7, 6) + end(0)
    first = explained(waits, tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("rank-died", (2,), 0.65)
    lives = explained(waits + asked(2, 6, 6), tmp_path).causes[0]
    assert lives.confidence < 0.5 and lives.ranks == (2,)


def test_of_ranks_that_the_program_does_not_count_from_zero_nothing_is_concluded(tmp_path: Path) -> None:
    waits = "rank 4 adapters\nrank 16 adapters\n" + alone(0) + alone(1) + asked(0, 7, 6) + asked(1, 7, 6) + end(0)
    assert all(cause.confidence < 0.5 for cause in explained(waits, tmp_path).causes)


def test_who_did_not_end_when_asked_and_was_silent_is_stopped(tmp_path: Path) -> None:
    launcher = LAUNCHER + (
        "W1126 00:10:02.1 13701 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 14069 closing "
        "signal SIGTERM\nW1126 00:10:32.2 13701 torch/distributed/elastic/multiprocessing/api.py:1047] Unable to "
        "shutdown process 14069 via 15, forcefully exiting via 9\n"
    )
    waits = BEFORE + alone(0) + alone(1) + asked(0, 7, 6) + asked(1, 7, 6) + end(0) + end(1)
    first = explained(waits + launcher, tmp_path).causes[0]
    assert (first.cause, first.ranks) == ("stopped-rank", (2,))


def test_rank_0_waits_for_one_that_has_no_collective_open(tmp_path: Path) -> None:
    """Were it rank 0's own collective, the other one would wait in a later one by now."""
    first = explained(BEFORE + alone(0) + asked(0, 7, 6) + asked(1, 6, 6) + asked(2, 6, 6) + end(0), tmp_path).causes[0]
    assert (first.cause, first.ranks) == ("slow-rank-timeout", (1, 2))


def test_a_gather_that_one_rank_has_left_out(tmp_path: Path) -> None:
    gather = watchdog(0, "GATHER", "gather", 25)
    later = watchdog(1, "ALLREDUCE", "all_reduce", 11).replace("SeqNum=7", "SeqNum=8")
    first = explained(BEFORE + gather + later + watchdog(2, "ALLREDUCE", "all_reduce", 11) + end(0), tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("rank-divergent-decision", (2,), 0.65)
    waits = explained(BEFORE + gather + later + later.replace("ank 1", "ank 2").replace("[rank1", "[rank2"), tmp_path)
    assert all(cause.confidence < 0.5 for cause in waits.causes)  # both are past it: neither was left out


SHARDED = "/opt/env/lib/python3.11/site-packages/torch/distributed/fsdp/_fully_shard/"


def of_fsdp(rank: int, operation: str, function: str, elements: int, below: str = "") -> str:
    """What a hook of FSDP2 has started in a backward pass; `below`: lines of the program, of a forward one."""
    head = f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp"
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum=54, OpType={operation}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=100000) ran for 100008 "
        f"milliseconds before timing out.\n{head}:785] Stack trace of the failed collective: \n"
        f"#0 {function} from {C10D}:3906\n#1 post_backward from {SHARDED}_fsdp_param_group.py:712\n{below}\n"
    )


def test_unlike_collectives_of_fsdp_in_one_backward_are_another_graph(tmp_path: Path) -> None:
    """padding_not_in_loss of tests/lab/hangs."""
    gathers = ("_ALLGATHER_BASE", "all_gather_single", 1430)
    scatters = ("_REDUCE_SCATTER_BASE", "reduce_scatter_single", 4290)
    waited = of_fsdp(0, *gathers) + of_fsdp(1, *gathers) + of_fsdp(2, *scatters)
    first = explained(BEFORE + waited + end(1) + LAUNCHER, tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence >= 0.5) == ("rank-dependent-graph", (2,), True)
    forward = "#2 forward from /home/mara/train.py:20\n#3 <module> from /home/mara/train.py:40\n"
    waited = of_fsdp(0, *gathers) + of_fsdp(1, *gathers) + of_fsdp(2, *gathers[:2], 195, forward)
    first = explained(BEFORE + waited + end(1) + LAUNCHER, tmp_path).causes[0]
    assert first.cause != "rank-dependent-graph" or first.confidence < 0.5


def test_sizes_that_hooks_of_the_program_give_need_not_be_of_one_parameter(tmp_path: Path) -> None:
    """A hook of each parameter sums its gradient at one line: where ranks part, two parameters meet there."""
    waited = "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 15) for rank in range(3))
    unlike = waited.replace("NumelIn=64", "NumelIn=512", 1)
    first = explained(BEFORE + unlike + end(1) + LAUNCHER, tmp_path).causes[0]
    assert first.confidence < 0.5, "its stack begins with the hook"
    whole = unlike.replace("train.py:15\n", "train.py:15\n#2 <module> from /home/mara/train.py:40\n")
    first = explained(BEFORE + whole + end(1) + LAUNCHER, tmp_path).causes[0]
    assert (first.cause, first.confidence >= 0.5) == ("shape-mismatch", True)


def test_batches_that_all_wait_in_have_no_other_half_or_do_not_arrive(tmp_path: Path) -> None:
    """halo_without_border of tests/lab/hangs: neighbours, each a batch ahead of the next; why, no log tells."""
    batches = "".join(watchdog(rank, "COALESCED", "batch_isend_irecv", 19, 7 - rank) for rank in range(3))
    answer = explained(BEFORE + batches + end(1) + LAUNCHER, tmp_path)
    assert (answer.causes[0].cause, answer.causes[0].confidence < 0.5) == ("p2p-order", True)


def test_where_many_ranks_stand_is_one_fact(tmp_path: Path) -> None:
    """Two ranks of five in what may be a barrier are no surer a cause than one of three."""
    sure = []
    for waiting, others in (([1], [0, 2]), ([1, 3], [0, 2, 4])):
        parted = "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 11) for rank in others)
        parted += "".join(
            watchdog(rank, "ALLREDUCE", "barrier", 30).replace("NumelIn=64", "NumelIn=1") for rank in waiting
        )
        sure.append(explained(BEFORE + parted + end(1) + LAUNCHER, tmp_path).causes[0].confidence)
    assert sure[0] == sure[1] < 0.5
