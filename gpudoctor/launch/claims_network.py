"""A plan's claims about addresses, names, ports, ways and clocks."""

import ipaddress

from msgspec import structs

from gpudoctor.command import command
from gpudoctor.fleet.messages import Touched
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.network.interface_roles import find, inside_reason
from gpudoctor.knowledge.wording import listed
from gpudoctor.launch.claims_base import Answers
from gpudoctor.launch.verified import Verified
from gpudoctor.lazy import lazy_re
from gpudoctor.nccl.preflight_clocks import ERROR_SECONDS
from gpudoctor.nccl.preflight_names import is_address
from gpudoctor.snapshot import NotRead, Route, Snapshot

PLAIN_NAMES = lazy_re(r"=?[A-Za-z0-9_.@-]+(?:,[A-Za-z0-9_.@-]+)*")
"""A list of names, and no pattern of what to leave out. gloo takes whole names; NCCL a beginning, without `=`."""


class NetworkClaims(Answers):
    """Each method judges one claim."""

    def address_form(self) -> Verified:
        address = self.plan.master_address
        claim = f"{self.at} is an address that every node can be told"
        if not self.plan.nodes[0].known:
            why = {self.head: "the head is not known yet"}
            return self.unknown(
                "address form", f"{self.at} stands for the head's address", why, command("ip -brief address")
            )
        if len(self.names) > 1 and is_loopback(address):
            return self.false(
                "address form",
                claim,
                "it is a loopback address, which on each node is the node itself",
                "Every node waits for the others at its own door, until the time-out.",
                (self.head,),
                "Name the head's address in the network of the nodes: --master-addr.",
                self.on(self.head, command("ip -brief address")),
            )
        return Verified(check="address form", claim=claim, outcome="true", nodes=self.names)

    def address_owner(self) -> Verified:
        address = self.plan.master_address
        claim = f"{self.at} leads to {self.head}, where rank 0 starts"
        look = command("ip -brief address")
        if (bad := self.against("address owner", claim)) is not None:
            return bad
        touched = [touched for touched in self._rendezvous() if touched.outcome in ("connected", "truncated")]
        if self.head not in self.seen.snapshots:
            return self.unknown("address owner", claim, self.without_snapshot((self.head,)), look)
        try:
            interfaces = self.seen.snapshots[self.head].network.interfaces.value
        except NotRead as reason:
            return self.unknown("address owner", claim, {self.head: str(reason)}, look)
        own = {
            address.address.partition("%")[0]: interface.name
            for interface in interfaces
            for address in interface.addresses
        }
        if not is_address(address):
            if touched:
                return Verified(check="address owner", claim=claim, outcome="true", nodes=(self.head,))
            return self.unknown(
                "address owner",
                claim,
                {self.head: f"{address} was not tried"},
                command("getent ahosts {:host}", address),
            )
        if _plain(address) in own:
            seen = f"the address of {own[_plain(address)]}"
            return Verified(check="address owner", claim=claim, outcome="true", seen=seen, nodes=(self.head,))
        return self.false(
            "address owner",
            claim,
            f"{self.head} has {listed(own, 6) or 'no address'}, and not {self.at}",
            "Nobody opens the store at that address: all ranks look for it until their time-out.",
            (self.head,),
            "Name an address of the first node with --master-addr, or leave that option out.",
            self.on(self.head, look),
        )

    def same_answer(self) -> Verified:
        name = self.plan.master_address
        return self.decided(
            "same answer",
            f"{name} is the same machine to all nodes",
            self.without_snapshot(),
            command("getent ahosts {:host}", name),
        )

    def host_names(self) -> Verified:
        backend = "NCCL" if self.plan.accelerator == "cuda" else "gloo"
        return self.decided(
            "host name",
            f"{backend} takes an address on every node that the others reach",
            self.without_snapshot(),
            command("gpudoctor check hostname-loopback"),
        )

    def routes(self) -> Verified:
        claim = f"The other nodes' routes to {self.at} lead through a real network"
        unread = self.without_snapshot(self.workers)
        look = command("ip route get {:address}", self.plan.master_address)
        inside: dict[str, str] = {}
        for name in self.workers:
            if name in unread:
                continue
            if not is_address(self.plan.master_address):
                unread[name] = f"the way to a name was not looked at; {self.plan.master_address} was tried instead"
                continue
            try:
                why = _inside(self.seen.snapshots[name], self.plan.master_address)
            except NotRead as reason:
                unread[name] = str(reason)
                continue
            if why:
                inside[name] = why
        if inside:
            return self.false(
                "route",
                claim,
                "; ".join(f"{name} goes by {why}" for name, why in inside.items()),
                "No other machine is behind it: these nodes do not get to the rendezvous.",
                tuple(inside),
                "Name an address of the head in a network that all nodes share: --master-addr.",
                *(self.on(name, look) for name in list(inside)[:3]),
            )
        if unread and self._connected() >= set(unread):
            unread = {}
        return self.decided("route", claim, unread, look)

    def port_free(self) -> Verified:
        port = self.plan.master_port
        claim = f"Port {port} is free on {self.head}"
        head = {} if self.seen.port_tried else self.without_snapshot((self.head,)) or {self.head: "it was not tried"}
        remark = ""
        snapshot = self.seen.snapshots.get(self.head)
        handed_out = snapshot.network.ephemeral_ports.value_or(None) if snapshot is not None else None
        if handed_out and handed_out[0] <= port <= handed_out[1]:
            remark = (
                f"it is among {handed_out[0]}-{handed_out[1]}, which the kernel hands out to clients: it may be taken "
                "when the job starts"
            )
        return self.decided("port free", claim, head, command("ss -tln {}", f"sport = :{port}"), seen=remark)

    def reachable(self) -> Verified:
        claim = f"Every node connects to {self.at} port {self.plan.master_port}"
        look = command("nc -zv {:host} {:number}", self.plan.master_address, self.plan.master_port)
        refuted = self.against("address owner", claim) or self.against("port free", claim)
        unread = {
            name: self.seen.unseen.get(
                name, "the port could not be opened for a trial" if refuted else "it was not tried"
            )
            for name in self.workers
            if name not in self._connected()
        }
        if (blocked := self.against("way back", claim)) and set(unread) & set(blocked.nodes):
            return structs.replace(blocked, check="reachable", claim=claim)
        return self.decided("reachable", claim, unread, look)

    def way_back(self) -> Verified:
        unread = {name: self.seen.unseen.get(name, "it was not tried") for name in self.names if not self._tried(name)}
        return self.decided(
            "way back",
            "The nodes connect to one another on ports that the kernel picks",
            unread,
            command("gpudoctor check network"),
        )

    def interface_names(self) -> Verified:
        named = [variable for variable in self.plan.environment if variable.name.endswith("SOCKET_IFNAME")]
        words = ", ".join(f"{variable.name}={variable.value}" for variable in named)
        claim = f"{words} fits every node" if words else "The interfaces that the ranks take share a network"
        lacking: dict[str, str] = {}
        for name, own in self.own.items():
            snapshot = self.seen.snapshots.get(name)
            interfaces = snapshot.network.interfaces.value_or(None) if snapshot is not None else None
            for value in own.values() if interfaces is not None else ():
                if PLAIN_NAMES.fullmatch(value):
                    there = {interface.name for interface in interfaces or () if interface.addresses}
                    wanted = value.lstrip("=").split(",")
                    if not any(known.startswith(wanted_name) for known in there for wanted_name in wanted):
                        lacking[name] = listed(wanted)
        if lacking:
            return self.false(
                "interface names",
                claim,
                "; ".join(f"{name} has no {each} with an address" for name, each in lacking.items()),
                "NCCL and gloo end with an error there; the others wait until their time-out.",
                tuple(lacking),
                "Name an interface that the node has.",
                *(self.on(name, command("ip -brief address")) for name in list(lacking)[:3]),
            )
        return self.decided("interface names", claim, self.without_snapshot(), command("ip -brief address"))

    def settings(self) -> Verified:
        return self.decided(
            "settings",
            "NCCL, gloo and torch find the same settings on every node",
            self.without_snapshot(),
            command("env | grep -E '^(NCCL|GLOO|TORCH_NCCL)_'; cat /etc/nccl.conf"),
        )

    def clocks(self) -> Verified:
        claim = f"The nodes' clocks are less than {ERROR_SECONDS:g} s apart"
        unread = {
            name: self.seen.unseen.get(name, "its clock was not asked")
            for name in self.names
            if name not in self.seen.clocks
        }
        return self.decided("clocks", claim, unread, command("date +%s.%N"))

    def _rendezvous(self) -> list[Touched]:
        return [
            attempt
            for touched in self.seen.reached.values()
            for attempt in touched
            if attempt.target.purpose == "rendezvous"
        ]

    def _connected(self) -> set[str]:
        """Nodes that got to the head's port."""
        return {
            name
            for name, touched in self.seen.reached.items()
            if any(
                attempt.target.purpose == "rendezvous" and attempt.outcome in ("connected", "truncated")
                for attempt in touched
            )
        }

    def _tried(self, name: str) -> bool:
        """Whether the node has tried a way to another."""
        return any(touched.target.purpose == "ephemeral" for touched in self.seen.reached.get(name, ()))


def _plain(address: str) -> str:
    return address.strip("[]").partition("%")[0]


def _inside(snapshot: Snapshot, address: str) -> str:
    """The interface that leads to an address, where no other machine is behind it; "" else. Raises `NotRead`."""
    interfaces = snapshot.network.interfaces.value
    target = ipaddress.ip_address(_plain(address))
    direct = [
        (own.prefix_length, interface)
        for interface in interfaces
        for own in interface.addresses
        if (network := _network(f"{_plain(own.address)}/{own.prefix_length}")) is not None and target in network
    ]
    if direct:
        taken = max(direct, key=lambda found: found[0])[1]
    else:
        fits = [route for route in snapshot.network.routes.value if _leads(route, target)]
        if not fits:
            return ""  # whether a way is there at all, the trial says
        best = max(fits, key=lambda route: (_length(route), -route.metric))
        named = find(interfaces, best.interface)
        if named is None:
            return ""
        taken = named
    reason = inside_reason(taken, interfaces)
    return f"{taken.name}, {reason}" if reason else ""


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _leads(route: Route, target: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    network = _network(route.destination)
    return network is not None and network.version == target.version and target in network


def _length(route: Route) -> int:
    network = _network(route.destination)
    return network.prefixlen if network is not None else -1
