"""The symptom tables: every entry finds its samples and not its counter-examples, and says one thing about a line."""

import io
import re
import time

import pytest
from hypothesis import given, strategies as st

from gpudoctor.causes import CAUSES
from gpudoctor.explain.explain import explain
from gpudoctor.knowledge.gpus.xid import CATALOG
from gpudoctor.symptom import ROLES, Symptom, wanted
from gpudoctor.symptoms import TABLE
from gpudoctor.testing.examples import symptom_lacks

SIBLINGS: dict[str, set[str]] = {
    # a line that both are about, where the first says more
    "fingerprint": {"fingerprint-operation"},
    "gloo-peer-gone": {"gloo-connect-failed"},
    "nccl-call-failed": {"nccl-remote-ended"},
    "nccl-network-not-found": {"no-net-plugin-started"},
    "no-net-plugin-started": {"nccl-network-not-found"},
    "slurm-job-cancelled": {"slurm-cancelled"},
}

WHOLE_LINES = (
    "frame-", "gil-owner", "stack-of", "gil-wanted-frame", "hydra-", "horovod-stalled", "debugger", "kernel-loading",
)  # fmt: skip
"""Lines of a dump, whose beginning is their form."""


def primary(line: str) -> list[str]:
    """The entries that a line shows: those that say something, in the table's order, and else what is context."""
    matching = [symptom for symptom in TABLE if holds_needle(symptom, line) and symptom.match(line) is not None]
    telling = [symptom.id for symptom in matching if symptom.role != "context"]
    return telling or [symptom.id for symptom in matching]


def holds_needle(symptom: Symptom, line: str) -> bool:
    return any(needle in line for needle in symptom.needles)


def test_there_are_as_many_as_was_promised() -> None:
    assert len(TABLE) >= 200
    assert len([symptom for symptom in TABLE if symptom.role == "cause"]) >= 60
    assert len({symptom.id for symptom in TABLE}) == len(TABLE)


def test_samples_and_counter_examples() -> None:
    for symptom in TABLE:
        assert not list(symptom_lacks(symptom)), symptom.id


def test_a_line_shows_one_thing() -> None:
    for symptom in TABLE:
        siblings = SIBLINGS.get(symptom.id, set())
        for sample in symptom.samples:
            shown = set(primary(sample))
            if symptom.role == "context":
                assert symptom.id in shown or shown <= siblings, (symptom.id, shown)
            else:
                assert symptom.id in shown and shown - {symptom.id} <= siblings, (symptom.id, shown)


def test_a_line_is_found_behind_any_prefix() -> None:
    """Ranks, hosts and times are put before lines by launchers; what stands at the beginning is then elsewhere."""
    for symptom in TABLE:
        if symptom.id.startswith(WHOLE_LINES):
            continue
        for sample in symptom.samples:
            for prefix in ("[rank7]: ", "[default3]:", "12: ", "2025-08-19T11:40:02.170Z ", "(Worker pid=61) "):
                assert symptom.match(prefix + sample) is not None, (prefix, sample)


def test_what_it_speaks_for_is_in_the_taxonomy() -> None:
    for symptom in TABLE:
        assert symptom.cause in CAUSES or (symptom.cause == "" and symptom.role != "cause"), symptom.cause
        assert symptom.role in ROLES, symptom.id
        assert 0 < symptom.confidence <= 1, symptom.id
        if symptom.role in ("consequence", "context"):
            assert symptom.confidence <= 0.6, "what follows from something else is no sure cause"


def test_texts_keep_the_rules_of_messages() -> None:
    for symptom in TABLE:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", symptom.id)
        for text in symptom.seen:
            assert text and not text.endswith(".") and "\n" not in text
            assert "!" not in text and "  " not in text
            assert not re.search(r"\b(simply|just|please|ensure)\b", text, re.IGNORECASE), text
        assert symptom.source and not symptom.source.endswith("."), symptom.id


def test_its_words_and_its_remedy_have_no_gaps() -> None:
    """Every sample gives the values that the text names, and those that the cause's fix for it names."""
    for symptom in TABLE:
        cause = CAUSES.get(symptom.cause)
        assert not symptom.variant or cause is not None, symptom.id
        fix = cause.fix_for(symptom.variant) if cause else None
        for sample in symptom.samples:
            values = symptom.match(sample)
            assert values is not None, symptom.id
            assert any(wanted(text) <= values.keys() for text in symptom.seen), (symptom.seen, sample)
            assert fix is None or wanted(fix.text) <= values.keys(), (fix.text, sample)


def test_every_xid_of_the_catalog_is_placed() -> None:
    by_id = {symptom.id: symptom for symptom in TABLE}
    causes = {"hardware": "xid-gpu-lost", "application": "gpu-program-fault", "notice": ""}
    for xid in CATALOG.values():
        line = f"kernel: NVRM: Xid (PCI:0000:17:00): {xid.code}, pid=4, name=python, a text"
        (shown,) = primary(line)
        assert by_id[shown].cause == causes[xid.level], xid
        values = by_id[shown].match(line)
        assert values is not None and values["code"] == str(xid.code) and values["address"] == "0000:17:00"


VALUES: list[tuple[str, str, dict[str, str]]] = [
    ("watchdog-timeout",
     "[rank6]:[E1 ProcessGroupNCCL.cpp:685] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, "
     "OpType=_REDUCE_SCATTER_BASE, NumelIn=64, NumelOut=8, Timeout(ms)=600000) ran for 600090 milliseconds before "
     "timing",
     {"rank": "6", "sequence": "12", "operation": "_REDUCE_SCATTER_BASE", "numel_in": "64", "numel_out": "8",
      "timeout": "600000", "ran": "600090"}),
    ("watchdog-timeout",
     "[E ProcessGroupNCCL.cpp:566] [Rank 1] Caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
     "TensorShape=[7, 2], Timeout(ms)=30000) ran for 30002 milliseconds before timing out.",
     {"rank": "1", "operation": "ALLREDUCE", "size": "7, 2", "ran": "30002"}),
    ("watchdog-position",
     "[rank6]:[E1 ProcessGroupNCCL.cpp:2168] [PG ID 3 PG GUID 11(mesh_tp) Rank 2]  failure detected by watchdog at "
     "work "
     "sequence id: 12 PG status: last enqueued work: 14, last completed work: -1",
     {"group": "3", "member": "2", "sequence": "12", "last_enqueued": "14", "last_completed": "-1"}),
    ("watchdog-dump-signal",
     "[PG ID 0 PG GUID 0(default_pg) Rank 4] Received a dump signal due to a collective timeout from  rank 9 and we "
     "will "
     "try our best to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 4.This is most likely",
     {"group": "0", "rank": "4", "other": "9", "last_enqueued": "5", "last_completed": "4"}),
    ("store-connect-timeout",
     "[E socket.cpp:957] [c10d] The client socket has timed out after 900s while trying to connect to (head.site, "
     "4400).",
     {"timeout": "900s", "address": "head.site", "port": "4400"}),
    ("store-connect-timeout",
     "The client socket has timed out after 900s while trying to connect to fe00:1::9:4400",
     {"address": "fe00:1::9", "port": "4400"}),
    ("store-port-in-use",
     "The server socket has failed to listen on any local network address. port: 4400, useIpv6: true, code: -98, name: "
     "EADDRINUSE, message: address already in use",
     {"port": "4400"}),
    ("gloo-peer-gone", "[x/gloo/transport/tcp/pair.cc:598] Read error [10.1.9.9]:5050: Connection reset by peer",
     {"address": "10.1.9.9", "port": "5050"}),
    ("monitored-barrier", "[Rank 0]: Ranks 1, 4, 5 failed to pass monitoredBarrier in 7000 ms",
     {"ranks": "1, 4, 5", "timeout": "7000"}),
    ("lightning-member", "initializing ddp: GLOBAL_RANK: 7, MEMBER: 8/8",
     {"rank": "7", "member": "8", "world_size": "8"}),
    ("lightning-member", "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2",
     {"rank": "0", "member": "1", "world_size": "2"}),
    ("oom-kill",
     "Aug 19 11:40:02 n7 kernel: Memory cgroup out of memory: Killed process 881 (python) total-vm:1kB, anon-rss:1kB",
     {"pid": "881", "process": "python"}),
    ("tensor-size-told", "rank 3 sees torch.Size([9, 9]) before broadcast", {"rank": "3", "size": "9, 9"}),
    ("fingerprint-shape",
     "Detected mismatch between collectives on ranks. Rank 4 is running collective: CollectiveFingerPrint("
     "SequenceNumber=2, OpType=BROADCAST, TensorShape=[8], x), but Rank 1 is running collective: CollectiveFingerPrint("
     "SequenceNumber=2, OpType=BROADCAST, TensorShape=[9], x)",
     {"rank": "4", "other": "1", "operation": "BROADCAST", "size": "8", "other_size": "9"}),
]  # fmt: skip


@pytest.mark.parametrize(("id", "line", "values"), VALUES)
def test_values_that_the_conclusion_needs(id: str, line: str, values: dict[str, str]) -> None:
    assert primary(line) == [id]
    symptom = next(symptom for symptom in TABLE if symptom.id == id)
    found = symptom.match(line)
    assert found is not None and values.items() <= found.items()


HEALTHY = """
W0819 11:40:02.114000 6123 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process
[I socket.cpp:480] [c10d - debug] The server socket will attempt to listen on an IPv6 address.
[I socket.cpp:594] [c10d - trace] The server socket on [::]:29411 has accepted a connection from [localhost]:40622.
[I ProcessGroupGloo.cpp:841] [c10d] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3
n01:11:11 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
n01:11:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
n01:11:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
epoch 3 step 120 loss 2.4412 lr 3.0e-04 grad_norm 1.02 tokens/s 11204
Epoch 1: 100%|##########| 1204/1204 [00:31<00:00, 38.12it/s, v_num=3, train_loss=0.113]
torch.distributed process group is initialized, but parallel_mode != ParallelMode.DISTRIBUTED.
GPU available: True (cuda), used: True
distributed_backend=gloo
/opt/venv/lib/python3.11/site-packages/x.py:12: UserWarning: timeout is deprecated, use wait_timeout
Saving model checkpoint to /mnt/run7/checkpoint-900
Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError("HTTPSConnectionPool")': /api
[2025-08-19 11:40:02,170] [INFO] [comm.py:652:init_distributed] cdb=None
[2025-08-19 11:40:02,170] [INFO] [launch.py:351:main] Process 6177 exits successfully.
[Tue Aug 19 11:40:02 2025] nvidia-nvlink: Nvlink Core is being initialized, major device number 235
[Tue Aug 19 11:40:02 2025] python (6177): drop_caches: 3
srun: job 88121 has been allocated resources
we count errors: Killed 0, lost 0, waiting 0
the rank of the matrix is 3, out of memory 0 of 8
"""


@pytest.mark.parametrize("line", [line for line in HEALTHY.splitlines() if line])
def test_a_healthy_line_speaks_for_no_cause(line: str) -> None:
    by_id = {symptom.id: symptom for symptom in TABLE}
    assert [id for id in primary(line) if by_id[id].role != "context"] == []


UNITS = ("a", " ", "9", "[", "]", "(", ":", ",", ".", "[Rank 1] ", "[PG ID 1 ", "rank 1 ", "/", "'", "x y ", "1, ")


@pytest.mark.thorough
def test_no_pattern_takes_more_than_linear_work() -> None:
    """Each sample is continued, cut and filled with what repeats: a pattern that backtracks over it would not end."""
    for symptom in TABLE:
        began = time.process_time()
        for unit in UNITS:
            long = unit * (2000 // len(unit))
            symptom.match(long)
            for needle in symptom.needles:
                symptom.match(long + needle + long)
            for sample in symptom.samples:
                middle = len(sample) // 2
                symptom.match(sample[:middle] + long + sample[middle:])
        # No measure of speed: cubic work on these lines takes many minutes, and even quadratic work one.
        assert time.process_time() - began < 30, symptom.id


def test_no_pattern_has_nested_repetition() -> None:
    nested = re.compile(r"\((?:\?:|\?P<\w+>)?[^()]*(?<!\\)[+*]\)[+*{]")
    for symptom in TABLE:
        assert not nested.search(symptom.pattern.pattern), symptom.id


@given(
    st.lists(
        st.sampled_from([sample for symptom in TABLE for sample in symptom.samples]) | st.text(max_size=40), max_size=6
    )
)
def test_any_text(parts: list[str]) -> None:
    line = " ".join(parts).replace("\n", " ")
    for symptom in TABLE:
        values = symptom.match(line)
        assert values is None or (values.keys() <= symptom.names and all(values.values()))


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["", "Training complete\n"])
def test_no_line_accuses_a_job_that_goes_on(end: str) -> None:
    """Whatever a line tells: a job that trains on behind it has not ended of it."""

    def steps(first: int, last: int) -> str:
        return "".join(f"step {number}: loss {2 - number / 50:.3f}\n" for number in range(first, last))

    accused = []
    for symptom in TABLE:
        for sample in symptom.samples:
            text = f"{steps(1, 6)}{sample}\n{steps(6, 30)}{end}"
            answer = explain((), stdin=io.BytesIO(), texts=(text,))
            if answer.causes or answer.unknown:
                accused.append((symptom.id, sample))
    assert not accused
