"""After torch's watchdog has given a communicator up, ranks begin another step before they are ended: no getting on.

The lines have the form that torch 2.14.1 wrote in the lab (python -m tests.lab.torch_nccl).
"""

import io
from pathlib import Path

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation

SUMS = ((0, "ALLREDUCE", "all_reduce", 11), (1, "BROADCAST", "broadcast", 15), (2, "ALLREDUCE", "all_reduce", 11))
C10D = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def watchdog(rank: int, operation: str, function: str, line: int) -> str:
    head = f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp"
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum=7, OpType={operation}, NumelIn=64, NumelOut=64, Timeout(ms)=100000) ran for 100008 milliseconds "
        "before timing out.\n"
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
