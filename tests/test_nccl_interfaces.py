"""Which interfaces NCCL takes: against an independent model of its rules, and on machines as they are met."""

import fnmatch
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from gpudoctor.knowledge.environment import kept_value
from gpudoctor.knowledge.nccl.interfaces import MOST, choose, nccl_choice, parse
from gpudoctor.knowledge.network.gloo_interface import GlooChoice, gloo_choice, listed
from gpudoctor.snapshot import Address, Interface, NotRead, Snapshot, absent, missing
from gpudoctor.testing.machines import but, h100_node, t4_node
from gpudoctor.testing.networks import interface, nccl_files, with_interfaces, with_network

OLD, NEW = (2, 27, 7), (2, 28, 3)
VERSIONS = [(2, 18, 3), (2, 21, 5), OLD, NEW, (2, 29, 7)]

# --- the model ----------------------------------------------------------------------------------------------------
# facts/02 part 3.2, as shell patterns over rows (name, family, address, running) in getifaddrs' order.

Row = tuple[str, str, str, bool]


def globs(text: str) -> tuple[bool, list[str]]:
    """Whether a list excludes, and its entries as patterns."""
    excludes = text[:1] == "^"
    text = text[excludes:]
    exact = text[:1] == "="
    entries = [entry.split(":")[0] for entry in text[exact:].split(",")]
    quoted = [entry.replace("[", "[[]").replace("*", "[*]") for entry in entries if entry]
    return excludes, [entry if exact else f"{entry}*" for entry in quoted] or ["*"]


def rows_that_match(rows: list[Row], text: str) -> list[tuple[str, str]]:
    excludes, patterns = globs(text)
    taken: list[tuple[str, str]] = []
    for name, _, address, _ in rows:
        is_named = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        if is_named != excludes and name not in [each for each, _ in taken]:
            taken.append((name, address))
    return taken[:16]


def model(
    interfaces: list[Interface], version: tuple[int, int, int], listed: str, family: str
) -> list[tuple[str, str]]:
    rows: list[Row] = [
        (each.name, kind, address.address, each.is_running)
        for kind in ("inet", "inet6")
        for each in interfaces
        for address in each.addresses
        if address.family == kind
    ]
    if family in ("AF_INET", "AF_INET6"):
        rows = [row for row in rows if row[1] == family[3:].lower()]
    rows = [row for row in rows if row[2] != "::1" and (row[3] or version < NEW)]
    if len(listed) > 1:
        return rows_that_match(rows, listed)
    steps = ["ib", "^docker,lo", "docker", "lo"]
    if version >= NEW:
        steps = ["ib", "^docker,lo,virbr", "docker", "lo", "virbr"]
    for step in steps:
        if taken := rows_that_match(rows, step):
            return taken
    return []


# --- any machine --------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["lo", "lo:1", "loopback9", "eth0", "eth1", "eth10", "eth11", "enp1s0f0", "bond0", "d", "i", "ib0", "ibp12s0"]
)
VIRTUAL_NAMES = st.sampled_from(
    ["docker0", "docker_gwbridge", "virbr0", "br-0123456789ab", "veth12ab", "cni0", "tailscale0"]
)
V4 = st.integers(1, 250).map(lambda n: Address("inet", f"10.0.0.{n}", 24))
V6 = st.sampled_from(["2001:db8::1", "fe80::1", "::1"]).map(lambda text: Address("inet6", text, 64))
INTERFACES = st.lists(
    st.builds(
        Interface,
        name=st.one_of(NAMES, VIRTUAL_NAMES),
        index=st.just(1),
        kind=st.just("ethernet"),
        addresses=st.lists(st.one_of(V4, V6), max_size=3).map(tuple),
        is_running=st.booleans(),
    ),
    unique_by=lambda each: each.name,
    max_size=8,
)
ENTRIES = st.lists(
    st.one_of(NAMES, VIRTUAL_NAMES, st.sampled_from(["", "eth", "ib", "e", " eth0", "eth0:1", "nosuch"])), max_size=4
)
LISTS = st.builds(lambda mark, entries: mark + ",".join(entries), st.sampled_from(["", "^", "=", "^=", "=^"]), ENTRIES)


@given(INTERFACES, st.sampled_from(VERSIONS), LISTS, st.sampled_from(["", "AF_INET", "AF_INET6", "inet"]))
@example([interface("eth1", "10.0.0.1/24"), interface("eth10", "10.0.1.1/24")], OLD, "eth1", "")
@example([interface("lo", "127.0.0.1/8"), interface("eth0", "10.0.0.1/24")], OLD, "^eth", "")
def test_as_the_model_says(
    interfaces: list[Interface], version: tuple[int, int, int], listed: str, family: str
) -> None:
    found = choose(interfaces, version, listed, family)
    assert list(zip(found.names, found.addresses, strict=True)) == model(interfaces, version, listed, family)
    assert found.rule


@given(st.text(max_size=40))
def test_any_value_can_be_parsed(text: str) -> None:
    pattern = parse(text)
    assert all(pattern.entries) and len(pattern.entries) <= MOST
    assert pattern.takes("eth0") is (pattern.matches_entry("eth0") is not pattern.excludes)


# --- machines as they are met -------------------------------------------------------------------------------------

LO = interface("lo", "127.0.0.1/8", kind="loopback")
ETH0, ETH1 = interface("eth0", "192.0.2.11/24"), interface("eth1", "198.51.100.11/24")
DOWN = interface("eth1", "198.51.100.11/24", is_running=False, operstate="down")
IPOIB = interface("ibs1", "10.1.0.11/24", kind="ipoib")
DOCKER = interface("docker0", "172.17.0.1/16", kind="docker")
VIRBR = interface("virbr0", "192.168.122.1/24", kind="bridge")
BRIDGE = interface("br-0123456789ab", "172.18.0.1/16", kind="docker")
IPV6 = interface("eth2", "2001:db8::2/64", "fe80::2/64")


@pytest.mark.parametrize(
    ("interfaces", "old", "new", "settings"),
    [
        ((LO, ETH0), "eth0", "eth0", {}),
        ((LO, ETH0, IPOIB), "ibs1", "ibs1", {}),
        ((LO, DOCKER, BRIDGE, ETH0), "br-0123456789ab eth0", "br-0123456789ab eth0", {}),
        ((LO, VIRBR, ETH0), "virbr0 eth0", "eth0", {}),
        ((LO, VIRBR), "virbr0", "lo", {}),
        ((LO, DOCKER), "docker0", "docker0", {}),
        ((LO, DOWN, ETH0), "eth1 eth0", "eth0", {}),
        ((LO, DOWN), "eth1", "lo", {}),
        ((LO, IPV6, ETH0), "eth0 eth2", "eth0 eth2", {}),  # IPv4 of all comes before IPv6
        ((LO, IPV6, ETH0), "eth2", "eth2", {"family": "AF_INET6"}),
        ((LO, ETH0, ETH1), "eth1", "eth1", {"communicator": "198.51.100.1:4000"}),
        ((LO, ETH0, IPV6), "eth2", "eth2", {"communicator": "[2001:db8::1]:4000"}),
        ((LO, ETH0, DOCKER), "lo eth0", "lo eth0", {"listed": "^docker0"}),  # an exclusion lets lo back in
        ((LO, ETH0), "eth0", "eth0", {"listed": "e"}),  # one character counts as unset
        ((LO, ETH0, ETH1), "eth1", "eth1", {"listed": "=eth1"}),
        ((LO, ETH0, ETH1), "", "", {"listed": "eth7"}),  # find or fail
        ((), "", "", {}),
    ],
)
def test_known_machines(interfaces: tuple[Interface, ...], old: str, new: str, settings: dict[str, str]) -> None:
    assert " ".join(choose(interfaces, OLD, **settings).names) == old
    assert " ".join(choose(interfaces, NEW, **settings).names) == new


RIGHT, INVERTED = ((2, 21, 5), OLD, NEW, (2, 28, 9), (2, 30, 3), (2, 32, 3)), ((2, 29, 2), (2, 29, 7))
LO6 = interface("lo", "127.0.0.1/8", "::1/128", kind="loopback")
HEAD = "198.51.100.1:4000"
NO_LINK = interface("eth1", "198.51.100.11/24", is_running=False, operstate="down")


@pytest.mark.parametrize(
    ("interfaces", "settings", "right", "inverted"),
    [
        # bootstrap's interface, and those of NET/Socket; "" where NCCL fails
        ((LO, ETH0, ETH1), {"communicator": HEAD}, ("eth1", "eth1"), ("lo", "lo")),
        ((ETH0, ETH1), {"communicator": HEAD}, ("eth1", "eth1"), ("eth0", "eth0")),
        ((LO, ETH0, ETH1), {"communicator": HEAD, "listed": "=eth0"}, ("eth1", "eth0"), ("lo", "eth0")),
        ((LO, ETH0, IPOIB), {"communicator": "192.0.2.1:4000"}, ("eth0", "ibs1"), ("lo", "ibs1")),
        ((LO, ETH0), {"communicator": HEAD}, ("", ""), ("lo", "lo")),
        ((ETH1,), {"communicator": HEAD}, ("eth1", "eth1"), ("", "")),
        ((LO, ETH0), {"communicator": HEAD, "listed": "eth0"}, ("", ""), ("lo", "eth0")),
        ((LO, ETH0, NO_LINK), {"communicator": HEAD, "listed": "eth0"}, ("eth1", "eth0"), ("lo", "eth0")),
        ((LO, ETH0, IPV6), {"communicator": "[2001:db8::1]:4000"}, ("eth2", "eth2"), ("eth2", "eth2")),
        ((LO, ETH0), {"communicator": "[2001:db8::1]:4000"}, ("", ""), ("", "")),
        ((LO, ETH0), {"communicator": "localhost:4000", "resolved": ["127.0.0.1"]}, ("lo", "lo"), ("eth0", "eth0")),
        ((LO6, ETH0), {"communicator": "localhost:4000", "resolved": ["::1", "127.0.0.1"]}, ("lo", "lo"), ("lo", "lo")),
        ((LO, ETH0), {"communicator": "localhost:4000", "resolved": ["::1", "127.0.0.1"]}, ("", ""), ("", "")),
        ((LO, ETH0), {"communicator": "head:4000"}, ("", ""), ("", "")),
        ((LO, ETH0), {"communicator": ""}, ("", ""), ("", "")),
        ((LO, ETH0), {"communicator": None}, ("eth0", "eth0"), ("eth0", "eth0")),
    ],
)  # fmt: skip
def test_a_communicators_address_decides_before_names(
    interfaces: tuple[Interface, ...], settings: dict[str, Any], right: tuple[str, str], inverted: tuple[str, str]
) -> None:
    for versions, wanted in ((RIGHT, right), (INVERTED, inverted)):
        for version in versions:
            choice = choose(interfaces, version, **settings)
            assert (choice.first, " ".join(choice.names)) == wanted, version
            assert choice.is_blocked is (wanted[0] == "")
            assert bool(choice.first_address) is bool(choice.first)


def test_a_name_in_a_communicators_address_is_looked_up() -> None:
    machine = with_network(
        with_interfaces(t4_node(), LO, ETH0), nccl_files=nccl_files(system={"NCCL_COMM_ID": "localhost:4000"})
    )
    with pytest.raises(NotRead):
        nccl_choice(machine)
    looked_up = with_network(machine, communicator_addresses=("127.0.0.1",))
    assert nccl_choice(of_version(looked_up, OLD)).first == "lo"
    hidden = with_network(machine, communicator_addresses=("ip-1",))
    with pytest.raises(NotRead):
        nccl_choice(hidden)


def test_at_most_16_interfaces() -> None:
    many = [interface(f"eth{n}", f"10.0.{n}.1/24") for n in range(40)]
    assert len(choose(many, NEW).names) == 16


def of_version(machine: Snapshot, version: tuple[int, int, int]) -> Snapshot:
    facts = but(machine.training.torch.value, "nccl_version", version)
    machine = but(machine, "training.torch", facts)
    return but(machine, "training.libraries", ())


def test_the_installed_version_decides() -> None:
    machine = with_interfaces(t4_node(), DOWN, ETH0)
    assert nccl_choice(of_version(machine, OLD)).first == "eth1"
    assert nccl_choice(of_version(machine, NEW)).first == "eth0"
    assert nccl_choice(of_version(machine, NEW)).version == NEW


def test_an_unknown_version_matters_only_where_releases_differ() -> None:
    machine = but(t4_node(), "training.torch", missing("import torch", "it hangs", "timeout"))
    machine = but(machine, "training.libraries", ())
    assert nccl_choice(with_interfaces(machine, ETH0)).names == ("eth0",)
    assert nccl_choice(with_interfaces(machine, ETH0)).version is None
    with pytest.raises(NotRead, match="it hangs"):
        nccl_choice(with_interfaces(machine, DOWN, ETH0))


def test_a_file_of_settings_counts() -> None:
    machine = with_network(
        with_interfaces(t4_node(), ETH0, ETH1), nccl_files=nccl_files(system={"NCCL_SOCKET_IFNAME": "eth1"})
    )
    assert nccl_choice(machine).names == ("eth1",)
    assert nccl_choice(machine).rule == "NCCL_SOCKET_IFNAME is eth1"


# --- gloo ---------------------------------------------------------------------------------------------------------


def gloo(*interfaces: Interface, resolves_to: tuple[str, ...] = ("192.0.2.11",), **variables: str) -> GlooChoice:
    machine: Any = with_interfaces(h100_node(), *interfaces)
    machine = but(machine, "host.hostname_addresses", resolves_to)
    return gloo_choice(but(machine, "environment", variables))


def test_gloo() -> None:
    assert gloo(ETH0, ETH1)[:2] == ("eth0", "192.0.2.11")
    assert gloo(ETH0, resolves_to=("127.0.1.1",))[:2] == ("lo", "127.0.1.1")
    assert gloo(ETH0, resolves_to=("203.0.113.5", "192.0.2.11"))[:2] == ("eth0", "192.0.2.11")
    assert gloo(ETH0, resolves_to=("203.0.113.5",))[:2] == ("lo", "127.0.0.1")
    assert gloo(ETH0, ETH1, GLOO_SOCKET_IFNAME="eth1,eth0")[:2] == ("eth1", "198.51.100.11")
    assert gloo(ETH0, GLOO_SOCKET_IFNAME="e")[:2] == ("eth0", "192.0.2.11")  # one character counts as unset
    assert listed("eth0,") == ("eth0",) and listed("eth0,,lo") == ("eth0", "", "lo")  # as torch 2.13 takes them
    assert gloo(ETH0, GLOO_SOCKET_IFNAME="eth")[:2] == ("", "")  # names are exact
    assert gloo(IPV6, GLOO_SOCKET_IFNAME="eth2")[:2] == ("eth2", "2001:db8::2")


def test_gloo_without_the_facts() -> None:
    machine = but(h100_node(), "host.hostname_addresses", absent("test", "nobody looked"))
    with pytest.raises(NotRead):
        gloo_choice(machine)


@pytest.mark.parametrize("value", ["eth0:5000", "^", "=", "^=", "mlx5_0:", "mlx5_0:1:2", "ib,eth0,", "^docker,lo"])
@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"])
def test_what_nccl_reads_of_a_list_is_recorded_as_it_stands(name: str, value: str) -> None:
    """Signs alone and a colon without its port too: NCCL makes something of them, and so must we."""
    assert kept_value(name, value) == value
    assert kept_value(name, f"{value} s3cret!") != f"{value} s3cret!"
