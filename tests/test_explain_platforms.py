"""What of a fix is of another platform than the log shows, and what a path that is missing is."""

import io

import pytest

from gpudoctor.causes import CAUSES
from gpudoctor.explain.explain import explain
from gpudoctor.explain.platforms import PLATFORMS, on_platforms, platforms_of
from gpudoctor.explain.things import thing_of
from gpudoctor.remedies import REMEDIES

BUS_ERROR = (
    "RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error. It is possible that dataloader's "
    "workers are out of shared memory. Please try to raise your shared memory limit.\n"
)


def fix_of(log: str) -> str:
    return explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].fix.text


def test_only_the_platform_that_the_log_shows_is_told_of() -> None:
    in_docker = fix_of("$ docker run --gpus all -it acme/train:3 python train.py\n" + BUS_ERROR)
    in_a_pod = fix_of("$ kubectl logs trainer-0\n" + BUS_ERROR)
    anywhere = fix_of(BUS_ERROR)
    assert "--shm-size" in in_docker and "emptyDir" not in in_docker and "Kubernetes" not in in_docker
    assert "emptyDir" in in_a_pod and "--shm-size" not in in_a_pod and "docker" not in in_a_pod
    assert "docker: --shm-size" in anywhere and "Kubernetes: an emptyDir" in anywhere


def test_what_is_told_where_a_platform_is_shown_only_is_left_out_elsewhere() -> None:
    text = "Give it more memory [SLURM: --mem; docker: --memory], or take fewer workers (nproc; LSF: -n)."
    assert on_platforms(text, ()) == "Give it more memory, or take fewer workers (nproc; LSF: -n)."
    assert on_platforms(text, {"docker"}) == "Give it more memory (--memory), or take fewer workers (nproc)."
    assert on_platforms(text, {"PBS"}) == "Give it more memory, or take fewer workers (nproc)."
    assert on_platforms("See [0, 1] (a: b) and GPUs [{have}].", {"PBS"}) == "See [0, 1] (a: b) and GPUs [{have}]."


def test_every_list_of_platforms_is_resolved() -> None:
    """One of another form (a bracket within it) would be told raw."""
    texts = [cause.fix_for(name).text for cause in CAUSES.values() for name in ("", *cause.variants)]
    for text in (*texts, *(remedy.fix.text for remedy in REMEDIES)):
        told = on_platforms(text, {"none of these"})
        assert not any(f"[{name}: " in told or f"({name}: " in told for name in PLATFORMS), text


@pytest.mark.parametrize(
    ("log", "platform"),
    [
        ("root@5f1c0a9be213:/workspace# python a.py", {"docker"}),
        ("NCCL_SOCKET_IFNAME=^docker0", set()),
        ("pyxis: imported docker image: a#b", {"SLURM", "pyxis"}),
        ("srun: job 4 queued", {"SLURM"}),
        ("TERM_MEMLIMIT: job killed", {"LSF"}),
        ("Traceback (most recent call last):", set()),
    ],
)
def test_platforms_are_told_by_what_their_programs_say(log: str, platform: set[str]) -> None:
    assert platforms_of(log) == platform


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("runs/exp4/checkpoint-900/model.bin", "checkpoint"),
        ("weights/last.pth.tar", "checkpoint"),
        ("/data/imagenet/train", "data"),
        ("corpus/a.jsonl", "data"),
        ("configs/base.yaml", "configuration"),
        ("/opt/v/lib/python3.9/site-packages/gradio/package.json", "package"),
        ("/root/.cache/huggingface/hub/models--a--b/snapshots/0a1b2c/config.json", "cache"),
        ("/run/containerd/containerd.sock", "socket"),
        ("/tmp/pymp-0q3kx1ab", "temporary"),
        ("scripts/fit.py", "script"),
        ("/usr/local/cuda/bin/ptxas", "program"),
        ("/sys/class/infiniband", "kernel"),
        ("/home/u/unheard-of", ""),
    ],
)
def test_a_missing_path_is_what_it_is(path: str, kind: str) -> None:
    assert thing_of(path).kind == kind


def test_a_checkpoint_that_is_read_was_not_removed_by_another_rank() -> None:
    read = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/u/train.py", line 97, in main\n'
        "[rank0]:     state = torch.load(args.resume)\n"
        "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: 'runs/checkpoint-900.pt'\n"
    )
    removed = read.replace("state = torch.load(args.resume)", "shutil.rmtree(oldest)")
    told, other = (explain(["-"], stdin=io.BytesIO(log.encode())).causes[0] for log in (read, removed))
    assert told.cause == "program-error" and told.kind == "file-missing" and "barrier" not in told.fix.text
    assert other.cause == "checkpoint-race"


def test_a_module_of_the_programs_own_folders_is_not_fetched_from_an_index() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/home/u/sonar/sonar/eval/run.py", line 3, in <module>\n'
        "    from sonar.nets import conv\n"
        "ModuleNotFoundError: No module named 'sonar'\n"
    )
    own = explain(["-"], stdin=io.BytesIO(log.encode())).causes[0].fix
    other = explain(
        ["-"], stdin=io.BytesIO(log.replace("sonar.nets", "einops").replace("'sonar'", "'einops'").encode())
    )
    assert "pip install sonar" not in own.text and own.commands[0] == "export PYTHONPATH=/home/u/sonar"
    assert "Install einops" in other.causes[0].fix.text


def test_an_attribute_of_the_programs_own_class_is_no_matter_of_releases() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/w/net.py", line 33, in forward\n'
        "    x = x * self.scale\n"
        '  File "/opt/v/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1695, in __getattr__\n'
        "    raise AttributeError(\n"
        "AttributeError: 'Head' object has no attribute 'scale'\n"
    )
    cause = explain(["-"], stdin=io.BytesIO(log.encode())).causes[0]
    assert cause.kind == "argument" and "__init__" in cause.fix.text


@pytest.mark.parametrize(
    ("log", "told", "untrue"),
    [
        ("IsADirectoryError: [Errno 21] Is a directory: '/data/ckpt'", "is a folder", "is not there"),
        ("NotADirectoryError: [Errno 20] Not a directory: '/data/a.tar/b'", "is a file", "is not there"),
        ("PermissionError: [Errno 13] Permission denied: '/dev/nvidia0'", "group", "NFS"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'", "ffmpeg is a package", "put it there"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/run/a.sock'", "start that daemon", "put it there"),
        (
            "ImportError: cannot import name 'build' from 'models.net' (/w/models/net.py)",
            "a file of the program's own",
            "Install",
        ),
        (
            "OSError: ./build/libroi.so: cannot open shared object file: No such file or directory",
            "compiled from the sources",
            "apt-file",
        ),
        ("ModuleNotFoundError: No module named 'utils.a'; 'utils' is not a package", "a single file", "Install"),
    ],
)
def test_what_is_done_is_what_such_a_thing_wants(log: str, told: str, untrue: str) -> None:
    fix = fix_of(f"Traceback (most recent call last):\n{log}\n")
    assert told in fix and untrue not in fix
