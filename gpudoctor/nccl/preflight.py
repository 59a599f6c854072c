"""Whether these nodes can train together, found out in seconds: examine all, try the ways between them, judge.

The judging is in `preflight_*`: pure functions over what was seen.
"""

import random
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Struct, field

from gpudoctor.fleet.clocks import PING_SECONDS, ClockOffset, clock_offsets
from gpudoctor.fleet.fleet import Fleet, Lost
from gpudoctor.fleet.messages import (
    Examine,
    Examined,
    Listen,
    Listening,
    Ping,
    Pong,
    Reach,
    Reached,
    Target,
    Touched,
    Unlisten,
)
from gpudoctor.fleet.names import folded
from gpudoctor.knowledge.gpus.nvidia_hardware import gpus_on_pci
from gpudoctor.knowledge.wording import counted
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.preflight_addresses import Taken, address_findings, reachable_addresses, taken
from gpudoctor.nccl.preflight_clocks import clock_findings
from gpudoctor.nccl.preflight_names import is_address, loopback_hostname_findings, name_findings
from gpudoctor.nccl.preflight_nodes import Nodes, nodes_of
from gpudoctor.nccl.preflight_pairs import pairs
from gpudoctor.nccl.preflight_ports import busy_finding, port_findings, untried_finding
from gpudoctor.nccl.preflight_settings import settings_findings
from gpudoctor.nccl.preflight_unexamined import stuck_finding, unexamined_finding
from gpudoctor.nccl.preflight_versions import version_findings
from gpudoctor.snapshot import NotRead, Snapshot, UnreadableSnapshot, from_json

LISTEN_SECONDS = 3.0
CONNECT_SECONDS = 2.0
"""The kernel repeats a lost first packet after 1 s: what has not answered by then is filtered or not there."""
ANSWER_SECONDS = 4.0
"""On top of a deadline, for the agents' answers to come in."""
FILTER_SECONDS = 3.0
"""For a second look at the packet filters of nodes that cannot be reached."""
MOST_FILTERS = 8
FIRST_PORT, LAST_PORT = 61000, 65535
"""Above what Linux hands out (ip_local_port_range ends at 60999)."""
PORT_TRIES = 3

Step = Callable[[str], None]


class PreflightWish(Struct, frozen=True, kw_only=True):
    """What the test that follows is going to do."""

    backend: Literal["auto", "nccl", "gloo"] = "auto"
    interface: str = ""
    """--interface: what NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME will name, where `settings` have them not."""
    master_address: str = ""
    master_port: int = 0
    """0: any free one from 61000 on."""
    port_is_held: bool = False
    """`master_port` is, or will at any moment be, the job's own, on which nobody else may listen: what refuses a
    connection there is no packet filter, as far as that can be told."""
    python: str = ""
    """The training interpreter; empty: each node's own choice."""
    settings: dict[str, str] = field(default_factory=dict)
    """Set for all ranks, on top of each node's environment."""
    timeout: float = 10.0
    """Seconds that an examination may take."""
    files: tuple[str, ...] = ()
    """Looked at on every node (`Examine.files`)."""


class Preflight(Struct, frozen=True, kw_only=True):
    """What was found out."""

    snapshots: dict[int, Snapshot]
    """Of the nodes that could be examined, as they are (without the forwarded settings)."""
    findings: tuple[Finding, ...]
    interpreters: dict[int, str]
    addresses: dict[int, str]
    """The address of each node by which the others reach it; "" where none is known."""
    master_address: str
    master_port: int
    clocks: dict[int, ClockOffset] = {}
    reached: dict[int, tuple[Touched, ...]] = {}
    """What became of each node's connections."""
    files: dict[int, dict[str, str]] = {}
    """As `Examined.files`, of the nodes that could be examined."""
    seconds: dict[str, float] = {}
    """Of each step."""


def preflight(fleet: Fleet, wish: PreflightWish, *, on_step: Step | None = None) -> Preflight:
    """Examine the nodes and try the ways between them. Takes seconds; never raises for what a node does."""
    return _Run(fleet, wish, on_step or (lambda text: None)).result()


def forwarded(wish: PreflightWish) -> dict[str, str]:
    """The settings that the ranks will get, --interface among them."""
    if not wish.interface:
        return dict(wish.settings)
    named = {"NCCL_SOCKET_IFNAME": f"={wish.interface.lstrip('=')}", "GLOO_SOCKET_IFNAME": wish.interface.lstrip("=")}
    return named | wish.settings


class _Run:
    """One preflight, step by step."""

    def __init__(self, fleet: Fleet, wish: PreflightWish, on_step: Step) -> None:
        self.fleet, self.wish, self.on_step = fleet, wish, on_step
        self.seconds: dict[str, float] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.interpreters: dict[int, str] = {}
        self.resolved: dict[str, tuple[str, ...]] = {}
        self.findings: list[Finding] = []
        self.reached: dict[int, tuple[Touched, ...]] = {}
        self.stuck: tuple[int, ...] = ()
        """Nodes from which small messages came, and a large one does not."""
        self.files: dict[int, dict[str, str]] = {}

    def result(self) -> Preflight:
        fleet, wish = self.fleet, self.wish
        several = len(fleet.nodes) > 1
        clocks: dict[int, ClockOffset] = {}
        if several:
            with self.step("clocks", f"clocks of {counted(len(fleet.nodes), 'node')}"):
                clocks = clock_offsets(fleet)
        with self.step("examine", f"examining {counted(len(fleet.nodes), 'node')}"):
            self.examine(answered=set(clocks))
        nodes = nodes_of(fleet, self.snapshots, forwarded(wish), self.backend())
        choices = {name: taken(snapshot, nodes.backend) for name, snapshot in nodes.snapshots.items()}
        addresses = reachable_addresses(nodes, choices)
        master = self.master_address(nodes, addresses)
        self.findings += version_findings(nodes, wish.python)
        self.findings += clock_findings(nodes, {fleet.name(node): clock for node, clock in clocks.items()})
        self.findings += name_findings(
            nodes, self.head_name(), self.resolved, is_used=self.head_name() == wish.master_address
        )
        self.findings += loopback_hostname_findings(nodes)
        self.findings += address_findings(nodes, choices)
        self.findings += settings_findings(nodes)
        port = wish.master_port
        if nodes.snapshots:
            with self.step("ports", f"ports between {counted(len(fleet.nodes), 'node')}"):
                port = self.try_ports(nodes, choices, addresses, master)
        return Preflight(
            snapshots=self.snapshots,
            findings=tuple(self.findings),
            interpreters=self.interpreters,
            addresses={node: addresses.get(name.name, "") for node, name in enumerate(fleet.nodes)},
            master_address=master,
            master_port=port,
            clocks=clocks,
            reached=self.reached,
            files=self.files,
            seconds=self.seconds,
        )

    def step(self, name: str, text: str) -> "_PreflightStep":
        self.on_step(text)
        return _PreflightStep(self.seconds, name)

    # --- examine

    def head_name(self) -> str:
        """The name by which a launch would name the head: --master-addr, else as the user named the node."""
        return self.wish.master_address or self.fleet.name(0)

    def name_matters(self) -> bool:
        """Whether the head's name is worth a look-up: it is asked for, or others may go by it."""
        return not is_address(self.head_name()) and (len(self.fleet.nodes) > 1 or bool(self.wish.master_address))

    def examine(self, answered: set[int]) -> None:
        """`answered`: the nodes that have answered pings."""
        order = Examine(
            python=self.wish.python,
            timeout=self.wish.timeout,
            resolve=(self.head_name(),) if self.name_matters() else (),
            files=self.wish.files,
        )
        answers = self.fleet.ask(order, Examined, timeout=self.wish.timeout + ANSWER_SECONDS)
        unread: dict[str, str] = {}
        for node, answer in answers.items():
            name = self.fleet.name(node)
            if isinstance(answer, Lost):
                unread[name] = f"{answer.kind}{f': {answer.detail}' if answer.detail else ''}"
                continue
            try:
                self.snapshots[node] = from_json(bytes(answer.snapshot))
            except UnreadableSnapshot as error:
                unread[name] = str(error)
                continue
            self.interpreters[node], self.files[node] = answer.interpreter, answer.files
            if (addresses := answer.resolved.get(self.head_name())) is not None:
                self.resolved[name] = addresses
        silent = [
            node
            for node, answer in answers.items()
            if isinstance(answer, Lost) and answer.kind == "no answer" and node in answered
        ]
        self.stuck = self.still_silent(silent)
        if self.stuck:
            names = tuple(self.fleet.name(node) for node in self.stuck)
            unread = {name: why for name, why in unread.items() if name not in names}
            nodes = nodes_of(self.fleet, {}, {}, "gloo")
            self.findings.append(stuck_finding(nodes, names, self.wish.timeout + ANSWER_SECONDS))
        # Nodes that were lost before are said by `lost_findings`.
        unread = {name: why for name, why in unread.items() if name not in self.names_lost()}
        if unread:
            self.findings.append(unexamined_finding(unread))

    def still_silent(self, nodes: list[int]) -> tuple[int, ...]:
        """Those of these nodes that do not answer a ping any more: a large reply is stuck before its answer.

        An agent answers pings while it examines; one that does so has a slow machine, and the way to it is whole.
        """
        if not nodes or self.fleet.how == "local":
            return ()
        answers = self.fleet.ask(Ping(), Pong, of=nodes, timeout=PING_SECONDS)
        return tuple(
            node for node, answer in answers.items() if isinstance(answer, Lost) and node not in self.fleet.lost
        )

    def names_lost(self) -> set[str]:
        return {self.fleet.name(node) for node in self.fleet.lost}

    def backend(self) -> Literal["nccl", "gloo"]:
        """What the ranks will use: asked for, else nccl where every node has a GPU and a torch for CUDA."""
        if self.wish.backend != "auto":
            return self.wish.backend
        try:
            from gpudoctor.nccl.plan import choose_backend

            chosen = choose_backend(list(self.snapshots.values()), "auto", settings=forwarded(self.wish))[0]
            return "nccl" if chosen == "nccl" else "gloo"
        except NotRead:
            return "nccl" if all(gpus_on_pci(snapshot) for snapshot in self.snapshots.values()) else "gloo"

    # --- addresses and ports

    def master_address(self, nodes: Nodes, addresses: Mapping[str, str]) -> str:
        """--master-addr; else the head's address for the others; one node alone meets on its loopback interface."""
        if self.wish.master_address:
            return self.wish.master_address
        address = addresses.get(self.fleet.name(0), "")
        return address or ("127.0.0.1" if len(self.fleet.nodes) == 1 else "")

    def try_ports(self, nodes: Nodes, choices: Mapping[str, Taken], addresses: Mapping[str, str], master: str) -> int:
        """Open listeners everywhere, connect, close them; the rendezvous port."""
        fleet, secret = self.fleet, secrets.token_hex(16)
        port, listening = self.listen(nodes, secret)
        try:
            untried = {
                fleet.name(node): (answer.detail or answer.kind) if isinstance(answer, Lost) else answer.error
                for node, answer in listening.items()
                if isinstance(answer, Lost) or answer.error
            }
            present = [node for node, answer in listening.items() if isinstance(answer, Listening)]
            order = self.reach(present, listening, addresses, self.rendezvous(listening, master, port), secret)
            answers = fleet.ask(order, Reached, of=present, timeout=CONNECT_SECONDS + ANSWER_SECONDS)
        finally:
            fleet.send(Unlisten())
        between: dict[tuple[str, str], Touched] = {}
        rendezvous: dict[str, Touched] = {}
        for node, answer in answers.items():
            if isinstance(answer, Lost):
                untried[fleet.name(node)] = answer.detail or answer.kind
                continue
            self.reached[node] = answer.touched
            for touched in answer.touched:
                if touched.target.purpose == "knock" and touched.outcome == "refused":
                    continue  # nobody listens yet
                if touched.target.purpose in ("rendezvous", "knock"):
                    rendezvous[fleet.name(node)] = touched
                elif 0 <= touched.target.node < len(fleet.nodes):
                    between[fleet.name(node), fleet.name(touched.target.node)] = touched
        if len(fleet.nodes) > 1:
            untried |= {
                fleet.name(node): "it has no address for the others"
                for node in present
                if not addresses.get(fleet.name(node))
            }
        untried = {name: why for name, why in untried.items() if name not in self.names_lost()}
        if untried:
            self.findings.append(untried_finding(nodes, untried))
        nodes = self.with_filters(nodes, between, rendezvous)
        self.findings += port_findings(nodes, choices, between, rendezvous, port)
        return port

    def listen(self, nodes: Nodes, secret: str) -> tuple[int, dict[int, Listening | Lost]]:
        """Open the listeners; the rendezvous port, and what the nodes said."""
        fixed, held = self.wish.master_port, self.wish.port_is_held
        there = [node for node in self.fleet.present if node not in self.stuck]
        for attempt in range(PORT_TRIES):
            port = fixed or random.SystemRandom().randint(FIRST_PORT, LAST_PORT)
            order = Listen(port=0 if held else port, port_on=(0,), secret=secret)
            answers = self.fleet.ask(order, Listening, of=there, timeout=LISTEN_SECONDS)
            head = answers.get(0)
            why = head.port_error if isinstance(head, Listening) else ""
            if not why:
                break
            if fixed or attempt == PORT_TRIES - 1:
                self.findings.append(busy_finding(nodes, self.fleet.name(0), port, why))
                break
        return port, answers

    def reach(
        self,
        present: list[int],
        listening: Mapping[int, Listening | Lost],
        addresses: Mapping[str, str],
        rendezvous: Target | None,
        secret: str,
    ) -> Reach:
        """The order that tells each node whom to connect to."""
        opened = {node: answer.ephemeral for node, answer in listening.items() if isinstance(answer, Listening)}
        return Reach(
            listeners={
                str(node): (address, port)
                for node, port in opened.items()
                if port and (address := addresses.get(self.fleet.name(node), ""))
            },
            peers={str(node): others for node, others in pairs(present).items()},
            rendezvous=rendezvous,
            secret=secret,
            timeout=CONNECT_SECONDS,
        )

    def rendezvous(self, listening: Mapping[int, Listening | Lost], master: str, port: int) -> Target | None:
        """The head's port, where it could be opened and its address is known."""
        head, address = listening.get(0), self.literal(master)
        is_open = isinstance(head, Listening) and not head.port_error
        purpose: Literal["knock", "rendezvous"] = "knock" if self.wish.port_is_held else "rendezvous"
        return Target(0, address, port, purpose) if is_open and address else None

    def literal(self, master: str) -> str:
        """The rendezvous address as a number: a name as the nodes resolve it, the head's own loopback aside."""
        if not master or is_address(master):
            return master.strip("[]")
        answers = [addresses for name, addresses in self.resolved.items() if addresses and name != self.fleet.name(0)]
        return next((addresses[0] for addresses in answers), "")

    def with_filters(
        self, nodes: Nodes, between: Mapping[tuple[str, str], Touched], rendezvous: Mapping[str, Touched]
    ) -> Nodes:
        """Look at the packet filters of nodes that did not let others in: a brief examination leaves those out."""
        bad = ("no answer", "refused", "unreachable", "failed")
        closed = [pair[1] for pair, touched in between.items() if touched.outcome in bad]
        if any(touched.outcome in bad for touched in rendezvous.values()):
            closed.append(nodes.head)
        index = {node.name: number for number, node in enumerate(self.fleet.nodes)}
        wanted = [index[name] for name in dict.fromkeys(closed)][:MOST_FILTERS]
        if not wanted:
            return nodes
        self.on_step(f"packet filters of {folded(self.fleet.name(node) for node in wanted)}")
        order = Examine(to=tuple(wanted), brief=False, timeout=FILTER_SECONDS)
        answers = self.fleet.ask(order, Examined, timeout=FILTER_SECONDS + 1.0)
        snapshots = dict(nodes.snapshots)
        for node, answer in answers.items():
            name = self.fleet.name(node)
            if isinstance(answer, Lost) or name not in snapshots:
                continue
            try:
                firewalls = from_json(bytes(answer.snapshot)).network.firewalls
            except UnreadableSnapshot:
                continue
            network = msgspec.structs.replace(snapshots[name].network, firewalls=firewalls)
            snapshots[name] = msgspec.structs.replace(snapshots[name], network=network)
        return msgspec.structs.replace(nodes, snapshots=snapshots)


class _PreflightStep:
    """Notes how long a step took."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name, self._started = seconds, name, time.monotonic()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        self._seconds[self._name] = round(time.monotonic() - self._started, 3)
