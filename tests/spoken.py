"""Who says the texts that symptoms wait for: each is looked for in the programs and sources of those that speak.

    python -m tests.spoken [--sources FOLDER] [WORD...]      # WORDs choose symptoms

Looked through are what is installed here (bash, SLURM, Open MPI, OpenSSH, Python, glibc, kubectl, docker, Lightning,
accelerate), the wheels of the lab (six releases of NCCL, two of torch, as users get them) and below FOLDER bare clones
named OWNER+NAME/repo. A sample's text is told by one of them that holds it in the pieces between its values: every
piece of two words or more, from one speaker. A single word between two values may be missing: it cannot tell anything.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import TABLE
from tests.lab.nccl import wheels

PRINTABLE = re.compile(rb"[\x20-\x7e\t\n]{4,}")
JOINED = re.compile(rb"""["']\s*\n\s*[frb]*["']|" (?:PRI\w+|\w+) \"""")
"""Literals that the compiler makes one of."""
SOURCE_ENDINGS = tuple(b".c .h .cc .cpp .cu .go .py .txt .in .rs .lua .rst .md .sh".split())
VALUE = "\0"
WORD = re.compile(rb"[A-Za-z]{3,}")
LONG_WORD = 10
"""Characters from which on one word alone is no accident."""
SYSTEM = Path("/usr/lib/x86_64-linux-gnu")


def literals(path: Path) -> bytes:
    """The texts in a program or source file."""
    data = path.read_bytes()
    if b"\0" not in data[:4096]:
        return data
    return b"\n".join(text for text in PRINTABLE.findall(data) if not text.startswith(b"_Z"))


def of_files(*paths: Path | str) -> bytes:
    return joined(literals(file) for path in paths if (file := Path(os.path.realpath(path))).is_file())


def of_tree(folder: Path, *patterns: str) -> bytes:
    return of_files(*(path for pattern in patterns for path in folder.rglob(pattern) if "/test/" not in str(path)))


def of_clone(repository: Path) -> bytes:
    """The sources of a bare clone's newest commit; of the files that it holds, for a clone may lack large ones."""

    def git(*words: str, given: bytes = b"") -> bytes:
        own = {"GIT_NO_LAZY_FETCH": "1"}
        return subprocess.run(("git", *words), cwd=repository, input=given, stdout=-1, check=True, env=own).stdout

    names = git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
    chosen = [b"HEAD:" + name for name in names if name.endswith(SOURCE_ENDINGS)]
    held = io.BytesIO(git("cat-file", "--batch", given=b"\n".join(chosen)))
    texts = []
    while header := held.readline().split():
        if header[-1] != b"missing":
            texts.append(held.read(int(header[-1]) + 1))
    return joined(texts)


def joined(texts: Iterable[bytes]) -> bytes:
    return JOINED.sub(b"", b"\0".join(texts))


def of_torch(release: str) -> bytes:
    site = wheels.torch_site(release) / "torch"
    return b"\0".join((of_tree(site / "lib", "*.so"), of_tree(site, "*.py")))


def speakers(clones: Path | None) -> dict[str, Callable[[], bytes]]:
    """Name -> its texts; the programs as users have them before the sources."""
    site, standard = Path(sysconfig.get_paths()["purelib"]), Path(sysconfig.get_paths()["stdlib"])
    slurm = ("srun", "sbatch", "salloc", "scancel", "sacct", "squeue", "scontrol")
    told: dict[str, Callable[[], bytes]] = {}
    for release in wheels.NCCL_RELEASES:
        if (library := wheels.nccl_folder(release) / "libnccl.so.2").exists():
            told[f"NCCL {release}"] = lambda library=library: of_files(library)  # type: ignore[misc]
    for release in wheels.TORCH_RELEASES:
        if wheels.torch_site(release).exists():
            told[f"torch {release}"] = lambda release=release: of_torch(release)  # type: ignore[misc]
    told |= {
        "bash": lambda: of_files("/bin/bash", "/bin/dash"),
        "coreutils": lambda: of_files("/bin/timeout", "/bin/env", "/bin/ls", "/bin/mkdir", "/bin/dd"),
        "OpenSSH": lambda: of_files("/usr/bin/ssh", "/usr/sbin/sshd"),
        "Python": lambda: b"\0".join(
            (of_tree(standard, "[!t]*.py", "*.so"), of_files(sys.executable, *Path(sys.base_prefix).glob("lib/libpy*")))
        ),
        "glibc": lambda: of_files(SYSTEM / "libc.so.6", "/lib64/ld-linux-x86-64.so.2"),
        "SLURM": lambda: of_files(
            *(f"/usr/bin/{name}" for name in slurm), *Path("/usr/sbin").glob("slurm*"), *SYSTEM.glob("slurm*/*.so")
        ),
        "Open MPI": lambda: of_files(
            "/usr/bin/mpirun", *Path("/usr/share/openmpi").glob("*.txt"), *SYSTEM.glob("lib[mop][prm][ie]*.so")
        ),
        "kubectl": lambda: of_files("/usr/bin/kubectl"),
        "docker": lambda: of_files("/usr/local/bin/docker"),
        "Lightning": lambda: of_tree(site / "lightning", "*.py"),
        "accelerate": lambda: of_tree(site / "accelerate", "*.py"),
    }
    for repository in sorted(clones.glob("*/repo")) if clones else ():
        name = repository.parent.name.replace("+", "/")
        told[name] = lambda repository=repository: of_clone(repository)  # type: ignore[misc]
    return told


def spans(symptom: Symptom) -> Iterator[str]:
    """What the symptom finds in each of its samples, with `VALUE` for what its groups take out."""
    texts = [re.compile(text) for text in symptom._texts if text] or [
        re.compile(re.escape(needle)) for needle in symptom.needles
    ]
    for sample in symptom.samples:
        match = next(found for text in texts if (found := text.search(sample)))
        characters = list(sample)
        for name in match.groupdict():
            start, end = match.span(name)
            characters[max(start, 0) : max(end, 0)] = [VALUE] * (end - start)
        yield re.sub(f"{VALUE}+", VALUE, "".join(characters[slice(*match.span())]))


def is_told(span: str, texts: bytes) -> bool:
    """Every piece of two words or more, and not nothing."""
    holds = cache(lambda piece: piece.encode() in texts)
    found = False
    for part in span.split(VALUE):
        words = re.findall(r"\s*\S+", part)
        missing = start = 0
        while start < len(words):
            end = start
            while end < len(words) and holds("".join(words[start : end + 1])):
                end += 1
            piece = "".join(words[start:end])
            if end - start >= 2 or len(piece.strip()) >= LONG_WORD:
                found, missing, start = True, 0, end
                continue
            missing += bool(re.search(r"[A-Za-z]{2}", words[start]))
            start += 1
            if missing > 1:
                return False
    return found


def with_two_of(words: set[bytes], texts: bytes) -> bytes:
    """Its lines that hold two of these words, or a long one, each line once: a thousandth of it."""

    def counts(line: bytes) -> bool:
        held = words.intersection(WORD.findall(line))
        return len(held) > 1 or any(len(word) >= LONG_WORD for word in held)

    return b"\0".join({line for line in texts.splitlines() if counts(line)})


def ask(symptoms: Iterable[Symptom], clones: Path | None) -> dict[str, list[set[str]]]:
    """Id -> who tells each of its samples."""
    spans_of = {symptom.id: list(spans(symptom)) for symptom in symptoms}
    told: dict[str, list[set[str]]] = {id_: [set() for _ in texts] for id_, texts in spans_of.items()}
    words = {word for texts in spans_of.values() for text in texts for word in WORD.findall(text.encode())}
    for name, read in speakers(clones).items():
        began = time.process_time()
        texts = with_two_of(words, read())
        print(f"{name}: {len(texts) >> 10} KiB, {time.process_time() - began:.1f} s", file=sys.stderr)
        for id_, wanted in spans_of.items():
            for number, span in enumerate(wanted):
                if is_told(span, texts):
                    told[id_][number].add(name)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spoken", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--sources", type=Path)
    chosen = parser.parse_args()
    symptoms = [s for s in TABLE if not chosen.words or any(word in s.id for word in chosen.words)]
    told = ask(symptoms, chosen.sources)
    for symptom in symptoms:
        for span, by in zip(spans(symptom), told[symptom.id], strict=True):
            print(symptom.id, "|", ", ".join(sorted(by)) or "NOBODY", "|", symptom.source, "|", repr(span)[:160])
    return 0


if __name__ == "__main__":
    sys.exit(main())
