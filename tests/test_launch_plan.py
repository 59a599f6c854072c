"""What is planned from a wish and snapshots, and what each emitter says for which version."""

import socket

import pytest
from msgspec.structs import replace

from gpudoctor.launch import port, write
from gpudoctor.launch.decide import CannotPlan, Surroundings, decide
from gpudoctor.launch.environment import NAMES_DEVICES, naming_devices
from gpudoctor.launch.plan import CannotEmit, Emission, EnvVariable, LaunchPlan, LaunchWish
from gpudoctor.snapshot import Cgroup, CudaAnswer, Snapshot, absent, read
from gpudoctor.testing.machines import but, h100_node, unread
from tests.suggesting import environment


def node(gpus: int = 4, name: str = "n01") -> Snapshot:
    return but(h100_node(gpus), "host.hostname", name)


def around(*names: str, here: str = "n01", **more: object) -> Surroundings:
    return Surroundings(names=names, hosts_named=True, here=here, **more)  # type: ignore[arg-type]


def without_gpus(machine: Snapshot) -> Snapshot:
    machine = but(machine, "nvidia.gpus", absent("nvml", "no GPU"))
    return but(machine, "cuda.visible", CudaAnswer(100, "CUDA_ERROR_NO_DEVICE"))


def planned(wish: LaunchWish | None = None, machine: Snapshot | None = None, nodes: int = 2) -> LaunchPlan:
    names = tuple(f"n{number:02}" for number in range(1, nodes + 1))
    return decide(wish or LaunchWish(), {"n01": machine or node()}, around(*names))


def emitted(framework: str, plan: LaunchPlan) -> Emission:
    return write.emission(replace(plan, framework=framework))


def words_of(plan: LaunchPlan) -> str:
    return emitted("torchrun", plan).blocks[-1].text.splitlines()[-1]


# --- the plan ------------------------------------------------------------------------------------------------------


def test_ranks_are_the_gpus_that_a_program_sees_and_the_others_are_taken_for_alike() -> None:
    plan = planned()
    assert [each.processes for each in plan.nodes] == [4, 4]
    assert plan.world_size == 8
    assert any("n02 has 4 GPUs like n01" in each.claim for each in plan.unverified)


def test_each_known_node_counts_by_itself() -> None:
    plan = decide(LaunchWish(), {"n01": node(4), "n02": node(2, "n02")}, around("n01", "n02"))
    assert [each.processes for each in plan.nodes] == [4, 2]


def test_more_than_a_node_has_is_refused() -> None:
    with pytest.raises(CannotPlan, match=r"--gpus-per-node 5, but a program started on n01 gets 4 GPUs"):
        planned(LaunchWish(gpus_per_node=5))


def test_a_machine_without_gpu_has_one_process_or_what_was_asked_for() -> None:
    alone = planned(machine=without_gpus(node()))
    assert (alone.nodes[0].processes, alone.accelerator) == (1, "cpu")
    assert "no NVIDIA GPU" in alone.why["processes"]
    asked = planned(LaunchWish(gpus_per_node=4), without_gpus(node()))
    assert (asked.nodes[0].processes, asked.accelerator) == (4, "cuda")


def test_gpus_that_are_asked_for_where_there_are_none_are_not_taken_for_seen() -> None:
    plan = planned(LaunchWish(framework="lightning", gpus_per_node=2), without_gpus(node()))
    assert any(
        "n01 has 2 GPUs at the start; a program started there now gets none" in each.claim for each in plan.unverified
    )
    assert not any("at the start" in each.claim for each in planned(LaunchWish(gpus_per_node=2)).unverified)


def test_gpus_that_could_not_be_counted_are_asked_for() -> None:
    machine = but(but(node(), "nvidia.gpus", unread()), "cuda.visible", unread())
    with pytest.raises(CannotPlan, match="could not be counted: permission denied"):
        planned(machine=machine)
    assert planned(LaunchWish(gpus_per_node=2), machine).nodes[0].processes == 2


def test_visible_devices_of_the_shell_go_along() -> None:
    machine = environment(node(), CUDA_VISIBLE_DEVICES="2,3")
    machine = but(machine, "cuda.visible", unread())
    plan = planned(machine=machine)
    assert [each.processes for each in plan.nodes] == [2, 2]
    assert [(each.name, each.value) for each in plan.nodes[0].environment] == [("CUDA_VISIBLE_DEVICES", "2,3")]
    assert plan.nodes[1].environment == ()


def test_threads_are_the_cpus_that_are_granted() -> None:
    machine = but(node(), "host.cpus_allowed", tuple(range(64)))
    assert _value(planned(machine=but(machine, "host.cgroup", absent("cgroup", "none"))), "OMP_NUM_THREADS") == "16"
    limited = but(machine, "host.cgroup", Cgroup(2, cpu_limit=10.5))
    assert _value(planned(machine=limited), "OMP_NUM_THREADS") == "2"


def _value(plan: LaunchPlan, name: str) -> str:
    return next(each.value for each in plan.environment if each.name == name)


def test_the_address_is_the_default_routes_and_never_loopback() -> None:
    plan = planned()
    own = {each.address for interface in node().network.interfaces.value for each in interface.addresses}
    assert plan.master_address in own
    assert not plan.master_address.startswith("127.")
    assert "default route" in plan.why["master_address"]
    assert planned(nodes=1).master_address == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "the node itself"),
        ("localhost", "the node itself"),
        ("::1", "the node itself"),
        ("0.0.0.0", "every address"),
        ("me@host", "no host name"),
        ("tcp://10.0.0.1", "no host name"),
        ("3472853", "digits only"),
        ("198.51.100.77", "no interface of n01"),
    ],
)
def test_an_address_that_cannot_work_is_refused(address: str, why: str) -> None:
    with pytest.raises(CannotPlan, match=why):
        planned(LaunchWish(master_address=address))


def test_a_head_elsewhere_is_named_where_its_name_means_loopback_here() -> None:
    known = {"n01": node()}
    plan = decide(LaunchWish(), known, around("n00", "n01", addresses={"n00": "127.0.1.1"}))
    assert plan.master_address == "n00"
    assert "127.0.1.1" in plan.why["master_address"]
    seen = decide(LaunchWish(), known, around("n00", "n01", addresses={"n00": "192.0.2.9"}))
    assert seen.master_address == "192.0.2.9"


def test_a_port_is_free_and_outside_what_the_kernel_hands_out() -> None:
    machine = but(node(), "network.ephemeral_ports", (1024, 65000))
    assert 65000 < planned(machine=machine).master_port <= 65535
    assert 61000 <= planned().master_port <= 65535


def test_a_port_in_use_is_refused_and_one_that_clients_get_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert not port.is_free(taken)
        with pytest.raises(CannotPlan, match=f"--master-port {taken}: in use"):
            planned(LaunchWish(master_port=taken))
    assert "it may be taken" in decide(LaunchWish(master_port=40000), {}, far()).why["master_port"]


def far() -> Surroundings:
    return around("x", "y", here="", slots={"x": 1, "y": 1})


def test_a_login_node_tells_nothing_of_the_schedulers_nodes() -> None:
    with pytest.raises(CannotPlan, match="say how many GPUs each has with --gpus-per-node"):
        decide(LaunchWish(framework="slurm"), {"login": without_gpus(node())}, Surroundings(here="login"))
    plan = decide(
        LaunchWish(framework="slurm", gpus_per_node=8, nodes=2),
        {"login": without_gpus(node())},
        Surroundings(here="login"),
    )
    assert (plan.world_size, plan.environment, plan.cpus_per_process) == (16, (), 0)
    assert "--gres=gpu:8" in emitted("slurm", plan).files[0].text


def test_a_tpu_needs_no_gpus_and_takes_no_number_of_them() -> None:
    login = {"login": without_gpus(node())}
    plan = decide(LaunchWish(framework="xla"), login, Surroundings(here="login"))
    assert "PJRT_DEVICE=TPU" in emitted("xla", plan).blocks[0].text
    with pytest.raises(CannotPlan, match="a TPU has no GPUs"):
        decide(LaunchWish(framework="xla", gpus_per_node=4), login, Surroundings(here="login"))


def test_an_elastic_job_needs_as_many_nodes_as_it_may_have() -> None:
    with pytest.raises(CannotPlan, match="only 2 nodes may take part"):
        planned(LaunchWish(elastic=(1, 3)))


# --- by version ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "option"), [("1.13.1", "--node_rank=1"), ("2.4", "--node-rank=1")])
def test_torchruns_options_are_spelled_for_the_installed_torch(version: str, option: str) -> None:
    assert option in words_of(planned(LaunchWish(framework_version=version)))


def test_a_torch_without_torchrun_is_refused() -> None:
    with pytest.raises(CannotEmit, match=r"came with 1\.9"):
        words_of(planned(LaunchWish(framework_version="1.8.1")))
    assert "-m torch.distributed.run" in words_of(planned(LaunchWish(framework_version="1.9.0")))


def test_one_node_is_standalone_and_several_are_static() -> None:
    assert "--standalone --nproc-per-node=4 train.py" in words_of(planned(nodes=1))
    line = words_of(planned())
    assert "--nnodes=2 " in line
    assert "rdzv" not in line


def test_an_elastic_start_says_who_is_the_host() -> None:
    emission = emitted("torchrun", planned(LaunchWish(elastic=(1, 2))))
    first, second = (block.text.splitlines()[-1] for block in emission.blocks)
    assert "--nnodes=1:2 " in first
    assert "--rdzv-conf=is_host=1 " in first
    assert "--rdzv-conf=is_host=0 " in second
    assert "--rdzv-backend=c10d " in first


@pytest.mark.parametrize(
    ("version", "call"),
    [
        ("1.5.10", 'Trainer(gpus=4, num_nodes=2, strategy="ddp", precision=16)'),
        ("1.7.4", 'Trainer(accelerator="gpu", devices=4, num_nodes=2, strategy="ddp", precision=16)'),
        ("1.9.5", 'Trainer(accelerator="gpu", devices=4, num_nodes=2, strategy="ddp", precision=16)'),
        ("2.6.6", 'Trainer(accelerator="gpu", devices=4, num_nodes=2, strategy="ddp", precision="16-mixed")'),
    ],
)
def test_lightnings_trainer_is_spelled_for_the_installed_release(version: str, call: str) -> None:
    wish = LaunchWish(framework="lightning", framework_version=version, precision="fp16")
    emission = emitted("lightning", planned(wish))
    assert call in emission.code
    compile(emission.code, "code", "exec")
    for block in emission.blocks:
        line = block.text.splitlines()[-1]
        assert "LOCAL_RANK" not in line
        assert "WORLD_SIZE" not in line
        assert f"NODE_RANK={block.node} " in line


def test_lightning_before_strategies_and_fsdp_by_release() -> None:
    with pytest.raises(CannotEmit, match=r"no strategy="):
        emitted("lightning", planned(LaunchWish(framework="lightning", framework_version="1.4.9")))
    names = {"1.9.5": "fsdp_native", "2.1": "fsdp"}
    for version, name in names.items():
        wish = LaunchWish(framework="lightning", framework_version=version, strategy="fsdp")
        assert f'strategy="{name}"' in emitted("lightning", planned(wish)).code


def test_accelerates_number_of_processes_is_the_total_and_multi_gpu_is_said() -> None:
    line = emitted("accelerate", planned(LaunchWish(gpus_per_node=1))).blocks[1].text.splitlines()[-1]
    assert "--multi_gpu --num_machines 2 --num_processes 2 --machine_rank 1 " in line


@pytest.mark.parametrize(
    "framework", ["torchrun", "accelerate", "lightning", "spawn", "slurm", "deepspeed", "horovod", "mpirun"]
)
def test_leftovers_are_taken_out_and_what_the_launch_sets_is_not(framework: str) -> None:
    """`NODE_RANK=1 env -u NODE_RANK python` would start every node as the first."""
    plan = replace(planned(), leftovers=("NODE_RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"))
    found = emitted(framework, plan)
    text = "\n".join([*(block.text for block in found.blocks), *(file.text for file in found.files)])
    assert "-u LOCAL_RANK" in text or "unset LOCAL_RANK" in text
    for line in text.splitlines():
        before, _, taken = line.partition(" env -u ")
        set_before = {word.partition("=")[0] for word in before.split()}
        assert not set_before & set(taken.split())
    if framework == "slurm":
        assert "unset MASTER_" not in text


@pytest.mark.parametrize("name", ["xyz", "FSDP", "ddp_sharded_x"])
def test_lightning_2_gets_no_strategy_that_it_does_not_have(name: str) -> None:
    wish = LaunchWish(framework="lightning", strategy=name, framework_version="2.6")
    with pytest.raises(CannotEmit, match=f"--strategy {name}"):
        emitted("lightning", planned(wish))


@pytest.mark.parametrize("framework", ["deepspeed", "horovod", "mpirun", "slurm", "kubernetes", "ray", "torchx", "xla"])
def test_a_strategy_or_precision_that_is_not_written_down_is_not_dropped_silently(framework: str) -> None:
    plan = replace(planned(), framework=framework)
    with pytest.raises(CannotEmit, match="--strategy xyz"):
        emitted(framework, replace(plan, strategy="xyz"))
    emitted(framework, replace(plan, strategy="ddp"))
    assert write.notes(plan) == ()
    (told,) = write.notes(replace(plan, precision="bf16"))
    assert "--precision bf16" in told


def test_bf16_on_a_gpu_without_it_is_told_with_the_gpu() -> None:
    gpus = tuple(replace(gpu, compute_capability=read("nvml", (7, 0))) for gpu in node().nvidia.gpus.value)
    old = but(node(), "nvidia.gpus", gpus)
    wish = LaunchWish(framework="lightning", precision="bf16")
    (told,) = write.notes(planned(wish, old))
    assert "n01's NVIDIA H100" in told
    assert "compute capability 7.0" in told
    assert write.notes(planned(wish)) == ()
    assert write.notes(planned(LaunchWish(framework="lightning", precision="fp16"), old)) == ()


@pytest.mark.parametrize("framework", ["torchrun", "lightning", "accelerate", "spawn"])
def test_reasons_are_not_told_of_nodes_where_they_were_not_seen(framework: str) -> None:
    ifname = EnvVariable("GLOO_SOCKET_IFNAME", "eth0", "gloo would listen on 127.0.0.1")
    plan = planned()
    plan = replace(plan, environment=(ifname,), nodes=(plan.nodes[0], replace(plan.nodes[1], guessed=(ifname.name,))))
    head, other = (block.text for block in emitted(framework, plan).blocks)
    assert "# GLOO_SOCKET_IFNAME: gloo would listen" in head
    assert "gloo would listen" not in other
    assert "# GLOO_SOCKET_IFNAME: as on the nodes that were looked at; this one was not" in other


def test_nodes_that_were_not_looked_at_have_guessed_device_names() -> None:
    machine = environment(node(), GLOO_SOCKET_IFNAME="eth0")
    both = decide(LaunchWish(), {"n01": node(), "n02": node(4, "n02")}, around("n01", "n02"))
    assert [each.guessed for each in both.nodes] == [(), ()]
    shared = naming_devices((EnvVariable("GLOO_SOCKET_IFNAME", "eth0"), EnvVariable("NCCL_DEBUG", "INFO")))
    assert shared == ("GLOO_SOCKET_IFNAME",)
    names = {variable.name for variable in planned(machine=machine).environment}
    assert planned(machine=machine).nodes[1].guessed == tuple(name for name in NAMES_DEVICES if name in names)


@pytest.mark.parametrize("framework", ["lightning", "accelerate", "spawn", "slurm"])
def test_unequal_nodes_are_refused_where_the_framework_cannot(framework: str) -> None:
    plan = decide(LaunchWish(), {"n01": node(4), "n02": node(2, "n02")}, around("n01", "n02"))
    with pytest.raises(CannotEmit, match="2 to 4 processes"):
        emitted(framework, plan)


def test_mpirun_needs_names_and_says_the_slots() -> None:
    unnamed = decide(LaunchWish(nodes=2), {"n01": node()}, Surroundings(here="n01"))
    with pytest.raises(CannotEmit, match="--hosts"):
        emitted("mpirun", unnamed)
    assert " -np 8 -H n01:4,n02:4 -bind-to none " in emitted("mpirun", planned()).blocks[0].text


@pytest.mark.parametrize("gpus", [True, False])
def test_the_spawn_wrapper_is_python_and_counts_ranks_over_the_nodes(gpus: bool) -> None:
    code = emitted("spawn", planned(machine=node() if gpus else without_gpus(node()))).code
    compile(code, "code", "exec")
    assert "* PROCESSES + local_rank" in code
    assert ("nccl" in code, "gloo" in code) == (gpus, not gpus)


def test_batch_scripts_expand_ranks_in_the_tasks() -> None:
    files = emitted("slurm", planned()).files
    for file in files:
        srun = next(line for line in file.text.splitlines() if line.startswith("srun "))
        assert "SLURM_PROCID" not in file.text.replace(srun, "")
        quoted = srun.partition("bash -c ")[2]
        assert quoted.startswith("'")
    assert "#SBATCH --ntasks-per-node=1" in files[0].text
    assert "#SBATCH --ntasks-per-node=4" in files[1].text


def test_everybody_draws_the_same_port_for_a_job() -> None:
    """Two people, or one on each node, plan without a word to each other: their lines must meet."""
    one = port.choose(None, False, job="n01 n02 train.py")
    assert {port.choose(None, False, job="n01 n02 train.py").port for _ in range(5)} == {one.port}
    assert len({port.choose(None, False, job=f"n01 n02 train{number}.py").port for number in range(20)}) > 15
