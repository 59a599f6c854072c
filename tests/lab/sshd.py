"""Hosts of the lab that are reached by ssh, as a user's cluster is: a real sshd on each, keys of their own.

    with ssh_hosts("a", "b", "c") as cluster:
        done = cluster.a.run(sys.executable, "-m", "gpudoctor", "nccl-test", "--hosts", "a,b,c",
                             environment=cluster.environment())
        assert cluster.left_over() == {}

Every host may log in on every other as root with one key. Sessions have the host's own name, addresses and /etc, and
the same files as everybody else; `hide`, `put` and `set` change that for one host. Nothing in the user's ~/.ssh is
read or written: `cluster.ssh_config` is for `ssh -F`, and `cluster.environment()` tells gpudoctor so.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.lab import inhabitants, warm
from tests.lab.hosts import NAMESPACES, Host, hosts, private_folder
from tests.lab.requirements import require

PATIENCE = 120.0
"""Seconds for a daemon to come up or a process to end."""
JOB_VARIABLES = (
    *("MASTER_", "NCCL_", "TORCH_", "GLOO_", "TP_", "TORCHELASTIC_", "PET_", "OMPI_", "PMI", "SLURM_", "SSH_"),
    *("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "GPUDOCTOR_"),
)
"""Beginnings of names that the environment of a user at a lab host must not take over from whoever runs the tests."""

SERVE = """
mount -t tmpfs tmpfs /run; mkdir -p /run/sshd
printf '%s' "$1" | while read -r kind target source; do
    case $kind in
        put) mount --bind "$source" "$target" ;;
        hide) mount -t tmpfs tmpfs "$target" ;;
    esac
done
shift; exec "$@"
"""
"""What a host does before its sshd starts, in a mount namespace of its own. sshd asks for /run/sshd."""


class SshHost(Host):
    """A host with an sshd."""

    def __init__(self, host: Host, folder: Path, port: int, truly: bool) -> None:
        super().__init__(host.name, host.namespace, host.switch, host.number, host.nics)
        self.folder = folder / host.name
        self.keys = folder
        self.ssh_port = port
        self.variables = {} if truly else warm.by_others()
        self.mounts: list[str] = []
        self.server: subprocess.Popen[bytes] | None = None
        self.folder.mkdir()
        self.new_host_key()

    # what it is

    def public_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def new_host_key(self) -> None:
        """As after a reinstallation. Takes effect with `restart`."""
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink(missing_ok=True)
        new_key(self.folder / "host_key")

    # sshd

    def serve(self) -> None:
        """Start sshd and wait until it listens."""
        settings = {
            "Port": str(self.ssh_port),
            "HostKey": str(self.folder / "host_key"),
            "AuthorizedKeysFile": str(self.keys / "authorized_keys"),
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PermitRootLogin": "yes",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "MaxStartups": "500",
            "UseDNS": "no",
            "PrintMotd": "no",
        }
        lines = [f"{name} {value}" for name, value in settings.items()]
        variables = {name: value for name, value in self.variables.items() if not (self.mounts and name == warm.DOOR)}
        if variables:  # several SetEnv lines: only the first counts
            quoted = (f"{name}={value}".replace("\\", "\\\\").replace('"', '\\"') for name, value in variables.items())
            lines.append("SetEnv " + " ".join(f'"{text}"' for text in quoted))
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        log = self.folder / "sshd.log"
        sshd = [
            str(shutil.which("sshd", path="/usr/sbin:/usr/bin")),
            "-D",
            "-e",
            "-f",
            str(self.folder / "sshd_config"),
        ]
        prepared = ["sh", "-c", SERVE, "sh", "".join(f"{line}\n" for line in self.mounts), *sshd]
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        with log.open("wb") as output:
            self.server = subprocess.Popen(
                self.command(*prepared), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        server = self.server
        wait_until(lambda: b"Server listening" in log.read_bytes() or server.poll() is not None)
        assert server.poll() is None, log.read_text()

    def stop_sshd(self) -> None:
        """End sshd: connections are refused. Sessions that are there go on."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def restart(self) -> None:
        """With what was changed since."""
        self.stop_sshd()
        self.serve()

    # what its sessions see

    def set(self, **variables: str) -> None:
        """Environment variables of all sessions, on top of sshd's own."""
        self.variables |= variables
        self.restart()

    def hide(self, folder: Path | str) -> None:
        """An empty folder where a folder is, in sessions on this host."""
        self.mounts.append(f"hide {folder} -")
        self.restart()

    def put(self, source: Path | str, target: Path | str) -> None:
        """Another file or folder where one is, in sessions on this host."""
        self.mounts.append(f"put {target} {source}")
        self.restart()

    def shift_clock(self, seconds: float) -> None:
        """A clock that is ahead by so many seconds, for all that is started in sessions on this host."""
        self.set(LD_PRELOAD=str(shifted_clock(self.keys)), LAB_CLOCK_SHIFT=repr(seconds))

    # how it fails

    def freeze(self) -> None:
        """Every process stops (SIGSTOP), as on a machine that thrashes; the kernel still takes connections."""
        inhabitants.signal_all(signal.SIGSTOP, NAMESPACES / self.namespace)

    def thaw(self) -> None:
        inhabitants.signal_all(signal.SIGCONT, NAMESPACES / self.namespace)

    def power_off(self) -> None:
        """Gone from one moment to the next: nobody is told, no connection is closed."""
        for nic in range(self.nics):
            self.unplug(nic)
        inhabitants.kill([NAMESPACES / self.namespace])
        self.stop_sshd()

    def processes(self) -> dict[int, str]:
        """Command lines by process id of all that runs here but the listening sshd."""
        listening = self.server.pid if self.server is not None else 0
        found = inhabitants.processes(NAMESPACES / self.namespace)
        return {pid: words for pid, words in found.items() if pid != listening}


class Cluster:
    """The hosts, by name (`cluster.a`, `cluster["a"]`), and what their user has."""

    def __init__(self, machines: tuple[SshHost, ...], folder: Path) -> None:
        self.hosts = machines
        self.head = machines[0]
        self.folder = folder
        self.ssh_config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"

    def __getitem__(self, name: str) -> SshHost:
        return next(host for host in self.hosts if host.name == name)

    def __getattr__(self, name: str) -> SshHost:
        try:
            return self[name]
        except StopIteration:
            raise AttributeError(name) from None

    def environment(self, **variables: str) -> dict[str, str]:
        """Of the user at the head: no job's variables, and ssh with the lab's configuration."""
        return user_environment() | {"GPUDOCTOR_SSH": shlex.join(["ssh", "-F", str(self.ssh_config)])} | variables

    def ssh(self, name: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A command from the head through ssh, the way a user would."""
        words = ["ssh", "-F", str(self.ssh_config), "-o", "BatchMode=yes", *options, name, command]
        return self.head.run(*words, environment=self.environment())

    # how it fails

    def forget(self, name: str) -> None:
        """The head has never been on this host: its key is not in known_hosts."""
        self._know({host.name: host.public_key() for host in self.hosts if host.name != name})

    def reinstall(self, name: str) -> None:
        """The host has another key than known_hosts says."""
        self[name].new_host_key()
        self[name].restart()

    def refuse_key(self, name: str) -> None:
        """The host does not know the user's key."""
        self[name].keys = self[name].folder
        (self[name].folder / "authorized_keys").write_text("")
        self[name].restart()

    def _know(self, keys: Mapping[str, str]) -> None:
        lines = []
        for name, key in keys.items():
            host = self[name]
            names = [name, host.address()]
            if host.ssh_port != 22:
                names = [f"[{word}]:{host.ssh_port}" for word in names]
            lines.append(f"{','.join(names)} {key}\n")
        self.known_hosts.write_text("".join(lines))

    # what is left

    def left_over(self, patience: float = PATIENCE) -> dict[str, list[str]]:
        """What still runs on the hosts but the listening sshds, after waiting for it to end: {} when all is gone."""

        def there() -> dict[str, list[str]]:
            return {host.name: list(running.values()) for host in self.hosts if (running := host.processes())}

        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not there(), patience)
        return there()


@contextlib.contextmanager
def ssh_hosts(
    *names: str, nics: int = 1, ports: Mapping[str, int] | None = None, truly: bool = False
) -> Iterator[Cluster]:
    """Hosts with an sshd each, on port 22 unless `ports` says another for one. All of it ends with the block.

    `truly`: agents and ranks of torchrun in their sessions are started as a user's are, and import torch themselves.
    """
    require(shutil.which("sshd", path="/usr/sbin:/usr/bin"), "no sshd: apt-get install openssh-server")
    require(shutil.which("ssh") and shutil.which("ssh-keygen"), "no ssh: apt-get install openssh-client")
    with private_folder() as folder, hosts(*names, nics=nics) as machines, contextlib.ExitStack() as stack:
        new_key(folder / "user_key")
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        ports = ports or {}
        cluster = Cluster(tuple(SshHost(host, folder, ports.get(host.name, 22), truly) for host in machines), folder)
        cluster._know({host.name: host.public_key() for host in cluster.hosts})
        cluster.ssh_config.write_text(_client_configuration(cluster))
        for host in cluster.hosts:
            stack.callback(host.stop_sshd)
            host.serve()
        yield cluster


def _client_configuration(cluster: Cluster) -> str:
    lines = []
    for host in cluster.hosts:
        if host.ssh_port != 22:
            lines += [f"Host {host.name} {host.address()}", f"    Port {host.ssh_port}"]
    lines += [
        "Host *",
        "    User root",
        f"    IdentityFile {cluster.folder / 'user_key'}",
        "    IdentitiesOnly yes",
        "    IdentityAgent none",
        f"    UserKnownHostsFile {cluster.known_hosts}",
        "    GlobalKnownHostsFile /dev/null",
    ]
    return "\n".join(lines) + "\n"


def user_environment() -> dict[str, str]:
    """A user's environment on a lab host: ours without a job's variables, with this interpreter's programs on PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(JOB_VARIABLES)}
    kept["PATH"] = f"{Path(sys.executable).parent}:{kept.get('PATH', '/usr/bin:/bin')}"
    return kept | warm.of_torchrun()


def new_key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpudoctor-lab", "-f", str(path)],
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=30,
    )


def wait_until(true: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Ask again and again. Raises `TimeoutError`."""
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {patience:g} s")
        time.sleep(0.02)


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static double shift(void) { const char *text = getenv("LAB_CLOCK_SHIFT"); return text ? atof(text) : 0; }

int clock_gettime(clockid_t which, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, now);
    if (!result && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) now->tv_sec += (time_t)shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    if (where) *where = exact.tv_sec;
    return exact.tv_sec;
}
"""


def shifted_clock(folder: Path) -> Path:
    """A library for LD_PRELOAD that moves the wall clock by LAB_CLOCK_SHIFT whole seconds; monotonic clocks stay."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    require(compiler, "no C compiler: apt-get install gcc libc6-dev")
    library, source = folder / "clock.so", folder / "clock.c"
    if not library.exists():
        source.write_text(CLOCK)
        options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run([str(compiler), *options, "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
    return library
