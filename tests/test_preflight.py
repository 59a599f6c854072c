"""What the preflight judges, on hand-made nodes: pure functions, no fleet."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet.clocks import ClockOffset
from gpudoctor.fleet.messages import Target, Touched
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.preflight_addresses import address_findings, reachable_addresses, taken
from gpudoctor.nccl.preflight_clocks import clock_findings
from gpudoctor.nccl.preflight_names import is_address, name_findings
from gpudoctor.nccl.preflight_nodes import Nodes, under
from gpudoctor.nccl.preflight_pairs import ALL_PAIRS_UP_TO, RANDOM_PEERS, cuts, pairs
from gpudoctor.nccl.preflight_ports import port_findings, untried_finding
from gpudoctor.nccl.preflight_settings import settings_findings
from gpudoctor.nccl.preflight_versions import version_findings
from gpudoctor.snapshot import Snapshot, TorchFiles, absent, read
from gpudoctor.testing.machines import but, gpu, h100_node, node, unread
from gpudoctor.testing.networks import changed_interface, interface, with_interfaces

NAMES = ("n01", "n02", "n03")


def machine(number: int) -> Snapshot:
    """A healthy 8xH100 with its own address and name."""
    address = f"192.0.2.{10 + number}"
    made = with_interfaces(h100_node(), interface("eth0", f"{address}/24"))
    made = but(made, "host.hostname", read("uname", f"n{number:02d}"))
    return but(made, "host.hostname_addresses", read("getaddrinfo", (address,)))


def cluster(backend: Any = "nccl", how: str = "ssh", **changed: Callable[[Snapshot], Snapshot]) -> Nodes:
    """Three healthy nodes, one of them changed: n02=lambda machine: ..."""
    made = {name: machine(number) for number, name in enumerate(NAMES, start=1)}
    return Nodes(made | {name: change(made[name]) for name, change in changed.items()}, backend, how)


def judged(nodes: Nodes, between: Any = None, python: str = "") -> list[Finding]:
    choices = {name: taken(snapshot, nodes.backend) for name, snapshot in nodes.snapshots.items()}
    found = [*version_findings(nodes, python), *address_findings(nodes, choices), *settings_findings(nodes)]
    return found + list(port_findings(nodes, choices, between or {}, {}, 61234))


def one(found: list[Finding]) -> Finding:
    assert [each.id for each in found] == [found[0].id] if found else False, found
    return found[0]


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_healthy_nodes_give_no_word(backend: str) -> None:
    nodes = cluster(backend)
    assert judged(nodes) == []
    choices = {name: taken(snapshot, backend) for name, snapshot in nodes.snapshots.items()}
    assert reachable_addresses(nodes, choices) == {f"n0{n}": f"192.0.2.{10 + n}" for n in (1, 2, 3)}


def test_what_is_unread_is_not_judged() -> None:
    def blind(machine: Snapshot) -> Snapshot:
        for path in ("network.interfaces", "nvidia.gpus", "training.torch", "training.torch_files", "environment"):
            machine = but(machine, path, unread())
        return but(machine, "training.libraries", unread())

    assert judged(cluster(n02=blind)) == []


# --- versions -----------------------------------------------------------------------------------------------------


def test_another_gpudoctor() -> None:
    found = one(judged(cluster(n02=lambda machine: but(machine, "gpudoctor", "0.0.9"))))
    assert (found.id, found.nodes, found.problem.severity) == ("gpudoctor-versions-differ", ("n02",), "error")
    assert found.problem.summary.startswith("n02 has gpudoctor 0.0.9, n[01,03] have ")
    assert found.problem.fix.commands[0].startswith("ssh n02 'python3 -m pip install gpudoctor==")


def torch(**facts: Any) -> Callable[[Snapshot], Snapshot]:
    def change(machine: Snapshot) -> Snapshot:
        known = msgspec.structs.replace(machine.training.torch.value, **facts)
        return but(machine, "training.torch", read("torch", known))

    return change


def reads(path: str, value: Any) -> Callable[[Snapshot], Snapshot]:
    """A machine of which this was read instead."""
    return lambda machine: but(machine, path, read("test", value))


def other_nccl(machine: Snapshot) -> Snapshot:
    changed = torch(nccl_version=(2, 18, 1), loaded_libraries={})(machine)
    return but(changed, "training.libraries", read("ld", ()))


def no_torch(machine: Snapshot) -> Snapshot:
    machine = but(machine, "training.torch_files", absent("site-packages", "no torch"))
    machine = but(machine, "training.libraries", read("ld", ()))
    return but(machine, "training.torch", absent("import torch", "no torch"))


def no_gpu(machine: Snapshot) -> Snapshot:
    return but(machine, "nvidia.gpus", absent("nvml", "no NVIDIA GPU"))


TORCH, NCCL = "torch-versions-differ", "nccl-versions-differ-between-nodes"
OTHER = [
    # the backend, how n02 is changed, the finding, its severity, the beginning of its summary
    ("nccl", torch(version="2.4.1"), TORCH, "error", "n02 has torch 2.4.1, n[01,03] have "),
    ("nccl", torch(version="2.13.1"), TORCH, "warning", "n02 has torch 2.13.1, n[01,03] have "),
    ("nccl", other_nccl, NCCL, "error", "n02 has NCCL 2.18.1, "),
    ("gloo", other_nccl, NCCL, "info", "n02 has NCCL 2.18.1, "),
    ("nccl", no_torch, "torch-missing", "error", "n02 has no torch in "),
    ("nccl", torch(cuda_version="12.6"), "cuda-versions-differ", "warning", "n02 has a torch for CUDA 12.6, "),
    ("nccl", reads("training.python_version", "3.9.1"), "python-versions-differ", "info", "n02 has Python 3.9, "),
    ("nccl", reads("nvidia.gpus", tuple(map(gpu, range(7)))), "gpus-differ-between-nodes", "warning",
     "n02 has 7x NVIDIA H100"),
    ("nccl", no_gpu, "node-without-gpu", "error", "n02 has no GPU "),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "change", "id", "severity", "words"), OTHER)
def test_a_node_that_has_another(backend: str, change: Any, id: str, severity: str, words: str) -> None:
    found = one(judged(cluster(backend, n02=change)))
    assert (found.id, found.nodes, found.problem.severity) == (id, ("n02",), severity)
    assert found.problem.summary.startswith(words), found.problem.summary


def test_another_interpreter_than_asked_for() -> None:
    python = machine(1).training.python.value
    moved = cluster(n02=lambda machine: but(machine, "training.python", read("which", "/usr/bin/python3")))
    found = one(judged(moved, python=python))
    assert (found.id, found.nodes) == ("interpreter-missing-on-node", ("n02",))
    assert f"{python} cannot be run on n02, where /usr/bin/python3 was found" in found.problem.summary


# --- clocks -------------------------------------------------------------------------------------------------------


def offsets(*seconds: float, uncertainty: float = 0.01) -> dict[str, ClockOffset]:
    return {f"n{number:02d}": ClockOffset(each, uncertainty) for number, each in enumerate(seconds, start=1)}


@pytest.mark.parametrize(
    ("seconds", "severity", "named"),
    [
        ((0, 0, 4.9), None, ()),
        ((0, 0, 5.1), "warning", ("n03",)),
        ((0, 0, -14), "warning", ("n03",)),
        ((0, 0, 15.1), "error", ("n03",)),
        ((100, 100, 100), None, ()),  # the machine that measures is no node
        ((0, 8), "warning", ("n02",)),
        ((0, 0, 10, -10), "error", ("n03", "n04")),
    ],
)
def test_clocks(seconds: tuple[float, ...], severity: str | None, named: tuple[str, ...]) -> None:
    found = list(clock_findings(cluster(), offsets(*seconds)))
    assert [(each.problem.severity, each.nodes) for each in found] == ([(severity, named)] if severity else [])


def test_a_clock_that_is_measured_badly_is_not_blamed() -> None:
    assert list(clock_findings(cluster(), offsets(0, 0, 6, uncertainty=2.0))) == []


@given(st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_no_offsets_break_it(seconds: list[float]) -> None:
    nodes = Nodes({f"n{number:02d}": Snapshot() for number in range(1, 21)}, "nccl", "ssh")
    for found in clock_findings(nodes, offsets(*seconds)):
        assert found.nodes


# --- names --------------------------------------------------------------------------------------------------------


def test_names_that_resolve_alike_give_no_word() -> None:
    alike = dict.fromkeys(NAMES, ("192.0.2.11",))
    assert list(name_findings(cluster(), "n01", alike, is_used=True)) == []
    # The head's own name is often a loopback address on itself; others in another order are round robin.
    assert list(name_findings(cluster(), "n01", alike | {"n01": ("127.0.1.1",)}, is_used=True)) == []
    many = {"n01": ("10.0.0.1", "10.0.0.2"), "n02": ("10.0.0.2", "10.0.0.1"), "n03": ("10.0.0.1",)}
    assert list(name_findings(cluster(), "n01", many, is_used=True)) == []


def test_a_name_at_loopback_elsewhere() -> None:
    resolved = {"n01": ("192.0.2.11",), "n02": ("127.0.0.1",), "n03": ("192.0.2.11",)}
    (found,) = name_findings(cluster(), "n01", resolved, is_used=True)
    assert (found.id, found.nodes, found.problem.severity) == ("master-addr-loopback", ("n02",), "error")


@pytest.mark.parametrize("how", ["local", "ssh"])
def test_a_name_that_is_asked_for_must_resolve_on_a_single_node(how: str) -> None:
    alone = Nodes({"n01": machine(1)}, "nccl", how)
    (found,) = name_findings(alone, "head.example", {"n01": ()}, is_used=True)
    assert (found.id, found.nodes, found.problem.severity) == ("master-addr-unresolvable", ("n01",), "error")
    assert "the others" not in found.problem.meaning
    assert list(name_findings(alone, "head.example", {"n01": ("127.0.0.1",)}, is_used=True)) == []


def test_a_look_up_that_does_not_end_is_no_answer() -> None:
    resolved = {"n01": ("192.0.2.11",), "n03": ("192.0.2.11",)}
    (found,) = name_findings(cluster(), "head.example", resolved, is_used=True)
    assert (found.id, found.nodes, found.problem.severity) == ("master-addr-unresolvable", ("n02",), "error")
    assert "did not end in time" in found.problem.summary
    assert list(name_findings(cluster(), "n01", resolved, is_used=False)) == []


def test_stand_ins_on_one_machine_are_not_apart() -> None:
    assert list(name_findings(cluster(how="local"), "n01", dict.fromkeys(NAMES, ()), is_used=False)) == []


@pytest.mark.parametrize(("text", "expected"), [("10.0.0.1", True), ("fd00::1", True), ("n01", False), ("n1.x", False)])
def test_addresses_are_told_from_names(text: str, expected: bool) -> None:
    assert is_address(text) is expected


# --- addresses ----------------------------------------------------------------------------------------------------


def renamed(machine: Snapshot) -> Snapshot:
    return with_interfaces(machine, interface("ens3", "192.0.2.13/24"))


@pytest.mark.parametrize(("backend", "variable"), [("nccl", "NCCL_SOCKET_IFNAME"), ("gloo", "GLOO_SOCKET_IFNAME")])
def test_a_named_interface_that_one_node_lacks(backend: str, variable: str) -> None:
    nodes = cluster(backend, n03=renamed)
    named = {name: under(snapshot, {variable: "eth0"}) for name, snapshot in nodes.snapshots.items()}
    found = judged(Nodes(named, nodes.backend, "ssh"))[0]
    assert (found.id, found.nodes, found.problem.severity) == ("socket-interface-missing", ("n03",), "error")
    assert "'eth0'" in found.problem.summary
    assert "ens3" in found.problem.summary


def test_an_mtu_that_differs() -> None:
    found = one(judged(cluster(n02=lambda machine: changed_interface(machine, "eth0", mtu=9000))))
    assert (found.id, found.nodes) == ("mtu-mismatch", ("n02",))
    assert found.problem.summary == "eth0 of n02 has MTU 9000, eth0 of n[01,03] has MTU 1500"
    assert "ssh -t n02 'sudo ip link set eth0 mtu 1500'" in found.problem.fix.commands


def test_gloo_at_the_loopback_address() -> None:
    nodes = cluster("gloo", n02=lambda machine: but(machine, "host.hostname_addresses", read("ga", ("127.0.1.1",))))
    found = one(judged(nodes))
    assert (found.id, found.nodes, found.problem.severity) == ("hostname-loopback", ("n02",), "error")
    choices = {name: taken(snapshot, "gloo") for name, snapshot in nodes.snapshots.items()}
    assert reachable_addresses(nodes, choices)["n02"] == "192.0.2.12"


# --- settings -----------------------------------------------------------------------------------------------------


def settings(**variables: str) -> Callable[[Snapshot], Snapshot]:
    return lambda machine: under(machine, variables)


@pytest.mark.parametrize(
    ("variables", "severity"),
    [({"NCCL_ALGO": "Ring"}, "error"), ({"NCCL_IB_TIMEOUT": "22"}, "warning"), ({"NCCL_DEBUG": "INFO"}, None)],
)
def test_settings_that_differ(variables: dict[str, str], severity: str | None) -> None:
    found = judged(cluster(n02=settings(**variables)))
    expected = [("settings-differ-between-nodes", ("n02",), severity)] if severity else []
    assert [(each.id, each.nodes, each.problem.severity) for each in found] == expected


def test_what_gloo_does_not_read_is_worth_knowing() -> None:
    assert one(judged(cluster("gloo", n02=settings(NCCL_ALGO="Ring")))).problem.severity == "info"


# --- ports --------------------------------------------------------------------------------------------------------


def connections(**broken: str) -> dict[tuple[str, str], Touched]:
    """All pairs of three nodes; n01_n02="refused" breaks one."""
    found = {}
    for a in NAMES:
        for number, b in enumerate(NAMES):
            if a != b:
                outcome: Any = broken.get(f"{a}_{b}", "connected")
                found[a, b] = Touched(Target(number, f"192.0.2.{11 + number}", 40000), outcome)
    return found


BROKEN: list[tuple[dict[str, str], tuple[str, ...], str]] = [
    ({"n01_n02": "no answer"}, ("n01", "n02"), "n01 cannot connect to n02, while n02 reaches n01: no answer from"),
    ({"n01_n02": "refused", "n02_n01": "refused"}, ("n01", "n02"), "n01 and n02 cannot connect to each other: "),
    ({"n01_n03": "no answer", "n02_n03": "no answer"}, ("n03",), "n03 cannot be reached from any other node"),
    ({"n03_n01": "unreachable", "n03_n02": "unreachable"}, ("n03",), "n03 cannot connect to any other node"),
    ({"n01_n03": "no answer", "n02_n03": "no answer", "n03_n01": "failed", "n03_n02": "failed"}, ("n03",),
     "n03 and the other nodes cannot connect to each other, in neither direction"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "nodes", "words"), BROKEN)
def test_connections_that_fail(broken: dict[str, str], nodes: tuple[str, ...], words: str) -> None:
    found = one(judged(cluster(), connections(**broken)))
    assert (found.id, tuple(sorted(found.nodes))) == ("ports-blocked-between-nodes", nodes)
    assert found.problem.summary.startswith(words)


@pytest.mark.parametrize(("how", "id"), [("ssh", "only-ssh-gets-through"), ("srun", "ports-blocked-between-nodes")])
def test_nothing_gets_through(how: str, id: str) -> None:
    every = {f"{a}_{b}": "no answer" for a in NAMES for b in NAMES if a != b}
    assert one(judged(cluster(how=how), connections(**every))).id == id


def test_large_packets() -> None:
    found = one(judged(cluster(), connections(n01_n02="truncated", n02_n01="truncated")))
    assert (found.id, found.nodes) == ("large-packets-lost", ("n01", "n02"))


def test_untried_ways_are_said() -> None:
    found = untried_finding(cluster(), {"n02": "within 6 s"})
    assert (found.id, found.problem.severity, found.nodes) == ("ports-not-tried", "warning", ("n02",))


# --- pairs --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 200))
def test_pairs_reach_everybody_and_stay_few(count: int) -> None:
    found = pairs(tuple(range(count)))
    assert set(found) == set(range(count))
    for node_index, peers in found.items():
        assert node_index not in peers
        assert all(node_index in found[peer] for peer in peers)  # both directions
    if count > ALL_PAIRS_UP_TO:
        assert sum(map(len, found.values())) <= 2 * count * (1 + RANDOM_PEERS)
        assert all((index + 1) % count in found[index] for index in range(count))
    else:
        assert all(len(peers) == count - 1 for peers in found.values())


@given(st.data())
def test_every_failed_connection_is_in_one_cut(data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(data.draw(st.integers(2, 6)))]
    tried = [(a, b) for a in names for b in names if a != b]
    failed = data.draw(st.lists(st.sampled_from(tried), unique=True))
    found = [pair for cut in cuts(tried, failed) for pair in cut.failed]
    assert sorted(found) == sorted(failed)


def test_two_closed_nodes_do_not_accuse_the_third() -> None:
    tried = [(a, b) for a in NAMES for b in NAMES if a != b]
    found = cuts(tried, [pair for pair in tried if pair[1] != "n03"])
    assert [(cut.kind, cut.nodes) for cut in found] == [("into", ("n01", "n02"))]


def test_a_thousand_nodes_are_few_connections() -> None:
    assert sum(map(len, pairs(tuple(range(1000))).values())) <= 8000


def test_a_cpu_node_has_no_torch_facts_to_differ() -> None:
    bare = node(())
    files = but(bare, "training.torch_files", read("files", TorchFiles("2.13.0+cpu", "/x/torch")))
    assert [each.id for each in version_findings(Nodes({"a": files, "b": files}, "gloo", "ssh"))] == []
