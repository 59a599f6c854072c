"""What hostile names and texts do to the terminal on which a command speaks of them: they show as themselves.

The commands run in a terminal of their own (a pty), one process for all of them, with every way out: standard output
and standard error, colours and progress.
"""

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.registry import attacks

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pty"),
    pytest.mark.timeout(300),
]
ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"
NAME = "PWN\x1b]0;t\x07\x1b[2J\x1b]52;c;eA==\x07\x9b5n\x90q\x9c\u202e\u2066\u200b\u2028\r\x08\n[red]R[bold]\udcff"
"""A title, a cleared screen, the clipboard, a question to the terminal, C1, another order, hidden text, two lines."""
SGR = re.compile(r"\x1b\[[\d;]*m")
OF_PROGRESS = re.compile(r"\x1b\[(?:\?25[lh]|2K|1A|\d*[AG])|\r")
RUNNER = """
import json, sys
from gpudoctor import cli
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(errors="backslashreplace")
for number, arguments in enumerate(json.load(open(sys.argv[1]))):
    print(f"<<{number}>>", flush=True)
    try:
        cli.run(arguments)
    except SystemExit:
        pass
    sys.stdout.flush()
print("<<end>>", flush=True)
"""


def in_a_terminal(command: list[str], **environment: str) -> str:
    """All that a command writes, as a terminal of 100 columns gets it."""
    head, tail = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "PYTHONPATH")}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=tail, stderr=tail, cwd="/",
        env={**kept, "TERM": "xterm-256color", "COLUMNS": "100", **environment}, start_new_session=True,
    )  # fmt: skip
    os.close(tail)
    written = bytearray()
    end = time.monotonic() + 240
    try:
        while time.monotonic() < end and select.select([head], [], [], 240)[0]:
            try:
                chunk = os.read(head, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            written += chunk
    finally:
        process.kill()
        process.wait()
        os.close(head)
    return written.decode("utf-8", "surrogateescape")


def steers(text: str) -> str:
    """What of it is no text and no colour of ours."""
    rest = OF_PROGRESS.sub("", SGR.sub("", text.replace("\r\n", "\n"))).replace("\n", "")
    return "".join(
        sorted({letter for letter in rest if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")})
    )


def file(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return os.fspath(path)


def named(folder: Path, content: bytes) -> str:
    """A file of that content, in a folder of that name."""
    place = folder / NAME.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    place.mkdir(exist_ok=True)
    return file(place, NAME + str(len(content)), content)


def changed(folder: Path, example: str, *where: tuple[Any, ...]) -> str:
    """An example of which the texts at these places are hostile; of a reading, why it was not read."""
    told = json.loads((EXAMPLES / example).read_text())
    text = NAME.replace("\udcff", "")
    for place in where:
        into = told
        for key in place[:-1]:
            into = into[key]
        if isinstance(into[place[-1]], dict):
            into[place[-1]] = {"source": "x", "missing": {"reason": text, "kind": "failed"}}
        else:
            assert isinstance(into[place[-1]], str), place
            into[place[-1]] = text
    return file(folder, f"{abs(hash(where))}-{example}", json.dumps(told))


def safetensors(folder: Path) -> str:
    header = json.dumps({NAME.replace("\udcff", ""): {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return file(folder, "a.safetensors", struct.pack("<Q", len(header)) + header + bytes(4))


def stderr_of(folder: Path) -> str:
    """A program that complains in the terminal's own language."""
    path = folder / "python3"
    path.write_bytes(
        b"#!/bin/sh\nprintf 'PWN\\033]0;t\\007\\033[2J\\302\\233\\342\\200\\256\\377[red]R\\n' >&2\nexit 1\n"
    )
    path.chmod(0o755)
    return os.fspath(path)


def gpu(*names: str) -> tuple[tuple[Any, ...], ...]:
    return tuple(("nvidia", "gpus", "value", 0, name, "value") for name in names)


def manifest() -> dict[str, Any]:
    """A Job whose pods start a training with a hostile address."""
    command = ["torchrun", "--nnodes=2", "--node-rank=0", f"--master-addr={LINE}", "--nproc-per-node=8", "train.py"]
    pod = {"containers": [{"name": LINE, "image": "x", "command": command}], "restartPolicy": "Never"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": LINE}, "spec": {"template": {"spec": pod}}}


SNAPSHOT = "broken-8xh100.json"
LINE = NAME.replace("\n", " ").replace("\r", " ").replace("\udcff", "\ufffd")
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: '
WAYS: dict[str, Callable[[Path], list[str]]] = {
    "check --from: the file's name": lambda at: ["check", "--from", named(at, b"no")],
    "explain: the file's name": lambda at: ["explain", NAME],
    "lint: the file's name": lambda at: ["lint", NAME],
    "checkpoint: the file's name": lambda at: ["checkpoint", named(at, b"PK\x03\x04")],
    "checkpoint --like: the file's name": lambda at: [
        "checkpoint", str(EXAMPLES / "ddp-epoch12.pt"), "--like", named(at, b"x")
    ],
    "capture -o: the folder's name": lambda at: ["capture", "-o", NAME + "/x"],
    "hang --dumps: the folder's name": lambda at: ["hang", "--dumps", NAME],
    "hang --from: the file's name": lambda at: ["hang", "--from", named(at, b"{}")],
    "a command that does not exist": lambda at: [NAME],
    "an option that does not exist": lambda at: ["check", "--" + NAME],
    "a value that is none of the choices": lambda at: ["env", "--format", NAME],
    "checks: a name that does not exist": lambda at: ["checks", NAME],
    "check --hosts: a host's name": lambda at: ["check", "--hosts", "a," + NAME],
    "hang --user: a user's name": lambda at: ["hang", "--user", NAME],
    "--python: a program's name": lambda at: ["env", "--python", NAME],
    "--python: what the program complains of": lambda at: ["check", "--python", stderr_of(at), "--timeout", "20"],
    "devices --cuda-visible-devices: its value": lambda at: [
        "devices", "--from", str(EXAMPLES / SNAPSHOT), "--cuda-visible-devices", NAME
    ],
    "check --from: names and versions that NVML tells": lambda at: [
        "check", "-v", "--from", changed(at, SNAPSHOT, *gpu("name", "uuid", "vbios_version", "gsp_firmware_version"))
    ],
    "check --from: a line of the kernel's log": lambda at: [
        "check", "-v", "--from", changed(at, SNAPSHOT, ("host", "kernel_log", "value", "events", 0, "message"))
    ],
    "check --from: a host's name": lambda at: [
        "check", "-v", "--from", changed(at, SNAPSHOT, ("host", "hostname", "value"))
    ],
    "check --from: a value of the environment": lambda at: [
        "check", "-v", "--from", changed(at, SNAPSHOT, ("environment", "value", "CUDA_VISIBLE_DEVICES"))
    ],
    "check --from: why something was not read": lambda at: [
        "check", "-v", "--from", changed(at, SNAPSHOT, ("nvidia", "gpus", "value", 0, "compute_mode"))
    ],
    "check --from --json: names that NVML tells": lambda at: [
        "check", "--json", "--from", changed(at, SNAPSHOT, *gpu("name", "vbios_version"))
    ],
    "check --from --nagios: the file's name": lambda at: ["check", "--nagios", "--from", named(at, b"nagios")],
    "check --from --paste: names that NVML tells": lambda at: [
        "check", "--paste", "--from", changed(at, SNAPSHOT, *gpu("name", "vbios_version"))
    ],
    "devices --from: names that NVML tells": lambda at: ["devices", "--from", changed(at, SNAPSHOT, *gpu("name"))],
    "topology --from: names that NVML tells": lambda at: ["topology", "--from", changed(at, SNAPSHOT, *gpu("name"))],
    "env --from: names of interfaces": lambda at: [
        "env", "--from", changed(at, SNAPSHOT, ("network", "interfaces", "value", 0, "name"))
    ],
    "explain: an exception in a log": lambda at: ["explain", file(at, "a.log", f"{RAISED}{LINE}\n")],
    "explain: a line of a log without an end": lambda at: [
        "explain", file(at, "b.log", f"{RAISED}{LINE}{'x' * 200_000}")
    ],
    "explain --json: an exception in a log": lambda at: [
        "explain", "--json", file(at, "c.log", f"{RAISED}{LINE}\n")
    ],
    "lint: a script's words": lambda at: [
        "lint", file(at, "a.sh", f"torchrun --nnodes=2 --node-rank=0 --master-addr='{LINE}' 'train{LINE}.py'\n")
    ],
    "lint: an assignment": lambda at: [
        "lint", file(at, "b.sh", f"export MASTER_ADDR='{LINE}'\ntorchrun --nnodes=2 train.py\n")
    ],
    "lint --fix: the corrected text": lambda at: [
        "lint", "--fix", file(at, "c.sh", f"# {LINE}\ntorchrun --nnodes=2 --node-rank=0 'train{LINE}.py'\n")
    ],
    "lint: a manifest's texts": lambda at: [
        "lint", "--kind", "manifest", file(at, "a.yaml", json.dumps(manifest()))
    ],
    "lint: a hostfile's names": lambda at: [
        "lint", "--kind", "hostfile", file(at, "hosts", f"a slots=2\n{LINE} slots=x\n")
    ],
    "lint: an option's value in --facts": lambda at: ["lint", "--facts", NAME, str(EXAMPLES / "lightning-tutorial.sh")],
    "checkpoint --tensors: names of tensors": lambda at: ["checkpoint", "--tensors", safetensors(at)],
    "checkpoint --key: a key that is not there": lambda at: ["checkpoint", "--key", NAME, safetensors(at)],
    "nccl-test --from: names of nodes": lambda at: [
        "nccl-test", "--from", changed(at, "nccl-test-slow-node.json", ("nodes", 0))
    ],
    "train-test --from: what a rank says": lambda at: [
        "train-test", "--from", changed(at, "train-test-gradient.json", ("torch",), ("nodes", 0))
    ],
    "amp --from: a device's name": lambda at: ["amp", "--from", changed(at, "amp-t4.json", ("devices", 0, "name"))],
    "launch: the script's name": lambda at: ["launch", "--", NAME + ".py", NAME],
    "launch --hosts: a host's name": lambda at: ["launch", "--hosts", NAME, "--", "train.py"],
    "launch --master-addr: its value": lambda at: ["launch", "--master-addr", NAME, "--", "train.py"],
    "nccl-test --join: the head's name": lambda at: ["nccl-test", "--join", NAME + ":1"],
    "nccl-test --interface: its name": lambda at: ["nccl-test", "--interface", NAME, "--timeout", "20"],
    "nccl-test --compare: a variable's name": lambda at: ["nccl-test", "--compare", NAME + "=1,2"],
    "--hostfile: a line of it": lambda at: ["nccl-test", "--hostfile", file(at, "hf", f"{LINE} x y\n")],
}  # fmt: skip


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Way -> what the terminal got."""
    at = tmp_path_factory.mktemp("texts")
    orders = file(at, "orders", json.dumps([make(at) for make in WAYS.values()]))
    said = in_a_terminal([sys.executable, "-c", RUNNER, orders])
    parts = re.split(r"<<(?:\d+|end)>>\r\n", said)
    assert len(parts) == len(WAYS) + 2, said[-3000:]
    yield dict(zip(WAYS, parts[1:-1], strict=True))


@attacks("text", "way", *((f"terminal: {way}", "the terminal obeys, or lines are made up", way) for way in WAYS))
def test_a_text_shows_as_itself(way: str, spoken: dict[str, str]) -> None:
    said = spoken[way]
    assert "PWN" in said, said[:2000]  # it is spoken of
    assert steers(said) == "", (steers(said), said[:2000])
    assert "Traceback" not in said and "internal error" not in said, said[:2000]
