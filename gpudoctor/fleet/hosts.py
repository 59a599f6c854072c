"""Which nodes a user means: `--hosts n[01-16],admin@n17:2222` and hostfiles.

Names are folded as ClusterShell, SLURM and pdsh fold them, and expanded by ClusterShell. What is no host name is
refused here, before any of it can become an option or a word of a command.
"""

import ipaddress
from typing import NoReturn

from gpudoctor import bounded
from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Node
from gpudoctor.lazy import lazy_re

MAXIMUM_HOSTS = 16384
"""More than any training uses; expanding n[1-100000000] takes minutes and all memory."""
MAXIMUM_NAME = 253  # RFC 1035

_USER = lazy_re(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_NAME = lazy_re(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")
_PORT = lazy_re(r"[0-9]{1,5}")
_FOLDED = lazy_re(r"\[([0-9,/-]*)\]")
_BRACKETED_ADDRESS = lazy_re(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?)\](?::(.*))?")
_ADDRESS = lazy_re(r"([0-9A-Fa-f:.]+)(?:%[A-Za-z0-9][A-Za-z0-9._-]*)?")
_SLOTS = lazy_re(r"slots=([0-9]{1,4})")
_PASSED_OVER = lazy_re(r"max[_-]slots=[0-9]{1,4}")
"""Words of Open MPI's hostfiles that mean nothing here."""


class BadHosts(BadInput):
    """What was named is no list of hosts; the message is one line for the user."""


def from_hosts(text: str) -> tuple[Node, ...]:
    """The nodes of `--hosts`, in the order in which they are named. Raises `BadHosts`."""
    if not text.strip():
        raise BadHosts("no host is named")
    nodes: list[Node] = []
    for piece in _pieces(text):
        if not piece:
            raise BadHosts(f"{text[:80]!r}: two commas in a row, or one at an end")
        nodes += _nodes(piece)
        if len(nodes) > MAXIMUM_HOSTS:
            _too_many(text)
    return _each_once(nodes)


def from_hostfile(path: str) -> tuple[Node, ...]:
    """The nodes of a hostfile: a host a line, `slots=N` (ranks there) and comments after `#`. Raises `BadHosts`."""
    try:
        raw = bounded.contents(path, bounded.HOSTFILE.size)
    except bounded.TooLarge as error:
        raise BadHosts(f"hostfile {path}: {error}; that is no list of hosts") from None
    except bounded.Refused as error:
        raise BadHosts(f"hostfile {path}: {error}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadHosts(f"hostfile {path}: not a text file") from None
    nodes: list[Node] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            nodes += _of_line(line)
        except BadHosts as error:
            raise BadHosts(f"hostfile {path}, line {number}: {error}") from None
        if len(nodes) > MAXIMUM_HOSTS:
            _too_many(f"hostfile {path}")
    try:
        return _each_once(nodes)
    except BadHosts as error:
        raise BadHosts(f"hostfile {path}: {error}") from None


def is_host(text: str) -> bool:
    """Whether this is one host's name or address, without user, port and brackets."""
    address = _ADDRESS.fullmatch(text)
    if ":" in text and address is not None:
        try:
            ipaddress.IPv6Address(address.group(1))
        except ValueError:
            return False
        return True
    return len(text) <= MAXIMUM_NAME and _NAME.fullmatch(text) is not None


def _of_line(line: str) -> list[Node]:
    words = line.partition("#")[0].split()
    if not words:
        return []
    slots = 0
    for word in words[1:]:
        match = _SLOTS.fullmatch(word)
        if match:
            slots = int(match.group(1))
        elif not _PASSED_OVER.fullmatch(word):
            raise BadHosts(f"{word[:80]!r} is not understood; a line is HOST or HOST slots=N")
    return [
        Node(node.name, user=node.user, port=node.port, slots=slots)
        for piece in _pieces(words[0])
        for node in _nodes(piece)
    ]


def _pieces(text: str) -> list[str]:
    """Split at the commas (or blanks) that are not inside brackets."""
    pieces, depth, piece = [], 0, ""
    for letter in ",".join(text.split()):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            pieces.append(piece)
            piece = ""
        else:
            piece += letter
    return [*pieces, piece]


def _nodes(piece: str) -> list[Node]:
    """`[user@]host[:port]` with a folded host -> its nodes. Raises `BadHosts`."""
    user, at, host = piece.rpartition("@")
    if at and not _USER.fullmatch(user):
        _refuse(piece, f"{user[:80]!r} is no user's name" if user else "a user's name is missing before @")
    name, port = _split(piece, host)
    if ":" in name:
        return [Node(name, user=user, port=port)]
    names = _unfolded(piece, name)
    for one in names:
        if len(one) > MAXIMUM_NAME or not _NAME.fullmatch(one):
            _refuse(piece, "a host's name has letters, digits, '.', '_' and '-', and begins with a letter or digit")
    return [Node(one, user=user, port=port) for one in names]


def _split(piece: str, host: str) -> tuple[str, int]:
    """The host without brackets around an IPv6 address, and the port; 0 when none is given."""
    bracketed = _BRACKETED_ADDRESS.fullmatch(host)
    if bracketed:
        name, port = bracketed.group(1), bracketed.group(2)
    elif host.count(":") > 1:
        name, port = host, None
    else:
        name, colon, number = host.partition(":")
        port = number if colon else None
    if ":" in name:
        address = _ADDRESS.fullmatch(name)
        try:
            ipaddress.IPv6Address(address.group(1) if address else "")
        except ValueError:
            _refuse(piece, "no IPv6 address; with a port it is written [ADDRESS]:PORT")
    if port is None:
        return name, 0
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        _refuse(piece, f"{port[:80]!r} is no port of ssh (1 to 65535)")
    return name, int(port)


def _unfolded(piece: str, name: str) -> list[str]:
    """n[01-03] -> n01, n02, n03. Raises `BadHosts`."""
    if "[" not in name and "]" not in name:
        return [name]
    ranges = _FOLDED.findall(name)
    rest = _FOLDED.sub("1", name)
    if not _NAME.fullmatch(rest):
        _refuse(piece, "names are folded as in n[01-16] or n[1-4,7]")
    count = 1
    for numbers in ranges:
        count *= _count(piece, numbers)
        if count > MAXIMUM_HOSTS:
            _too_many(piece)
    from gpudoctor.fleet.nodeset import expanded

    try:
        return expanded(name)
    except ValueError as error:
        _refuse(piece, str(error).replace('"', "'"))


def _count(piece: str, numbers: str) -> int:
    """How many numbers `1-4,7` holds, at most."""
    count = 0
    for part in numbers.split(","):
        first, dash, last = part.partition("/")[0].partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 20:
            _refuse(piece, f"'[{numbers[:80]}]' is no range of numbers")
        count += max(0, int(last) - int(first)) + 1 if dash else 1
    return count


def _each_once(nodes: list[Node]) -> tuple[Node, ...]:
    seen: set[str] = set()
    for node in nodes:
        if node.name.lower() in seen:
            raise BadHosts(f"{node.name} is named twice")
        seen.add(node.name.lower())
    if not nodes:
        raise BadHosts("no host is named")
    return tuple(nodes)


def _refuse(piece: str, why: str) -> NoReturn:
    raise BadHosts(f"{piece[:80]!r}: {why}")


def _too_many(what: str) -> NoReturn:
    raise BadHosts(f"{what[:80]!r}: more than {MAXIMUM_HOSTS} hosts")
