"""Who is blamed for a launch that stopped: hand-made ends, in the order of blame; and the texts they are made from."""

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet import traces
from gpudoctor.fleet.messages import RankState
from gpudoctor.knowledge.pytorch.torchrun_exits import before_launcher, rank_exits
from gpudoctor.nccl import story
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Member, Trained
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.nccl.stopped import why_stopped
from gpudoctor.read.process import ProcStat, parse_stat
from gpudoctor.snapshot import Address, Interface, Snapshot, Space, evidence as hang_evidence, read
from gpudoctor.snapshot.evidence import (
    Frame,
    NodeEvidence,
    Process,
    ProcessEvidence,
    Sample,
    Socket,
    Thread,
)
from gpudoctor.testing.machines import but, h100_node
from tests.test_nccl_run import ROW

MEASURING = "all_reduce of 1048576 bytes"
RESET = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:31122: Connection "
    "reset by peer. This is typically caused by a remote worker hanging or bugs in the application."
)
MESH = (
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] Connect "
    "timeout [none]"
)
C10D = "/x/torch/distributed/distributed_c10d.py"
WAITS = (Frame("all_reduce", C10D, 3252), Frame("measure", "/x/workers/collective.py", 88))


class SeenRank(NamedTuple):
    """A rank's words, and its process as an agent reads it."""

    state: RankState
    process: ProcessEvidence | None = None


def rank(number: int, phase: str = MEASURING, *, state: str = "", waits_in: str = "", frames: tuple[Frame, ...] = (),
         to: tuple[tuple[str, int], ...] = (), oom_kills: int | None = None, **fields: Any) -> SeenRank:  # fmt: skip
    """`state`, `waits_in`, `frames` and `to` (whom it connects to in vain) in both looks at it."""
    pid = 4000 + number
    told = RankState(rank=number, local_rank=0, pid=pid, phase=phase, seconds_in_phase=60.0, **fields)
    if told.ended == "signal":
        process = Process(pid=pid, parent=70, started=7, state="X", exit_code=told.status)
        return SeenRank(told, ProcessEvidence(process=process, oom_kills=oom_kills))
    return SeenRank(told, seen(pid, state, waits_in, frames, to, RANK=str(number)) if state else None)


def seen(
    pid: int,
    state: str = "S",
    waits_in: str = "",
    frames: tuple[Frame, ...] = (),
    to: tuple[tuple[str, int], ...] = (),
    command: tuple[str, ...] = (),
    **environment: str,
) -> ProcessEvidence:
    main = Thread(id=pid, name="MainThread", state=state, waits_in=waits_in, switches=5, frames=frames)
    own = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", **environment}
    return ProcessEvidence(
        process=Process(pid=pid, parent=70, started=7, state=state, age_seconds=90.0, command=command, environment=own),
        samples=tuple(Sample(at=at, state=state, threads=(main,), stacks_by="py-spy") for at in (0.0, 0.5)),
        sockets=tuple(
            Socket(state="SYN_SENT", local="", local_port=41000, remote=far, remote_port=port, retransmits=2)
            for far, port in to
        ),
    )


def torchrun(node_rank: int = 1, pid: int = 77, **more: Any) -> ProcessEvidence:
    words = ("python", "/x/under_doctor.py", "-m", "torch.distributed.run", "--nnodes=2", f"--node_rank={node_rank}",
             "--nproc_per_node=1", "--master_addr=10.0.0.1", "--master_port=29500", "/x/workers")  # fmt: skip
    return seen(pid, command=words, **more)


def end(node: int, how: Any = "stopped", *ranks: SeenRank, launcher: ProcessEvidence | None = None,
        **fields: Any) -> NodeRanks:  # fmt: skip
    processes = (*(rank.process for rank in ranks if rank.process), *([launcher] if launcher else ()))
    own = hang_evidence.NodeInterface("eth0", (f"10.0.0.{node}",))
    return NodeRanks(
        node=f"n{node:02}",
        how=how,
        ranks=tuple(rank.state for rank in ranks),
        evidence=NodeEvidence(interfaces=(own,), processes=processes) if processes else None,
        **fields,
    )


def a_run(*ends: NodeRanks, outcome: Any = "stalled", **fields: Any) -> RunResult:
    return RunResult(outcome=outcome, nodes=tuple(end.node for end in ends), ends=ends, **fields)


def waiting(number: int, **fields: Any) -> SeenRank:
    """An innocent rank that waits in a collective."""
    return rank(number, state="S", frames=WAITS, **fields)


def beside(how: Any, *ranks: SeenRank, outcome: Any = "stalled", **fields: Any) -> RunResult:
    """n02 ended so, and the rank of n01 waits for it."""
    return a_run(end(1, "stopped", waiting(0)), end(2, how, *ranks, **fields), outcome=outcome)


def machine(address: str, *, hostname_address: str = "", name: str = "eth0") -> Snapshot:
    own = Interface(name, 2, "ethernet", addresses=(Address("inet", address, 24),), is_up=True, is_running=True)
    loopback = Interface("lo", 1, "loopback", addresses=(Address("inet", "127.0.0.1", 8, "host"),), is_up=True)
    plain = but(h100_node(), "network.interfaces", read("getifaddrs", (loopback, own)))
    return but(plain, "host.hostname_addresses", read("getaddrinfo", (hostname_address or address,)))


TWO = {"n01": machine("10.0.0.1"), "n02": machine("10.0.0.2")}


class Case(NamedTuple):
    run: RunResult
    id: str
    words: str
    """Of the summary."""
    nodes: tuple[str, ...] = ("n02",)
    ranks: tuple[int, ...] = (1,)


CASES = {
    "a stopped rank": Case(
        beside("stopped", rank(1, state="T")),
        "stopped-rank",
        'rank 1 is stopped (state T) on n02 in "all_reduce of 1048576 bytes"',
    ),
    "a rank in a debugger": Case(beside("stopped", rank(1, state="t")), "stopped-rank", "held by a debugger"),
    "a stopped torchrun": Case(
        beside("stopped", launcher=torchrun(state="T")), "stopped-rank", "torchrun (pid 77 on n02) is stopped", ranks=()
    ),
    "a killed rank, and the OOM killer has acted": Case(
        a_run(
            end(1, "failed", rank(0, ended="exit", status=1, error=RESET)),
            end(2, "failed", rank(1, ended="signal", status=9, oom_kills=1)),
            outcome="died",
        ),
        "rank-died",
        'rank 1 was killed by SIGKILL, perhaps for memory on n02 in "all_reduce of 1048576 bytes"',
    ),
    "a killed rank, and nobody knows": Case(
        beside("failed", rank(1, ended="signal", status=9), outcome="died"), "rank-died", "killed by SIGKILL"
    ),
    "a crashed rank": Case(
        beside("failed", rank(1, ended="signal", status=11), outcome="died"), "rank-died", "crashed with SIGSEGV"
    ),
    "a rank that was asked to end": Case(
        beside("failed", rank(1, ended="signal", status=15), outcome="died"), "rank-died", "was ended by SIGTERM"
    ),
    "a killed torchrun": Case(
        beside("failed", rank(1), error="torchrun was ended by SIGKILL", outcome="died"),
        "rank-died",
        "torchrun on n02 was ended by SIGKILL",
        ranks=(),
    ),
    "a lost node": Case(
        beside("lost", error="connection lost: exit status 255", outcome="died"),
        "node-lost",
        "n02 was lost while the test ran: connection lost: exit status 255",
        ranks=(),
    ),
    "a busy port": Case(
        a_run(
            end(
                1,
                "failed",
                error="torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
                "address. port: 29613, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            ),
            end(2, "stopped"),
            outcome="died",
        ),
        "master-port-in-use",
        "port 29613 on n01 is in use",
        nodes=("n01",),
        ranks=(),
    ),
    "gloo's wrong interface": Case(
        a_run(
            end(
                1,
                "failed",
                rank(0, "rendezvous", ended="exit", status=1, error="RuntimeError: Unable to find address for: eth9"),
            ),
            end(2, "stopped", rank(1, "rendezvous")),
            outcome="died",
        ),
        "wrong-nic",
        "gloo found no address on interface eth9 of n01; it has eth0",
        nodes=("n01",),
        ranks=(0,),
    ),
    "NCCL's wrong interface": Case(
        beside(
            "failed",
            rank(
                1,
                "first all_reduce",
                ended="exit",
                status=1,
                error="DistBackendError: NCCL error, ncclInvalidUsage",
                log="n02:1:1 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n",
            ),
            outcome="died",
        ),
        "wrong-nic",
        "rank 1 on n02: NCCL found no network interface",
    ),
    "no torch": Case(
        a_run(
            end(1, "stopped"), end(2, "failed", error="ModuleNotFoundError: No module named 'torch'"), outcome="died"
        ),
        "rank-not-started",
        "has no torch",
        ranks=(),
    ),
    "a torch that cannot be imported": Case(
        a_run(
            end(1, "stopped", rank(0, "rendezvous")),
            end(2, "failed", error="ImportError: libcudnn.so.9: cannot open shared object file"),
            outcome="died",
        ),
        "rank-not-started",
        "torch cannot be imported on n02: ImportError: libcudnn.so.9",
        ranks=(),
    ),
    "an interpreter that is not there": Case(
        a_run(end(1, "stopped"), end(2, "not started", error="No such file or directory: '/x/python'"), outcome="died"),
        "rank-not-started",
        "no rank was started on n02: No such file or directory",
        ranks=(),
    ),
    "a rank's own exception": Case(
        a_run(
            end(1, "failed", rank(0, ended="exit", status=1, error=RESET)),
            end(2, "failed", rank(1, ended="exit", status=1, error="OutOfMemoryError: CUDA out of memory")),
            outcome="died",
        ),
        "rank-died",
        "rank 1 on n02 failed",
    ),
    "torchrun's own exception": Case(
        a_run(end(1, "failed", error="ValueError: Unsupported nproc_per_node value: -1"), outcome="died"),
        "rank-not-started",
        "torchrun failed on n01: ValueError",
        nodes=("n01",),
        ranks=(),
    ),
    "a rank in the kernel": Case(
        beside("stopped", rank(1, state="D", waits_in="nfs_wait_on_request")),
        "storage-stall",
        "rank 1 stands in file access, in the kernel (state D in nfs_wait_on_request), in both looks on n02",
    ),
    "a rank in a driver": Case(
        beside("stopped", rank(1, state="D", waits_in="nvidia_ioctl")), "kernel-wait", "state D in nvidia_ioctl"
    ),
    "a rank that nobody answers": Case(
        a_run(
            end(1, "stopped", rank(0, "rendezvous", state="S", to=(("10.0.0.2", 41234),))),
            end(2, "stopped", rank(1, "rendezvous", state="S")),
        ),
        "firewall-ephemeral-ports",
        "rank 0 on n01 gets no answer from n02 on port 41234",
        nodes=("n01", "n02"),
    ),
    "a torchrun that nobody answers": Case(
        a_run(
            end(1, "stopped", launcher=torchrun(0, pid=71)),
            end(2, "stopped", launcher=torchrun(to=(("10.0.0.1", 29500),))),
        ),
        "master-unreachable",
        "n02 gets no answer from 10.0.0.1:29500 on n01",
        ranks=(),
    ),
    "a store that is not reached": Case(
        a_run(
            end(
                1, "failed", error="DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."
            ),
            end(
                2,
                "failed",
                error="DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
                "(10.0.0.1, 29500).",
            ),
            outcome="died",
        ),
        "master-unreachable",
        "n02 could not connect to n01 at 10.0.0.1 port 29500",
        nodes=("n02", "n01"),
        ranks=(),
    ),
    "a refused connection": Case(
        a_run(
            end(
                1,
                "failed",
                rank(
                    0,
                    "rendezvous",
                    ended="exit",
                    status=1,
                    error="RuntimeError: Gloo connectFullMesh failed with connect [10.0.0.2]:999: Connection refused",
                ),
            ),
            end(2, "stopped", rank(1, "rendezvous")),
            outcome="died",
        ),
        "firewall-ephemeral-ports",
        "n01 could not connect to n02 at 10.0.0.2 port 999: refused",
        nodes=("n01", "n02"),
        ranks=(0,),
    ),
    "a mesh without addresses": Case(
        a_run(
            end(1, "failed", rank(0, "rendezvous", ended="exit", status=1, error=MESH)),
            end(2, "failed", rank(1, "rendezvous", ended="exit", status=1, error=MESH)),
            outcome="died",
        ),
        "firewall-ephemeral-ports",
        "ranks 0-1 on n[01-02] could not connect to all others",
        nodes=("n01", "n02"),
        ranks=(0, 1),
    ),
    "a rank behind": Case(
        a_run(
            end(1, "stopped", rank(0, "rendezvous", state="S")), end(2, "stopped", rank(1, "import torch", state="S"))
        ),
        "slow-rank-timeout",
        'rank 1 on n02 was for 60 s in "import torch", which all others have passed',
    ),
    "a rank behind, though the other complains": Case(
        a_run(
            end(
                1,
                "failed",
                rank(0, ended="exit", status=1, error="RuntimeError: Timed out waiting 60000ms for recv operation"),
            ),
            end(2, "stopped", rank(1, "first all_reduce", state="S")),
            outcome="died",
        ),
        "slow-rank-timeout",
        "first all_reduce",
    ),
    "no rendezvous": Case(
        a_run(end(1, "stopped", rank(0, "rendezvous")), end(2, "stopped", launcher=torchrun())),
        "rendezvous-incomplete",
        "torchrun on n02 never started its ranks; n01 did",
        ranks=(),
    ),
    "a rank elsewhere": Case(
        a_run(
            end(1, "stopped", waiting(0), waiting(1)),
            end(2, "stopped", rank(2, state="R", frames=(Frame("wrong", "/x/workers/collective_data.py", 80),))),
        ),
        "slow-rank-timeout",
        "rank 2 on n02 was in wrong (collective_data.py:80), while the others were in all_reduce",
        ranks=(2,),
    ),
    "a stall without a cause": Case(
        beside("stopped", waiting(1)),
        "test-stalled",
        'no rank got on any more: ranks 0-1 in "all_reduce of 1048576 bytes"; the cause is not visible',
        nodes=("n01", "n02"),
        ranks=(0, 1),
    ),
    "complaints only": Case(
        a_run(
            end(1, "failed", rank(0, ended="exit", status=1, error=RESET)),
            end(2, "failed", rank(1, ended="exit", status=1, error=RESET)),
            outcome="died",
        ),
        "test-died",
        "the test ended early",
        nodes=("n01", "n02"),
        ranks=(0, 1),
    ),
    "nothing at all": Case(
        a_run(end(1, "stopped")), "rendezvous-incomplete", "torchrun on n01", nodes=("n01",), ranks=()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_culprit_is_named(name: str) -> None:
    case = CASES[name]
    (finding,) = why_stopped(case.run, TWO)
    assert (finding.id, finding.nodes, finding.ranks) == (case.id, case.nodes, case.ranks)
    assert case.words in finding.problem.summary
    well_written(finding)


def well_written(finding: Finding) -> None:
    """What docs/messages.md wants of every text, as far as a machine can see it."""
    problem = finding.problem
    assert problem.severity == "error"
    assert "\n" not in problem.summary and not problem.summary.endswith(".")
    assert problem.meaning.endswith(".") and problem.fix.text.endswith(".")
    assert problem.evidence and all(reading.source for reading in problem.evidence)
    for text in (problem.summary, problem.meaning, problem.fix.text):
        assert not re.search(r"!|\b(simply|just|please|ensure)\b|  |\bNone\b", text), text
    for command in problem.fix.commands:
        assert "\n" not in command


def test_a_small_shared_memory_explains_sigbus() -> None:
    run = beside("failed", rank(1, ended="signal", status=7), outcome="died")
    small = but(TWO["n02"], "host.shared_memory", read("statvfs /dev/shm", Space(64 << 20, 0)))
    (finding,) = why_stopped(run, {**TWO, "n02": small})
    assert "/dev/shm has 64 MiB there, 1 GiB is wanted" in finding.problem.summary
    (without,) = why_stopped(run, {})
    assert without.problem.summary.startswith(f'rank 1 crashed with SIGBUS on n02 in "{MEASURING}";')


def test_a_loopback_address_is_traced_to_its_hostname() -> None:
    error = "RuntimeError: Gloo connectFullMesh failed with connect [127.0.1.1]:999: Connection refused"
    run = a_run(
        end(1, "failed", rank(0, "rendezvous", ended="exit", status=1, error=error)),
        end(2, "stopped", rank(1, "rendezvous")),
        outcome="died",
    )
    looped = {**TWO, "n02": machine("10.0.0.2", hostname_address="127.0.1.1")}
    (finding,) = why_stopped(run, looped)
    assert finding.id == "master-addr-loopback" and "n02" in finding.nodes
    assert "the hostname of n02 resolves to a loopback address there" in finding.problem.summary
    assert "gpudoctor nccl-test --interface eth0" in finding.problem.fix.commands
    well_written(finding)
    (blind,) = why_stopped(run, {})
    assert blind.id == "master-addr-loopback"


def test_on_gpus_a_stall_without_a_cause_tells_what_would_prove_it() -> None:
    member = Member(rank=0, world_size=2, host="n01", local_rank=0, nccl="2.28.9")
    run = a_run(end(1, "stopped", waiting(0)), end(2, "stopped", waiting(1)), members=(member,))
    (finding,) = why_stopped(run, TWO)
    assert "NCCL_P2P_DISABLE=1 gpudoctor nccl-test" in finding.problem.fix.commands


@pytest.mark.parametrize("outcome", ["complete", "interrupted"])
def test_what_did_not_stop_by_itself_needs_no_reason(outcome: Any) -> None:
    assert why_stopped(a_run(end(1, "stopped", rank(0, state="T")), outcome=outcome), {}) == ()


PHASES = (
    "",
    "import torch",
    "CUDA start",
    "rendezvous",
    "first all_reduce",
    "exchange of who is there",
    "all_reduce of 1024 bytes",
    "all_reduce of 2048 bytes",
    "all_reduce of 4096 bytes",
    "leaving",
)


def test_phases_have_an_order() -> None:
    run = a_run(end(1), rows=(ROW,))
    places = [story.progress(phase, run) for phase in PHASES]
    assert places == sorted(places) and len(set(places)) == len(places)
    assert story.progress("data check of all_reduce of 2048 bytes", run) == places[7]


TRAINING = (
    "exchange of who is there",
    "ddp fp32 step 19: optimizer",  # told already: whatever it is, the next cell is ahead
    "ddp bf16 start",
    "ddp bf16 step 0: samples",
    "ddp bf16 step 0: forward",
    "ddp bf16 step 0: backward",
    "ddp bf16 step 0: comparison of gradients",
    "ddp bf16 step 0: optimizer",
    "ddp bf16 step 1: samples",
    "ddp bf16 step 10: samples",
    "ddp bf16 parameters at the end",
    "leaving",
)


def test_phases_of_training_have_an_order() -> None:
    told = (Trained(way="ddp", precision="fp32", outcome="passed"),)
    run = a_run(end(1, "stopped", rank(0, "ddp bf16 step 0: forward")), trained=told)
    places = [story.progress(phase, run) for phase in TRAINING]
    assert places == sorted(places) and len(set(places)) == len(places)


def behind_in(first: str, second: str, **fields: Any) -> list[tuple[int, ...]]:
    run = a_run(end(1, "stopped", rank(0, first)), end(2, "stopped", rank(1, second)), outcome="stalled", **fields)
    return [finding.ranks for finding in why_stopped(run, TWO) if finding.id == "slow-rank-timeout"]


@pytest.mark.parametrize(
    ("first", "second", "blamed"),
    [
        ("ddp fp32 step 3: comparison of gradients", "ddp fp32 step 3: forward", [(1,)]),
        ("fsdp bf16 step 2: optimizer", "fsdp bf16 step 3: samples", [(0,)]),
        ("ddp fp32 step 3: backward", "ddp fp32 step 3: backward", []),
        # twice a step: the second forward comes after the first backward
        ("no_sync fp32 step 3: forward", "no_sync fp32 step 3: backward", []),
        # which of these comes first only the framework knows
        ("accelerate fp32 prepare", "accelerate fp32 model", []),
        # rank 0 has not told its last cell yet, and rank 1 is in the next
        ("ddp fp32 parameters at the end", "ddp bf16 start", []),
    ],
)
def test_the_rank_that_is_behind_in_training_is_named(first: str, second: str, blamed: list[tuple[int, ...]]) -> None:
    assert behind_in(first, second) == blamed


pieces = ["Connection refused", "connectFullMesh", "[10.0.0.2]:1", "EADDRINUSE", "Traceback", *"ab01[](): \n\0é"]
texts = st.lists(st.sampled_from(pieces)).map("".join)


@given(
    error=texts,
    log=texts,
    phase=st.sampled_from(PHASES + TRAINING) | texts,
    state=st.sampled_from(["", "S", "T", "D", "Z"]),
)
def test_every_end_has_a_reason(error: str, log: str, phase: str, state: str) -> None:
    run = a_run(
        end(1, "failed", rank(0, phase, ended="exit", status=1, error=error, log=log, state=state), error=log),
        end(2, "stopped", rank(1, phase, to=(("garbage", 0), ("::1", 9)), state="S")),
        outcome="died",
    )
    assert why_stopped(run, TWO)


# ---------------------------------------------------------------- the texts of torchrun and of ranks

SUMMARY = """
W1120 22:28:58.711000 31098 torch/distributed/elastic/multiprocessing/api.py:1028] \
Sending process 31766 closing signal SIGTERM
E1120 22:28:58.912000 31098 torch/distributed/elastic/multiprocessing/api.py:1002] \
failed (exitcode: -9) local_rank: 1 (pid: 31767) of binary: /x/python
Traceback (most recent call last):
  File "x.py", line 1, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Failures:
[1]:
  rank      : 4 (local_rank: 0)
  exitcode  : -15 (pid: 31766)  (SIGTERM)
  error_file: <N/A>
Root Cause (first observed failure):
[0]:
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 31767)
"""


def test_the_rank_that_torchrun_closed_is_not_taken_for_a_culprit() -> None:
    (found,) = rank_exits(SUMMARY).values()
    assert (found.local_rank, found.pid, found.exitcode, found.rank) == (1, 31767, -9, 5)
    assert before_launcher("rank's words\n" + SUMMARY.lstrip()) == "rank's words\n"


def test_the_last_exception_is_the_one_that_counts() -> None:
    text = """[rank0]: Traceback (most recent call last):
[rank0]:   File "a.py", line 6, in <module>
[rank0]:     work.wait()
[rank0]: KeyError: 1

[rank0]: During handling of the above exception, another exception occurred:

[rank0]: Traceback (most recent call last):
[rank0]:   File "a.py", line 6, in <module>
[rank0]: RuntimeError: first line
[rank0]: second line
[W1120 22:29:14.008146034 TCPStore.cpp:328] [c10d] noise
"""
    assert traces.error(text) == "RuntimeError: first line\nsecond line"
    assert (
        traces.error("Fatal Python error: Segmentation fault\n\nThread 0x1 ...")
        == "Fatal Python error: Segmentation fault"
    )
    assert traces.error("one\n\ntwo\n") == "one\ntwo"
    assert traces.error("") == ""


@pytest.mark.parametrize("mark", ["Current thread", "Thread"])
def test_the_stack_is_the_main_threads(mark: str) -> None:
    text = f"""Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 629 in run

{mark} 0x00007f02 [python] (most recent call first):
  File "/x/distributed_c10d.py", line 3252 in all_reduce
  File "/x/collective.py", line 88 in main
"""
    assert traces.stack("noise\n" + text) == (
        Frame("all_reduce", "/x/distributed_c10d.py", 3252),
        Frame("main", "/x/collective.py", 88),
    )
    assert traces.stack("") == ()


def test_a_long_log_keeps_warnings_choices_and_its_end() -> None:
    noise = [f"n01:1:1 [0] NCCL INFO noise {number}\n" for number in range(5000)]
    warning = "n01:1:1 [0] init.cc:1 NCCL WARN something broke\n"
    choice = "n01:1:1 [0] NCCL INFO Using network Socket\n"
    text = "".join([choice, *noise[:2500], warning, *noise[2500:], "the very last\n"])
    kept = traces.log(text, 8192)
    assert len(kept) <= 8192
    assert warning in kept and choice in kept and kept.endswith("the very last\n")
    assert re.match(r"\[gpudoctor: \d+ of 5003 lines are left out here\]\n", kept)
    assert traces.log("short", 8192) == "short"


@given(st.text() | st.lists(st.sampled_from(SUMMARY.splitlines())).map("\n".join), st.integers(200, 1000))
def test_no_text_breaks_the_readers(text: str, limit: int) -> None:
    for read_it in (rank_exits, traces.stack, before_launcher):
        read_it(text)
    assert len(traces.error(text)) <= traces.KEPT_ERROR_CHARACTERS
    assert len(traces.log(text, limit)) <= max(limit, 0)


def test_a_name_with_spaces_and_brackets_does_not_shift_the_fields() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    found = parse_stat(f"42 (a) (b c) T {fields}")
    assert found == ProcStat(42, "a) (b c", "T", parent=4, flags=9, start_ticks=22, exit_code=52, cpu_ticks=14 + 15)


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["\n" * 2_000_000, " \n" * 1_000_000, " " * 2_000_000])
def test_blank_lines_without_end_do_not_keep_the_agent_busy(text: str) -> None:
    # Work that grew with the square of a rank's last megabytes would never end; the run as a whole has its deadline.
    assert rank_exits(text) == {}
    assert traces.error(text) == ""
