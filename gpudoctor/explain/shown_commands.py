"""What a command or script header that is pasted above its error shows to be wrong in it.

The error tells what came of it: a registry that refuses an image which is a file, slots that are missing because the
next host was read as the program. Only what the line itself shows is said, and only beside an error that fits.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.explain.beside import COMMAND
from gpudoctor.explain.writers import unprefixed
from gpudoctor.lazy import lazy_re

Lines = Sequence[tuple[int, str]]
HEADER = lazy_re(r"^\s{0,4}#(?:SBATCH|PBS|BSUB)\s+(?P<option>-{1,2}[A-Za-z][\w-]*(?:[= ]\S*?)?\$\{?[A-Za-z_]\w*\}?\S*)")
OF_SUBMISSION = lazy_re(
    r"(?i)\b(?:sbatch|srun|salloc|qsub|bsub)\b[^\n]{0,80}(?:error|fail|invalid)|\bsubmission failed\b"
)
OF_IMAGE = lazy_re(r"\bpyxis: |\benroot\b")
OF_SLOTS = lazy_re(r"not enough slots|could not (?:find|be found)|unable to find|ORTE was unable|failed to execute")
OF_NO_GPU = lazy_re(
    r"Found no NVIDIA driver|No CUDA GPUs are available|CUDA is not available|libcuda\.so|libnvidia-ml|"
    r"Torch not compiled with CUDA|no CUDA-capable device|"
    r"\bCUDA device requested but no devices found|CUDA driver version is insufficient|NVML: Driver Not Loaded|"
    r"couldn't communicate with the NVIDIA driver"
)
OF_NONE_SEEN = lazy_re(r"No CUDA GPUs are available|no CUDA-capable device|no NVIDIA GPU|0 active drivers")
GIVES_GPUS = lazy_re(
    r"--gres\b|--gpus\b|--gpus-per-\w+|\s-G ?\d|--tres-per-\w+|--exclusive\b|CUDA_VISIBLE_DEVICES|gpu:\d|--gpu-bind"
)
"""Options of SLURM by which GPUs are asked for, wherever they stand in the log."""
HOST = lazy_re(r"^[\w.-]{1,253}:\d{1,4}$")
LAUNCHERS = frozenset({"horovodrun", "mpirun", "mpiexec", "prterun"})
IMAGE_OPTION = "--container-image"
OF_CONTAINERS = frozenset({"apptainer", "singularity"})
RUNS = frozenset({"exec", "run", "shell"})


def by_commands(ends: Mapping[str, Lines]) -> str:
    """What has to be written otherwise in a command that stands in the logs; empty: none shows it."""
    for lines in ends.values():
        text = "\n".join(each for _, each in lines)
        for shown in _shown(lines):
            if told := _of_header(shown, text) or _of_command(shown, text):
                return told
    return ""


def _shown(lines: Lines) -> Iterator[str]:
    for _, text in lines:
        stripped = unprefixed(text)
        if HEADER.match(stripped) or COMMAND.match(stripped):
            yield stripped


def _of_header(line: str, text: str) -> str:
    match = HEADER.match(line)
    if match is None or not OF_SUBMISSION.search(text):
        return ""
    return (
        f"A script's header is not read by the shell, and no variable is expanded in it: {match['option']} is taken as "
        f"it stands. Write the value out there, or give it where the shell expands it: sbatch {match['option']} SCRIPT."
    )


def _of_command(line: str, text: str) -> str:
    try:
        words = shlex.split(COMMAND.sub(lambda at: at[0][-1], line, count=1), posix=True)
    except ValueError:
        return ""
    if not words:
        return ""
    if OF_IMAGE.search(text) and (image := _option(words, IMAGE_OPTION)):
        return _of_image(image, text)
    if words[0] in LAUNCHERS and OF_SLOTS.search(text):
        return _of_hosts(words)
    inner = next((index for index, word in enumerate(words) if word in OF_CONTAINERS), None)
    if inner is not None and OF_NO_GPU.search(text):
        return _of_nv(words[inner:])
    if words[0] == "srun" and OF_NONE_SEEN.search(text) and not GIVES_GPUS.search(text):
        return (
            "SLURM shows a task only what was asked for, and this srun asks for no GPU: srun --gpus-per-node=N (or "
            "--gres=gpu:N), or the same in the header of the job (#SBATCH), whose steps take it over."
        )
    if words[0] in ("docker", "podman", "nerdctl") and "run" in words[1:2] and OF_NO_GPU.search(text):
        given = any(word.startswith(("--gpus", "--runtime", "--device")) for word in words)
        return (
            ""
            if given
            else (
                f"The container was started without its GPUs: {words[0]} run --gpus all ... (NVIDIA's container "
                "toolkit on the host makes it known)."
            )
        )
    return ""


def _option(words: Sequence[str], name: str) -> str:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(words):
            return words[index + 1]
    return ""


def _of_image(image: str, text: str) -> str:
    is_asked = "registry" in text or "docker image" in text
    if is_asked and image.endswith((".sqsh", ".squashfs")) and not image.startswith(("/", "./", "../", "~", "$")):
        return (
            f"Without a slash before it pyxis takes {image} for a name in a registry. Give the file: "
            f"{IMAGE_OPTION} ./{image}, or its whole path, as the nodes see it."
        )
    host, slash, rest = image.removeprefix("docker://").partition("/")
    if slash and f"registry-1.docker.io/v2/{host}/" in text:
        return (
            f"pyxis and enroot part a registry from an image by #, and ask Docker Hub else: write {IMAGE_OPTION}="
            f"{host}#{rest}, and put the registry's user and password into enroot's .credentials (machine {host} login "
            "USER password TOKEN) where it wants them."
        )
    return ""


def _of_hosts(words: Sequence[str]) -> str:
    for index, word in enumerate(words[:-2]):
        if word in ("-H", "--host", "--hosts", "-host") and HOST.match(words[index + 2]):
            hosts = [words[index + 1]]
            for more in words[index + 2 :]:
                if not HOST.match(more):
                    break
                hosts.append(more)
            return (
                f"A blank ends the list of hosts: {words[index + 2]} is read as the program. Write {word} "
                f"{','.join(hosts)}, with commas and no blanks."
            )
    return ""


def _of_nv(words: Sequence[str]) -> str:
    start = next((index for index, word in enumerate(words) if word in RUNS), None)
    if start is None:
        return ""
    image = next((index for index in range(start + 1, len(words)) if words[index].endswith((".sif", ".img"))), None)
    nv = next((index for index, word in enumerate(words) if word in ("--nv", "--nvccli", "--rocm")), None)
    if nv is None:
        return f"The container was started without its GPUs: {words[0]} {words[start]} --nv IMAGE ..."
    if image is not None and nv > image:
        return (
            f"Options of {words[0]} stand before the image, what is behind it is the program's: {words[0]} "
            f"{words[start]} {words[nv]} {words[image]} ..."
        )
    return ""


__all__ = ["by_commands"]
