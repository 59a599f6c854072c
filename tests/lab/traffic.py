"""What is wrong with the way between hosts of the lab: ports that are dropped, slow links, packets that are too large.

    drop(b, 29500)                    # whoever connects to this port of b waits in vain
    only_ssh(b)                       # ... to any port but 22, as behind a security group
    uniform(a, b, c)                  # what they send is limited alike, so that measurements repeat
    slow(b, "50mbit")                 # what b sends and gets, on all its cables together each way
    slow_link(a, b, "50mbit")         # only what these two send each other
    mtu(b, 1400)                      # b's own interface
    switch_mtu(b, 1400)               # a black hole: b does not know, larger packets vanish

All last until the hosts go. Loopback is never touched.
"""

import contextlib

from tests.lab.hosts import NAMESPACES, Host, in_namespace

QUEUE = "50ms"
"""How long a packet may wait in a slow link before it is dropped: a usual router's."""
BURST = "128kb"
"""At least one segment as the kernel hands it over before it is cut into packets (64 KiB)."""


def drop(host: Host, port: int) -> None:
    host.filter(f'iif != "lo" tcp dport {port} drop')


def only_ssh(host: Host, port: int = 22) -> None:
    """Answers to what the host asked for come in; of what others begin, only ssh. Its own loopback is open."""
    host.filter(f"iif lo accept; ct state established,related accept; tcp dport {port} accept; meta l4proto tcp drop")


def slow(host: Host, rate: str = "50mbit", nic: int | None = None) -> None:
    """One cable, or all, slow in both directions; `rate` in tc's words."""
    shape = f"root tbf rate {rate} burst {BURST} latency {QUEUE}"
    for number in range(host.nics) if nic is None else (nic,):
        _tc(host.switch, f"qdisc replace dev {host.port(number)} {shape}")
        _tc(host.namespace, f"qdisc replace dev eth{number} {shape}")


def uniform(*machines: Host, rate: str = "400mbit") -> None:
    """All hosts send at this rate, which a busy machine keeps: else two healthy pairs differ by what else it does."""
    for host in machines:
        for number in range(host.nics):
            _tc(host.namespace, f"qdisc replace dev eth{number} root tbf rate {rate} burst {BURST} latency {QUEUE}")


def slow_link(one: Host, other: Host, rate: str = "50mbit", nic: int = 0) -> None:
    """Slow both ways between two hosts; what either exchanges with others passes at full speed."""
    for to, sender in ((one, other), (other, one)):
        port = f"dev {to.port(nic)}"
        number = sender.number
        with contextlib.suppress(RuntimeError):  # it is there when this host has another slow link
            _tc(to.switch, f"qdisc add {port} root handle 1: htb")
        _tc(to.switch, f"class replace {port} parent 1: classid 1:{number:x} htb rate {rate} burst {BURST}")
        _tc(to.switch, f"qdisc add {port} parent 1:{number:x} tbf rate {rate} burst {BURST} latency {QUEUE}")
        match = f"u32 match ip src {sender.address(nic)}/32 flowid 1:{number:x}"
        _tc(to.switch, f"filter add {port} parent 1: protocol ip prio {number} {match}")


def mtu(host: Host, size: int, nic: int = 0) -> None:
    """The interface's own."""
    in_namespace(host.namespace, "ip", "link", "set", f"eth{nic}", "mtu", str(size))


def switch_mtu(host: Host, size: int, nic: int = 0, *, outward_only: bool = False) -> None:
    """The switch drops larger packets (IP) to and from the host, and tells nobody (no path MTU discovery).

    `outward_only`: only those that the host sends; then ssh still connects, whose own large packet goes the other way.
    """
    _packets_as_on_a_wire(host, nic)
    port = host.port(nic)
    ways = ("iifname",) if outward_only else ("iifname", "oifname")
    rules = "".join(f'{way} "{port}" meta length > {size} drop; ' for way in ways)
    chain = f"chain forwarding {{ type filter hook forward priority 0; {rules} }}"
    in_namespace(host.switch, "nft", f"table bridge mtu{host.number}x{nic} {{ {chain}; }}")


def _packets_as_on_a_wire(host: Host, nic: int) -> None:
    """All hosts on this switch hand over packets one by one: else up to 64 KiB of them come as one large one."""
    for namespace in NAMESPACES.glob(f"{host.switch.removesuffix('switch')}*"):
        if namespace.name != host.switch:
            in_namespace(namespace.name, "ip", "link", "set", f"eth{nic}", "gso_max_segs", "1")


def unplugged(host: Host) -> None:
    """All cables out, while its processes go on."""
    for nic in range(host.nics):
        host.unplug(nic)


def _tc(namespace: str, words: str) -> None:
    in_namespace(namespace, "tc", *words.split())
