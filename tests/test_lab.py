"""The lab itself: hosts, ssh, SLURM and faults are what they say, and nothing of them is left."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import traffic
from tests.lab.hosts import ETC, FOLDERS, NAMESPACES, PREFIX, Host, hosts
from tests.lab.slurm import SlurmCluster, slurm_cluster
from tests.lab.sshd import Cluster, ssh_hosts, wait_until

SERVE = """
import socket, threading

def take(connection):
    while connection.recv(1 << 20):
        pass
    connection.close()

with socket.create_server(("", 5000)) as server:
    print("ready", flush=True)
    while True:
        threading.Thread(target=take, args=server.accept()[:1], daemon=True).start()
"""
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 3) as connection:
    connection.settimeout(3)
    begin = time.monotonic()
    connection.sendall(bytes(int(sys.argv[3])))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    print(int(sys.argv[3]) * 8 / 1e6 / (time.monotonic() - begin))
"""
LARGE = 4 << 20
"""Bytes that take two thirds of a second at 50 Mbit/s."""


def remains() -> list[Path]:
    """What this process's labs, and those of its children, have in places that outlive them."""
    return [path for folder in (NAMESPACES, ETC, FOLDERS) for path in folder.glob(f"{PREFIX}-{os.getpid()}-*")]


@contextlib.contextmanager
def receiving(*machines: Host) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for host in machines:
            server = stack.enter_context(host.start(sys.executable, "-c", SERVE))
            assert server.stdout is not None and server.stdout.readline() == "ready\n"
        yield


def send(one: Host, other: Host, size: int = LARGE, port: int = 5000) -> float | None:
    """Mbit/s from one to the other; None when it fails or gets nowhere for three seconds."""
    done = one.run(sys.executable, "-c", SEND, other.address(), str(port), str(size))
    assert done.returncode == 0 or "Error" in done.stderr, done.stderr
    return float(done.stdout) if done.returncode == 0 else None


# ---------------------------------------------------------------- hosts


def test_sixty_four_hosts() -> None:
    names = [f"n{number:02}" for number in range(1, 65)]
    with hosts(*names) as machines:
        assert [host.address() for host in machines][::63] == ["10.0.0.1", "10.0.0.64"]
        last = machines[-1]
        assert last.run("hostname").stdout == "n64\n"
        with receiving(last):
            assert send(machines[0], last, 1000) is not None
    assert remains() == []


def test_what_a_killed_test_left_goes_with_the_next() -> None:
    code = """if True:
        from tests.lab.hosts import hosts, private_folder
        with private_folder(), hosts("a", "b") as (a, b), b.start("sleep", "1000") as process:
            print(process.pid, flush=True)
            input()
    """
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        sleeping = int(killed.stdout.readline())
        killed.kill()
    of_it = f"{PREFIX}-{killed.pid}-*"
    assert all(list(folder.glob(of_it)) for folder in (NAMESPACES, ETC, FOLDERS)) and Path(f"/proc/{sleeping}").exists()
    with hosts("c"):
        assert not [path for folder in (NAMESPACES, ETC, FOLDERS) for path in folder.glob(of_it)]
        wait_until(lambda: not Path(f"/proc/{sleeping}/exe").exists())  # a zombie has none


# ---------------------------------------------------------------- ssh


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("a", "b", "c", ports={"c": 2222}) as made:
        yield made
        processes = [pid for host in made.hosts if host.server is not None for pid in [host.server.pid]]
    assert remains() == [] and not [pid for pid in processes if Path(f"/proc/{pid}").exists()]


def test_ssh_leads_to_the_right_host(cluster: Cluster) -> None:
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        done = cluster.ssh(name, "hostname; hostname -i; getent hosts c")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == [name, f"10.0.0.{number}", "10.0.0.3", "c"]
    assert cluster.ssh("10.0.0.3", "echo $SSH_CONNECTION").stdout.split()[2:] == ["10.0.0.3", "2222"]
    assert cluster.left_over() == {}


def test_sessions_see_what_was_set_put_and_hidden(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/file").write_text("")
    for name in ("original", "instead"):
        (tmp_path / name).write_text(name)
    cluster.b.set(ONE="1 and\t2", TWO='say "hello"')
    cluster.b.put(tmp_path / "instead", tmp_path / "original")
    cluster.b.hide(tmp_path / "hidden")
    script = f'echo "$ONE$TWO"; cat {tmp_path}/original; ls {tmp_path}/hidden'
    assert cluster.ssh("b", script).stdout == '1 and\t2say "hello"\ninstead'
    assert cluster.ssh("a", script).stdout == "\noriginalfile\n"


def test_a_clock_that_is_ahead(cluster: Cluster) -> None:
    command = f"{sys.executable} -c 'import time; print(time.time())'"
    cluster.b.shift_clock(4000)
    ahead, usual = (float(cluster.ssh(name, command).stdout) - time.time() for name in ("b", "a"))
    assert ahead > 3000 > usual


def refused(cluster: Cluster, name: str) -> str:
    done = cluster.ssh(name, "true", "-o", "ConnectTimeout=2")
    assert done.returncode == 255
    return done.stderr


@pytest.mark.parametrize(
    "breaks, says",
    [
        (lambda cluster: cluster.forget("b"), "Host key verification failed"),
        (lambda cluster: cluster.reinstall("b"), "IDENTIFICATION HAS CHANGED"),
        (lambda cluster: cluster.refuse_key("b"), "Permission denied (publickey)"),
        (lambda cluster: cluster.b.stop_sshd(), "Connection refused"),
        (lambda cluster: cluster.b.freeze(), "timed out"),
        (lambda cluster: traffic.drop(cluster.b, 22), "timed out"),
        (lambda cluster: cluster.b.power_off(), "timed out"),
    ],
    ids=["unknown host key", "changed host key", "refused key", "no sshd", "frozen", "dropped", "powered off"],
)
def test_each_way_in_which_ssh_fails(cluster: Cluster, breaks: Callable[[Cluster], None], says: str) -> None:
    breaks(cluster)
    assert says in refused(cluster, "b")
    assert cluster.ssh("c", "true").returncode == 0


def test_a_frozen_host_thaws(cluster: Cluster) -> None:
    cluster.b.freeze()
    assert refused(cluster, "b")
    cluster.b.thaw()
    assert cluster.ssh("b", "hostname").stdout == "b\n"


def test_a_process_that_was_left_is_seen(cluster: Cluster) -> None:
    assert cluster.ssh("b", "nohup sleep 987 > /dev/null 2>&1 &").returncode == 0
    assert cluster.left_over(0.5) == {"b": ["sleep 987"]}
    (pid,) = cluster.b.processes()
    os.kill(pid, signal.SIGKILL)
    assert cluster.left_over() == {}


# ---------------------------------------------------------------- traffic


def test_only_ssh_and_a_dropped_port(cluster: Cluster) -> None:
    b, c = cluster.b, cluster.c
    with receiving(b, c):
        traffic.only_ssh(b)
        traffic.drop(c, 5000)
        assert send(c, b, 1000) is None and send(b, c, 1000) is None
        assert cluster.ssh("b", "hostname").stdout == "b\n" and cluster.ssh("c", "hostname").stdout == "c\n"
        assert send(b, b, 1000) is not None
        with receiving(cluster.a):
            assert send(b, cluster.a, 1000) is not None


def test_a_slow_host_and_a_slow_link() -> None:
    with hosts("a", "b", "c", "d") as (a, b, c, d), receiving(a, b, c, d):
        traffic.slow(b, "50mbit")
        traffic.slow_link(a, c, "50mbit")
        traffic.slow_link(a, d, "100mbit")
        for pair, limit in {(a, b): 50, (b, d): 50, (a, c): 50, (a, d): 100}.items():
            for one, other in (pair, pair[::-1]):
                rate = send(one, other)
                # what the bucket held counts too: 128 KiB pass at once, at either end
                assert rate is not None and limit / 10 < rate < limit * 1.2, (one.name, other.name, rate)
        for one, other in ((c, d), (d, c), (b, b)):
            rate = send(one, other)
            assert rate is not None and rate > 200, (one.name, other.name, rate)


def test_one_slow_nic_of_two() -> None:
    with hosts("a", "b", nics=2) as (a, b), receiving(b):
        traffic.slow(b, "50mbit", nic=1)
        rate = send(a, b)
        assert rate is not None and rate > 200
        shaped = subprocess.run(["tc", "-n", b.namespace, "qdisc"], capture_output=True, text=True, check=True).stdout
        assert (
            "tbf" in shaped
            and "dev eth1" in shaped.partition("tbf")[2]
            and "dev eth0" not in shaped.partition("tbf")[2]
        )


def test_large_packets_vanish_and_an_honest_mtu_cures_it() -> None:
    with hosts("a", "b", "c") as (a, b, c), receiving(a, b, c):
        traffic.switch_mtu(b, 1400)
        assert send(a, b, 1000) is not None and send(b, a, 1000) is not None
        assert send(a, b, 100_000) is None and send(b, a, 100_000) is None
        assert send(a, c, 100_000) is not None
        traffic.mtu(b, 1400)
        assert "mtu 1400" in b.run("ip", "link", "show", "eth0").stdout
        assert send(a, b, 100_000) is not None and send(b, a, 100_000) is not None


# ---------------------------------------------------------------- SLURM


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster(3) as made:
        yield made


def test_srun_salloc_and_sbatch(slurm: SlurmCluster) -> None:
    names = ["n1", "n2", "n3"]
    done = slurm.srun("--nodes=3", "hostname")
    assert (sorted(done.stdout.split()), done.stderr) == (names, "")
    done = slurm.salloc("--nodes=3", "sh", "-c", "hostname; echo $SLURM_JOB_NODELIST; srun hostname | sort")
    assert done.stdout.split() == ["n1", "n[1-3]", *names]
    script = (
        "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\nhostname\nsrun sh -c 'echo $SLURM_PROCID' | sort\n"
    )
    assert slurm.sbatch(script).split() == ["n1", "0", "1", "2", "3"]
    assert slurm.left_over() == []


WORLD = """
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
number = torch.tensor([torch.distributed.get_rank() + 1.0])
torch.distributed.all_reduce(number)
print("sum", int(number), "of", torch.distributed.get_world_size())
torch.distributed.destroy_process_group()
"""


def test_torchrun_under_srun(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text(WORLD)
    torchrun = f"{sys.executable} -m torch.distributed.run --nnodes=3 --nproc-per-node=1 --node-rank=$SLURM_NODEID"
    command = f"exec {torchrun} --master-addr=n1 --master-port=29500 {tmp_path}/world.py"
    done = slurm.srun(
        "--nodes=3", "--ntasks-per-node=1", "sh", "-c", command, GLOO_SOCKET_IFNAME="eth0", TMPDIR=str(tmp_path)
    )
    assert done.stdout.splitlines() == ["sum 6 of 3"] * 3, done.stderr
    assert slurm.left_over() == []


def test_two_clusters_do_not_meet(slurm: SlurmCluster) -> None:
    with slurm_cluster(2) as other:
        for cluster, size in ((slurm, 3), (other, 2)):
            assert len(cluster.run("sinfo", "-h", "-N", "-o", "%N").stdout.split()) == size
        script = "#!/bin/sh\nscontrol show hostnames\nsrun sleep 987\n"
        path = other.folder / "endless.sh"
        path.write_text(script)
        assert other.run("sbatch", "--nodes=2", f"--output={path}.out", str(path)).returncode == 0
        wait_until(lambda: any(words.endswith("sleep 987") for words in other.processes().values()))
        left = [pid for pid in (*other.processes(), *other.own) if Path(f"/proc/{pid}").exists()]
        folder = other.folder
    assert left and not [pid for pid in left if Path(f"/proc/{pid}/exe").exists()]
    assert not folder.exists() and slurm.folder.exists()
    assert slurm.srun("--nodes=3", "true").returncode == 0
