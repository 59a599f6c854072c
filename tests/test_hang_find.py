"""Which processes are one job: hang/{find,families}.py and read/job/commands.py, on processes made by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.hang.find import find_jobs, masters
from gpudoctor.hang.job import Members
from gpudoctor.launcher import command_lines as commands, kept as keeping
from gpudoctor.snapshot.evidence import NodeProcesses, Process

PYTHON = "/opt/venv/bin/python3.11"
SPAWNED = (
    PYTHON,
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)",
    "--multiprocessing-fork",
)
FORKSERVER = (PYTHON, "-c", "from multiprocessing.forkserver import main; main(10, 11, ['__main__'])")
TRACKER = (PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(5)")


def process(pid: int, command: str | Sequence[str] = "", *, parent: int = 1, **more: Any) -> Process:
    """A process; `command` may be one line of words. Upper-case names are its environment."""
    words = tuple(command.split()) if isinstance(command, str) else tuple(command)
    environment = {name: str(more.pop(name)) for name in list(more) if name.isupper()}
    program = words[0].rpartition("/")[2] if words else "python3.11"
    given: dict[str, Any] = {
        "name": program[:15],
        "state": "S",
        "started": pid * 10,
        "age_seconds": 100.0,
        "environment_read": bool(words),
        "network_namespace": "net:[1]",
    }
    return Process(pid=pid, parent=parent, command=words, environment=environment, **{**given, **more})


def node(*processes: Process, name: str = "a", boot: str = "", namespace: str = "net:[1]") -> NodeProcesses:
    return NodeProcesses(hostname=name, boot_id=boot or name, network_namespace=namespace, processes=processes)


def told(
    rank: int, size: int, *, address: str = "10.0.0.1", port: int = 29500, local: int | None = None
) -> dict[str, Any]:
    """What torchrun sets for a rank."""
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank if local is None else local,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "none",
    }


def torchrun(pid: int, options: str = "--nproc-per-node 2", *, parent: int = 1, **more: Any) -> Process:
    line = f"{PYTHON} /opt/venv/bin/torchrun {options} train.py --epochs 3"
    return process(pid, line, parent=parent, name="pt_elastic", **more)


def rank(pid: int, parent: int, number: int, size: int = 2, **more: Any) -> Process:
    address, port, local = more.pop("address", "10.0.0.1"), more.pop("port", 29500), more.pop("local", None)
    variables = {**told(number, size, address=address, port=port, local=local), **more}
    return process(pid, f"{PYTHON} -u train.py --epochs 3", parent=parent, **variables)


def only(jobs: tuple[Members, ...]) -> Members:
    assert len(jobs) == 1, [job.id for job in jobs]
    return jobs[0]


def ranks(job: Members) -> list[tuple[int, int | None, int]]:
    """(node, rank, pid) of the ranks."""
    return [(member.node, member.rank, member.process.pid) for member in job.members if member.role == "rank"]


def roles(job: Members) -> dict[int, str]:
    return {member.process.pid: member.role for member in job.members}


# ---------------------------------------------------------------- one node


def test_torchrun_its_ranks_and_their_data_loaders_are_one_job() -> None:
    job = only(
        find_jobs(
            [
                node(
                    torchrun(10, "--nproc-per-node 2 --rdzv-id=exp7 --rdzv-backend c10d --rdzv-endpoint h1:29400"),
                    rank(11, 10, 0, TORCHELASTIC_RUN_ID="exp7"),
                    rank(12, 10, 1, TORCHELASTIC_RUN_ID="exp7"),
                    rank(13, 12, 1, TORCHELASTIC_RUN_ID="exp7"),  # a fork: a data loader
                    process(14, SPAWNED, parent=12, **told(1, 2)),
                    process(15, TRACKER, parent=12, **told(1, 2)),
                    process(16, "/bin/sh -c nvidia-smi", parent=11, **told(0, 2)),
                    process(17, parent=12, name="pt_data_worker"),
                )
            ]
        )
    )
    assert job.id == "torchrun exp7 at 10.0.0.1:29500"
    assert (job.master_address, job.master_port) == ("10.0.0.1", 29500)
    assert ranks(job) == [(0, 0, 11), (0, 1, 12)]
    assert roles(job) == {
        10: "launcher",
        11: "rank",
        12: "rank",
        13: "data loader",
        14: "data loader",
        15: "helper",
        16: "helper",
        17: "data loader",
    }
    assert {member.process.pid: member.of for member in job.members if member.of} == {
        13: 12,
        14: 12,
        15: 12,
        16: 11,
        17: 12,
    }
    assert all(member.world_size == 2 for member in job.members if member.role == "rank")
    addresses, ports = masters(job)
    assert set(addresses) == {"10.0.0.1", "h1"} and set(ports) == {29500, 29400}


def test_ranks_whose_environment_is_closed_are_numbered_in_the_order_of_their_start() -> None:
    closed = [process(pid, f"{PYTHON} train.py", parent=10, environment_read=False) for pid in (11, 12, 13)]
    job = only(find_jobs([node(torchrun(10, "--standalone --nproc-per-node 3"), *closed)]))
    assert ranks(job) == [(0, 0, 11), (0, 1, 12), (0, 2, 13)]


def test_over_several_nodes_a_closed_environment_does_not_tell_the_rank() -> None:
    closed = process(11, f"{PYTHON} train.py", parent=10, environment_read=False)
    job = only(find_jobs([node(torchrun(10, "--nnodes 2 --node-rank 1 --master-addr h1"), closed)]))
    assert ranks(job) == [(0, None, 11)]


@pytest.mark.parametrize("state", ["Z", "D"])
def test_a_rank_that_says_nothing_is_known_by_its_place_among_the_others(state: str) -> None:
    silent = process(12, (), parent=10, state=state, exit_code=9 if state == "Z" else 0)
    others = [rank(11, 10, 4, 8, local=0), rank(13, 10, 6, 8, local=2)]
    job = only(find_jobs([node(torchrun(10, "--nnodes 2 --node-rank 1"), *others, silent)]))
    assert ranks(job) == [(0, 4, 11), (0, 5, 12), (0, 6, 13)]


def test_a_restarted_rank_is_known_by_what_is_left() -> None:
    others = [rank(13, 10, 0, 3, local=0, LOCAL_WORLD_SIZE=3), rank(11, 10, 2, 3, local=2, LOCAL_WORLD_SIZE=3)]
    silent = process(12, (), parent=10, state="D")
    job = only(find_jobs([node(torchrun(10, "--nproc-per-node 3"), *others, silent)]))
    assert ranks(job) == [(0, 0, 13), (0, 1, 12), (0, 2, 11)]


@pytest.mark.parametrize("state", ["D", "Z"])
def test_a_silent_process_beside_ranks_of_slurm_is_the_one_that_is_left(state: str) -> None:
    def task(pid: int, number: int) -> Process:
        variables = {"SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0, "SLURM_PROCID": number, "SLURM_NTASKS": 4}
        return process(pid, "python t.py", parent=5, **variables)

    silent = process(13, (), parent=5, state=state, name="python")
    assert ranks(only(find_jobs([node(task(11, 0), task(12, 1), silent, task(14, 3))]))) == [
        (0, 0, 11),
        (0, 1, 12),
        (0, 2, 13),
        (0, 3, 14),
    ]
    # Where more than one is missing, nobody knows which it is.
    assert (0, None, 13) in ranks(only(find_jobs([node(task(11, 0), silent, task(14, 3))])))


def test_what_an_earlier_run_has_left_dead_is_no_rank_of_this_one() -> None:
    """The first process of a container collects nothing; a run by hand ended there some minutes before."""
    ranks_here = [process(pid, "python t.py", started=90_000, **told(pid - 20, 3)) for pid in (20, 22)]
    earlier = process(11, (), state="Z", exit_code=9, started=60_000)
    assert [pid for _, _, pid in ranks(only(find_jobs([node(earlier, *ranks_here)])))] == [20, 22]
    own = process(21, (), state="Z", exit_code=9, started=90_100)
    job = only(find_jobs([node(earlier, ranks_here[0], own, ranks_here[1])]))
    assert {pid for _, _, pid in ranks(job)} == {20, 21, 22}


def test_a_rank_that_waits_in_the_kernel_is_known_by_its_data_loaders() -> None:
    silent = process(12, (), parent=10, state="D")
    loaders = [rank(pid, 12, 5, 8, local=1) for pid in (13, 14)]
    found = [torchrun(10, "--nnodes 2 --node-rank 1"), rank(11, 10, 4, 8, local=0), silent, *loaders]
    job = only(find_jobs([node(*found)]))
    assert ranks(job) == [(0, 4, 11), (0, 5, 12)]
    assert roles(job)[13] == roles(job)[14] == "data loader"


def test_ranks_started_by_hand_on_loopback_are_one_job() -> None:
    found = [rank(pid, 1, number, address="localhost", TORCHELASTIC_RUN_ID="") for number, pid in enumerate((11, 12))]
    job = only(find_jobs([node(*found)]))
    assert job.id == "train.py at localhost:29500"
    assert ranks(job) == [(0, 0, 11), (0, 1, 12)]


def test_two_jobs_on_one_node_are_two() -> None:
    first = [torchrun(10, "--master-port 29501"), rank(11, 10, 0, port=29501), rank(12, 10, 1, port=29501)]
    second = [torchrun(20, "--master-port 29502"), rank(21, 20, 0, 1, port=29502)]
    jobs = find_jobs([node(*first, *second)])
    assert [ranks(job) for job in jobs] == [[(0, 0, 11), (0, 1, 12)], [(0, 0, 21)]]


def test_a_launcher_without_ranks_is_a_job() -> None:
    job = only(find_jobs([node(torchrun(10, "--nnodes 2 --rdzv-id x --rdzv-endpoint h1:29400"))]))
    assert (job.id, job.master_address, job.master_port) == ("torchrun x at h1:29400", "h1", 29400)


def test_an_old_run_that_was_left_behind_is_another_job() -> None:
    old = rank(5, 1, 0, age_seconds=5000.0)
    new = [torchrun(10, "--master-addr 10.0.0.1"), rank(11, 10, 0), rank(12, 10, 1)]
    jobs = find_jobs([node(old, *new)])
    assert [ranks(job) for job in jobs] == [[(0, 0, 11), (0, 1, 12)], [(0, 0, 5)]]


def test_wrappers_between_launcher_and_rank_are_none() -> None:
    found = [
        process(11, "bash wrap.sh", parent=10, **told(0, 2)),
        rank(12, 11, 0),
        process(13, "nsys profile python train.py", parent=10, **told(1, 2)),
        rank(14, 13, 1),
        rank(15, 14, 1),
    ]
    job = only(find_jobs([node(torchrun(10), *found)]))
    assert ranks(job) == [(0, 0, 12), (0, 1, 14)]
    assert roles(job)[15] == "data loader"
    assert roles(job)[13] == roles(job)[11] == "helper"


def test_a_spawning_script_is_the_launcher_of_its_children() -> None:
    script = process(10, f"{PYTHON} ddp.py", communicates=False)
    children = [process(pid, SPAWNED, parent=10, communicates=pid == 12) for pid in (12, 13)]
    tracker = process(11, TRACKER, parent=10)
    loader = process(14, SPAWNED, parent=13)
    job = only(find_jobs([node(script, tracker, *children, loader)]))
    assert roles(job) == {10: "launcher", 11: "helper", 12: "rank", 13: "rank", 14: "data loader"}
    assert ranks(job) == [(0, 0, 12), (0, 1, 13)]
    assert all(member.world_size == 2 for member in job.members if member.role == "rank")
    assert job.id == "ddp.py pid 10"


def test_a_spawned_rank_that_has_ended_keeps_its_number() -> None:
    script = process(10, f"{PYTHON} ddp.py", communicates=False)
    children = [
        process(11, (), parent=10, name="python3.11", state="Z", exit_code=9),
        process(12, SPAWNED, parent=10, communicates=True),
    ]
    assert ranks(only(find_jobs([node(script, *children)]))) == [(0, 0, 11), (0, 1, 12)]


def test_children_of_the_forkserver_are_ranks_of_the_script() -> None:
    script = process(10, f"{PYTHON} ddp.py", communicates=False, MASTER_ADDR="127.0.0.1", MASTER_PORT=29500)
    server = process(11, FORKSERVER, parent=10, communicates=False)
    children = [process(pid, FORKSERVER, parent=11, communicates=True) for pid in (12, 13)]
    job = only(find_jobs([node(script, server, *children)]))
    assert roles(job)[10] == "launcher" and roles(job)[11] == "helper"
    assert [pid for _, _, pid in ranks(job)] == [12, 13]


def test_data_loaders_of_a_lone_process_are_no_ranks() -> None:
    lone = process(10, f"{PYTHON} train.py", MASTER_ADDR="127.0.0.1", WORLD_SIZE=1, communicates=True)
    loaders = [
        process(pid, f"{PYTHON} train.py", parent=10, communicates=False, MASTER_ADDR="127.0.0.1") for pid in (11, 12)
    ]
    job = only(find_jobs([node(lone, *loaders)]))
    assert roles(job) == {10: "rank", 11: "data loader", 12: "data loader"}


def test_lightnings_first_rank_is_the_parent_of_the_others() -> None:
    variables = {"WORLD_SIZE": 3, "NODE_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 40123}
    main = process(10, f"{PYTHON} fit.py --devices 3")
    others = [
        process(10 + n, f"{PYTHON} /home/m/fit.py --devices 3", parent=10, LOCAL_RANK=n, **variables) for n in (1, 2)
    ]
    loader = process(14, f"{PYTHON} fit.py --devices 3", parent=10)
    compiler = process(15, f"{PYTHON} -m torch._inductor.compile_worker", parent=10, LOCAL_RANK=0, **variables)
    job = only(find_jobs([node(main, *others, loader, compiler)]))
    assert ranks(job) == [(0, 0, 10), (0, 1, 11), (0, 2, 12)]
    assert roles(job)[14] == "data loader" and roles(job)[15] == "helper"
    assert job.master_port == 40123


@pytest.mark.parametrize(
    ("command", "variables", "expected"),
    [
        ("python train.py", {"LOCAL_RANK": 0}, 0),
        ("python train.py", {"NODE_RANK": 1, "LOCAL_RANK": 0}, None),
        ("python train.py", {"MASTER_ADDR": "10.0.0.1"}, None),
        ("python train.py", {"RANK": 3, "WORLD_SIZE": 8}, 3),
        ("python train.py", {"RANK": 3}, 3),
        ("python train.py --rank 1 --world_size 2 --dist-url tcp://10.0.0.1:23456", {}, 1),
        ("python train.py", {"OMPI_COMM_WORLD_RANK": 2, "OMPI_COMM_WORLD_SIZE": 4}, 2),
        ("python train.py", {"SLURM_PROCID": 2, "SLURM_NTASKS": 4}, 2),
        ("python train.py", {"SLURM_PROCID": 0, "SLURM_NTASKS": 1, "MASTER_ADDR": "h"}, 0),
        ("./all_reduce_perf -b 8", {"OMPI_COMM_WORLD_RANK": 2, "OMPI_COMM_WORLD_SIZE": 4}, 2),
    ],
)
def test_a_lone_process_that_was_told_of_a_job_counts(
    command: str, variables: dict[str, Any], expected: int | None
) -> None:
    assert ranks(only(find_jobs([node(process(11, command, **variables))]))) == [(0, expected, 11)]


@pytest.mark.parametrize(
    "found",
    [
        process(11, "bash -l", RANK=0, WORLD_SIZE=2),
        process(11, "python notebook.py", SLURM_PROCID=0, SLURM_NTASKS=1),
        process(11, "python app.py"),
        process(11, "srun --pty bash"),
        process(11, "accelerate config"),
        process(11, "python -m http.server 29500"),
    ],
)
def test_what_is_no_job_is_none(found: Process) -> None:
    assert find_jobs([node(found)]) == ()


def test_a_scheduler_s_number_is_torchrun_s_own_and_not_its_child_s() -> None:
    """`srun torchrun`: what torchrun starts beside ranks has the number of its task, and was rank 0 of 8 nodes."""
    task = {"SLURM_PROCID": 0, "SLURM_NTASKS": 8, "SLURM_LOCALID": 0}
    above = process(10, "torchrun --nnodes 8 --nproc-per-node 2 --rdzv-backend c10d train.py", **task)
    beside = process(11, "python -c serve()", parent=10, **task)
    first = process(12, "python train.py", parent=10, **task, RANK=0, WORLD_SIZE=16, LOCAL_RANK=0)
    assert ranks(only(find_jobs([node(above, beside, first)]))) == [(0, 0, 12)]
    assert not any(number == 0 for _, number, _ in ranks(only(find_jobs([node(above, beside)]))))


# ---------------------------------------------------------------- several nodes


def pair(address_b: str = "10.0.0.1", *, port_b: int = 29500, options_b: str = "", **more: Any) -> list[NodeProcesses]:
    """Two nodes of a static rendezvous; what differs on b."""
    options = "--nnodes 2 --nproc-per-node 1 --master-port 29500"
    a = [torchrun(10, f"{options} --node-rank 0 --master-addr 10.0.0.1"), rank(11, 10, 0)]
    options_b = (
        options_b or f"--nnodes 2 --nproc-per-node 1 --node-rank 1 --master-addr {address_b} --master-port {port_b}"
    )
    b = [
        torchrun(10, options_b),
        rank(11, 10, more.pop("rank_b", 1), more.pop("size_b", 2), address=address_b, port=port_b, local=0),
    ]
    return [node(*a), node(*b, name="b")]


@pytest.mark.parametrize(
    "nodes",
    [
        pair(),
        pair("head-node"),  # a name on one, a number on the other
        pair("10.0.9.9"),  # a wrong address
        pair("localhost"),  # a loopback one
        pair(size_b=4),  # a wrong world size
        pair(rank_b=0),  # the same node rank twice
    ],
)
def test_two_nodes_are_one_job_though_one_is_told_wrong(nodes: list[NodeProcesses]) -> None:
    job = only(find_jobs(nodes))
    assert [(member.node, member.process.pid) for member in job.members if member.role == "rank"] == [(0, 11), (1, 11)]
    assert job.master_port == 29500


@pytest.mark.parametrize(("address", "jobs"), [("10.0.0.1", 1), ("10.0.9.9", 2), ("localhost", 2)])
def test_ranks_of_two_programs_are_one_job_by_their_master_alone(address: str, jobs: int) -> None:
    """A generator beside a trainer; nothing else says that they belong together."""
    other = process(11, f"{PYTHON} generate.py", **told(1, 2, address=address, local=0))
    assert len(find_jobs([node(rank(11, 1, 0)), node(other, name="b")])) == jobs


def test_single_node_jobs_on_two_nodes_with_the_same_port_are_two() -> None:
    def alone(name: str) -> NodeProcesses:
        found = [rank(pid, 10, number, address="127.0.0.1") for number, pid in enumerate((11, 12))]
        return node(torchrun(10, "--nproc-per-node 2"), *found, name=name)

    assert len(find_jobs([alone("a"), alone("b")])) == 2


def test_agents_that_wait_for_each_other_under_one_run_id_are_one_job() -> None:
    options = "--nnodes 2 --rdzv-backend c10d --rdzv-id exp --rdzv-endpoint h1:29400"
    small = rank(11, 10, 0, 1, port=40001, TORCHELASTIC_RUN_ID="exp")  # trains alone, in a world of one
    job = only(find_jobs([node(torchrun(10, options), small), node(torchrun(10, options), name="b")]))
    assert [member.node for member in job.members if member.role == "launcher"] == [0, 1]


def test_slurm_steps_are_told_apart() -> None:
    def step(number: int, pid: int, address: str, name: str, of: int) -> Process:
        variables = {"SLURM_JOB_ID": 77, "SLURM_STEP_ID": number, "SLURM_PROCID": of, "SLURM_NTASKS": 2}
        return process(pid, "python t.py", MASTER_ADDR=address, MASTER_PORT=29500 + number, **variables)

    nodes = [
        node(step(0, 11, "h1", "a", 0), step(1, 21, "h1", "a", 0)),
        node(step(0, 11, "h1", "b", 1), step(1, 21, "h1", "b", 1), name="b"),
    ]
    jobs = find_jobs(nodes)
    assert sorted(job.id for job in jobs) == ["slurm 77.0", "slurm 77.1"]
    assert all(job.slurm_job == "77" and len(ranks(job)) == 2 for job in jobs)


def test_srun_in_the_batch_script_belongs_to_its_ranks() -> None:
    srun = process(5, "srun python train.py", SLURM_JOB_ID=77)
    variables = {"SLURM_JOB_ID": 77, "SLURM_STEP_ID": 0, "SLURM_NTASKS": 2}
    tasks = [process(11, "python train.py", SLURM_PROCID=n, **variables) for n in (0, 1)]
    job = only(find_jobs([node(srun, tasks[0]), node(tasks[1], name="b")]))
    assert roles(job)[5] == "launcher" and len(ranks(job)) == 2


def test_a_process_that_several_agents_see_is_counted_where_its_network_is() -> None:
    mine = [rank(11, 1, 0, network_namespace="net:[1]"), rank(12, 1, 1, network_namespace="net:[2]")]
    closed = rank(13, 1, 2, network_namespace="")
    seen = [*mine, closed]
    nodes = [
        node(*seen, name="a", boot="one", namespace="net:[9]"),
        node(*seen, name="b", boot="one", namespace="net:[1]"),
        node(*seen, name="c", boot="one", namespace="net:[2]"),
    ]
    assert ranks(only(find_jobs(nodes))) == [(1, 0, 11), (2, 1, 12), (0, 2, 13)]


def test_the_same_number_on_two_machines_is_two_processes() -> None:
    job = only(find_jobs([node(rank(11, 1, 0)), node(rank(11, 1, 1), name="b")]))
    assert ranks(job) == [(0, 0, 11), (1, 1, 11)]


def test_containers_of_one_machine_have_numbers_of_their_own() -> None:
    """Started in the same hundredth of a second, in namespaces of processes and of networks of their own."""
    one, other = (rank(11, 1, number, network_namespace=f"net:[{number}]") for number in range(2))
    nodes = [node(one, boot="one", namespace="net:[0]"), node(other, name="b", boot="one", namespace="net:[1]")]
    assert ranks(only(find_jobs(nodes))) == [(0, 0, 11), (1, 1, 11)]


def test_a_large_job_is_grouped_at_once() -> None:
    nodes = [
        node(
            torchrun(10, "--nnodes 128 --rdzv-id big --rdzv-endpoint h0:29400"),
            *(rank(11 + i, 10, n * 8 + i, 1024, local=i, TORCHELASTIC_RUN_ID="big") for i in range(8)),
            name=f"n{n}",
        )
        for n in range(128)
    ]
    assert len(ranks(only(find_jobs(nodes)))) == 1024


# ---------------------------------------------------------------- command lines


@pytest.mark.parametrize(
    ("line", "kind", "program"),
    [
        ("python /v/bin/torchrun --nproc-per-node 2 train.py --x 1", "torchrun", "train.py"),
        ("python3 -m torch.distributed.run --standalone --nproc_per_node=2 /w/train.py", "torchrun", "train.py"),
        ("python -u -m torch.distributed.launch --nnodes 2 -m pkg.train", "torchrun", "pkg.train"),
        ("python -um torch.distributed.run t.py", "torchrun", "t.py"),
        ("torchrun --no-python ./run.sh", "torchrun", "run.sh"),
        ("python /v/bin/accelerate launch --multi_gpu --num_processes 4 run.py", "accelerate", "run.py"),
        ("python /v/bin/accelerate config", "", "accelerate"),
        ("python /v/bin/deepspeed --num_gpus 4 ds.py", "deepspeed", "ds.py"),
        ("python -u -m deepspeed.launcher.launch --world_info=e30= ds.py", "deepspeed", "ds.py"),
        ("srun --nodes 2 python train.py", "srun", "train.py"),
        ("srun --pty bash", "", "srun"),
        ("mpirun -np 4 python t.py", "mpirun", "t.py"),
        ("python train.py torchrun", "", "train.py"),
        ("vim torchrun.py", "", "vim"),
        ("", "", ""),
    ],
)
def test_launchers_are_known_by_their_command(line: str, kind: str, program: str) -> None:
    command = tuple(line.split())
    assert commands.launcher(command) == kind
    assert commands.program_started(command) == program


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("torchrun --nnodes=2 t.py --nnodes 9", "nnodes", "2"),
        ("torchrun --nnodes 1:4 t.py", "nnodes", "1:4"),
        ("torchrun --rdzv_id x --rdzv-id y t.py", "rdzv-id", "y"),
        ("torchrun t.py --rdzv-id y", "rdzv-id", None),
        ("torchrun --standalone --nnodes 3 t.py", "nnodes", "3"),
    ],
)
def test_only_the_launchers_own_options_are_its(line: str, name: str, value: str | None) -> None:
    assert commands.setting(tuple(line.split()), {}, name) == value


def test_a_command_line_is_kept_without_its_secrets() -> None:
    words = ("python", "t.py", "--wandb-key", "0123456789abcdef", "--url=https://u:pw@h/x", "y" * 9000, "--lr", "0.1")
    kept = keeping.recorded(words, own=True)
    assert kept[:3] == words[:3] and kept[3] == "***" and "pw" not in kept[4]
    assert len(kept[5]) == keeping.LONGEST_WORD and kept[6:] == ("--lr", "0.1")


@pytest.mark.parametrize(
    "line",
    [
        "python -m gpudoctor hang",
        "python -I -S /v/gpudoctor/run/relay.py /tmp 5",
        "python /v/bin/gpudoctor hang",
        "py-spy dump --pid 3",
        "srun gpudoctor agent",
    ],
)
def test_the_doctor_is_known(line: str) -> None:
    assert commands.is_doctor(tuple(line.split()))


# ---------------------------------------------------------------- whatever comes

SOME_WORDS = """python torchrun -m -c --rank 3 --nnodes=2 train.py torch.distributed.run srun bash -- accelerate launch
--rdzv-endpoint [::1]:x a:99999 --dist-url"""
SOME_NAMES = """RANK WORLD_SIZE LOCAL_RANK NODE_RANK MASTER_ADDR MASTER_PORT SLURM_PROCID SLURM_NTASKS SLURM_JOB_ID
SLURM_STEP_ID TORCHELASTIC_RUN_ID LOCAL_WORLD_SIZE PET_NNODES OMPI_COMM_WORLD_RANK"""
WORDS = st.sampled_from([*SOME_WORDS.split(), "", SPAWNED[2], FORKSERVER[2]])
NAMES = st.sampled_from(SOME_NAMES.split())
VALUES = st.one_of(st.sampled_from(["0", "1", "2", "29500", "localhost", "10.0.0.1", "none", ""]), st.text(max_size=6))
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 8),
    parent=st.integers(0, 8),
    started=st.integers(0, 3),
    age_seconds=st.floats(0, 1000),
    state=st.sampled_from("RSDTZ"),
    name=st.sampled_from(["python", "bash", "pt_data_worker", "x"]),
    command=st.lists(WORDS, max_size=5).map(tuple),
    environment=st.dictionaries(NAMES, VALUES, max_size=6),
    environment_read=st.booleans(),
    network_namespace=st.sampled_from(["", "net:[1]", "net:[2]"]),
    communicates=st.sampled_from([None, True, False]),
)
NODES = st.builds(
    NodeProcesses,
    hostname=st.just("h"),
    boot_id=st.sampled_from(["", "x", "y"]),
    network_namespace=st.sampled_from(["net:[1]", "net:[2]"]),
    processes=st.lists(PROCESSES, max_size=9).map(tuple),
)


@settings(max_examples=40, deadline=None)  # each is up to 27 processes, and making them is what takes the time
@given(st.lists(NODES, max_size=3))
def test_no_table_of_processes_breaks_the_grouping(nodes: list[NodeProcesses]) -> None:
    jobs = find_jobs(nodes)
    seen = [(member.node, member.process.pid, member.process.started) for job in jobs for member in job.members]
    assert len(seen) == len(set(seen))
    assert len({job.id for job in jobs}) == len(jobs)
    for job in jobs:
        masters(job)
        assert any(member.role in ("rank", "launcher") for member in job.members)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=8).map(tuple))
def test_no_command_line_breaks_the_reading(command: tuple[str, ...]) -> None:
    commands.launcher(command)
    commands.program_started(command)
    commands.names_ranks(command)
    commands.is_doctor(command)
    keeping.recorded(command, own=True)
    kept = keeping.recorded(command, own=False)
    assert keeping.recorded(kept, own=False) == kept


def test_a_launcher_that_was_asked_for_is_no_rank() -> None:
    """On a crowded machine it may have been found before its ranks were."""
    starter = process(10, "python3 -m torch.distributed.run --standalone --nproc_per_node=2 /w/train.py", alone=True)
    job = only(find_jobs([node(starter, rank(11, 10, 0, 2), rank(12, 10, 1, 2))]))
    assert [pid for _, _, pid in ranks(job)] == [11, 12]
