"""The report of NCCL's RAS as text (2.24 on) and as JSON (2.28.7 on) -> `Ras`. Pure functions over what was received.

The text is made in NCCL's src/ras/client_support.cc. It lists the ranks that are off the majority, all by name only
where they are few; so besides them it is kept how many ranks have come how far.
"""

import re
from typing import Any

import msgspec

from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.ras import Ras, RasCommunicator, RasRank

MOST_COMMUNICATORS = 16384
MOST_RANKS = 1 << 17
MOST_LINES = 1_000_000
LONGEST_NAME = 253

_VERSION = lazy_re(r"NCCL version (\d[\w.+-]{0,31})")
_COMMUNICATOR = lazy_re(r"#(\d+)-(\d+) \(([0-9a-fA-F:x]+)\) ([A-Z]+)\s*")
_GROUP = lazy_re(
    r"\s*(?P<group>\d+)\s+(?P<count>\d+)\s+(?P<nodes>\d+)\s+(?P<per_node>\d+(?:-\d+)?)\s+(?P<size>\d+)\s+"
    r"(?P<ranks>\d+)\s+(?P<status>[A-Z]+)\s+(?P<errors>[A-Z,]+)\s*"
)
_COUNTS = lazy_re(r"\s*Communicator ranks have different (.{1,40}?) operation counts\s*")
_STATUSES = lazy_re(r"\s*Communicator ranks have different status\s*")
_LAUNCHED = lazy_re(r"\s*(\d+) ranks have launched up to operation (\d+)\s*")
_NOT_LAUNCHED = lazy_re(r"\s*(\d+) ranks have not launched any operations\s*")
_HAVE_STATUS = lazy_re(r"\s*(\d+) ranks have status ([A-Z]+)\s*")
_RANK = lazy_re(
    r"\s*Rank (?P<rank>\d+)(?: has launched up to operation (?P<count>\d+)| (?P<none>has not launched any operations)"
    r"| has status (?P<status>[A-Z]+)| reported (?P<error>.{1,80}?))?"
    r" -- (?:GPU \S+(?: \(NVML [^)]{1,40}\))? managed by process (?P<pid>\d+) on node (?P<host>\S+)"
    r"|\[process information not found\])\s*"
)
_MISSING = lazy_re(r"\s*The (?:missing|unknown) ranks?: ([\d,]+)\s*")


class UnreadableRas(Exception):
    """What came is no report of RAS. The text says so in a phrase."""


def parse(raw: bytes, at: float, source: str) -> Ras:
    """Read a report, text or JSON. Raises `UnreadableRas`."""
    stripped = raw.lstrip()
    if stripped.startswith(b"{"):
        return _of_json(stripped, at, source)
    return _of_text(raw.decode("utf-8", "replace"), at, source)


# ---------------------------------------------------------------- text


class _Communicator:
    def __init__(self, identity: str, size: int) -> None:
        self.identity = identity
        self.size = size
        self.errors: list[str] = []
        self.ranks: dict[int, dict[str, Any]] = {}
        self.missing: dict[int, None] = {}
        self.parties: dict[str, list[tuple[int, int]]] = {}

    def made(self) -> RasCommunicator:
        return RasCommunicator(
            id=self.identity,
            size=self.size,
            errors=" ".join(self.errors) or "OK",
            ranks=tuple(RasRank(rank=rank, **told) for rank, told in sorted(self.ranks.items())),
            missing=tuple(RasRank(rank=rank) for rank in sorted(self.missing)),
            parties={name: tuple(parties) for name, parties in self.parties.items()},
        )


class _RasText:
    """Goes through the lines; what a "Rank 3 -- ..." line means stands in the lines before it."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.groups: list[RasCommunicator] = []
        self.found: dict[str, _Communicator] = {}
        self.now: _Communicator | None = None
        self.counting: str | None = None
        """The collective whose counts are being listed."""
        self.count: int | None = None
        self.status = ""

    def line(self, line: str) -> None:
        if match := _COMMUNICATOR.fullmatch(line):
            if len(self.found) < MOST_COMMUNICATORS:
                name = match[3]
                new = _Communicator(name, self.sizes.get(match[1], 0))
                self.now = self.found.setdefault(name, new)
                if match[4] not in self.now.errors:
                    self.now.errors.append(match[4])
            self.counting, self.count, self.status = None, None, ""
            return
        if not line.strip():
            self.now = None
            return
        if match := _GROUP.fullmatch(line):
            if len(self.sizes) < MOST_COMMUNICATORS:
                self.sizes[match["group"]] = _number(match["size"])
                status, errors = match["status"], match["errors"]
                many = f"group {match['group']}, {match['count']} communicators, {status}"
                self.groups.append(RasCommunicator(id=many, size=_number(match["size"]), errors=errors))
            return
        now = self.now
        if now is None:
            return
        if match := _COUNTS.fullmatch(line):
            # 2.24 and 2.25 count all collectives together
            self.counting, self.count, self.status = match[1] if match[1] != "collective" else "", None, ""
        elif _STATUSES.fullmatch(line):
            self.counting, self.count, self.status = None, None, ""
        elif self.counting is not None and (match := _LAUNCHED.fullmatch(line)):
            self.count = _number(match[2])
            self.party(now, _number(match[1]), self.count)
        elif self.counting is not None and (match := _NOT_LAUNCHED.fullmatch(line)):
            self.count = 0
            self.party(now, _number(match[1]), 0)
        elif match := _HAVE_STATUS.fullmatch(line):
            self.status = match[2]
        elif match := _RANK.fullmatch(line):
            self.rank(now, match)
        elif match := _MISSING.fullmatch(line):
            for digits in match[1].split(",")[:MOST_RANKS]:
                if digits:
                    now.missing[_number(digits)] = None

    def party(self, now: _Communicator, ranks: int, count: int) -> None:
        now.parties.setdefault(self.counting or "", []).append((ranks, count))

    def rank(self, now: _Communicator, match: "re.Match[str]") -> None:
        rank = _number(match["rank"])
        if len(now.ranks) >= MOST_RANKS:
            return
        if now.errors[-1:] == ["INCOMPLETE"]:
            now.missing[rank] = None
            return
        entry = now.ranks.setdefault(rank, {})
        if match["pid"]:
            entry.update(host=match["host"][:LONGEST_NAME], pid=_number(match["pid"]))
        if match["error"]:
            entry["status"] = match["error"]
        elif self.counting is None:
            entry["status"] = match["status"] or self.status
        else:
            alone = match["count"] is not None or match["none"] is not None
            count = _number(match["count"] or "0") if alone else self.count
            if count is not None:
                entry.setdefault("counts", {})[self.counting] = count
                if alone:
                    self.party(now, 1, count)


def _of_text(text: str, at: float, source: str) -> Ras:
    version = _VERSION.search(text[:4096])
    if version is None:
        raise UnreadableRas("what answers there is not NCCL's RAS")
    reader = _RasText()
    for line in text.splitlines()[:MOST_LINES]:
        reader.line(line[:65536])
    return Ras(
        at=at,
        source=source,
        nccl=version[1],
        communicators=(*(communicator.made() for communicator in reader.found.values()), *reader.groups),
    )


def _number(digits: str) -> int:
    return int(digits[:18])


# ---------------------------------------------------------------- JSON


def _of_json(raw: bytes, at: float, source: str) -> Ras:
    try:
        answer = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise UnreadableRas(f"its JSON is broken: {str(error)[:120]}") from None
    communicators = answer.get("communicators") if isinstance(answer, dict) else None
    if not isinstance(communicators, list):
        raise UnreadableRas("what answers there is not NCCL's RAS")
    version = answer.get("nccl_version")
    return Ras(
        at=at,
        source=source,
        nccl=version[:32] if isinstance(version, str) else "",
        communicators=tuple(
            _communicator(communicator)
            for communicator in communicators[:MOST_COMMUNICATORS]
            if isinstance(communicator, dict)
        ),
    )


def _communicator(tree: dict[str, Any]) -> RasCommunicator:
    identity = ":".join(_word(tree.get(name)) for name in ("hash", "secondary_hash"))
    return RasCommunicator(
        id=identity,
        size=_integer(tree.get("size")),
        ranks=tuple(_rank(each) for each in _dicts(tree.get("ranks"))),
        missing=tuple(_rank(each) for each in _dicts(tree.get("missing_ranks"))),
    )


def _rank(tree: dict[str, Any]) -> RasRank:
    status = tree.get("status")
    counts = tree.get("collective_counts")
    return RasRank(
        rank=_integer(tree.get("rank")),
        host=_word(tree.get("host")),
        pid=_integer(tree.get("pid")),
        counts={_word(name): _integer(count) for name, count in list(counts.items())[:32]}
        if isinstance(counts, dict)
        else {},
        status=_status(status) if isinstance(status, dict) else "",
    )


def _status(tree: dict[str, Any]) -> str:
    """As NCCL's own text names it (client_support.cc: RAS_ACS_*)."""
    if tree.get("considered_dead"):
        return "dead"
    if tree.get("unresponsive"):
        return "unresponsive"
    if tree.get("abort_flag"):
        return "ABORT"
    if tree.get("finalize_called") or tree.get("destroy_flag"):
        return "FINALIZE"
    if "init_state" not in tree:
        return ""
    return "RUNNING" if tree["init_state"] == 0 else "INIT"


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value[:MOST_RANKS] if isinstance(each, dict)] if isinstance(value, list) else []


def _integer(value: object) -> int:
    return value if isinstance(value, int) and -(1 << 62) < value < 1 << 62 else 0


def _word(value: object) -> str:
    return value[:LONGEST_NAME].encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""
