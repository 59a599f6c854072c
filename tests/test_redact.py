"""Redaction: no name survives, nothing else changes, and the verdict stays."""

import ipaddress
import json
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.check import Fix, Problem
from gpudoctor.command import command
from gpudoctor.diagnose import ask
from gpudoctor.envelope import encode
from gpudoctor.fleet.survey import Survey
from gpudoctor.folder.answer import FolderAnswer
from gpudoctor.hang.report import HangReport
from gpudoctor.knowledge.credentials import without_credentials
from gpudoctor.knowledge.environment import is_recorded, recorded
from gpudoctor.knowledge.private_names import HARMLESS_FIELDS
from gpudoctor.knowledge.pseudonymous_uuids import Uuids
from gpudoctor.nccl.result import TestResult
from gpudoctor.plugins import find_checks
from gpudoctor.redact import Pseudonyms, redact
from gpudoctor.report import Report, Result
from gpudoctor.snapshot import (
    ConfigFile,
    DeviceNode,
    Firewall,
    Gid,
    GpuProcess,
    KernelLog,
    Network,
    Rendezvous,
    Route,
    Snapshot,
    Space,
    UsedPath,
    XidEvent,
    absent,
    missing,
    read,
    to_json,
)
from gpudoctor.snapshot.evidence import Evidence, NodeProcesses
from gpudoctor.testing.machines import GIB, but, but_gpu, h100_node
from gpudoctor.testing.networks import interface, port, rdma_device, with_rdma
from gpudoctor.train.report import TrainReport
from tests.every_case import cases_of, modules

CHECKS = {check.id: check for check in find_checks()[0]}


class Secrets(NamedTuple):
    host: str
    domain: str
    user: str
    home_user: str
    address: str
    address6: str
    mac: str
    serial: str
    uuid: str


# A first letter beyond f keeps a name from being part of some hexadecimal number.
NAME = st.from_regex(r"[g-z][a-z]{3,8}[0-9]{0,4}", fullmatch=True).filter(
    lambda name: name not in json.dumps(msgspec.to_builtins(h100_node())) + " kind host user serial domain mail nodes"
)
HEX = "0123456789abcdef"
SECRETS = st.builds(
    Secrets,
    host=NAME.map(lambda name: f"{name}-x7"),
    domain=NAME.map(lambda name: f"{name}.example.org"),
    user=NAME.map(lambda name: f"{name}u"),
    home_user=NAME.map(lambda name: f"{name}h"),
    address=st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    address6=st.ip_addresses(v=6, network="2001:db8::/32").map(str).filter(lambda text: text.count(":") > 2),
    mac=st.lists(st.text(HEX, min_size=2, max_size=2), min_size=6, max_size=6).map(":".join),
    serial=st.from_regex(r"9[0-9]{11}8", fullmatch=True),
    uuid=st.uuids().map(str),
)


def machine_of(secrets: Secrets) -> Snapshot:
    """A machine that has the secrets wherever a reader may put them."""
    fqdn = f"{secrets.host}.{secrets.domain}"
    home = f"/home/{secrets.home_user}"
    sentence = (
        f"cannot reach {fqdn} ({secrets.address}, {secrets.address6}, {secrets.mac}) as {secrets.user}@{secrets.host}"
    )
    machine = but_gpu(
        h100_node(2),
        1,
        uuid=read("nvml", f"GPU-{secrets.uuid}"),
        serial=read("nvml", secrets.serial),
        processes=read(
            f"{home}/proc",
            (
                GpuProcess(
                    4711,
                    "compute",
                    GIB,
                    user=read("/proc/4711", secrets.user),
                    command=read(
                        "/proc/4711/cmdline", f"{home}/venv/bin/python train.py --log /data/{secrets.user}_runs"
                    ),
                ),
            ),
        ),
        name=missing("nvml", f"GPU-{secrets.uuid} (serial {secrets.serial}) is lost"),
    )
    machine = but(machine, "host.hostname", fqdn)
    machine = but(machine, "host.hostname_addresses", (secrets.address, secrets.address6))
    machine = but(machine, "host.kernel_command_line", f"root=UUID={secrets.uuid} ip={secrets.address}")
    machine = but(machine, "host.paths", (UsedPath("HF_HOME", f"{home}/.cache", read("x", Space(1, 1))),))
    machine = but(machine, "host.kernel_log", KernelLog((XidEvent(79, "0000:5d:00.0", sentence),)))
    machine = but(machine, "host.swap_used_bytes", absent("/proc/meminfo", sentence))
    machine = but(machine, "training.python", f"{home}/venv/bin/python")
    machine = but(machine, "network", network_of(secrets))
    machine = but(
        machine, "accelerators.device_nodes", (DeviceNode("/dev/nvidia0", True, True, 0o600, secrets.user, "video"),)
    )
    return but(
        machine,
        "environment",
        {
            "CUDA_VISIBLE_DEVICES": f"GPU-{secrets.uuid[:6]},0",
            "LD_LIBRARY_PATH": f"{home}/lib:/usr/lib",
            "MASTER_ADDR": secrets.host,
            "PET_RDZV_ENDPOINT": f"{secrets.host},{fqdn}",
            "AWS_SECRET_ACCESS_KEY": "opensesame",
            "editor": "ed-the-editor",
        },
    )


def network_of(secrets: Secrets) -> Network:
    """The network of that machine: addresses, GIDs, the head's name, a file of NCCL in somebody's home."""
    groups = [secrets.mac.replace(":", "")[place : place + 4] for place in (0, 4, 8)]
    exploded = ipaddress.ip_address(secrets.address6).exploded
    v4 = ipaddress.IPv4Address(secrets.address).packed.hex()
    gids = (
        Gid(0, f"fe80:0000:0000:0000:a288:{':'.join(groups)}", "IB/RoCE v1", "eth1"),
        Gid(1, f"0000:0000:0000:0000:0000:ffff:{v4[:4]}:{v4[4:]}", "RoCE v2", "eth1"),
        Gid(2, exploded, "RoCE v2", "eth1"),
    )
    settings = {"NCCL_COMM_ID": f"{secrets.address}:2222", "NCCL_DEBUG_FILE": f"/home/{secrets.home_user}/nccl.%h"}
    user_file = f"/home/{secrets.home_user}/.nccl.conf"
    rule = f"ip saddr != {secrets.address} drop comment {secrets.host}"
    return msgspec.structs.replace(
        with_rdma(h100_node(2), rdma_device(0, port(gids=gids))).network,
        interfaces=read(
            "getifaddrs", (interface("eth1", f"{secrets.address}/8", f"{secrets.address6}/64", mac=secrets.mac),)
        ),
        routes=read("/proc/net/route", (Route(f"{secrets.address}/32", secrets.address, "eth1"),)),
        nccl_files=read("files", (ConfigFile(user_file, read(user_file, settings)),)),
        rendezvous=read(
            "environment", Rendezvous(secrets.host, 29500, read("dns", (secrets.address, secrets.address6)))
        ),
        firewalls=read("nft", (Firewall("nft", True, (rule,)),)),
    )


def test_gids_keep_their_form() -> None:
    secrets = Secrets(
        "gpu17", "corp.example", "alice", "bob", "10.1.2.3", "2001:db8:7::1", "aa:bb:cc:dd:ee:ff", "1650000000001",
        "8f3c0a11-2222-3333-4444-555555555555",
    )  # fmt: skip
    network = redact(machine_of(secrets)).network
    assert [gid.gid for gid in network.rdma_devices.value[0].ports[0].gids.value] == [
        "fe80:0000:0000:0000:0000:0000:0000:0001",
        "0000:0000:0000:0000:0000:ffff:0000:0002",
        "2001:0db8:0000:0001:0000:0000:0000:0003",
    ]
    assert [address.address for address in network.interfaces.value[0].addresses] == ["ip-1", "ip-2"]
    assert network.interfaces.value[0].name == "eth1"
    assert network.rendezvous.value.address == "node-1"
    assert network.nccl_files.value[0].path == "/home/user-1/.nccl.conf"
    assert network.pci_paths == machine_of(secrets).network.pci_paths


def survivors(secrets: Secrets, text: str) -> list[str]:
    guid = secrets.mac.replace(":", "")
    wanted = [
        *secrets,
        f"a288:{guid[:4]}:{guid[4:8]}:{guid[8:]}",
        secrets.uuid[:8],
        secrets.domain.partition(".")[0],
        "opensesame",
        "ed-the-editor",
    ]
    return [secret for secret in wanted if secret in text]


@settings(max_examples=60, deadline=None)
@given(secrets=SECRETS)
def test_no_secret_survives(secrets: Secrets) -> None:
    machine = machine_of(secrets)
    hidden = to_json(redact(machine)).decode()
    assert survivors(secrets, hidden) == []
    assert redact(redact(machine)) == redact(machine)


@settings(max_examples=30, deadline=None)
@given(secrets=SECRETS)
def test_no_secret_survives_in_a_report(secrets: Secrets) -> None:
    machine = machine_of(secrets)
    problem = Problem(
        severity="error",
        summary=f"process 4711 of {secrets.user} holds GPU-{secrets.uuid} on {secrets.host}.{secrets.domain}",
        meaning=f"{secrets.address} and {secrets.mac} wait for {secrets.host}",
        fix=Fix(
            f"Ask {secrets.user}.",
            (
                command("ssh {} kill 4711", f"{secrets.user}@{secrets.host}"),
                command("ls {:path}", f"/home/{secrets.home_user}"),
            ),
        ),
        evidence=(machine.environment, machine.host.hostname, machine.nvidia.gpus),
    )
    report = Report((Result("gpu-busy", "gpu", "GPUs are idle", "problem", (problem,), (f"{secrets.host}: no",)),))
    hidden = Pseudonyms(machine).structure(report)
    found = survivors(secrets, encode(hidden).decode())
    assert [
        secret for secret in found if secret != "ed-the-editor"
    ] == []  # no name of a variable, where it is evidence
    assert hidden.problems[0][1].fix.commands[0].endswith("kill 4711")
    assert Pseudonyms(machine).text(problem.summary) == hidden.problems[0][1].summary


def test_the_same_secret_has_the_same_pseudonym_everywhere() -> None:
    secrets = Secrets(
        "gpu17", "corp.example", "alice", "bob", "10.1.2.3", "2001:db8::1:2", "aa:bb:cc:dd:ee:ff", "1650000000001",
        "8f3c0a11-2222-3333-4444-555555555555",
    )  # fmt: skip
    machine = redact(machine_of(secrets))
    process = machine.nvidia.gpus.value[1].processes.value[0]
    environment = machine.environment.value
    assert machine.host.hostname.value == environment["MASTER_ADDR"] == "node-1"
    assert environment["PET_RDZV_ENDPOINT"] == "node-1,node-1"
    # Numbered in the order of the document, which begins with the environment: bob's home, then alice.
    assert process.user.value == "user-2"
    assert process.command.value == "python train.py"
    assert environment["LD_LIBRARY_PATH"] == "/home/user-1/lib:/usr/lib"
    assert machine.host.hostname_addresses.value == ("ip-1", "ip-2")
    assert machine.host.kernel_log.value.events[0].message == (
        "cannot reach node-1 (ip-1, ip-2, mac-1) as user-2@node-1"
    )
    assert "AWS_SECRET_ACCESS_KEY" not in environment and "editor" not in environment
    gpu = machine.nvidia.gpus.value[1]
    assert gpu.serial.value == "serial-2" and "serial-2" in gpu.name.reason
    assert gpu.uuid.value.startswith(environment["CUDA_VISIBLE_DEVICES"].partition(",")[0])


@pytest.mark.parametrize("home", ["/u/wilma", "/gpfs/people/wilma", "/data/home/wilma"])
def test_a_home_that_is_not_below_home_names_its_user_too(home: str) -> None:
    """As read on a cluster, without a GPU process or a Slurm variable that would give the user's name."""
    machine = but(h100_node(1), "environment", {"TMPDIR": "/scratch/wilma/hf"})
    machine = but(machine, "network.nccl_files", ())
    machine = but(machine, "host.paths", (UsedPath("caches", f"{home}/.cache", read("x", Space(1, 1))),))
    hidden = redact(machine)
    assert b"wilma" not in to_json(hidden)
    assert hidden.environment.value["TMPDIR"] == "/scratch/user-1/path-1"
    assert redact(hidden) == hidden


SOFTER = frozenset({"nccl-comm-id-left"})
"""That the variable is set is a warning, and an error only where its address is seen to be none of this machine's."""


@pytest.mark.thorough
@pytest.mark.parametrize("module", modules())
def test_every_check_says_the_same_of_a_redacted_machine(module: str) -> None:
    """Or says that it cannot, where it compares networks: their addresses are hidden."""
    every = (
        (check, machine) for check, cases in cases_of(module).items() for case in cases for machine in case.machines
    )
    for name, machine in every:
        before, after = ask(CHECKS[name], machine), ask(CHECKS[name], redact(machine))
        if after.outcome == "skipped" and all("is hidden" in reason for reason in after.reasons):
            continue
        told, left = ([(problem.severity, problem.gpus) for problem in result.problems] for result in (before, after))
        if name in SOFTER:
            left = [("error" if severity == "warning" else severity, gpus) for severity, gpus in left]
            told = [("error" if severity == "warning" else severity, gpus) for severity, gpus in told]
        assert (before.outcome, told) == (after.outcome, left), (before, after)


UUID_TEXT = st.text(HEX + "ABCDEF-", min_size=1, max_size=36)


@given(uuids=st.lists(UUID_TEXT, min_size=2, max_size=12))
def test_prefixes_select_what_they_selected(uuids: list[str]) -> None:
    pseudonyms = Uuids()
    hidden = [pseudonyms.replace(uuid) for uuid in uuids]
    for one, its in zip(uuids, hidden, strict=True):
        assert len(its) == len(one)
        for other, others in zip(uuids, hidden, strict=True):
            assert one.startswith(other) == its.startswith(others)


@given(text=st.text(max_size=200))
def test_any_text_passes(text: str) -> None:
    pseudonyms = Pseudonyms(h100_node(1))
    once = pseudonyms.text(text)
    assert pseudonyms.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "0000:5d:00.0 and 00000000:5d:00.0 and 5d:00.0",
        "NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus.",
        "driver 580.95.05, nvml 13.580.95.05, VBIOS 96.00.89.00.01",
        "cuDNN 9.19.0.56 and nvidia-cudnn-cu13==9.19.0.56 and libcudnn.so.9.19.0.56",
        "kernel 5.15.167.4-microsoft-standard-WSL2",
        "std::vector, c10::Error, c10::(anonymous), at::native::x",
        "12:34:56 on 2026-11-20T12:00:00+00:00",
        "127.0.0.1, 127.0.1.1, ::1, 0.0.0.0, localhost",
        "GPU-accelerated work on GPU-1 of GPU 3",
        "root, ubuntu and nvidia-persistenced under /root",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ],
)
def test_leaves_alone_what_only_looks_private(text: str) -> None:
    assert Pseudonyms(h100_node(1)).text(text) == text


def test_knows_versions_of_four_parts_by_where_they_stand() -> None:
    machine = but(h100_node(1), "training.packages", {"nvidia-cudnn-cu13": "9.19.0.56"})
    pseudonyms = Pseudonyms(machine)
    assert pseudonyms.structure(machine).training.packages == machine.training.packages
    assert pseudonyms.text("found 9.19.0.56 at 9.19.0.57").startswith("found 9.19.0.56 at ip-")


@pytest.mark.parametrize("name", ["gpu", "h100", "nvidia", "a", "error", "10", "memory", "compute", "localhost"])
def test_a_common_word_as_a_name_does_not_shred_the_report(name: str) -> None:
    machine = but(h100_node(1), "host.hostname", name)
    machine = but_gpu(machine, 0, processes=read("nvml", (GpuProcess(1, "compute", GIB, user=read("/proc/1", name)),)))
    hidden = redact(machine)
    sentence = "GPU 0 (NVIDIA H100 80GB HBM3): nvidia-smi says a memory error after 10 compute jobs"
    assert Pseudonyms(machine).text(sentence) == sentence
    assert hidden.nvidia.gpus.value[0].name == machine.nvidia.gpus.value[0].name
    assert hidden.host.hostname.value == ("localhost" if name == "localhost" else "node-1")
    assert hidden.nvidia.gpus.value[0].processes.value[0].kind == "compute"


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ("gpu[01-03,07],login1", "node-1,node-2,node-3,node-4,node-5"),
        ("gpu01.corp.example", "node-1"),
        ("10.1.2.3", "ip-1"),
        ("10.1.2.3:29500", "ip-1:29500"),
        ("[2001:db8::5]:29500", "[ip-1]:29500"),
        ("gpu[1-99999999]", "nodes-1"),
        ("", ""),
    ],
)
def test_host_lists_keep_their_number_of_hosts(value: str, hidden: str) -> None:
    machine = Snapshot(environment=read("environment", {"MASTER_ADDR": value}))
    assert redact(machine).environment.value == {"MASTER_ADDR": hidden}


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("python t.py --hf-token abc --lr 1", "python t.py --hf-token *** --lr 1"),
        ("python t.py --api_key=abc --lr 1", "python t.py --api_key=*** --lr 1"),
        ("env WANDB_API_KEY=abc python t.py", "env WANDB_API_KEY=*** python t.py"),
        ("git clone https://bob:pw@example.org/x", "git clone https://***@example.org/x"),
        ("login hf_" + "a1B2" * 8, "login ***"),
        ("python train.py --epochs 3", "python train.py --epochs 3"),
    ],
)
def test_credentials_in_command_lines_are_hidden(text: str, hidden: str) -> None:
    assert without_credentials(text) == hidden
    assert without_credentials(hidden) == hidden


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CUDA_VISIBLE_DEVICES", True),
        ("NCCL_SOCKET_IFNAME", True),
        ("TP_SOCKET_IFNAME", True),
        ("SLURM_GPUS_ON_NODE", True),
        ("LD_LIBRARY_PATH", True),
        ("RAY_ADDRESS", False),
        ("SLURM_JOB_NODELIST", False),
        ("HOME", False),
        ("PATH", False),
        ("HF_TOKEN", False),
        ("NVIDIA_API_KEY", False),
        ("SLURM_JWT", False),
        ("TORCH_hub_password", False),
        ("OMPI_ARGV", False),
        ("SLURM_JOB_NAME", False),
        ("", False),
    ],
)
def test_only_listed_variables_are_recorded(name: str, expected: bool) -> None:
    assert is_recorded(name) is expected
    assert (name in recorded({name: "x"})) is expected


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("NCCL_DEBUG", "INFO", "INFO"),
        ("NCCL_DEBUG", "INOF", "INOF"),
        ("NCCL_DEBUG", "hunter2", "***"),
        ("NCCL_ALGO", "^Ring,Tree", "^Ring,Tree"),
        ("NCCL_API_TOKEN", "0123abc", "***"),
        ("NCCL_IB_TIMEOUT", "22 # of alice", "22 # ***"),
        ("NCCL_IB_HCA", "=mlx5_0:1,password=x", "=mlx5_0:1,***"),
        ("NCCL_SOCKET_IFNAME", '"eth0"', '"eth0"'),
        ("MASTER_ADDR", "ray://bob:hunter2@head:10001", "***"),
        ("MASTER_ADDR", "gpu[01-03,07],login1", "gpu[01-03,07],login1"),
        ("MASTER_PORT", "29500", "29500"),
        ("MASTER_PORT", "hunter2", "***"),
        ("LD_LIBRARY_PATH", "/usr/lib:/opt/x?sig=y:", "/usr/lib:***:"),
        ("CUDA_VISIBLE_DEVICES", "GPU-8f3c0a11,1,hunter2", "GPU-8f3c0a11,1,***"),
        ("TORCHELASTIC_RUN_ID", "exp7.b", "exp7.b"),
        ("TORCHELASTIC_RUN_ID", "https://u:p@h", "***"),
        ("TPU_WORKER_ID", "3", "3"),
    ],
)
def test_values_are_kept_by_their_shape(name: str, value: str, kept: str) -> None:
    assert recorded({name: value}) == {name: kept}
    assert recorded(recorded({name: value})) == {name: kept}


def test_the_harmless_fields_exist() -> None:
    structures: dict[str, set[str]] = {"Result": set(Result.__struct_fields__), "Report": set(Report.__struct_fields__)}

    def visit(kind: msgspec.inspect.Type) -> None:
        if isinstance(kind, msgspec.inspect.StructType) and kind.cls.__name__ not in structures:
            structures[kind.cls.__name__] = {field.name for field in kind.fields}
            for field in kind.fields:
                visit(field.type)
        for name in ("item_type", "value_type"):
            if hasattr(kind, name):
                visit(getattr(kind, name))
        for part in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
            visit(part)
        if isinstance(kind, msgspec.inspect.StructType) and kind.cls.__name__ == "Reading":
            for field in kind.fields:
                visit(field.type)

    for document in (Snapshot, Evidence, NodeProcesses, HangReport, Survey, TestResult, TrainReport, FolderAnswer):
        visit(msgspec.inspect.type_info(document))
    for name, fields in HARMLESS_FIELDS.items():
        assert fields <= structures[name], name
