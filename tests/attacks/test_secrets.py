"""What must not be recorded, printed or handed on: values planted in command lines, environments, files and paths."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from gpudoctor.knowledge.environment import recorded
from gpudoctor.launcher import kept as commands
from gpudoctor.read import host, nccl_files, nvml_processes
from gpudoctor.redact import Pseudonyms, redact
from gpudoctor.snapshot import GpuProcess, Snapshot, read, to_json as snapshot_json
from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, Process, ProcessEvidence, to_json
from gpudoctor.testing.machines import but, but_gpu, h100_node
from tests.attacks.registry import attacks
from tests.fake_tree import fake

PATIENCE = 300.0
SECRET = "Zq7vXw93LmTk"
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"
SECRETS = st.text(ALPHABET, min_size=8, max_size=40).map(lambda text: f"Zq{text}")

WORDS = {
    "a token's option": ("--hf-token", "{}"),
    "an option that says auth": ("--auth", "{}"),
    "a jwt": ("--jwt={}",),
    "a short option of a password": ("--pwd", "{}"),
    "--pass=": ("--pass={}",),
    "a cookie": ("--cookie=session={}",),
    "an assignment among the words": ("DB_PASS={}",),
    "a user with a password": ("-u", "user:{}"),
    "a header of HTTP": ("-H", "Authorization: Bearer {}"),
    "a header of one's own": ("-H", "X-Api-Key: {}"),
    "a setting of Hydra": ("+wandb.api_key='{}'",),
    "a quoted value": ('--secret="{}"',),
    "JSON": ('{{"api_key": "{}"}}',),
    "a signed address": ("https://s3.example/b?X-Amz-Signature={}",),
    "an address with two @": ("https://user@example.org:{}@example.org/x",),
    "an address with a password": ("https://user:{}@example.org/x",),
    "the value of an option that nobody knows": ("--zebra", "{}"),
    "a word alone": ("{}",),
    "the name of an option": ("--{}",),
    "a code after -c": ("-c", "connect('{}')"),
    "a value of several lines": ("--note", "one\n{}\n"),
    "a folder": ("--data", "/nfs/people/{}/x"),
    "a known option with a value that is none of its kind": ("--nnodes", "{}!"),
    "an address to meet at, with a password": ("--init-method", "tcp://user:{}@10.0.0.1:29500"),
}
"""How a value stands among the words of a command line."""
STARTS = (
    ("python", "train.py"),
    ("torchrun", "--nnodes", "2", "a.py"),
    ("srun", "-N2"),
    ("bash",),
    ("env",),
    ("ray::worker",),
)
"""What it stands behind."""

VALUES = {
    "a known variable of another kind": ("NCCL_DEBUG", "{}"),
    "a number with more behind it": ("NCCL_IB_TIMEOUT", "22 # {}"),
    "a variable of a family": ("NCCL_API_TOKEN", "{}"),
    "a variable that nothing reads": ("SLURM_JWT", "{}"),
    "an address with a password": ("MASTER_ADDR", "ray://user:{}@head"),
    "a port that is none": ("MASTER_PORT", "{}"),
    "an interface that is an assignment": ("NCCL_SOCKET_IFNAME", "eth0,password={}"),
    "JSON": ("NCCL_NET", '{{"api_key": "{}"}}'),
    "a header": ("TORCH_DISTRIBUTED_DEBUG", "Authorization: Bearer {}"),
    "an option": ("OMP_NUM_THREADS", "--jwt {}"),
    "a GPU that is none": ("CUDA_VISIBLE_DEVICES", "0,{}"),
    "a folder with a signature": ("LD_LIBRARY_PATH", "/usr/lib:/x?X-Amz-Signature={}"),
    "an id that is an address": ("TORCHELASTIC_RUN_ID", "https://user:{}@h"),
    "an option of torchrun": ("PET_RDZV_CONF", "password={}"),
}
"""How it stands in an environment: these survive nowhere."""
PRIVATE = {
    "a folder of a person": ("TMPDIR", "/nfs/people/{}/x"),
    "a folder of libraries": ("LD_LIBRARY_PATH", "/usr/lib:/data/{}/lib"),
    "a file": ("NCCL_TOPO_FILE", "/srv/{}.xml"),
    "the master's name": ("MASTER_ADDR", "{}"),
    "a job's id": ("TORCHELASTIC_RUN_ID", "{}"),
}
"""And these are hidden where a document is handed on."""


def planted(words: tuple[str, ...], secret: str) -> tuple[str, ...]:
    return tuple(word.format(secret) for word in words)


def evidence(process: Process) -> Evidence:
    return Evidence(nodes=(NodeEvidence(name="a", processes=(ProcessEvidence(process=process),)),))


def process(words: tuple[str, ...] = ("python", "train.py"), environment: dict[str, str] | None = None) -> Process:
    return Process(pid=7, parent=1, started=1, command=words, environment=environment or {}, user="mara", user_id=5)


def handed_on(document: Evidence) -> str:
    return to_json(Pseudonyms(document).structure(document)).decode()


@attacks(
    "secrets", "words", *(("capture --pid --redact: a command line", name, words) for name, words in WORDS.items())
)
def test_no_word_of_a_command_line_is_handed_on(words: tuple[str, ...]) -> None:
    for start in STARTS:
        for before in ((), ("a.yaml",)):
            line = commands.recorded((*start, *before, *planted(words, SECRET)), own=True)
            assert SECRET not in handed_on(evidence(process(line))), line


@attacks("secrets", "words", *(("capture --pid: another user's process", name, words) for name, words in WORDS.items()))
def test_of_others_processes_no_word_is_read(words: tuple[str, ...], tmp_path: Path) -> None:
    for start in STARTS:
        line = (*start, *planted(words, SECRET))
        assert SECRET not in " ".join(commands.recorded(line, own=False)), line
        system = fake(tmp_path, {"/proc/7/cmdline": "\0".join(line) + "\0", "/proc/7/comm": "x\n"})
        assert SECRET not in nvml_processes.command_of(system, 7), line


@attacks("secrets", "name, value", *(("check --json: the environment", key, *pair) for key, pair in VALUES.items()))
def test_no_value_of_another_look_is_recorded(name: str, value: str) -> None:
    assert SECRET not in str(recorded({name: value.format(SECRET)}))


@attacks(
    "secrets", "name, value", *(("capture --redact: the environment", key, *pair) for key, pair in PRIVATE.items())
)
def test_no_private_value_is_handed_on(name: str, value: str) -> None:
    environment = {name: value.format(SECRET)}
    machine = but(h100_node(1), "environment", environment)
    assert SECRET not in snapshot_json(redact(machine)).decode()
    assert SECRET not in handed_on(evidence(process(environment=environment)))


@attacks(
    "secrets",
    "name, value",
    *(("check --json: nccl.conf", key, *VALUES[key]) for key in ("JSON", "a variable of a family")),
)
def test_no_line_of_a_file_of_settings_is_recorded(name: str, value: str) -> None:
    for written in (name, f"export {name}", f" {name} "):
        assert SECRET not in str(nccl_files.lines(f"{written}={value.format(SECRET)}\n".encode()))


@attacks(
    "secrets",
    "line",
    ("a parameter that nothing reads", "ro ci.token={} iommu=pt"),
    ("a known parameter with another value", "iommu={} ro"),
    ("what is for init", "ro -- --password {}"),
    way="check --json: the kernel's command line",
)
def test_no_parameter_of_the_kernel_is_recorded(line: str) -> None:
    assert SECRET not in host.command_line(line.format(SECRET))


@attacks(
    "secrets",
    "path",
    ("the folder of a person outside any home", "/nfs/people/{}/x"),
    ("the file's own name", "/data/{}.pt"),
    ("a package of one's own", "/v/lib/python3.11/site-packages/{}/a.pt"),
    way="capture --pid --redact: an open file",
)
def test_no_part_of_a_path_is_handed_on(path: str) -> None:
    (node,) = evidence(process()).nodes
    (seen,) = node.processes
    seen = replace(seen, open_files=(path.format(SECRET),))
    assert SECRET not in handed_on(Evidence(nodes=(replace(node, processes=(seen,)),)))


def machine_with(words: tuple[str, ...], environment: dict[str, str]) -> Snapshot:
    machine = but(h100_node(1), "environment", environment)
    gpu = GpuProcess(7, "compute", None, user=read("/proc/7", "mara"), command=read("/proc/7", " ".join(words)))
    return but_gpu(machine, 0, processes=read("nvml", (gpu,)))


@settings(max_examples=120, deadline=None)
@given(
    secret=SECRETS,
    start=st.sampled_from(STARTS),
    words=st.lists(st.sampled_from(list(WORDS.values())), min_size=1, max_size=4),
    values=st.lists(st.sampled_from([*VALUES.values(), *PRIVATE.values()]), max_size=4),
)
def test_nothing_planted_anywhere_is_handed_on(
    secret: str, start: tuple[str, ...], words: list[tuple[str, ...]], values: list[tuple[str, str]]
) -> None:
    line = (*start, *(word for each in words for word in planted(each, secret)))
    environment = {name: value.format(secret) for name, value in values}
    own = process(commands.recorded(line, own=True), recorded(environment))
    assert secret not in handed_on(evidence(own))
    assert secret not in snapshot_json(redact(machine_with(line, environment))).decode()


@pytest.mark.parametrize("order", [("capture", "--redact", "--no-torch"), ("check", "--json", "network", "nccl")])
def test_nothing_planted_in_the_environment_is_shown(order: tuple[str, ...]) -> None:
    environment = {**os.environ, **{name: value.format(SECRET) for name, value in VALUES.values()}}
    ended = gpudoctor(*order, environment=environment)
    assert ended.startswith("{") and SECRET not in ended


def test_nothing_planted_in_a_live_process_is_captured(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys, time\nprint('here', flush=True)\ntime.sleep(1000)\n")
    words = [word for each in WORDS.values() for word in planted(each, SECRET)]
    values = {name: value.format(SECRET) for name, value in VALUES.values()}
    rank = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29561"}
    with subprocess.Popen(
        [sys.executable, str(script), *words], env={**os.environ, **values, **rank}, stdout=subprocess.PIPE
    ) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == b"here\n"
            for order in (
                ("capture", "--pid", str(running.pid), "--redact"),
                ("hang", "--pid", str(running.pid), "--paste"),
            ):
                shown = gpudoctor(*order)
                assert "train.py" in shown or "rank 0" in shown.lower()
                assert SECRET not in shown
        finally:
            running.kill()


def gpudoctor(*words: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "gpudoctor", *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert SECRET not in ended.stderr
    return ended.stdout
