"""Several hosts on one machine: network namespaces, joined by bridges in a namespace of their own.

    with hosts("a", "b") as (a, b):
        a.run(sys.executable, "-m", "gpudoctor", "check", "network")     # hostname a, eth0 10.0.0.1/24, ...
        b.filter("tcp dport 29500 drop")

Host number n has 10.0.0.n/24 on eth0; `nics=2` adds eth1 with 10.0.1.n/24. Each has its own hostname, /etc/hosts (all
hosts by name, at eth0) and nsswitch.conf, so that no name server is asked. Nothing of it is in the machine's own
namespace, and everything goes when the block is left, however; what a killed test left goes with the next.
"""

import contextlib
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.lab import inhabitants
from tests.lab.requirements import require

PREFIX = "gpudoctor-lab"
ETC = Path("/etc/netns")
NAMESPACES = Path("/run/netns")
FOLDERS = Path(tempfile.gettempdir())
NUMBERS = itertools.count()
PREPARE = 'hostname "$0"; exec "$@"'


class Host:
    """One host: `run` and `start` commands on it, and break it."""

    def __init__(self, name: str, namespace: str, switch: str, number: int, nics: int = 1) -> None:
        self.name = name
        self.namespace = namespace
        self.switch = switch
        self.number = number
        self.nics = nics

    def address(self, nic: int = 0) -> str:
        return f"10.0.{nic}.{self.number}"

    def command(self, *words: str) -> list[str]:
        """A command as it runs on this host. `ip netns exec` brings its files in /etc and a /sys of its own."""
        enter = ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", PREPARE, self.name]
        return [*enter, *words]

    def run(
        self, *words: str, environment: Mapping[str, str] | None = None, timeout: float = 280
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    @contextlib.contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that runs while the block does; it gets a pipe as standard output."""
        process = subprocess.Popen(self.command(*words), stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def etc(self, name: str, text: str) -> None:
        """A file of /etc as this host sees it."""
        (ETC / self.namespace / name).write_text(text)

    def filter(self, rule: str) -> None:
        """A rule for what comes in, in nft's words."""
        table = f"table inet lab {{ chain arriving {{ type filter hook input priority 0; policy accept; {rule}; }}; }}"
        in_namespace(self.namespace, "nft", table)

    def unplug(self, nic: int) -> None:
        """Take the cable out: the interface stays up and keeps its address, without a link."""
        _do("ip", "-n", self.switch, "link", "set", self.port(nic), "down")

    def plug_in(self, nic: int) -> None:
        """The cable again."""
        _do("ip", "-n", self.switch, "link", "set", self.port(nic), "up")

    def isolate(self, nic: int) -> None:
        """Leave the link up, and connect it to nothing."""
        _do("ip", "-n", self.switch, "link", "set", self.port(nic), "nomaster")

    def port(self, nic: int) -> str:
        """The switch's end of an interface."""
        return f"p{self.number}-{nic}"


@contextlib.contextmanager
def hosts(*names: str, nics: int = 1) -> Iterator[tuple[Host, ...]]:
    """So many hosts on one switch a NIC. The test is skipped, or fails, where namespaces cannot be made."""
    require(shutil.which("ip") and shutil.which("nft"), "no ip or no nft: apt-get install iproute2 nftables")
    require(shutil.which("unshare"), "no unshare: apt-get install util-linux")
    require(os.geteuid() == 0 and _can_be_made(), "no permission to make network namespaces: be root on a real machine")
    _sweep()
    stem = f"{PREFIX}-{os.getpid()}-{next(NUMBERS)}"
    switch = f"{stem}-switch"
    machines = tuple(Host(name, f"{stem}-{name}", switch, number, nics) for number, name in enumerate(names, start=1))
    everything = [switch, *(host.namespace for host in machines)]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, *everything)
        _batch(f"netns add {namespace}" for namespace in everything)
        _batch(_wiring(machines, nics), "-n", switch)
        names_of_all = "127.0.0.1 localhost\n" + "".join(f"{h.address()} {h.name}\n" for h in machines)
        for host in machines:
            _batch(_configuration(host, nics), "-n", host.namespace)
            _folder_of_etc(host)
            host.etc("hosts", names_of_all)
            host.etc("nsswitch.conf", "hosts: files\n")
        yield machines


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for keys, sockets and logs of daemons; like a namespace it goes, with the next test at the latest."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-", dir=FOLDERS))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wiring(machines: Iterable[Host], nics: int) -> Iterator[str]:
    """What the switch's namespace gets: a bridge a NIC, and a cable to every host."""
    for nic in range(nics):
        yield f"link add switch{nic} type bridge"
        yield f"link set switch{nic} up"
        for host in machines:
            yield f"link add {host.port(nic)} type veth peer eth{nic} netns {host.namespace}"
            yield f"link set {host.port(nic)} master switch{nic} up"


def _configuration(host: Host, nics: int) -> Iterator[str]:
    yield "link set lo up"
    for nic in range(nics):
        yield f"address add {host.address(nic)}/24 dev eth{nic}"
        yield f"link set eth{nic} up"


def _folder_of_etc(host: Host) -> None:
    for _ in range(100):  # another test that ends may take /etc/netns away between the two steps of mkdir
        with contextlib.suppress(FileNotFoundError):
            (ETC / host.namespace).mkdir(parents=True)
            return


def _batch(lines: Iterable[str], *options: str) -> None:
    """Many commands of ip in one process: 64 hosts take a second that way instead of ten."""
    _do("ip", *options, "-batch", "-", given="".join(f"{line}\n" for line in lines))


def in_namespace(namespace: str, *words: str) -> None:
    """Change something there. Raises `RuntimeError` with the tool's words."""
    _do("ip", "netns", "exec", namespace, *words)


def _do(*words: str, given: str = "") -> None:
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def _remove(*namespaces: str) -> None:
    """A namespace takes its interfaces along, and both ends of a veth go with one. Processes have to be ended."""
    there = [name for name in namespaces if (NAMESPACES / name).exists()]
    inhabitants.kill(NAMESPACES / name for name in there)
    _batch(f"netns delete {name}" for name in there)
    for name in namespaces:
        shutil.rmtree(ETC / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # there before us, or with files of others
        ETC.rmdir()


@functools.cache
def _can_be_made() -> bool:
    """A container's root often may not."""
    return _succeeds(lambda: _do("unshare", "--net", "--uts", "ip", "link", "set", "lo", "up"))


def _succeeds(action: Callable[[], None]) -> bool:
    try:
        action()
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True


def _sweep() -> None:
    """Remove what tests left whose process was killed."""
    namespaces = {path.name for folder in (NAMESPACES, ETC) for path in folder.glob(f"{PREFIX}-*") if _orphaned(path)}
    for namespace in sorted(namespaces):
        with contextlib.suppress(RuntimeError, OSError):  # a test beside this one removes it at the same time
            _remove(namespace)
    for folder in FOLDERS.glob(f"{PREFIX}-*"):
        if _orphaned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _orphaned(path: Path) -> bool:
    """Whether the process that made it, whose number is in its name, is no more."""
    pid = path.name.removeprefix(f"{PREFIX}-").partition("-")[0]
    return pid.isdigit() and not Path(f"/proc/{pid}").exists()
