"""What `gpudoctor env` suggests: only what is needed, each with its reason, and never by what was not read."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.knowledge.suggest.suggestions import RULES, suggest
from gpudoctor.snapshot import (
    AcsBridge,
    Cgroup,
    PeerAccess,
    Snapshot,
    Space,
    absent,
    read,
)
from gpudoctor.testing.machines import MIB, but, h100_node, node, rtx_4090_node, t4_node, unread
from gpudoctor.testing.networks import (
    interface,
    nccl_files,
    with_interfaces,
    with_network,
)
from tests.machines.hand_built import MACHINES
from tests.machines.network_machines import NETWORK_MACHINES
from tests.suggesting import applied, environment, nccl, only, values

EVERY_MACHINE: Mapping[str, Snapshot] = {
    **{name: build() for name, build in {**MACHINES, **NETWORK_MACHINES}.items()},
    "h100": h100_node(),
    "t4": t4_node(),
}


BRIDGED = with_interfaces(
    t4_node(),
    interface("br-1f00", "172.18.0.1/16", kind="bridge"),
    interface("ens5", "192.0.2.11/24", speed_mbps=10_000),
)
FAST_AND_SLOW = with_interfaces(
    t4_node(),
    interface("eno1", "192.0.2.11/24", speed_mbps=1_000),
    interface("ens1f0", "198.51.100.11/24", speed_mbps=25_000),
    interface("ens1f1", "203.0.113.11/24", speed_mbps=25_000),
)


# ---------------------------------------------------------------- nothing, where NCCL is right


@pytest.mark.parametrize("machine", [h100_node(), h100_node(1), t4_node(), rtx_4090_node()])
def test_says_nothing_on_a_healthy_machine_and_that_nothing_is_needed(machine: Snapshot) -> None:
    advice = suggest(machine)
    assert (advice.suggestions, advice.present, advice.unjudged) == ((), (), ())
    assert advice.silent.startswith("Nothing to set: NCCL's own choices are right")


def test_says_what_nccl_takes_by_itself() -> None:
    assert "ens5" in suggest(t4_node()).silent
    assert "mlx5_7 for data, eth0 to connect the ranks" in suggest(h100_node()).silent


@pytest.mark.parametrize("nodes", [None, 1])
def test_a_machine_without_gpus_needs_nothing(nodes: int | None) -> None:
    advice = suggest(node(()), nodes)
    assert not advice.suggestions
    assert "no NVIDIA GPU" in advice.silent


@pytest.mark.parametrize("name", EVERY_MACHINE)
@pytest.mark.parametrize("nodes", [None, 1, 2])
def test_once_everything_is_set_nothing_is_left_to_suggest(name: str, nodes: int | None) -> None:
    machine = EVERY_MACHINE[name]
    first = suggest(machine, nodes)
    second = suggest(applied(machine, first), nodes)
    assert second.suggestions == ()
    assert {each.name for each in first.suggestions} <= {each.name for each in second.present}


@pytest.mark.parametrize("name", EVERY_MACHINE)
def test_every_suggestion_says_what_was_seen_for_whom_and_how_to_verify(name: str) -> None:
    for suggestion in suggest(EVERY_MACHINE[name], debug=True).suggestions:
        assert suggestion.reason.endswith(".")
        assert "NCCL" in suggestion.holds_for or "PyTorch" in suggestion.holds_for
        assert suggestion.verify and not suggestion.verify.endswith(".")


# ---------------------------------------------------------------- what was not read


@pytest.mark.parametrize("name", ["network-dgx-h100", "network-many-bridges", "network-tcp-100g", "laptop"])
def test_a_lost_fact_is_named_and_never_taken_for_a_healthy_one(name: str) -> None:
    machine = EVERY_MACHINE[name]
    whole = values(suggest(machine, 2))
    for section in ("network", "host", "nvidia", "training"):
        for field in getattr(machine, section).__struct_fields__:
            advice = suggest(but(machine, f"{section}.{field}", unread()), 2)
            assert advice.silent or advice.unjudged or advice.suggestions
            if not whole.keys() <= values(advice).keys() | {each.name for each in advice.present}:
                assert advice.unjudged, (section, field)
                assert not advice.silent


def test_an_empty_snapshot_says_what_could_not_be_judged() -> None:
    advice = suggest(Snapshot(), debug=True)
    judged = {name for each in advice.unjudged for name in each.what.split(", ")}
    assert {name for entry in RULES for name in entry.names} <= judged
    assert advice.silent == ""


def test_an_absurd_file_silences_one_rule_only() -> None:
    bridges = (AcsBridge("absurd", True),)
    machine = but(rtx_4090_node(2), "host.acs_bridges", bridges)
    advice = suggest(environment(machine, NCCL_SOCKET_IFNAME="absurd"))
    assert values(advice) == {"NCCL_SOCKET_IFNAME": "=enp6s0"}
    assert [each.what for each in advice.unjudged] == ["NCCL_P2P_LEVEL, NCCL_P2P_DISABLE"]


# ---------------------------------------------------------------- interfaces


def test_a_bridge_that_comes_first_is_replaced_by_the_way_out() -> None:
    found = only(suggest(BRIDGED), "NCCL_SOCKET_IFNAME")
    assert found.value == "=ens5"
    assert "br-1f00" in found.reason and "192.0.2.11" in found.reason


def test_one_node_needs_no_interface() -> None:
    assert suggest(BRIDGED, 1).suggestions == ()
    assert suggest(environment(BRIDGED, SLURM_NNODES="1")).suggestions == ()
    assert suggest(environment(BRIDGED, WORLD_SIZE="8", LOCAL_WORLD_SIZE="8")).suggestions == ()
    assert values(suggest(environment(BRIDGED, SLURM_NNODES="2"))) == {"NCCL_SOCKET_IFNAME": "=ens5"}


def test_the_scope_is_said() -> None:
    assert "as asked for" in suggest(BRIDGED, 1).scope
    assert "several nodes are taken to be possible" in suggest(BRIDGED).scope
    assert "shows a launch over more than one" in suggest(environment(BRIDGED, SLURM_NNODES="2")).scope


def test_slow_interfaces_are_left_out_where_data_goes_over_tcp() -> None:
    found = only(suggest(FAST_AND_SLOW), "NCCL_SOCKET_IFNAME")
    assert found.value == "=ens1f0,ens1f1"
    assert "eno1 sets the pace" in found.reason


def test_what_somebody_chose_and_works_is_left_alone() -> None:
    advice = suggest(environment(FAST_AND_SLOW, NCCL_SOCKET_IFNAME="eno1"))
    assert advice.suggestions == ()
    (kept,) = advice.present
    assert (kept.value, kept.origin, kept.suggested) == ("eno1", "environment", "=ens1f0,ens1f1")


def test_what_is_set_and_leads_nowhere_is_replaced() -> None:
    found = only(suggest(environment(t4_node(), NCCL_SOCKET_IFNAME="eth0")), "NCCL_SOCKET_IFNAME")
    assert (found.value, found.replaces, found.replaces_from) == ("=ens5", "eth0", "environment")


def test_a_file_s_setting_counts_and_is_named() -> None:
    machine = with_network(t4_node(), nccl_files=nccl_files(system={"NCCL_SOCKET_IFNAME": "eth0"}))
    assert only(suggest(machine), "NCCL_SOCKET_IFNAME").replaces_from == "/etc/nccl.conf"
    machine = with_network(BRIDGED, nccl_files=nccl_files(system={"NCCL_SOCKET_IFNAME": "=ens5"}))
    advice = suggest(machine)
    assert advice.suggestions == ()
    assert [each.origin for each in advice.present] == ["/etc/nccl.conf"]


def test_rdma_needs_one_interface_only() -> None:
    machine = with_interfaces(
        h100_node(), interface("br-0", "172.18.0.1/16", kind="bridge"), interface("eth0", "192.0.2.11/24"),
        interface("eth1", "198.51.100.1/24"),
    )  # fmt: skip
    assert values(suggest(machine)) == {"NCCL_SOCKET_IFNAME": "=eth0"}


def test_gloo_s_hostname_trap() -> None:
    machine = but(t4_node(), "host.hostname_addresses", ("127.0.1.1",))
    found = only(suggest(machine), "GLOO_SOCKET_IFNAME")
    assert found.value == "ens5"
    assert "127.0.1.1" in found.reason
    assert suggest(machine, 1).suggestions == ()


def test_nothing_leads_out() -> None:
    advice = suggest(with_interfaces(t4_node(), interface("docker0", "172.17.0.1/16", kind="docker")))
    assert advice.suggestions == ()
    assert "no interface has an address" in advice.unjudged[0].reason


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"speed_mbps": 100_000}, {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}),
        ({"speed_mbps": 50_000}, set()),
        ({"speed_mbps": None}, set()),
        ({"speed_mbps": 100_000, "driver": "ena"}, set()),
        ({"speed_mbps": 100_000, "driver": "gve"}, set()),
    ],
)
def test_more_sockets_on_100g_unless_nccl_knows_the_vendor(fields: dict[str, Any], names: set[str]) -> None:
    machine = with_interfaces(t4_node(), interface("ens5", "192.0.2.11/24", **fields))
    assert set(values(suggest(machine))) == names


# ---------------------------------------------------------------- work-arounds and threads


def test_acs_is_worked_around_with_the_cure_beside_it() -> None:
    bridges = (AcsBridge("0000:16:00.0", False), AcsBridge("0000:17:00.0", False), AcsBridge("0000:18:04.0", True))
    machine = but(rtx_4090_node(2), "host.acs_bridges", bridges)
    found = only(suggest(machine, 1), "NCCL_P2P_DISABLE")
    assert (found.value, found.kind) == ("1", "work-around")
    assert "The cure is to turn ACS off" in found.reason
    assert suggest(but(machine, "host.virtualization", "kvm"), 1).suggestions == ()
    peers = (*machine.nvidia.peers.value, PeerAccess(0, 2, "ok", "ok"))
    assert values(suggest(but(machine, "nvidia.peers", peers), 1)) == {"NCCL_P2P_LEVEL": "NVL"}


def test_a_container_s_tiny_shared_memory() -> None:
    tiny = read("statvfs /dev/shm", Space(64 * MIB, 64 * MIB))
    machine = but(rtx_4090_node(2), "host.shared_memory", tiny)
    assert suggest(machine, 1).suggestions == ()
    machine = but(machine, "host.container", "docker")
    assert suggest(machine, 1).suggestions == ()  # P2P works, nothing goes through /dev/shm
    apart = tuple(replace(peer, read="chipset-not-supported") for peer in machine.nvidia.peers.value)
    machine = but(machine, "nvidia.peers", apart)
    found = only(suggest(but(machine, "training.torch.nccl_version", (2, 27, 5)), 1), "NCCL_SHM_DISABLE")
    assert found.kind == "work-around" and "--shm-size=2g" in found.reason
    advice = suggest(but(machine, "training.torch.nccl_version", (2, 28, 9)), 1)
    assert not advice.suggestions and "only --shm-size=2g or --ipc=host helps" in advice.unjudged[0].reason


@pytest.mark.parametrize(
    ("variables", "quota", "value"),
    [
        ({}, None, None),
        ({"OMP_NUM_THREADS": "14"}, None, None),
        ({"OMP_NUM_THREADS": "112"}, None, "14"),
        ({"OMP_NUM_THREADS": "absurd"}, None, None),
        ({"OMP_NUM_THREADS": "9" * 5000}, None, None),
        ({"OMP_NUM_THREADS": "16", "LOCAL_WORLD_SIZE": "4"}, None, None),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, None, "56"),
        ({}, 16.0, "2"),
        ({}, 0.5, "1"),
        ({"OMP_NUM_THREADS": "2"}, 16.0, None),
        ({"SLURM_NTASKS_PER_NODE": "4"}, None, "28"),
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_CPUS_PER_TASK": "28"}, None, "28"),
        ({"SLURM_NTASKS_PER_NODE": "4", "SLURM_CPUS_PER_TASK": "112"}, None, None),  # bound by srun
        ({"LOCAL_WORLD_SIZE": "²"}, None, None),
    ],
)
def test_threads_are_shared_between_the_ranks(
    variables: dict[str, str], quota: float | None, value: str | None
) -> None:
    machine = environment(but(h100_node(), "host.cgroup", Cgroup(2, cpu_limit=quota)), **variables)
    assert values(suggest(machine, 1)).get("OMP_NUM_THREADS") == value


@pytest.mark.parametrize("inside", ["ovn-k8s-mp0", "antrea-gw0"])
def test_the_port_of_an_open_vswitch_into_the_pods_leads_nowhere(inside: str) -> None:
    nics = (interface("br-ex", "192.0.2.11/24", kind="other"), interface(inside, "10.128.0.2/23", kind="other"))
    assert values(suggest(with_interfaces(t4_node(), *nics))) == {"NCCL_SOCKET_IFNAME": "=br-ex"}


def test_ranks_that_mpirun_bound_to_some_cpus_are_left_alone() -> None:
    half = but(h100_node(), "host.cpus_allowed", tuple(range(56)))
    for variables in ({}, {"OMP_NUM_THREADS": "14"}):
        assert suggest(environment(half, OMPI_COMM_WORLD_LOCAL_SIZE="8", **variables), 1).suggestions == ()


# ---------------------------------------------------------------- debugging


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        ("2.13.0+cu130", {"TORCH_FR_DUMP_TEMP_FILE": "/tmp/torch_trace_rank_", "TORCH_DISTRIBUTED_DEBUG": "INFO"}),
        (
            "2.7.1",
            {
                "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
                "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/nccl_trace_rank_",
                "TORCH_DISTRIBUTED_DEBUG": "INFO",
            },
        ),
        ("2.1.2", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    ],
)
def test_debugging_follows_torch_s_version(torch: str, wanted: dict[str, str]) -> None:
    found = values(suggest(nccl(h100_node(), (2, 26, 2), torch), debug=True))
    assert {name: value for name, value in found.items() if name.startswith("TORCH_")} == wanted
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["NCCL_DEBUG_FILE"] == "/tmp/nccl.%h.%p.log"


def test_debugging_works_without_knowing_torch_and_replaces_what_is_set() -> None:
    machine = environment(but(h100_node(), "training.torch", unread()), NCCL_DEBUG="WARN", TMPDIR="/scratch/")
    machine = but(machine, "training.torch_files", absent("worker", "no torch"))
    advice = suggest(machine, debug=True)
    assert only(advice, "NCCL_DEBUG").replaces == "WARN"
    assert values(advice)["NCCL_DEBUG_FILE"] == "/scratch/nccl.%h.%p.log"
    assert values(advice)["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"
    repeated = suggest(environment(machine, NCCL_DEBUG="INFO"), debug=True)
    assert "NCCL_DEBUG" not in values(repeated)
    assert [each.name for each in repeated.present] == ["NCCL_DEBUG"]
