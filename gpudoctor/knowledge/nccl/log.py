"""What NCCL's log says of a run: its version, the network it took, how each pair of ranks talks.

Formats read in NCCL's source from 2.18.3 to 2.30.7 (init.cc, bootstrap.cc, transport/*.cc, enqueue.cc, debug.cc). A
record is "host:pid:tid [device] NCCL INFO text", or "... file:line NCCL WARN text". Nothing here raises for a text
that is cut off, interleaved or no log at all: what is not found stays at its default.
"""

import re
from collections.abc import Iterator

from msgspec import Struct, field

from gpudoctor.lazy import lazy_re

MOST_CHARACTERS = 4096
"""Of a record; NCCL's own buffer has 1,024 (debug.cc)."""
MOST_WARNINGS = 100
MOST_ENTRIES = 100_000
"""Of each list, against a text that is made to fill the memory."""

ALGORITHMS = ("Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT")
"""By number, as releases before 2.24 log them (nccl_common.h)."""
PROTOCOLS = ("LL", "LL128", "Simple")


class Adapter(Struct, frozen=True):
    """A NIC that the IB transport uses, or one of those that it merged into one device."""

    device: int
    """NCCL's number of the (merged) device: the one in "NET/IB/3"."""
    name: str
    port: int
    link: str
    """ "IB" or "RoCE"."""


class SocketInterface(Struct, frozen=True):
    name: str
    address: str


class PeerPath(Struct, frozen=True):
    """How data goes from one rank to another, over all channels that take the same way."""

    sender: int
    receiver: int
    transport: str
    """ "P2P/CUMEM", "P2P/IPC", "P2P/MNNVL", "P2P/direct pointer", "P2P/indirect", "SHM/direct", "NET/IB",
    "NET/Socket", "NET/AWS Libfabric" ..."""
    devices: tuple[int, ...] = ()
    """NCCL's numbers of the network devices; () without a network."""
    gdr: bool | None = None
    """Whether every channel uses GPUDirect RDMA; None without a network."""
    channels: int = 1


class Choice(Struct, frozen=True):
    """The algorithm and protocol of one collective at one size (subsystem TUNING)."""

    collective: str
    """NCCL's name, "AllReduce"; empty before 2.24."""
    size_bytes: int
    algorithm: str
    """ "Ring", "Tree", "NVLS", ... as NCCL_ALGO spells it."""
    protocol: str


class LogFacts(Struct, frozen=True, kw_only=True):
    """What one log says, of one rank or of several."""

    version: str = ""
    """ "2.27.5"; empty when the log does not say."""
    cuda_version: str = ""
    network: str = ""
    """ "IB", "Socket", or a plugin's name ("AWS Libfabric"); empty when the log does not say."""
    adapters: tuple[Adapter, ...] = ()
    socket_interfaces: tuple[SocketInterface, ...] = ()
    """What NET/Socket uses."""
    bootstrap: SocketInterface | None = None
    """The interface by which the ranks find each other."""
    out_of_band: SocketInterface | None = None
    """The interface of the IB transport's handshake."""
    paths: tuple[PeerPath, ...] = ()
    ranks: int = 0
    """Of the largest communicator; 0 when the log does not say."""
    nodes: int = 0
    """As NCCL counts them: by host name and boot id, or NCCL_HOSTID. Since 2.21; else 0."""
    local_ranks: int = 0
    choices: tuple[Choice, ...] = ()
    nvls_available: bool | None = None
    nvls_channels: int | None = None
    """Channels that reduce in the NVSwitch; 0: it is not used. None when the log does not say."""
    gdr_adapters: dict[str, bool] = field(default_factory=dict)
    """Device -> whether NCCL found GPUDirect RDMA for it (subsystem NET)."""
    settings: dict[str, str] = field(default_factory=dict)
    """NCCL_* variables that NCCL found set, by the environment or a file."""
    warnings: tuple[str, ...] = ()
    """The WARN records, without their prefix, in order, each once."""

    def transports(self) -> frozenset[str]:
        """ "P2P", "SHM", "NET": the kinds in use."""
        return frozenset(path.transport.partition("/")[0] for path in self.paths)

    def algorithm(self, collective: str, size_bytes: int) -> str:
        """The algorithm of NCCL's `collective` ("AllReduce") at the largest size up to `size_bytes`; "" if unknown."""
        fitting = [
            choice
            for choice in self.choices
            if choice.collective in ("", collective) and choice.size_bytes <= size_bytes
        ]
        return max(fitting, key=lambda choice: choice.size_bytes).algorithm if fitting else ""


RECORD = lazy_re(r" NCCL (INFO|WARN|TRACE) ")

_VERSION = lazy_re(r"NCCL version ([0-9]+\.[0-9]+\.[0-9]+)[^\s+]*(?:\+cuda([0-9.]+))?")
_PAIR = r"([0-9]{1,9})\[[^\]\s]*\] -> ([0-9]{1,9})\[[^\]\s]*\]"
_CHANNEL = lazy_re(r"Channel [0-9]+(?:/[0-9]+)? : " + _PAIR + r" (?:\[(?:send|receive)\] )?via (.+)")
_NETWORK_PATH = lazy_re(r"NET/(.*?)/([0-9]{1,6})(?:\([0-9]+\))?((?:/.*)?)$")
_COMM = lazy_re(r"comm \S+ rank [0-9]+ (?:nRanks|nranks) ([0-9]{1,9})(?: nNodes ([0-9]{1,9}) localRanks ([0-9]{1,9}))?")
_NAMED_NETWORK = lazy_re(r"Using network (.+)")
_BOOTSTRAP = lazy_re(r"Bootstrap ?: Using ([^:\s]+):(\S+?)<[0-9]+>")
_ADAPTER = lazy_re(r"\[([0-9]{1,6})\]\s?([A-Za-z0-9_.\-]+):([0-9]{1,6})(?::-?[0-9]{1,6}){0,2}/(IB|RoCE)")
"""Behind the port stand its rail and plane where NCCL_IB_HCA names them (2.30.7 on)."""
_MERGED = lazy_re(r"\[([0-9]{1,6})\]=\{([^}]*)\}")
_OUT_OF_BAND = lazy_re(r"OOB ([^:\s]+):(\S+?)<[0-9]+>")
_SOCKET = lazy_re(r"\[[0-9]{1,6}\]([^:\s]+):(\S+?)<[0-9]+>")
_CHOICE = lazy_re(r"(?:([A-Za-z]+)(?: \[[^\]]*\])?: )?([0-9]{1,18}) Bytes -> Algo (\w+) proto (\w+)")
_NVLS = lazy_re(r"NVLS multicast support is (not )?available")
_NVLS_CHANNELS = lazy_re(r"collnet channels, ([0-9]{1,6}) nvls channels")
_GDR = lazy_re(r"NET/.*?: GPU Direct RDMA (Enabled|Disabled) for HCA [0-9]+ '([^']*)'")
_SETTING = lazy_re(r"(NCCL_[A-Z0-9_]+) set by environment to (.*)")


def records(text: str) -> Iterator[tuple[str, str]]:
    """(level, text) of every record; the next record's prefix may hang on where two were written into one line."""
    for line in text.split("\n"):
        if "NCCL" not in line:
            continue
        parts = RECORD.split(line)
        for level, message in zip(parts[1::2], parts[2::2], strict=True):
            yield level, message[:MOST_CHARACTERS].strip()
        if len(parts) == 1 and (start := line.find("NCCL version ")) >= 0:  # it stands alone, without a prefix
            yield "VERSION", line[start : start + MOST_CHARACTERS]


def read_log(text: str) -> LogFacts:
    """The facts of a log. Never raises; linear in the length of the text."""
    reader = _LogReader()
    for level, message in records(text):
        reader.take(level, message)
    return reader.facts()


class _LogReader:
    """What was found so far."""

    def __init__(self) -> None:
        self.version = self.cuda = self.network = ""
        self.adapters: dict[Adapter, None] = {}
        self.sockets: dict[SocketInterface, None] = {}
        self.bootstrap: SocketInterface | None = None
        self.out_of_band: SocketInterface | None = None
        self.paths: dict[tuple[int, int, str], tuple[set[int], bool | None, int]] = {}
        self.world = (0, 0, 0)
        self.choices: dict[Choice, None] = {}
        self.nvls: bool | None = None
        self.nvls_channels: int | None = None
        self.gdr: dict[str, bool] = {}
        self.settings: dict[str, str] = {}
        self.warnings: dict[str, None] = {}

    def take(self, level: str, message: str) -> None:
        if level == "WARN":
            if len(self.warnings) < MOST_WARNINGS:
                self.warnings.setdefault(message)
        elif message.startswith("Channel "):
            self._channel(message)
        elif " Bytes -> Algo " in message:
            self._choice(message)
        elif " set by environment to " in message:
            self._setting(message)
        else:
            self._start(message)

    def _channel(self, message: str) -> None:
        match = _CHANNEL.match(message)
        if match is None or len(self.paths) >= MOST_ENTRIES:
            return
        transport, device, gdr = _transport(match[3])
        key = int(match[1]), int(match[2]), transport
        devices, before, channels = self.paths.get(key, (set(), gdr, 0))
        if device is not None:
            devices.add(device)
        self.paths[key] = devices, gdr if before is None else before and bool(gdr), channels + 1

    def _choice(self, message: str) -> None:
        match = _CHOICE.search(message)
        if match and len(self.choices) < MOST_ENTRIES:
            self.choices.setdefault(
                Choice(match[1] or "", int(match[2]), algorithm_name(match[3]), protocol_name(match[4]))
            )

    def _setting(self, message: str) -> None:
        match = _SETTING.search(message)
        if match and len(self.settings) < MOST_ENTRIES:
            value = match[2]
            # The line of a number ends with a period (param.cc), that of a text does not.
            self.settings[match[1]] = value[:-1] if re.fullmatch(r"-?[0-9]+\.", value) else value

    def _start(self, message: str) -> None:
        """The lines that a rank writes once, when it starts."""
        if not self.version and (match := _VERSION.search(message)):
            self.version, self.cuda = match[1], (match[2] or "").rstrip(".")
        elif match := _COMM.search(message):
            self.world = max(self.world, (int(match[1]), int(match[2] or 0), int(match[3] or 0)))
        elif match := _NAMED_NETWORK.match(message):
            self.network = match[1]
        elif match := _BOOTSTRAP.match(message):
            self.bootstrap = SocketInterface(match[1], match[2])
        elif message.startswith("NET/IB : Using"):
            self._infiniband(message)
        elif message.startswith("NET/Socket : Using"):
            for name, address in _SOCKET.findall(message):
                self.sockets.setdefault(SocketInterface(name, address))
        elif match := _NVLS.match(message):
            self.nvls = not match[1]
        elif match := _NVLS_CHANNELS.search(message):
            self.nvls_channels = max(self.nvls_channels or 0, int(match[1]))
        elif match := _GDR.match(message):
            self.gdr[match[2]] = match[1] == "Enabled"

    def _infiniband(self, message: str) -> None:
        for device, inside in _MERGED.findall(message):
            for _, name, port, link in _ADAPTER.findall(inside):
                self.adapters.setdefault(Adapter(int(device), name, int(port), link))
        for device, name, port, link in _ADAPTER.findall(_MERGED.sub("", message)):
            self.adapters.setdefault(Adapter(int(device), name, int(port), link))
        if match := _OUT_OF_BAND.search(message):
            self.out_of_band = SocketInterface(match[1], match[2])

    def facts(self) -> LogFacts:
        return LogFacts(
            version=self.version,
            cuda_version=self.cuda,
            network=self.network,
            adapters=tuple(self.adapters),
            socket_interfaces=tuple(self.sockets),
            bootstrap=self.bootstrap,
            out_of_band=self.out_of_band,
            paths=tuple(
                PeerPath(sender, receiver, transport, tuple(sorted(devices)), gdr, channels)
                for (sender, receiver, transport), (devices, gdr, channels) in sorted(self.paths.items())
            ),
            ranks=self.world[0],
            nodes=self.world[1],
            local_ranks=self.world[2],
            choices=tuple(self.choices),
            nvls_available=self.nvls,
            nvls_channels=self.nvls_channels,
            gdr_adapters=self.gdr,
            settings=self.settings,
            warnings=tuple(self.warnings),
        )


def _transport(via: str) -> tuple[str, int | None, bool | None]:
    """What follows "via": the transport, the network device's number and whether it uses GPUDirect RDMA."""
    match = _NETWORK_PATH.match(via)
    if match:
        return f"NET/{match[1]}", int(match[2]), "/GDRDMA" in match[3]
    kind, _, rest = via.partition("/")
    name = rest.partition("/")[0]
    # "direct pointer" is two words; what two records in one line leave behind a name is cut off.
    name = "direct pointer" if name.startswith("direct pointer") else name.split(" ")[0]
    return f"{kind.split(' ')[0]}/{name}" if name else kind.split(" ")[0], None, None


def algorithm_name(text: str) -> str:
    """ "Ring" of "RING" or "1"; what is not known is kept."""
    return _name(text, ALGORITHMS)


def protocol_name(text: str) -> str:
    """ "LL128" of "LL128" or "1"."""
    return _name(text, PROTOCOLS)


def _name(text: str, names: tuple[str, ...]) -> str:
    if text.isascii() and text.isdigit():
        return names[int(text)] if len(text) < 4 and int(text) < len(names) else text
    plain = text.replace("_", "").lower()
    return next((name for name in names if name.lower() == plain), text)
