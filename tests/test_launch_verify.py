"""`gpudoctor launch --check`: claims judged by hand-made sightings, and over ssh on hosts of the lab."""

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.fleet.files import answers, kind, main
from gpudoctor.launch.claims_base import FALSE_BY, OWN_FIX
from gpudoctor.launch.plan import EnvVariable, LaunchPlan, NodePlan
from gpudoctor.launch.verified import Verified, exit_status, has_false, lost_with_nodes, unverified
from gpudoctor.launch.verify import verify
from gpudoctor.nccl import preflight as module
from gpudoctor.snapshot import Snapshot
from tests.lab.machines import hgx_h100
from tests.lab.nvidia import fake_nvidia
from tests.lab.sshd import Cluster, SshHost, ssh_hosts

HEAD = """
import sys
import msgspec
from gpudoctor.fleet.hosts import from_hosts
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.ssh import Remote, SshFleet
from gpudoctor.launch.plan import LaunchPlan
from gpudoctor.launch.verify import verify

plan = msgspec.json.decode(sys.argv[2], type=LaunchPlan)
with SshFleet(from_hosts(sys.argv[1]), remote=Remote()) as fleet:
    reach(fleet, timeout=40)
    sys.stdout.write(msgspec.json.encode(verify(plan, fleet, {}, script_folder=sys.argv[3])).decode())
"""
EVERY_CHECK = [
    *("address form", "address owner", "host name", "route", "port free", "reachable", "way back"),
    *("interface names", "settings", "clocks", "versions", "interpreter", "script"),
]
"""Of several nodes on CPUs, with an address and no name for the head."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("a", "b", "c") as made:
        yield made
        assert made.left_over() == {}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a script."""
    (tmp_path / "train.py").write_text("print()\n")
    return tmp_path


def planned(**changes: Any) -> LaunchPlan:
    nodes = tuple(
        NodePlan(rank=rank, name=name, address=f"10.0.0.{rank + 1}", processes=1) for rank, name in enumerate("abc")
    )
    plan = LaunchPlan(
        framework="torchrun",
        nodes=nodes,
        master_address="10.0.0.1",
        master_name="a",
        master_port=61234,
        program=("train.py", "--lr", "0.1"),
        python=sys.executable,
        accelerator="cpu",
    )
    return msgspec.structs.replace(plan, **changes)


def with_processes(count: int) -> tuple[NodePlan, ...]:
    return tuple(msgspec.structs.replace(each, processes=count) for each in planned().nodes)


def checked(cluster: Cluster, folder: Path, hosts: str = "a,b,c", **changes: Any) -> dict[str, Verified]:
    """What became of each claim, by its check."""
    plan = msgspec.json.encode(planned(**changes)).decode()
    words = (sys.executable, "-c", HEAD, hosts, plan, str(folder))
    done = cluster.head.run(*words, environment=cluster.environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=tuple[Verified, ...])
    assert len({each.check for each in found}) == len(found)
    return {each.check: each for each in found}


def only_false(found: dict[str, Verified], *checks: str) -> Verified:
    """The first of the claims that are false; no others are, and they say what to do."""
    false = {check: each for check, each in found.items() if each.outcome == "false"}
    assert tuple(false) == checks, false
    for each in false.values():
        assert each.seen and each.means.endswith(".") and each.fix.endswith(".") and each.nodes, each
    return false[checks[0]]


# --- on hosts -----------------------------------------------------------------------------------------------------


def test_on_healthy_hosts_everything_is_seen_and_true(cluster: Cluster, job: Path) -> None:
    found = checked(cluster, job)
    assert list(found) == EVERY_CHECK
    assert {each.outcome for each in found.values()} == {"true"}, found
    assert found["address owner"].seen == "the address of eth0"


def test_a_head_that_is_named_is_resolved_on_all_nodes(cluster: Cluster, job: Path) -> None:
    found = checked(cluster, job, master_address="a")
    assert found["same answer"].outcome == "true"
    assert {each.outcome for each in found.values()} == {"true"}, found


OWN_NAME = "127.0.0.1 localhost\n127.0.1.1 b\n10.0.0.1 a\n10.0.0.3 c\n"


@pytest.mark.parametrize(
    ("spoil", "changes", "check", "nodes", "seen"),
    [
        (
            lambda on: on.c.etc("hosts", "127.0.0.1 localhost\n10.0.0.3 c\n"),
            {"master_address": "a"},
            "same answer",
            "c",
            "",
        ),
        (lambda on: on.b.etc("hosts", OWN_NAME), {}, "host name", "b", "127.0.1.1"),
        (lambda on: on.a.filter('iifname "eth0" tcp dport 61234 drop'), {}, "reachable", "bc", "61234"),
        (lambda on: on.b.filter("tcp dport != 22 ct state new drop"), {}, "way back", "b", ""),
        (lambda on: on.c.shift_clock(40.0), {}, "clocks", "c", ""),
    ],
    ids=[
        "a name unknown to one",
        "the own name is a loopback address",
        "a blocked port",
        "only ssh gets back",
        "a clock",
    ],
)
def test_what_is_wrong_on_one_host(
    cluster: Cluster,
    job: Path,
    spoil: Callable[[Cluster], Any],
    changes: dict[str, Any],
    check: str,
    nodes: str,
    seen: str,
) -> None:
    spoil(cluster)
    bad = only_false(checked(cluster, job, **changes), check)
    assert set(nodes) <= set(bad.nodes) and seen in bad.seen
    if check in ("same answer", "host name", "way back"):
        assert bad.nodes == tuple(nodes)


@pytest.mark.parametrize(
    ("changes", "check", "nodes", "seen"),
    [
        ({"environment": (EnvVariable("GLOO_SOCKET_IFNAME", "eth7"),)}, "interface names", "", "eth7"),
        ({"master_address": "10.0.0.2"}, "address owner", "a", "10.0.0."),
        ({"python": "/opt/none/bin/python"}, "interpreter", "abc", ""),
        ({"accelerator": "cuda"}, "GPUs visible", "abc", "a has none, 1 were planned"),
    ],
)
def test_what_is_wrong_with_a_plan(
    cluster: Cluster, job: Path, changes: dict[str, Any], check: str, nodes: str, seen: str
) -> None:
    bad = checked(cluster, job, **changes)[check]
    assert bad.outcome == "false" and seen in bad.seen
    assert not nodes or bad.nodes == tuple(nodes)


def test_an_interface_in_the_plan_makes_up_for_a_loopback_name(cluster: Cluster, job: Path) -> None:
    cluster.b.etc("hosts", OWN_NAME)
    found = checked(cluster, job, environment=(EnvVariable("GLOO_SOCKET_IFNAME", "eth0"),))
    assert {each.outcome for each in found.values()} == {"true"}, found
    assert "GLOO_SOCKET_IFNAME=eth0" in found["interface names"].claim


@pytest.mark.parametrize(("interface", "outcome"), [("eth0", "true"), ("eth7", "false")])
def test_an_interface_of_one_node_by_itself(cluster: Cluster, job: Path, interface: str, outcome: str) -> None:
    cluster.b.etc("hosts", OWN_NAME)
    first, second, third = planned().nodes
    second = msgspec.structs.replace(second, environment=(EnvVariable("GLOO_SOCKET_IFNAME", interface),))
    found = checked(cluster, job, nodes=(first, second, third))
    assert found["interface names"].outcome == outcome
    assert {each.outcome for check, each in found.items() if check != "interface names"} == {"true"}, found
    if outcome == "false":
        assert only_false(found, "interface names").nodes == ("b",)


def test_a_busy_port(cluster: Cluster, job: Path) -> None:
    listen = "import socket, time; s = socket.create_server(('', 61234)); print('up', flush=True); time.sleep(600)"
    with cluster.a.start(sys.executable, "-c", listen) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        found = checked(cluster, job)
    bad = only_false(found, "port free")
    assert bad.nodes == ("a",) and "in use" in bad.seen
    assert found["reachable"].outcome == "unknown"


def test_a_script_that_one_node_lacks(cluster: Cluster, job: Path) -> None:
    cluster.b.hide(job)
    bad = only_false(checked(cluster, job), "script")
    assert bad.nodes == ("b",)
    assert bad.seen == "b: not there"
    assert bad.commands == (f"ssh b 'ls -l {job}/train.py'",)


def test_a_script_that_is_a_folder(cluster: Cluster, job: Path) -> None:
    bad = only_false(checked(cluster, job.parent, program=(job.name,)), "script")
    assert bad.nodes == ("a", "b", "c") and "a folder" in bad.seen


def test_a_node_with_fewer_gpus_than_ranks(cluster: Cluster, job: Path) -> None:
    with contextlib.ExitStack() as stack:
        for host, count in zip(cluster.hosts, (2, 2, 1), strict=True):
            given = stack.enter_context(fake_nvidia(hgx_h100(count)))
            host.set(**{name: given[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVIDIA_MACHINE")})
        found = checked(cluster, job, accelerator="cuda", nodes=with_processes(2))
    assert found["GPUs visible"].outcome == "false"
    assert found["GPUs visible"].nodes == ("c",)
    assert found["GPUs visible"].seen == "c has 1, 2 were planned"


def test_a_host_that_is_down_is_false_once_and_leaves_its_part_unknown(cluster: Cluster, job: Path) -> None:
    host: SshHost = cluster.c
    host.stop_sshd()
    found = checked(cluster, job)
    assert [each.check for each in found.values() if each.outcome == "false"] == ["nodes reached"], found
    lost = found["nodes reached"]
    assert lost.nodes == ("c",) and "refused" in lost.seen and lost.means and lost.fix and lost.commands
    assert found["script"].outcome == "unknown" and found["script"].nodes == ("c",)
    assert found["port free"].outcome == "true"
    every = tuple(found.values())
    assert exit_status(every) == 1 and "that cannot be reached" in lost_with_nodes(every)
    assert not [each for each in unverified(every) if "c:" in each.claim]


def test_a_node_that_nobody_named_stays_unknown(cluster: Cluster, job: Path) -> None:
    found = checked(cluster, job, hosts="a,b")
    assert not has_false(tuple(found.values())), found
    assert found["script"].nodes == ("c",)
    assert "--hosts" in found["nodes reached"].seen
    assert found["address owner"].outcome == "true"


def test_the_command_says_what_is_false_and_exits_with_1(cluster: Cluster, job: Path) -> None:
    words = (sys.executable, "-m", "gpudoctor", "launch", "--hosts", "a,b,c", "--python", sys.executable, "--check")
    script = ("--", str(job / "train.py"), "--lr", "0.1")
    good = cluster.head.run(*words, *script, environment=cluster.environment(), timeout=120)
    assert good.returncode == 0, good.stderr
    assert "--node-rank=2" in good.stdout and str(job / "train.py") in good.stdout
    cluster.b.hide(job)
    bad = cluster.head.run(*words, *script, environment=cluster.environment(), timeout=120)
    assert bad.returncode == 1, bad.stderr
    assert "b: not there" in " ".join(bad.stderr.split())


# --- without any --------------------------------------------------------------------------------------------------


def test_without_a_fleet_everything_that_needs_one_is_unknown() -> None:
    found = verify(planned(), None, {})
    assert not has_false(found)
    assert {each.check for each in found if each.outcome == "true"} == {"address form"}
    assert all(each.claim and each.command for each in unverified(found))


@pytest.mark.thorough
def test_a_head_that_is_this_machine_is_looked_at_without_a_fleet(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    alone = msgspec.structs.replace(planned().nodes[0], name="here")
    plan = planned(nodes=(alone,), master_address="127.0.0.1", master_port=0)
    found = {each.check: each for each in verify(plan, None, {"here": Snapshot()}, script_folder=str(tmp_path))}
    assert found["script"].outcome == found["interpreter"].outcome == "true"
    missing: dict[str, Verified] = {
        each.check: each for each in verify(plan, None, {"here": Snapshot()}, script_folder=str(tmp_path / "x"))
    }
    assert only_false(missing, "script").nodes == ("here",)


def test_a_loopback_address_for_several_nodes_is_false_without_looking() -> None:
    found = verify(planned(master_address="127.0.0.1"), None, {})
    assert [each.check for each in found if each.outcome == "false"] == ["address form"]


@pytest.mark.parametrize("framework", ["kubernetes", "skypilot", "torchx", "xla"])
def test_machines_that_a_scheduler_chooses_are_not_verified(framework: Any) -> None:
    (only,) = verify(planned(framework=framework), None, {})
    assert only.outcome == "unknown" and only.commands


def test_findings_that_speak_against_a_claim_are_findings_of_the_preflight() -> None:
    """A renamed finding would leave its claim true for ever."""
    folder = Path(module.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("preflight*.py")))
    named = {id for ids in FALSE_BY.values() for id in ids} | OWN_FIX.keys()
    assert not {id for id in named if f'"{id}"' not in code}
    errors = ("node-not-examined", "ports-not-tried", "gpudoctor-versions-differ", "gpus-differ-between-nodes")
    told = named | set(errors)
    found = set(re.findall(r'finding\(\s*"([a-z0-9-]+)"', code))
    assert len(found) > 15 and found <= told, found - told


def test_the_kind_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").write_text("")
    assert kind(str(tmp_path / "there")) == "file"
    assert kind(str(tmp_path)) == "folder"
    assert kind(str(tmp_path / "none")) == "missing"
    assert kind(str(tmp_path / "there" / "below")) == "missing"
    assert kind(f"{tmp_path}/\0") in ("missing", "unreadable")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    assert kind("tool") == "file"
    assert kind("no-such-tool") == "missing"


def test_answers_of_the_child_that_are_none_are_passed_over(capfd: pytest.CaptureFixture[str]) -> None:
    main(["/", "no-such-tool"])
    said = capfd.readouterr().out.encode()
    assert answers(b"banner\n" + said) == {"/": "folder", "no-such-tool": "missing"}
    assert answers(said[: len(said) // 2]) in ({}, {"/": "folder"})
    assert json.dumps(answers(b"\xff\n")) == "{}"
