"""Groups the processes of all nodes into jobs: who is a rank, a launcher, a data loader, and which belong together.

Pure functions over `NodeProcesses`. In two steps: the families of each node (a launcher and what descends from it),
then the families that speak of the same job. What a process's environment says counts first; where that could not be
read (another user's, waiting in the kernel, ended), a launcher's children are numbered in the order of their start,
which is how torchrun, accelerate, deepspeed and torch.multiprocessing.spawn start them.
"""

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import structs

from gpudoctor.hang.addresses import is_loopback, is_number
from gpudoctor.hang.families import Family, families
from gpudoctor.hang.job import JobMember, Members
from gpudoctor.hang.users import Users
from gpudoctor.launcher import command_lines as commands
from gpudoctor.snapshot.evidence import NodeProcesses, Process

SAME_START_SECONDS = 60.0
"""Two claims to one rank on one node: launchers that were started together belong to one job, others are an old run
and a new one. Our rule of thumb."""
MOST_FAMILIES = 512
"""Of one user on one node: ranks that srun or a shell has started are a family each, and no node has so many GPUs."""
MOST_MASTERS = 8
STATIC_PORT = 29500
C10D_PORT = 29400
"""torchrun's defaults of --master-port and of --rdzv-endpoint."""


def find_jobs(nodes: Sequence[NodeProcesses], same_user: Iterable[str] = ()) -> tuple[Members, ...]:
    """Group processes into jobs, the largest first; each is one user's. A process that two nodes report (one machine)
    counts once: for the node whose network namespace it has, else for the first. `same_user`: as for `Users`.

    Also for processes of `Evidence`: give `NodeProcesses` made of them.
    """
    clusters = _Clusters()
    users = Users(nodes, same_user)
    for index, processes in enumerate(_each_once(nodes)):
        owned: defaultdict[str, list[Process]] = defaultdict(list)
        for process in processes:
            owned[users.of(process)].append(process)
        for user, own in owned.items():
            for family in families(own)[:MOST_FAMILIES]:
                clusters.add(_Party(index, family, user))
    jobs = [_members(parties) for parties in clusters.all()]
    jobs.sort(key=lambda job: (-sum(member.role == "rank" for member in job.members), -len(job.members), job.id))
    return tuple(_distinct(jobs, nodes))


def masters(job: Members) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The addresses and the ports that the processes of a job name for its master, the commonest first."""
    addresses: Counter[str] = Counter()
    ports: Counter[int] = Counter()
    for member in job.members:
        if member.role in ("rank", "launcher"):
            for address, port in _endpoints(member.process):
                addresses.update([address] if address else [])
                ports.update([port] if port else [])
    if job.master_port:
        ports[job.master_port] += 1
    return (
        tuple(address for address, _ in addresses.most_common(MOST_MASTERS)),
        tuple(port for port, _ in ports.most_common(MOST_MASTERS)),
    )


# ---------------------------------------------------------------- one machine, several agents


def _each_once(nodes: Sequence[NodeProcesses]) -> list[list[Process]]:
    """What two agents see is one process by the machine's boot, its number and start, and its network: containers of
    one machine have numbers of their own, and start alike."""
    networks: dict[tuple[str, int, int], set[str]] = {}
    for node in nodes:
        for process in node.processes:
            known = networks.setdefault((node.boot_id, process.pid, process.started), set())
            known |= {process.network_namespace} - {""}

    def key_of(node: NodeProcesses, process: Process) -> tuple[str, int, int, str]:
        seen = node.boot_id, process.pid, process.started
        return *seen, process.network_namespace if len(networks[seen]) > 1 else ""

    owner: dict[tuple[str, int, int, str], int] = {}
    for index, node in enumerate(nodes):
        for process in node.processes:
            key = key_of(node, process)
            if not node.boot_id:
                continue
            at_home = bool(process.network_namespace) and process.network_namespace == node.network_namespace
            if key not in owner or (at_home and not _at_home(nodes[owner[key]], process)):
                owner[key] = index
    own_processes: list[list[Process]] = []
    for index, node in enumerate(nodes):
        own: dict[tuple[int, int], Process] = {}
        for process in node.processes:
            if owner.get(key_of(node, process), index) == index:
                own.setdefault((process.pid, process.started), process)
        own_processes.append(list(own.values()))
    return own_processes


def _at_home(node: NodeProcesses, process: Process) -> bool:
    return node.network_namespace == process.network_namespace


# ---------------------------------------------------------------- which families are one job


class _Party:
    """A family and what it says of its job."""

    def __init__(self, node: int, family: Family, user: str) -> None:
        self.node = node
        self.family = family
        self.user = user
        self.addresses: set[str] = set()
        self.ports: set[int] = set()
        self.run_ids: set[str] = set()
        self.slurm: set[tuple[str, str]] = set()
        self.slurm_jobs: set[str] = set()
        self.programs: set[str] = set()
        self.several_nodes = False
        self.ranks = {claim.rank for claim in family.claims if claim.role == "rank" and claim.rank is not None}
        for claim in family.claims:
            if claim.role in ("rank", "launcher"):
                self._hear(claim.process)
        self.has_launcher = any(claim.role == "launcher" for claim in family.claims)
        self.age = max((claim.process.age_seconds for claim in family.claims), default=0.0)
        sizes = {claim.world_size for claim in family.claims if claim.role == "rank" and claim.world_size}
        here = sum(claim.role == "rank" for claim in family.claims)
        self.several_nodes |= any(size > here for size in sizes)

    def _hear(self, process: Process) -> None:
        environment = process.environment
        for address, port in _endpoints(process):
            self.addresses.update([address] if address else [])
            self.ports.update([port] if port else [])
        run_id = environment.get("TORCHELASTIC_RUN_ID") or commands.setting(process.command, environment, "rdzv-id")
        if run_id and run_id != "none":
            self.run_ids.add(run_id)
        if job := environment.get("SLURM_JOB_ID", ""):
            self.slurm_jobs.add(job)
            if step := environment.get("SLURM_STEP_ID", ""):
                self.slurm.add((job, step))
        if program := commands.program_started(process.command):
            self.programs.add(program)
        nodes = commands.setting(process.command, environment, "nnodes")
        if nodes and re.search(r"[2-9]|\d\d", nodes):
            self.several_nodes = True
        if environment.get("GROUP_WORLD_SIZE", "1") not in ("", "1"):
            self.several_nodes = True

    @property
    def keys(self) -> list[tuple[str, str, object]]:
        """Two parties of one job share one of these; so they are one user's."""
        return [
            *((self.user, "port", port) for port in self.ports),
            *((self.user, "slurm", job) for job in self.slurm_jobs),
            *((self.user, "run", run_id) for run_id in self.run_ids),
        ]


def _belong_together(one: _Party, other: _Party) -> bool:
    if one.node == other.node and _contradict(one, other):
        return False
    if one.run_ids and other.run_ids and not one.run_ids & other.run_ids:
        return False
    same_ports = bool(one.ports & other.ports)
    same_addresses = _same_address(one, other)
    if same_ports and same_addresses:
        return True
    if one.slurm and one.slurm & other.slurm and (same_ports or not (one.ports and other.ports)):
        return True
    if one.slurm_jobs & other.slurm_jobs and (same_ports or not (one.ports and other.ports)):
        return True  # srun in the batch script has no step, its ranks have
    if one.run_ids & other.run_ids and (same_ports or same_addresses):
        return True
    # Both wait for more nodes, run the same script and agree on the port: an address that is wrong on one of them.
    same_program = bool(one.programs & other.programs)
    return same_ports and same_program and one.node != other.node and one.several_nodes and other.several_nodes


def _contradict(one: _Party, other: _Party) -> bool:
    """On one node: an old run and a new one."""
    if not one.ranks & other.ranks:
        return False
    return one.has_launcher != other.has_launcher or abs(one.age - other.age) > SAME_START_SECONDS


def _same_address(one: _Party, other: _Party) -> bool:
    """An address in common; a name may be any number's. Loopback is one address on one node only."""
    if one.node == other.node:
        if one.addresses & other.addresses:
            return True
        if any(map(_is_loopback, one.addresses)) and any(map(_is_loopback, other.addresses)):
            return True
    mine = {_canonical(address) for address in one.addresses if not _is_loopback(address)}
    theirs = {_canonical(address) for address in other.addresses if not _is_loopback(address)}
    if mine & theirs:
        return True
    return any(is_number(a) != is_number(b) or _same_host(a, b) for a in mine for b in theirs)


def _canonical(address: str) -> str:
    text = address.strip().strip("[]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def _is_loopback(address: str) -> bool:
    """No address at all counts: it is torchrun's default."""
    text = _canonical(address)
    return not text or is_loopback(text)


def _same_host(one: str, other: str) -> bool:
    """ "node1" and "node1.cluster"."""
    if is_number(one) or is_number(other):
        return False
    return one.startswith(other + ".") or other.startswith(one + ".")


def _endpoints(process: Process) -> Iterable[tuple[str, int]]:
    """Addresses and ports of masters that a rank or launcher was told."""
    environment, command = process.environment, process.command
    if not commands.launcher(command):
        if environment.get("MASTER_ADDR") or environment.get("MASTER_PORT"):
            yield environment.get("MASTER_ADDR", "").strip(), port_of(environment.get("MASTER_PORT", ""))
        if url := commands.option(command, "dist-url", "init-method"):
            address, port = _split(url.removeprefix("tcp://"))
            yield address, port
        return
    if commands.launcher(command) in ("srun", "mpirun"):
        return
    if endpoint := commands.setting(command, environment, "rdzv-endpoint"):
        address, port = _split(endpoint)
        yield address, port or C10D_PORT
        return
    own = commands.own_options(command)
    if commands.has_option(own, "standalone"):
        return
    address = commands.option(own, "master-addr", "main-process-ip") or environment.get("PET_MASTER_ADDR", "")
    written = commands.option(own, "master-port", "main-process-port") or environment.get("PET_MASTER_PORT", "")
    if address or written:
        yield address or "127.0.0.1", port_of(written) or STATIC_PORT
    elif commands.launcher(command) == "torchrun":
        yield "127.0.0.1", STATIC_PORT  # its default, static rendezvous


def _split(endpoint: str) -> tuple[str, int]:
    address, colon, port = endpoint.rpartition(":")
    if not colon or "]" in port:
        return endpoint.strip("[]"), 0
    return address.strip("[]"), port_of(port)


def port_of(text: str) -> int:
    """A TCP port; 0 for anything else."""
    text = text.strip()
    return int(text) if re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536 else 0


class _Clusters:
    """Parties that were found to belong together. Each new one is compared with what shares a key with it."""

    def __init__(self) -> None:
        self._clusters: dict[int, list[_Party]] = {}
        self._by_key: dict[tuple[str, str, object], set[int]] = {}
        self._next = 0

    def add(self, party: _Party) -> None:
        candidates = sorted({number for key in party.keys for number in self._by_key.get(key, ())})
        same = [number for number in candidates if self._fits(party, self._clusters[number])]
        target = same[0] if same else self._next
        if not same:
            self._clusters[target] = []
            self._next += 1
        self._clusters[target].append(party)
        for other in same[1:]:
            self._merge(target, other)
        for key in party.keys:
            self._by_key.setdefault(key, set()).add(target)

    @staticmethod
    def _fits(party: _Party, cluster: Sequence[_Party]) -> bool:
        if any(party.node == other.node and _contradict(party, other) for other in cluster):
            return False
        return any(_belong_together(party, other) for other in cluster)

    def _merge(self, into: int, other: int) -> None:
        moved = self._clusters.pop(other)
        self._clusters[into].extend(moved)
        for party in moved:
            for key in party.keys:
                self._by_key[key].discard(other)
                self._by_key[key].add(into)

    def all(self) -> list[list[_Party]]:
        return list(self._clusters.values())


# ---------------------------------------------------------------- what a job is


def _members(parties: Sequence[_Party]) -> Members:
    members = [
        JobMember(
            node=party.node,
            process=claim.process,
            role=claim.role,
            rank=claim.rank,
            local_rank=claim.local_rank,
            world_size=claim.world_size,
            of=claim.of,
        )
        for party in parties
        for claim in party.family.claims
    ]
    _name_the_last(members)
    order = ("launcher", "rank", "data loader", "helper")
    members.sort(
        key=lambda member: (
            order.index(member.role),
            member.node if member.role != "rank" or member.rank is None else -1,
            -1 if member.rank is None else member.rank,
            member.node,
            member.process.pid,
        )
    )
    address, port = _master(members)
    slurm = Counter(job for party in parties for job in party.slurm_jobs)
    return Members(
        id=_id(parties, members, address, port),
        user=parties[0].user,
        members=tuple(members),
        master_address=address,
        master_port=port,
        slurm_job=slurm.most_common(1)[0][0] if slurm else "",
    )


def _name_the_last(members: list[JobMember]) -> None:
    """If one rank of the world is missing, and one process is a rank that does not say which, it is that one."""
    silent = [index for index, member in enumerate(members) if member.role == "rank" and member.rank is None]
    named = [member for member in members if member.role == "rank" and member.rank is not None]
    sizes = {member.world_size for member in named}
    size = next(iter(sizes)) if len(sizes) == 1 else None
    if len(silent) != 1 or size is None or len(named) != size - 1:
        return
    left = set(range(size)) - {member.rank for member in named}
    if len(left) == 1:
        members[silent[0]] = structs.replace(members[silent[0]], rank=left.pop(), world_size=size)


def _master(members: Sequence[JobMember]) -> tuple[str, int]:
    """As most ranks were told, else as the launchers were."""
    for role in ("rank", "launcher"):
        votes = Counter(
            end for member in members if member.role == role for end in _endpoints(member.process) if end[0] or end[1]
        )
        if votes:
            return votes.most_common(1)[0][0]
    return "", 0


def _id(parties: Sequence[_Party], members: Sequence[JobMember], address: str, port: int) -> str:
    steps = Counter(step for party in parties for step in party.slurm)
    if steps:
        return "slurm " + ".".join(steps.most_common(1)[0][0])
    jobs = Counter(job for party in parties for job in party.slurm_jobs)
    if jobs:
        return f"slurm {jobs.most_common(1)[0][0]}"
    kinds = Counter(kind for member in members if member.role == "launcher" and (kind := kind_of(member.process)))
    where = f" at {address}:{port}" if address and port else f" at {address}" if address else ""
    if not kinds or "script" in kinds:
        first = next((member for member in members if member.role in ("launcher", "rank")), members[0])
        program = commands.program_started(first.process.command) or first.process.name or "processes"
        return f"{program}{where}" if where else f"{program} pid {first.process.pid}"
    run_ids = Counter(run_id for party in parties for run_id in party.run_ids)
    run_id = f" {run_ids.most_common(1)[0][0]}" if run_ids else ""
    return f"{kinds.most_common(1)[0][0]}{run_id}{where}"


def kind_of(process: Process) -> str:
    """What kind of launcher it is: "torchrun", "accelerate", "deepspeed", "srun", "mpirun" or "script"."""
    return commands.launcher(process.command) or "script"


def _distinct(jobs: Iterable[Members], nodes: Sequence[NodeProcesses]) -> Iterable[Members]:
    """Jobs of one user and id are told apart by the host of their first process, else by its number, else they are
    counted. What another user runs changes no id."""
    listed = list(jobs)
    for number in range(3):
        times = Counter((job.user, job.id) for job in listed)
        seen: Counter[tuple[str, str]] = Counter()
        for index, job in enumerate(listed):
            if times[job.user, job.id] > 1:
                first = job.members[0]
                seen[job.user, job.id] += 1
                count = seen[job.user, job.id]
                tails = (f"on {nodes[first.node].hostname}", f"pid {first.process.pid}", f"number {count}")
                listed[index] = structs.replace(job, id=f"{job.id} {tails[number]}")
    return listed
