"""Names in a snapshot that somebody else wrote are names, or it is refused; live, one that is none is a reason."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor import cli, several
from gpudoctor.active import ChildReply
from gpudoctor.fleet.messages import Examined
from gpudoctor.knowledge.environment import recorded
from gpudoctor.marked import MARK
from gpudoctor.read import host
from gpudoctor.read.file import snapshot_of
from gpudoctor.read.held import held
from gpudoctor.read.interfaces import read_interfaces
from gpudoctor.read.local import said
from gpudoctor.read.machine import local_fields
from gpudoctor.read.nccl_files import lines
from gpudoctor.read.python import FILES, converted
from gpudoctor.read.system import System
from gpudoctor.snapshot import Host, Network, Snapshot, UnreadableSnapshot, from_json, missing, read, to_json
from gpudoctor.snapshot.training import Packages
from tests.attacks.registry import attack, attacks
from tests.fake_tree import fake
from tests.machines.reports import machines
from tests.test_read_ranks import look, rank

RANK = {"pid": 7, "rank": 0, "world_size": 2}
FILE = {"path": "/etc/nccl.conf", "settings": {"source": "x", "value": {}}}


@functools.cache
def built() -> bytes:
    content = msgspec.json.decode(to_json(machines()["network-dgx-h100"]))
    content["network"]["rank_settings"]["value"] = [{**RANK, "settings": {}}]
    content["network"]["nccl_files"]["value"] = [FILE]
    return msgspec.json.encode(content)


def forged(place: str, value: Any) -> bytes:
    """With a value at "network.interfaces.value.0.name"; at "x.+" it is (key, value) of the dict x."""
    content = msgspec.json.decode(built())
    here, (*steps, last) = content, place.split(".")
    for step in steps:
        here = here[int(step) if step.isdigit() else step]
    if last == "+":
        here[value[0]] = value[1]
    else:
        here[int(last) if last.isdigit() else last] = value
    return msgspec.json.encode(content)


@attacks(
    "files",
    "place, value, says",
    ("the name of the host", "a second command", "host.hostname.value", "x;touch y", "name of a host: 'x;touch y'"),
    ("an address of the host", "a substitution", "host.hostname_addresses.value.0", "$(x)", "address: '$(x)'"),
    ("an interface", "an option", "network.interfaces.value.0.name", "-x", "name of an interface: '-x'"),
    (
        "the interface of a route",
        "a second line",
        "network.routes.value.0.interface",
        "a\nb",
        "name of an interface: 'a\\nb'",
    ),
    (
        "the gateway of a route",
        "a second command",
        "network.routes.value.0.gateway",
        "1.1.1.1|x",
        "address: '1.1.1.1|x'",
    ),
    (
        "an RDMA device",
        "a second command",
        "network.rdma_devices.value.0.name",
        "mlx5_0&x",
        "name of a device: 'mlx5_0&x'",
    ),
    ("the PCI address of a GPU", "a substitution", "nvidia.gpus.value.0.pci_bus_id.value", "`x`", "PCI address: '`x`'"),
    ("the UUID of a GPU", "a second command", "nvidia.gpus.value.0.uuid.value", "GPU-1;x", "UUID: 'GPU-1;x'"),
    ("the version of the driver", "a substitution", "nvidia.driver_version.value", "570$(x)", "version: '570$(x)'"),
    (
        "a path of the PCI tree",
        "a sequence that the terminal obeys",
        "network.pci_paths.value.+",
        ("\x1b[2J", {"bus_id": "0000:01:00.0"}),
        "PCI address: '\\x1b[2J'",
    ),
    (
        "a package",
        "an option of pip",
        "training.packages.value.+",
        ("--index-url=http://x", "1"),
        "package: '--index-url=http://x'",
    ),
    (
        "the version of a package",
        "a second word of pip's",
        "training.packages.value.torch",
        "2.0 evil",
        "version: '2.0 evil'",
    ),
    (
        "a variable of the environment",
        "a second assignment",
        "environment.value.+",
        ("NCCL_A=1;x", "2"),
        "variable: 'NCCL_A=1;x'",
    ),
    (
        "a setting of a rank",
        "a substitution",
        "network.rank_settings.value.0.settings.+",
        ("NCCL_$(x)", "2"),
        "variable: 'NCCL_$(x)'",
    ),
    (
        "a line of NCCL's file",
        "a second line",
        "network.nccl_files.value.0.settings.value.+",
        ("NCCL_A\nx", "2"),
        "variable: 'NCCL_A\\nx'",
    ),
    (
        "a module of the kernel",
        "an option of modprobe",
        "accelerators.kernel_modules.value.0",
        "-r",
        "name of a device: '-r'",
    ),
    (
        "a name",
        "more than a screen is shown of it",
        "host.hostname.value",
        "x" * 100_000,
        "name of at most 255 characters: '" + "x" * 39 + "...",
    ),
    way="check --from:",
)
def test_a_name_that_is_none_is_refused_in_one_line(place: str, value: Any, says: str) -> None:
    from_json(built())
    with pytest.raises(UnreadableSnapshot) as refused:
        snapshot_of(forged(place, value))
    line = str(refused.value)
    assert line.isprintable() and line.startswith("not a gpudoctor snapshot: $.")
    assert line.endswith(says)
    assert place.partition(".")[2].partition(".")[0] in line


@attack("files", way="every command with --from: a forged snapshot", weakness="one of them takes it")
@pytest.mark.parametrize("command", ["check", "env", "topology", "devices"])
def test_every_command_refuses_it(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(forged("network.interfaces.value.0.name", "\x1b[2J;x"))
    assert cli.run([command, "--from", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.rstrip("\n").endswith("$.network.interfaces.value[0].name is no name of an interface: '\\x1b[2J;x'")


@attack("files", way="check --from: a word of another form than a list knows", weakness="the terminal obeys it")
def test_a_word_that_is_not_known_is_escaped() -> None:
    with pytest.raises(UnreadableSnapshot) as refused:
        snapshot_of(forged("nvidia.gpus.value.0.compute_mode.value", "\x1b]0;x\x07\u202e"))
    assert str(refused.value).isprintable()


class Nodes:
    """As much of a fleet as sorting its answers wants."""

    def __init__(self) -> None:
        self.lost: dict[int, Any] = {}

    def name(self, node: int) -> str:
        return f"n{node}"


@attack(
    "channels", way="check --hosts: the snapshot that a node sends", weakness="its names become words of the head's"
)
def test_a_node_whose_names_are_none_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.several.lost_findings", lambda fleet, meaning: ())
    fleet: Any = Nodes()
    sent: dict[int, Any] = {
        number: Examined(snapshot=msgspec.Raw(raw))
        for number, raw in enumerate((built(), forged("host.hostname.value", "$(reboot)")))
    }
    seen, _ = several.sorted_out(fleet, sent)
    assert list(seen) == ["n0"]
    assert "name of a host: '$(reboot)'" in fleet.lost[1].detail


# ---------------------------------------------------------------- live


def replied(**fields: Any) -> ChildReply:
    line = MARK + msgspec.json.encode({"reader": "x", "fields": fields})
    return ChildReply("local", line + b"\n", "", 0, False, False, 1.0, 7)


@attack("text", way="a live interface whose name is a command", weakness="the examination ends, or the name gets on")
def test_an_odd_interface_costs_its_own_reading(tmp_path: Path) -> None:
    found = read_interfaces(System(tmp_path), lambda: {"lo": (), "e$(x)": ()})
    fields = local_fields(replied(**found))
    fields["network"]["routes"] = msgspec.to_builtins(read("/proc/net/route", ()))
    network = held(fields["network"], Network)
    assert network.routes.value == ()
    assert "is no name of an interface: 'e$(x)" in network.interfaces.reason
    assert network.interfaces.source.startswith("getifaddrs")


@attack("text", way="a host that calls itself a command", weakness="the examination ends, or the name gets on")
def test_an_odd_host_name_costs_its_own_reading(tmp_path: Path) -> None:
    system = fake(tmp_path, {"/proc/sys/kernel/hostname": "x;reboot\n", "/proc/sys/kernel/ostype": "Linux\n"})
    section = held(local_fields(replied(**host.read_identity(system)))["host"], Host)
    assert section.system.value == "Linux"
    assert section.hostname.reason == "$.hostname.value is no name of a host: 'x;reboot'"


@attack("surroundings", way="a variable whose name is a command", weakness="it stands in the snapshot")
def test_odd_variables_are_not_recorded() -> None:
    odd = {"NCCL_A;x": "1", "NCCL_$(x)": "1", "NCCL_A\nB": "1", "NCCL_\u00e9": "1", "NCCL_\u0662": "1"}
    assert recorded({**odd, "NCCL_DEBUG": "INFO"}) == {"NCCL_DEBUG": "INFO"}


@attack("processes", way="check: a rank of another user's with odd variables", weakness="it blinds root to all ranks")
def test_odd_settings_of_a_rank_cost_nobody_anything(tmp_path: Path) -> None:
    odd: dict[str, Any] = {"NCCL_A;x": "1", "NCCL_\u00e9": "1", "NCCL_ALGO": "Ring"}
    found = look(fake(tmp_path, rank(30, 0, **odd)))
    (kept,) = found.value
    assert kept.settings == {"NCCL_ALGO": "Ring"}
    assert held(local_fields(replied(**{"network.rank_settings": found}))["network"], Network).rank_settings.is_read


@attack("files", way="a line of /etc/nccl.conf whose name is a command", weakness="it stands in the snapshot")
def test_odd_lines_of_nccls_files_are_not_kept() -> None:
    kept = lines(b"NCCL_A;x=1\nNCCL_$(x)=1\nNCCL_\xc3\xa9=1\n NCCL_B=2\nexport NCCL_C=3\nNCCL_D=4\n").settings
    assert kept == {" NCCL_B": "2", "export NCCL_C": "3", "NCCL_D": "4"}
    content = {"source": "x", "value": [{"path": "/f", "settings": {"source": "/f", "value": kept}}]}
    assert held({"nccl_files": content}, Network).nccl_files.is_read


@attack("surroundings", way="a package of the training interpreter with an odd version", weakness="a word more for pip")
def test_an_odd_package_is_a_reason() -> None:
    facts = {"packages": {"torch": "2.0", "torchvision": "0.1 --index-url=http://x"}}
    found = converted(FILES, facts, "packages", Packages, missing(FILES, "x"))
    assert "is no version: '0.1 --index-url=http://x'" in found.reason


@attack("text", way="a live interface whose name is no text", weakness="its reader ends without a word")
def test_what_is_no_text_is_a_reason(tmp_path: Path) -> None:
    reader = read_interfaces
    found = read_interfaces(System(tmp_path), lambda: {"e\udcff": ()})
    reply = ChildReply("local", said(reader, found), "", 0, False, False, 1.0, 7)
    network = held(local_fields(reply)["network"], Network)
    assert network.interfaces.reason == "what was read is no text: 'e\\udcff'"


NVIDIA_SMI = """<nvidia_smi_log><driver_version>570.1;x</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:01:00.0"><product_name>NVIDIA H100</product_name><uuid>$(x)</uuid></gpu></nvidia_smi_log>"""


@attack("files", way="check --from: names in what nvidia-smi wrote", weakness="a second command")
def test_odd_names_of_nvidia_smi_are_reasons() -> None:
    machine = snapshot_of(b'<?xml version="1.0" ?>\n' + NVIDIA_SMI.encode())
    (gpu,) = machine.nvidia.gpus.value
    assert gpu.name.value == "NVIDIA H100"
    assert "is no UUID: '$(x)'" in gpu.uuid.reason
    assert not machine.nvidia.driver_version.is_read
    assert from_json(to_json(machine)) == machine


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root has a network of its own")
@attack("surroundings", way="a real interface with an odd name", weakness="what capture wrote cannot be read again")
@pytest.mark.parametrize(
    ("name", "reason"),
    [("l$(x)", "no name of an interface: 'l$(x)'"), ("l\\377", "the name of an interface is no text")],
)
def test_a_machine_with_an_odd_interface_is_captured_and_read_again(tmp_path: Path, name: str, reason: str) -> None:
    file = tmp_path / "machine.json"
    rename = f'ip link set lo name "$(printf \'{name}\')" && exec "$@"'
    words = (sys.executable, "-m", "gpudoctor", "capture", "--no-torch", "-o", str(file))
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", rename, "sh", *words], capture_output=True, text=True, timeout=120, check=False
    )
    if "link set" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    machine: Snapshot = snapshot_of(file.read_bytes())
    assert not machine.network.interfaces.is_read and reason in machine.network.interfaces.reason
    assert machine.host.system.is_read
