"""Agents through ssh: fleet/ssh.py, ssh_command.py, ssh_errors.py, ssh_engine.py.

With a stand-in for ssh that runs the remote command here, and with real sshds on the lab's hosts.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Lost, Node
from gpudoctor.fleet.messages import Examine, Examined, Hello, Ping, Pong
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.ssh import BadSsh, Remote, SshFleet
from gpudoctor.fleet.ssh_command import command, remote_command, shown, ssh_words
from gpudoctor.fleet.ssh_errors import lost_from
from tests.lab.sshd import Cluster, ssh_hosts

PATIENCE = 120.0


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.01)


# ---------------------------------------------------------------- the command line


def test_the_command_line_of_a_node() -> None:
    words = command(["ssh", "-F", "x"], Node("n1", user="ann", port=2222), 3, Remote(), 4.4)
    assert words[:3] == ["ssh", "-F", "x"]  # the user's come first, for ssh takes the first value of an option
    assert words[-3:-1] == ["--", "n1"]
    assert {"-oBatchMode=yes", "-oConnectTimeout=4", "-oUser=ann", "-oPort=2222", "-oControlMaster=no"} <= {*words}
    assert not any("StrictHostKeyChecking" in word or "KnownHosts" in word for word in words)
    plain = command(["ssh"], Node("n1"), 0, Remote(), 0.01)
    assert "-oConnectTimeout=1" in plain  # 0 would mean: none
    assert not any(word.startswith(("-oUser", "-oPort")) for word in plain)


def test_the_users_own_ssh() -> None:
    assert ssh_words({}) == ssh_words({"GPUDOCTOR_SSH": " "}) == ["ssh"]
    assert ssh_words({"GPUDOCTOR_SSH": "ssh -F '/a b/c' -i ~/key"}) == [
        "ssh",
        "-F",
        "/a b/c",
        "-i",
        os.path.expanduser("~/key"),  # noqa: PTH111
    ]
    with pytest.raises(BadSsh, match="No closing quotation"):
        ssh_words({"GPUDOCTOR_SSH": "ssh 'x"})
    with pytest.raises(BadSsh, match="no-such-ssh: no such command"):
        SshFleet([Node("a")], environment={"GPUDOCTOR_SSH": "no-such-ssh -v"})
    assert shown(["ssh"], Node("n1", user="ann", port=22)) == "ssh -p 22 ann@n1 true"


SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "csh", "tcsh", "fish") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("path", ["", "a b", "a'b", "$(touch x)", 'a"; touch x; "', "é", "a!b"])
def test_any_login_shell_takes_the_command_as_it_is_meant(shell: str, path: str, tmp_path: Path) -> None:
    if path:
        folder = tmp_path / path.replace("/", "_")
        folder.mkdir()
        program = folder / "gpudoctor"
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        line, says = remote_command(12, Remote(gpudoctor=str(program))), "agent --node 12\n"
    else:
        line, says = remote_command(12, Remote()), '"node":12,'
    done = subprocess.run(
        [shell, "-c", line], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert says in done.stdout
    assert not (tmp_path / "x").exists()


def test_where_gpudoctor_is_not_the_node_says_so(tmp_path: Path) -> None:
    line = remote_command(0, Remote(gpudoctor=str(tmp_path / "none")))
    done = subprocess.run(
        ["sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 127
    lost = lost_from(127, done.stderr.splitlines(), had_begun=False)
    assert lost.kind == "gpudoctor missing"
    assert lost.detail == f"{tmp_path / 'none'} (--remote-gpudoctor) is no command there"


def test_another_interpreter_of_the_same_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head's path exists on the node, but belongs to a Python without gpudoctor; there is one on PATH."""
    other = tmp_path / "python"
    own = sys.executable
    other.write_text(f'#!/bin/sh\nexec {shlex.quote(own)} -I -S "$@"\n')  # without site-packages
    other.chmod(0o755)
    on_path = tmp_path / "bin" / "gpudoctor"
    on_path.parent.mkdir()
    on_path.write_text('#!/bin/sh\necho right "$@"\n')
    on_path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(other))
    done = subprocess.run(
        ["sh", "-c", remote_command(5, Remote())],
        env={"PATH": f"{on_path.parent}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr) == ("right agent --node 5\n", "")


# ---------------------------------------------------------------- what ssh said


CHANGED = """
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key for c has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("status", "begun", "errors", "kind", "detail"),
    [
        (
            255,
            False,
            "root@b: Permission denied (publickey).",
            "auth refused",
            "root@b: Permission denied (publickey).",
        ),
        (255, False, "Host key verification failed.", "host key unknown", "Host key verification failed."),
        (255, False, CHANGED, "host key changed", "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @"),
        (255, False, "ssh: Could not resolve hostname x: Name or service not known", "unresolvable", ""),
        (255, False, "ssh: connect to host b port 22: Connection refused", "refused", ""),
        (255, False, "ssh: connect to host b port 22: Connection timed out", "unreachable", ""),
        (255, False, "ssh: connect to host b port 22: No route to host", "unreachable", ""),
        (255, False, "Connection timed out during banner exchange", "no answer", ""),
        (255, False, "kex_exchange_identification: read: Connection reset by peer", "refused", ""),
        (255, False, "something new", "connection lost", "something new"),
        (255, False, "", "connection lost", "ssh: exit status 255"),
        (127, False, "sh: 1: exec: /x: not found", "gpudoctor missing", ""),
        (1, False, "Traceback:\nImportError: no msgspec", "gpudoctor failed", "exit status 1: ImportError: no msgspec"),
        (255, True, "Timeout, server b not responding.", "connection lost", "Timeout, server b not responding."),
        (255, True, "", "connection lost", "ssh: exit status 255"),
        (-9, True, "", "connection lost", "ssh: killed by signal 9"),
        (-9, False, "", "connection lost", "ssh: killed by signal 9"),
        (1, True, "", "gpudoctor failed", "exit status 1"),
    ],
)
def test_what_ssh_says_is_told_apart(status: int, begun: bool, errors: str, kind: str, detail: str) -> None:
    lost = lost_from(status, errors.splitlines(), had_begun=begun)
    assert lost.kind == kind
    assert lost.detail == detail or not detail


@given(st.integers(-64, 255), st.lists(st.text(max_size=500), max_size=5), st.booleans())
def test_whatever_ssh_says_is_a_kind_and_one_bounded_line(status: int, errors: list[str], begun: bool) -> None:
    lost = lost_from(status, errors, had_begun=begun)
    assert len(lost.detail) < 400
    assert lost.detail.isprintable()


# ---------------------------------------------------------------- a stand-in for ssh


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """An environment in which ssh is this script; `$host` and `$remote` are the node and the command for it."""

    def made(script: str) -> dict[str, str]:
        program = tmp_path / "fake ssh"
        program.write_text(f"#!/bin/sh\nfor word; do host=$remote; remote=$word; done\n{script}\n")
        program.chmod(0o755)
        return {"GPUDOCTOR_SSH": f"'{program}'"}

    return made


StandIn = Callable[[str], dict[str, str]]


def nodes(*names: str) -> list[Node]:
    return [Node(name) for name in names]


@pytest.mark.thorough
def test_agents_of_many_nodes_answer(stand_in: StandIn) -> None:
    environment = stand_in('echo "Welcome to $host"; printf "no end of line"; echo noise >&2; exec sh -c "$remote"')
    with SshFleet(nodes("a", "b", "c"), environment=environment) as fleet:
        found = reach(fleet, timeout=PATIENCE)
        assert [found[node].node for node in found] == [0, 1, 2]  # type: ignore[union-attr]
        answers = fleet.ask(Ping(), Pong, timeout=PATIENCE)
        assert all(isinstance(pong, Pong) for pong in answers.values())
        examined = fleet.ask(Examine(to=(1,), python=sys.executable), Examined, timeout=PATIENCE)
        assert isinstance(examined[1], Examined)
        pids = [hello.pid for hello in found.values() if isinstance(hello, Hello)]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.thorough
def test_a_large_order_reaches_an_agent(stand_in: StandIn) -> None:
    """More than a pipe holds, to an agent that reads slowly."""
    environment = stand_in('case $host in slow) sleep 0.5 ;; esac; exec sh -c "$remote"')
    with SshFleet(nodes("slow", "b"), environment=environment) as fleet:
        answers = fleet.ask(Examine(to=(0, 1), resolve=("a\0",) * 100_000), Examined, timeout=PATIENCE)
        assert all(isinstance(answer, Examined) for answer in answers.values())


@pytest.mark.parametrize(
    ("script", "kind", "detail"),
    [
        ("exit 0", "gpudoctor failed", "exit status 0"),
        ("echo 'root@x: Permission denied (publickey).' >&2; exit 255", "auth refused", "root@x: Permission denied"),
        ("kill -9 $$", "connection lost", "ssh: killed by signal 9"),
        ('echo "@gpudoctor {}"; sleep 60', "gpudoctor failed", "no reply"),
        # its output ends and it stays: ended by us
        ("exec >&-; sleep 60", "connection lost", "ssh: killed by signal 9"),
        # something it left behind holds its standard error, as a connection's master does
        ("(exec >&-; sleep 5) & echo gone >&2; exit 3", "gpudoctor failed", "exit status 3: gone"),
    ],
)
@pytest.mark.thorough
def test_a_way_that_ends_is_lost_and_the_others_go_on(stand_in: StandIn, script: str, kind: str, detail: str) -> None:
    environment = stand_in(f'case $host in bad) {script} ;; esac; exec sh -c "$remote"')
    with SshFleet(nodes("good", "bad"), environment=environment) as fleet:
        found = reach(fleet, timeout=PATIENCE)
        lost = found[1]
        assert isinstance(lost, Lost)
        assert lost.kind == kind
        assert detail in lost.detail
        assert isinstance(fleet.ask(Ping(), Pong, timeout=PATIENCE)[0], Pong)


@pytest.mark.thorough
def test_a_flood_without_a_line_is_cut_off(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.lines.ArrivingLines.__init__.__defaults__", (1 << 20,))
    with SshFleet(nodes("a"), environment=stand_in("cat /dev/zero")) as fleet:
        found = reach(fleet, timeout=PATIENCE)
    assert isinstance(found[0], Lost)
    assert "a line of more than" in found[0].detail


@pytest.mark.thorough
def test_another_version_is_refused(stand_in: StandIn) -> None:
    hello = json.dumps({"type": "Hello", "node": 0, "hostname": "a", "gpudoctor": "0.0.1", "future": [1]})
    with SshFleet(nodes("a"), environment=stand_in(f"echo '@gpudoctor {hello}'; cat")) as fleet:
        assert reach(fleet, timeout=PATIENCE)[0] == Lost("other version", f"gpudoctor 0.0.1 there, {__version__} here")


@pytest.mark.thorough
def test_an_ssh_that_hangs_is_killed_with_all_it_started(stand_in: StandIn, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM HUP INT; sleep 1000 & echo $$ $! > {shlex.quote(str(pids))}; wait; sleep 1000"
    with SshFleet(nodes("a"), environment=stand_in(script)) as fleet:
        wait_until(lambda: pids.exists() and pids.read_text().count(" ") == 1)
        assert fleet.next_event(0.0) is None
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))


@pytest.mark.thorough
def test_ssh_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "ssh"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with SshFleet(nodes("a"), environment={"GPUDOCTOR_SSH": str(broken)}) as fleet:
        found = reach(fleet, timeout=PATIENCE)
    assert found[0] == Lost("connection lost", "ssh cannot be started: No such file or directory")


# ---------------------------------------------------------------- real sshds

HEAD = """
import json, sys, time
from gpudoctor.fleet.hosts import from_hosts
from gpudoctor.fleet.messages import Examine, Examined, Launch, Measurement, Run
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.ssh import SshFleet

def tell(what):
    print(json.dumps(what), flush=True)

with SshFleet(from_hosts(sys.argv[1]), connect_timeout=3) as fleet:
    found = reach(fleet, timeout=20)
    tell({fleet.name(node): getattr(said, "kind", None) or said.hostname for node, said in found.items()})
    if sys.argv[2] == "examine":
        answers = fleet.ask(Examine(resolve=("a", "b")), Examined, timeout=20)
        tell({fleet.name(node): getattr(said, "kind", None) or said.resolved for node, said in answers.items()})
    elif sys.argv[2] in ("wait", "run"):
        if sys.argv[2] == "run":
            fleet.send(Run(launch=Launch(
                id="one", nodes=fleet.present, ranks_per_node=(1,) * len(fleet.nodes), master_address="10.0.0.1",
                master_port=29500, backend="gloo", device="cpu", iterations=10**9, repeats=1, check=False,
                measurements=(Measurement("all_reduce", 65536),), environment={"GLOO_SOCKET_IFNAME": "eth0"},
            ), python=sys.executable))
            measuring = set()
            while len(measuring) < len(fleet.nodes):
                event = fleet.next_event(1.0)
                if event is not None and b"all_reduce of" in bytes(getattr(event.what, "message", b"")):
                    measuring.add(event.node)
        else:
            fleet.send(Examine(brief=False, torch=True, timeout=60))
        tell("busy")
        while True:
            event = fleet.next_event(1.0)
            if event is not None and hasattr(event.what, "kind"):
                tell([fleet.name(event.node), event.what.kind])
    closing = time.monotonic()
tell(time.monotonic() - closing)
"""


def head(cluster: Cluster, hosts: str, what: str, **variables: str) -> list[object]:
    """What a head at host a tells, one value a line."""
    environment = cluster.environment(**variables)
    done = cluster.head.run(sys.executable, "-W", "error", "-c", HEAD, hosts, what, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("a", "b", "c") as machines:
        yield machines


def test_three_hosts_are_examined_and_nothing_is_left(cluster: Cluster) -> None:
    reached, resolved, closing = head(cluster, "a,root@b,10.0.0.3:22", "examine")
    assert reached == {"a": "a", "b": "b", "10.0.0.3": "c"}
    assert resolved == {name: {"a": ["10.0.0.1"], "b": ["10.0.0.2"]} for name in ("a", "b", "10.0.0.3")}
    assert isinstance(closing, float)
    assert closing < 10  # it takes milliseconds
    assert cluster.left_over() == {}


def test_each_way_in_which_ssh_fails_is_told_apart() -> None:
    names = "a", "key", "unknown", "changed", "closed", "off", "frozen", "bare"
    with ssh_hosts(*names) as cluster:
        cluster.refuse_key("key")
        cluster.forget("unknown")
        cluster.reinstall("changed")
        cluster["closed"].stop_sshd()
        cluster["off"].power_off()
        cluster["frozen"].freeze()
        cluster["bare"].hide(Path(sys.prefix))
        try:
            reached, closing = head(cluster, ",".join([*names, "nobody"]), "nothing")
        finally:
            cluster["frozen"].thaw()
        assert reached == {
            "a": "a",
            "key": "auth refused",
            "unknown": "host key unknown",
            "changed": "host key changed",
            "closed": "refused",
            "off": "unreachable",
            "frozen": "no answer",
            "bare": "gpudoctor missing",
            "nobody": "unresolvable",
        }
        assert isinstance(closing, float)
        assert closing < 10
        assert cluster.left_over() == {}


def waiting_head(cluster: Cluster, what: str = "wait", **variables: str) -> subprocess.Popen[str]:
    """A head that has reached all hosts, has them work, and tells of each that is lost."""
    names = [host.name for host in cluster.hosts]
    words = cluster.head.command(sys.executable, "-c", HEAD, ",".join(names), what)
    process = subprocess.Popen(words, env=cluster.environment(**variables), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {name: name for name in names}
    assert json.loads(process.stdout.readline()) == "busy"
    return process


def found(cluster: Cluster, host: str, *words: str) -> list[int]:
    """Processes of a host whose command line begins so."""
    running = cluster[host].processes()
    return [pid for pid, line in running.items() if line.split()[: len(words)] == list(words)]


def test_a_connection_that_is_cut_costs_its_node_only(cluster: Cluster) -> None:
    process = waiting_head(cluster)
    try:
        assert process.stdout is not None
        for pid, line in cluster.a.processes().items():
            if line.startswith("ssh ") and " -- b " in line:
                os.kill(pid, signal.SIGKILL)
        assert json.loads(process.stdout.readline()) == ["b", "connection lost"]
        wait_until(lambda: cluster.b.processes() == {})
        assert any("gpudoctor" in line for line in cluster.c.processes().values())
    finally:
        process.kill()
        process.communicate()
    assert cluster.left_over() == {}


def test_a_host_that_vanishes_is_lost() -> None:
    """Its power goes: nobody closes the connection. ssh asks every 5 s whether it is there; here every second."""
    with ssh_hosts("a", "b") as cluster:
        own = cluster.environment()["GPUDOCTOR_SSH"]
        process = waiting_head(cluster, GPUDOCTOR_SSH=f"{own} -oServerAliveInterval=1 -oServerAliveCountMax=2")
        try:
            assert process.stdout is not None
            cluster.b.power_off()
            assert json.loads(process.stdout.readline()) == ["b", "connection lost"]
        finally:
            process.kill()
            process.communicate()
        assert cluster.left_over() == {}


@pytest.mark.parametrize("what", ["wait", "run"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_on_any_host_when_the_head_ends(cluster: Cluster, number: signal.Signals, what: str) -> None:
    process = waiting_head(cluster, what)
    if what == "run":
        assert all(any("collective" in line for line in host.processes().values()) for host in cluster.hosts)
    for pid in found(cluster, "a", sys.executable, "-c", "import", "json,"):
        os.kill(pid, number)
    process.communicate(timeout=PATIENCE)
    assert cluster.left_over() == {}


def test_masters_of_connections_neither_hang_us_nor_stay(cluster: Cluster) -> None:
    control = cluster.folder / "control-%C"
    own = cluster.environment()["GPUDOCTOR_SSH"]
    with_masters = cluster.folder / "with_masters"
    settings = f"Host *\n    ControlMaster auto\n    ControlPath {control}\n    ControlPersist 60\n"
    with_masters.write_text(cluster.ssh_config.read_text() + settings)
    reached, closing = head(cluster, "a,b,c", "nothing", GPUDOCTOR_SSH=shlex.join(["ssh", "-F", str(with_masters)]))
    assert reached == {"a": "a", "b": "b", "c": "c"}
    assert cluster.left_over() == {}
    # One who insists has it: the master stays, as it was asked to, and we do not wait for it.
    insisting = f"{own} -o ControlMaster=auto -o ControlPath={control} -o ControlPersist=60"
    reached, closing = head(cluster, "b,c", "nothing", GPUDOCTOR_SSH=insisting)
    assert reached == {"b": "b", "c": "c"}
    assert isinstance(closing, float)
    assert closing < 10
    masters = [pid for pid, line in cluster.a.processes().items() if "[mux]" in line]
    assert len(masters) == 2
    for pid in masters:
        os.kill(pid, signal.SIGTERM)
    assert cluster.left_over() == {}
