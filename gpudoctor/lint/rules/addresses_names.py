"""Rules of how the head's address is written, and of what only the nodes tell: A04, A06-A08, A12-A14."""

import ipaddress
import re
from collections.abc import Iterator

from gpudoctor.command import command
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.edits import everywhere, replace_piece
from gpudoctor.lint.look import LintWorld, Value, is_loopback, label, value
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.rules.addresses import C10D, GOOD, STATIC, addressed

_GOOD_C10D = C10D.format("head01:29400")
_BATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
_SAMPLES = {
    "192.168.1.1": "mostly a router's, and in many tutorials",
    "10.1.1.20": "the one of an old tutorial",
    "1.2.3.4": "a placeholder",
}
_SAMPLE_NETWORKS = (
    (ipaddress.ip_network("203.0.113.0/24"), "of a network that is for documentation only (RFC 5737)"),
    (ipaddress.ip_network("198.51.100.0/24"), "of a network that is for documentation only (RFC 5737)"),
    (ipaddress.ip_network("172.17.0.0/16"), "of Docker's default bridge, which other machines do not reach"),
    (ipaddress.ip_network("169.254.0.0/16"), "link-local: other networks do not reach it"),
)
_PLACEHOLDER = lazy_re(r"[<>]|\.\.\.|\byour\b|\bx{2,3}\b", re.IGNORECASE)
"""What Q08 tells of: a hole that is still to be filled."""


_NODE_LIST = lazy_re(
    r"\$\{?(SLURM_NODELIST|SLURM_JOB_NODELIST|SKYPILOT_NODE_IPS|DSTACK_NODES_IPS|PBS_NODEFILE|LSB_HOSTS|VC_\w+_HOSTS)\}?"
)


def _address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address((text or "").strip("[]"))
    except ValueError:
        return None


def _once(job: LintJob) -> Iterator[tuple[LintWorld, LintLaunch, Value]]:
    """Each address as written, once a world."""
    for world, given in addressed(job):
        seen: set[str] = set()
        for launch, address in given:
            if address.shown not in seen:
                seen.add(address.shown)
                yield world, launch, address


@rule(
    "A04",
    title="The head's address is on an interface of the head",
    severity="warning",
    needs="probe",
    source="pytorch#49084; many threads with addresses out of the documentation",
    leads_to=("master-unreachable",),
    bad=(
        "#@ every node\n" + STATIC.format("$NODE_RANK", "192.168.1.1"),
        "#@ node 1\n" + STATIC.format(1, "203.0.113.7"),
        "#@ node 1\n" + STATIC.format(1, "172.17.0.2"),
    ),
    good=(GOOD, _GOOD_C10D),
)
def sample_address(job: LintJob) -> Iterator[LintFinding]:
    """An address that was left from a tutorial, or that other machines cannot reach, belongs to nobody here. Whether an
    address is the head's own, only the head can tell."""
    for world, launch, master in _once(job):
        address = _address(master.sure)
        why = _SAMPLES.get(master.sure or "", "")
        if not why and isinstance(address, ipaddress.IPv4Address):
            why = next((reason for network, reason in _SAMPLE_NETWORKS if address in network), "")
        if why and world.multi:
            yield LintFinding(
                span=master.span,
                summary=f"{master.written} is {master.sure}: {why}",
                happens="If it is not an address of the head, nobody listens there, and the others wait until a"
                " time-out.",
                fix=f"On the head, `{command('ip -brief address | grep -wF {:host}', master.sure)}` must show an"
                " interface; else write the address that `ip -brief address` shows for the network of"
                f" {label(job, launch)} and the others.",
            )


@rule(
    "A06",
    title="The head's address is a plain host name or IP address",
    source="measured: getaddrinfo; MONAI/model-zoo#146",
    leads_to=("master-unreachable",),
    bad=(
        "#@ node 1\n" + STATIC.format(1, "tcp://10.20.0.11"),
        "#@ node 1\n" + STATIC.format(1, "user@10.20.0.11"),
        "#@ node 1\n" + STATIC.format(1, "10.20.0.11:61234"),
        "#@ node 1\n" + STATIC.format(1, "10.20.300.11"),
        C10D.format("3472853:29400"),
        C10D.format("http://head01:29400"),
        _BATCH + "export HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST)\nsrun " + C10D.format("$HEAD:29400"),
        _BATCH + "HEAD=$(srun hostname --ip-address)\nsrun " + C10D.format("$HEAD:29400"),
    ),
    good=(
        _BATCH + "N=($(scontrol show hostnames))\nHEAD=${N[0]}\nsrun " + C10D.format("$HEAD:29400"),
        _BATCH + "H=$(srun -N1 -n1 hostname -i)\nsrun " + C10D.format("$H:29400"),
        GOOD,
        _GOOD_C10D,
        "#@ node 1\n" + STATIC.format(1, "fd00:20::11"),
    ),
)
def not_a_host(job: LintJob) -> Iterator[LintFinding]:
    """The address goes to getaddrinfo as it stands: a scheme, a user, a path or a port in it makes a name that nobody
    resolves. A name of digits only is taken for a 32-bit IP address."""
    for world, _launch, address in _once(job):
        text = address.sure
        shown = address.shown.strip("\"'")
        listed = _NODE_LIST.fullmatch(shown) if world.multi and text is None else None
        if listed is None and world.multi and text is None and _prints_every_node(shown):
            yield LintFinding(
                span=address.span,
                summary=f"{address.written} is what `{shown.strip('$()`').strip()}` prints: a line for each node",
                happens="The lines are one word for getaddrinfo (Name or service not known), or several words: the"
                " second node's name is taken for the program.",
                fix='Take the first one: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1).',
            )
        if listed is not None:
            yield LintFinding(
                span=address.span,
                summary=f"{address.written} is {address.shown}: the list of all nodes, not the head",
                happens="gaierror: Name or service not known.",
                fix="Take the first one"
                + (f': $(scontrol show hostnames "${listed[1]}" | head -n1).' if "SLURM" in listed[1] else "."),
            )
        if not text or _PLACEHOLDER.search(text) or text in ("*", "0"):
            continue
        why, right = _wrong_host(text, "endpoint" in address.written.lower())
        if why:
            yield LintFinding(
                span=address.span,
                summary=f'{address.written} has "{text}" where a host name or address is due: {why}',
                happens="gaierror: Name or service not known, or a connection to a wild address that times out.",
                fix=f"Write {right}." if right else "Write the head's name or IP address alone.",
                edits=everywhere(world, look.master, address, host=right) if right else (),
            )


def _wrong_host(text: str, endpoint: bool) -> tuple[str, str]:
    """What is wrong with it, and the right one where that is plain."""
    scheme = re.fullmatch(r"[a-z0-9+]+://(?:[^@/]*@)?([\w.-]+)(?::\d+)?/?", text, re.IGNORECASE | re.ASCII)
    if "://" in text:
        return "it is a URL", scheme[1] if scheme else ""
    if "@" in text:
        return "it has a user in it", text.rsplit("@", 1)[1]
    if re.search(r"[\s,;]", text):
        return "it names several", re.split(r"[\s,;]+", text.strip())[0] if "[" not in text else ""
    if re.search(r"[a-z]\[[\d,-]+\]", text):
        return "it is a list of nodes", ""
    if "/" in text:
        return "it has a path or a network mask in it", text.split("/", 1)[0]
    with_port = re.fullmatch(r"([\w.-]+):\d+", text, re.ASCII)
    if with_port and not endpoint:
        return "the port has an option of its own", with_port[1]
    if re.fullmatch(r"\d+", text, re.ASCII):
        value = int(text)
        shown = str(ipaddress.IPv4Address(value)) if value < 1 << 32 else ""
        return "it is a number" + (f", which means {shown}" if shown else ""), ""
    if re.fullmatch(r"[\d.]+", text, re.ASCII) and _address(text) is None:
        return "it is no IPv4 address (four numbers from 0 to 255)", ""
    return "", ""


_OF_ALL = lazy_re(
    r"(?:\$\(|`)\s*(?:scontrol show host(?:name)?s?\b|srun\b(?P<step>[^|]*?)\bhostname\b|(?:cat|uniq|sort(?: -u)?) "
    r"[\"']?\$\{?(?:PBS_NODEFILE|LSB_DJOB_HOSTFILE|PE_HOSTFILE|OAR_NODEFILE)\b)[^|`;&]*[)`]"
)
_ONE_TASK = lazy_re(r"(?:-n ?|--ntasks[= ])1\b")
_SOME_NODES = lazy_re(r"(?:^|\s)(?:-N|-w|--nodes|--nodelist|--het-group|-r|--relative)")
_TASKS = lazy_re(r"(?:-n ?|--ntasks[= ])(?:[2-9]|\d\d)")


def _prints_every_node(shown: str) -> bool:
    """A command substitution whose output nothing cuts."""
    match = _OF_ALL.fullmatch(shown)
    step = match["step"] if match is not None else None
    if match is None or step is None:
        return match is not None
    return not _ONE_TASK.search(step) and (not _SOME_NODES.search(step) or _TASKS.search(step) is not None)


@rule(
    "A07",
    title="The head recognises itself in c10d's endpoint",
    severity="info",
    needs="probe",
    source="measured with torch 2.13; pytorch#67581",
    leads_to=("rdzv-host-mismatch",),
    bad=(
        C10D.format("192.168.56.101:29400"),
        "#@ every node\n" + C10D.format("10.20.0.11:29400").replace("=2 ", "=1:2 --max-restarts=3 "),
    ),
    good=(
        _GOOD_C10D,
        "#@ node 0\n" + C10D.format("10.20.0.11:29400 --rdzv-conf=is_host=1 --local-addr=10.20.0.11"),
        GOOD,
    ),
)
def c10d_by_address(job: LintJob) -> Iterator[LintFinding]:
    """With c10d the node that finds itself in the endpoint opens the store: by its host name, or because its host name
    resolves to the address. With a line like `127.0.1.1 NAME` in /etc/hosts, in containers and with cloud aliases it
    does not: nobody opens the store. Only the head can tell."""
    for world, launch, master in _once(job):
        address = _address(master.sure)
        if not world.multi or backend_is_not_c10d(launch) or address is None or is_loopback(master.sure or ""):
            continue
        configuration = value(launch, "rdzv-conf")
        if configuration is not None and (configuration.text is None or "is_host" in configuration.shown):
            continue
        if address.is_unspecified:
            continue  # A05
        yield LintFinding(
            span=master.span,
            summary=f"c10d's endpoint is the address {master.sure}; it works only if the head's host name resolves"
            f" to it",
            happens="Where it does not (127.0.1.1 in /etc/hosts, a container), nobody opens the store: all nodes end "
            "with 'timed out after 60000ms'.",
            fix=f"On the head, `getent ahosts $(hostname)` must show {master.sure}. Else write the name that"
            f" `hostname` shows"
            " there, add --rdzv-conf=is_host=1 on the head (is_host=0 on the others), or use the static rendezvous.",
        )


def backend_is_not_c10d(launch: LintLaunch) -> bool:
    return look.endpoint(launch) is None or look.backend(launch) != "c10d"


@rule(
    "A08",
    title="Every node resolves the host name of the node with rank 0",
    severity="info",
    needs="probe",
    source="measured with torch 2.13; pytorch#73656, #74824",
    leads_to=("master-unreachable",),
    bad=(_GOOD_C10D, "#@ every node\n" + C10D.format("$HEAD:29400")),
    good=(GOOD, C10D.format("head01:29400 --local-addr=10.20.0.11")),
)
def c10d_needs_names(job: LintJob) -> Iterator[LintFinding]:
    """After the c10d rendezvous the workers connect to rank 0's full host name and a random port, whatever the endpoint
    said. Where the other nodes cannot resolve that name, the rendezvous passes and the workers hang. --local-addr makes
    it an address. Only the nodes can tell, so this is a note and not a warning."""
    for world, launch, _found in _once(job):
        if world.multi and not backend_is_not_c10d(launch) and look.value(launch, "local-addr") is None:
            place = look.endpoint(launch)
            assert place is not None
            yield LintFinding(
                span=place.span,
                summary="c10d hands the workers rank 0's host name and a random port, not this endpoint",
                happens="Where a node cannot resolve that name, the rendezvous passes and the workers hang.",
                fix="On every other node, `getent ahosts NAME` must answer for the name that `hostname -f` shows on "
                "each node; else add --local-addr with each node's own address.",
            )
            return


@rule(
    "A12",
    title="An IPv6 address in an endpoint stands in brackets",
    source="measured with torch 2.13",
    bad=(C10D.format("fd00:20::11:29400"), C10D.format("fd00:20::11"), C10D.format("[fd00:20::11:29400")),
    good=(C10D.format("[fd00:20::11]:29400"), C10D.format("'[fd00:20::11]:29400'"), _GOOD_C10D),
)
def ipv6_without_brackets(job: LintJob) -> Iterator[LintFinding]:
    """host:port is split at a colon, and an IPv6 address is full of them: only brackets say where it ends."""
    for world in look.worlds(job):
        for launch in world.launches:
            whole = look.endpoint(launch)
            text = whole.sure if whole is not None else None
            if (
                whole is None
                or text is None
                or text.count(":") < 2
                or "://" in text
                or not re.fullmatch(r"[\[\]0-9a-fA-F:.%]+", text)
            ):
                continue
            if re.fullmatch(r"\[[^\[\]]+\](?::\d+)?", text, re.ASCII):
                continue
            bare = text.replace("[", "").replace("]", "")
            host, _, port = bare.rpartition(":")
            if not (re.fullmatch(r"\d{4,5}", port, re.ASCII) and _address(host) is not None):
                host, port = bare, "29400"
            right = f"[{host}]:{port}"
            yield LintFinding(
                span=whole.span,
                summary=f"{whole.written} is {text}: an IPv6 address without its brackets",
                happens="A parse error, or the last group of the address is taken for the port.",
                fix=f"Write {right}.",
                edits=(Edit(whole.span, right),),
            )


@rule(
    "A13",
    title="The head's address is one of a chosen interface",
    severity="warning",
    needs="probe",
    source="the source of DeepSpeed's runner; threads",
    leads_to=("master-addr-loopback", "master-unreachable"),
    bad=(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nexport HEAD=$(hostname -I | awk '{print $1}')\n"
        "srun bash -c '" + STATIC.format("$SLURM_NODEID", "$HEAD").strip() + "'\n",
        "#@ node 0\nIP=$(hostname --ip-address)\n" + STATIC.format(0, "$IP"),
    ),
    good=(GOOD, "#@ node 0\nHEAD=$(hostname)\n" + STATIC.format(0, "$HEAD")),
)
def first_of_many_addresses(job: LintJob) -> Iterator[LintFinding]:
    """`hostname -I` lists the addresses of all interfaces in no promised order, and `hostname -i` asks the resolver: on
    a head with docker0, a management network or a 127.0.1.1 line in /etc/hosts nobody reaches the answer."""
    for world, launch, address in _once(job):
        if not world.multi:
            continue
        for origin in look.origins(address.word, launch.invocation):
            asked = re.search(r"\bhostname\s+(-I|-i|--ip-address|--all-ip-addresses)\b", origin.raw)
            if asked is None:
                continue
            yield LintFinding(
                span=origin.span or address.span,
                # The resolver's answer is right on most clusters; the first of a list is whatever came first.
                severity=None if asked[1] in ("-I", "--all-ip-addresses") else "info",
                summary=f"{address.written} comes from `hostname {asked[1]}`,"
                " which may give any of the head's addresses",
                happens="With docker0, a management network, or `127.0.1.1 NAME` in /etc/hosts the others cannot reach "
                "it: they wait until a time-out.",
                fix="Compare it with `ip -brief address` on the head; on a cluster use the head's name, or"
                " `ip -o route get ADDRESS_OF_ANOTHER_NODE` on the head, whose `src` is the right one.",
            )
            break


@rule(
    "A14",
    title="The head's name is spelled alike on all nodes, and is a valid host name",
    severity="warning",
    needs="probe",
    source="our inference; RFC 952 and RFC 1123",
    leads_to=("master-unreachable",),
    bad=(
        C10D.format("gpu_node_1:29400"),
        "#@ node 0\n" + C10D.format("head01:29400") + "#@ node 1\n" + C10D.format("head01.cluster:29400"),
        "#@ node 0\n" + STATIC.format(0, "Head01") + "#@ node 1\n" + STATIC.format(1, "head01"),
    ),
    good=(GOOD, _GOOD_C10D),
)
def doubtful_name(job: LintJob) -> Iterator[LintFinding]:
    """A name with an underscore is no valid host name, and some resolvers refuse it. A name that is written with a
    domain here and without one there may resolve to different addresses in each node's /etc/hosts."""
    for world, given in addressed(job):
        names = [(launch, address) for launch, address in given if address.sure and _address(address.sure) is None]
        names = [name for name in names if not is_loopback(name[1].shown) and not _PLACEHOLDER.search(name[1].shown)]
        if not names or not look.is_multi(job, world):
            continue
        for launch, address in names[1:]:
            first_launch, first = names[0]
            one, other = address.sure or "", first.sure or ""
            if one != other and one.lower().split(".")[0] == other.lower().split(".")[0]:
                asked = command("getent ahosts {:host}", other) or "getent ahosts NAME"
                yield LintFinding(
                    span=address.span,
                    summary=f"{address.written} is {one} on {label(job, launch)} and {other} on"
                    f" {label(job, first_launch)}",
                    happens="Each node's resolver may give another address for them; some nodes then wait for a"
                    " time-out.",
                    fix=f"Write one of them, {other}, or the address on all nodes; `{asked}` must give the same answer "
                    "everywhere.",
                    edits=(replace_piece(address, host=other),),
                )
        first_launch, first = names[0]
        if "_" in (first.sure or "") and "/" not in first.shown:
            asked = command("getent ahosts {:host}", first.sure) or "getent ahosts NAME"
            yield LintFinding(
                span=first.span,
                summary=f"{first.written} is {first.sure}, with an underscore, which host names do not have",
                happens="Some resolvers refuse such a name: 'Name or service not known' on the nodes that use them.",
                fix=f"Use the head's IP address; `{asked}` on every node shows whether the name works.",
            )
