"""Which releases of NCCL and torch say the texts that a rule waits for: every wording of every pattern is looked for.

    python -m tests.spoken_releases fetch            # texts of older releases, into the lab's cache
    python -m tests.spoken_releases [WORD...]        # what each release says; WORDs choose
    python -m tests.spoken_releases --write          # docs/measured/nccl-messages.md; a test holds it

`tests.spoken` asks for the samples of a symptom; here a pattern is unfolded into all that it finds, so that a wording
that no sample shows is asked for as well. A choice within a pattern (`recv|send`) is told where one of the wordings
that take it is. A release tells a wording where one of its literals holds what stands between the values, in order, or
(C++ writes a line in parts) where each of these parts is there as a whole. Where no release does, somebody has to read
the source: `COMPOSED` says what was found there.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, NamedTuple

from gpudoctor.explain import fingerprints, stacks
from gpudoctor.knowledge.nccl import log
from gpudoctor.read.job import ras_text
from gpudoctor.symptoms import TABLE
from gpudoctor.symptoms.nccl_watchdog import LAST, PREFIX, WORK
from tests.lab.nccl import wheels
from tests.spoken import VALUE, joined

OLDER_NCCL = ("2.14.3", "2.18.1", "2.19.3", "2.20.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.2")
OLDER_TORCH = ("2.1.2", "2.2.2", "2.6.0", "2.9.1", "2.11.0")
PAGE = Path(__file__).parent.parent / "docs/measured/nccl-messages.md"
LIBRARIES = ("libtorch_cuda.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so", "libc10_cuda.so", "libnccl.so.2")
MOST_WORDINGS = 96
"""Of one pattern; from there on its choices are varied one at a time."""
SPEAKERS = re.compile(
    r"\bNCCL\b(?!'s ncclRemote)|ProcessGroup(?:NCCL|Wrapper|Gloo)|NCCLUtils|TraceUtils"
    r"|^torch (?:c10d|elastic|rendezvous|distributed|nn/parallel|TCPStore|multiprocessing/spawn)|^gloo\b"
)
OF_TORCH = re.compile(r"^torch (?!ProcessGroup(?:NCCL|Wrapper))|^gloo\b|ProcessGroupGloo")
OTHERS = re.compile(r"cudaGetErrorString|^CUDA's|aws-ofi|ibv_wc_status; nccl#")
"""In the `source` of a symptom. Of all others `tests.spoken` asks for the samples."""
OF_FORMAT = "the value is a conversion (%s) of NCCL's line"
NOT_READ = (
    "no literal of these releases: put together there, or of another release; its source was not read for this page"
)
"""Of torch's store, elastic, DDP and gloo: samples of theirs are asked for by `tests.spoken`."""
OF_CALLS = "C++ puts the line together from parts, each of which torch has"
OF_VERBS = "the event's name is that of ibv_event_type_str(3) in rdma-core"
OF_CLASS = "a traceback's class stands before what the release says"
OF_RUN = "put together by torch/distributed/elastic/"
COMPOSED = {
    "ddp-parameter-sizes-differ": "reducer.cpp, c10::str of parts, each of which torch 2.0.1 to 2.14.1 have",
    "elastic-aborted": f"{OF_RUN}multiprocessing/errors/__init__.py: an f-string; torch 2.6.0 to 2.14.1",
    "elastic-closing": f"{OF_RUN}multiprocessing/api.py: %s; torch 2.6.0 to 2.14.1",
    "elastic-hangup": f"{OF_RUN}multiprocessing/api.py: an f-string behind its class; torch 2.0.1 to 2.14.1",
    "elastic-restarts": f"{OF_RUN}agent/server/api.py: `[%s] Worker group %s`; torch 2.6.0 to 2.14.1",
    "elastic-signal": f"{OF_RUN}multiprocessing/api.py: an f-string behind its class; torch 2.0.1 to 2.14.1",
    "elastic-signalled": f"{OF_RUN}multiprocessing/errors/__init__.py: an f-string; torch 2.6.0 to 2.14.1",
    "elastic-terminated": f"{OF_RUN}multiprocessing/errors/__init__.py: an f-string; torch 2.6.0 to 2.14.1",
    "elastic-world": f"{OF_RUN}agent/server/api.py: %(global_world_sizes)s; torch 2.6.0 to 2.14.1",
    "gloo-connect-failed": "torch 2.6.0 to 2.14.1, then gloo's Error::what() (transport/tcp/error.cc: `, remote=`); "
    "`connect [` is pair.cc's of gloo from 2017 to May 2023 (31b1f02)",
    "gloo-excluded": "`Unable to find address for: ` of torch 2.6.0 to 2.14.1, before the setting's own value",
    "gloo-mesh-loopback": "torch 2.6.0 to 2.14.1, then gloo's Error::what() (transport/tcp/error.cc: `, remote=`)",
    "gloo-peer-gone": "GLOO_ERROR_MSG of transport/tcp/pair.cc puts file and line before it; torch 2.6.0 to 2.14.1",
    "gloo-size-mismatch": "GLOO_ENFORCE_LE of common/logging.h adds ` vs `; torch 2.6.0 to 2.14.1",
    "monitored-barrier": "ProcessGroupGloo.cpp, c10::str of parts, each of which torch 2.0.1 to 2.14.1 have",
    "rendezvous-address-missing": "an f-string of torch/distributed/rendezvous.py; torch 2.6.0 to 2.14.1",
    "rendezvous-variable-missing": "an f-string of torch/distributed/rendezvous.py; torch 2.6.0 to 2.14.1",
    "spawn-signalled": "an f-string of torch/multiprocessing/spawn.py; torch 2.13.0 and 2.14.1",
    "store-connect-failed": f"{OF_CLASS} (socket.cpp; torch 2.0.1 to 2.14.1)",
    "store-connection-lost": "`recvValue failed on {}: {}` of TCPStore.cpp with SocketImpl's own words; torch 2.6.0 to "
    "2.14.1",
    "store-name-unknown": "`The {}network addresses of ({}, {})`, a format of socket.cpp; torch 2.6.0 to 2.14.1",
    "store-network-error": f"{OF_CLASS}: c10::DistNetworkError with strerror(3)",
    "store-port-forbidden": "`name: {}` of socket.cpp is the error's name, as EACCES; torch 2.13.0 and 2.14.1",
    "store-port-in-use": "Python's own words for an OSError; `name: {}` of socket.cpp is the error's name",
    "store-wait-timeout": f"{OF_CLASS}: `Socket Timeout` of torch 2.0.1 to 2.14.1",
    "rdma-access-event": OF_VERBS,
    "rdma-port-event": OF_VERBS,
    "rdma-port-event-old": OF_VERBS,
    "fingerprint": OF_CALLS,
    "fingerprint-operation": OF_CALLS,
    "fingerprint-shape": OF_CALLS,
    "explain.fingerprints SAID": OF_CALLS,
    "cpu-tensor-in-collective": "an f-string of torch's distributed_c10d.py",
    "watchdog-timeout": OF_CALLS,
    "desync-never-joined": OF_CALLS,
    "unique-id-not-received": OF_CALLS,
    "symptoms.nccl_watchdog PREFIX": OF_CALLS,
    "symptoms.nccl_watchdog WORK": OF_CALLS,
    "nccl-collectives-differ": "NCCL 2.4.2 to 2.7.6: ncclCommGetAsyncError in the source of these releases",
    "nccl-driver-refused": "builds for a CUDA before 11.3 alone: alloc.h, #if CUDART_VERSION",
    "shared-memory-full": "NCCL 2.4 to 2.13: SYSCHECK in shm.h and shmutils.cc of these releases",
    "nccl-connect-failed-old": "NCCL up to 2.17: SYSCHECK in include/socket.h",
    "nvls-failed": "the file is named by the log's prefix",
    "read.job.ras_text _COMMUNICATOR": "hardly a word: held by tests/test_ras_on_nccl.py, on five releases",
    "read.job.ras_text _GROUP": "hardly a word: held by tests/test_ras_on_nccl.py, on five releases",
}
"""Why no literal holds a pattern's wording, where somebody has read the source."""
OF_NCCL = frozenset(symptom.id for symptom in TABLE if not OF_TORCH.search(symptom.source))
Wording = tuple[str, frozenset[str]]
"""A text with VALUE for what varies, and the choices that were taken to come to it."""


class Asked(NamedTuple):
    """A pattern that a rule waits for."""

    id: str
    text: str

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()[:8]


def asked() -> list[Asked]:
    """Of all symptoms of these speakers, and of the readers of their logs and reports."""
    of_symptoms = (
        Asked(symptom.id, text.removeprefix(PREFIX))
        for symptom in TABLE
        if SPEAKERS.search(symptom.source) and not OTHERS.search(symptom.source)
        for text in (symptom._texts if any(symptom._texts) else map(re.escape, symptom.needles))
    )
    of_modules = (
        Asked(f"{module.__name__.removeprefix('gpudoctor.')} {name}", pattern.pattern)
        for module in (log, ras_text)
        for name, pattern in vars(module).items()
        if isinstance(pattern, re.Pattern)
    )
    own = {
        "symptoms.nccl_watchdog PREFIX": PREFIX,
        "symptoms.nccl_watchdog WORK": WORK,
        "symptoms.nccl_watchdog LAST": LAST,
        "explain.fingerprints SAID": fingerprints.SAID.pattern,
        "explain.stacks STACK": re.escape(stacks.STACK),
    }
    return [*of_symptoms, *of_modules, *(Asked(name, text) for name, text in own.items())]


# ---------------------------------------------------------------- a pattern's wordings

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


def wordings(pattern: str) -> list[Wording]:
    return _of_sequence(_parser.parse(pattern), "")


def _of_sequence(nodes: Iterable[Any], place: str) -> list[Wording]:
    texts: list[Wording] = [("", frozenset())]
    for number, (kind, value) in enumerate(nodes):
        options = _of_node(str(kind), value, f"{place}{number}.")
        if len(texts) * len(options) <= MOST_WORDINGS:
            pairs = list(product(texts, options))
        else:
            pairs = [(text, options[0]) for text in texts] + [(texts[0], option) for option in options[1:]]
        texts = [(text + more, taken | also) for (text, taken), (more, also) in pairs]
    return texts


def _of_node(kind: str, value: Any, place: str) -> list[Wording]:
    if kind == "LITERAL":
        return [(chr(value), frozenset())]
    if kind == "IN" and len(value) <= 3 and all(str(each) == "LITERAL" for each, _ in value):
        return [(chr(character), frozenset()) for _, character in value]
    if kind == "SUBPATTERN":
        return _of_sequence(value[-1], place)
    if kind == "BRANCH":
        return [
            (text, taken | {f"{place}{number}"})
            for number, branch in enumerate(value[1])
            for text, taken in _of_sequence(branch, f"{place}{number}.")
        ]
    if kind.endswith("_REPEAT"):
        least, most, body = value
        inner = _of_sequence(body, place)
        if least == 0 and most == 1:
            return [("", frozenset()), *((text, taken | {place}) for text, taken in inner)]
        return inner if least == most == 1 else [(VALUE, frozenset())]
    if kind in ("ASSERT", "ASSERT_NOT", "AT"):
        return [("", frozenset())]
    return [(VALUE, frozenset())]


# ---------------------------------------------------------------- what releases say


def texts_of(release: str) -> Path:
    return wheels.cache() / "texts" / f"{release}.txt"


def keep(name: str) -> None:
    """The texts of a release's libraries and modules, of its wheel or the lab's cache, and nothing else of it."""
    kept, release = texts_of(name), name.partition("-")[2]
    if kept.exists():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=kept.parent) as folder:
        place = wheels.torch_site(release) if name.startswith("torch") else wheels.nccl_folder(release)
        if not place.exists():
            package = "torch" if name.startswith("torch") else f"nvidia-nccl-cu{'11' if release < '2.15' else '12'}"
            with zipfile.ZipFile(wheels.download(f"{package}==={release}", Path(folder))) as archive:
                archive.extractall(
                    place := Path(folder) / "unpacked", [name for name in archive.namelist() if speaks(name)]
                )
        files = (path for path in sorted(place.rglob("*")) if speaks(str(path.relative_to(place))))
        draft = Path(folder) / "texts"
        draft.write_bytes(joined(map(texts_in, files)))
        draft.rename(kept)


def texts_in(path: Path) -> bytes:
    if ".so" not in path.name:
        return path.read_bytes()
    told = subprocess.run(("strings", "-w", "-n", "5", path), stdout=subprocess.PIPE, check=True)
    return b"\n".join(line for line in told.stdout.splitlines() if b" " in line or b"_" not in line)


def speaks(member: str) -> bool:
    return member.endswith(LIBRARIES) or (member.startswith("torch/") and member.endswith(".py"))


def releases() -> list[str]:
    """Those of which texts are kept; the oldest first."""
    nccl = sorted({*OLDER_NCCL, *wheels.NCCL_RELEASES}, key=numbers)
    torch = sorted({*OLDER_TORCH, *wheels.TORCH_RELEASES}, key=numbers)
    names = [*(f"nccl-{release}" for release in nccl), *(f"torch-{release}" for release in torch)]
    return [name for name in names if texts_of(name).exists()]


def numbers(name: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", name)))


@cache
def errno_texts() -> bytes:
    """What the C library has for `%s` where a call has failed."""
    return "\n".join(map(os.strerror, range(1, 134))).encode()


class Told(NamedTuple):
    """Of one pattern: who says it, and which of its choices nobody says."""

    asked: Asked
    by: list[str]
    unsaid: list[str]
    """A wording of each of these choices."""


def forms(wording: str) -> tuple[str, str]:
    """As it is, and with what a format has a conversion for: numbers, and the C library's text of an error."""
    return wording, re.sub(rf"{_errors().pattern}|\d+|NCCL (?:WARN|INFO) ", VALUE, wording)


@cache
def _errors() -> re.Pattern[str]:
    return re.compile("|".join(re.escape(os.strerror(number)) for number in range(1, 134)))


def parts_of(wording: str) -> list[bytes]:
    """What stands between its values, as far as it is text; [] where that can tell nothing."""
    parts = [part.encode() for part in wording.split(VALUE) if re.search(r"[A-Za-z]{3}", part)]
    telling = any(len(re.findall(rb"[A-Za-z]{2,}", part)) > 1 or LONG.search(part) for part in parts)
    return parts if telling else []


LONG = re.compile(rb"[A-Za-z_:]{10}")


def says(parts: list[bytes], texts: bytes) -> bool:
    if not parts or any(part not in texts for part in parts):
        return False
    by_calls = len(parts) > 3 and max(map(len, parts)) > LONG_PART  # C++: `<<` puts a line together from literals
    return by_calls or min(map(len, parts)) >= SHORT_PART or in_one_line(parts, texts)


def in_one_line(parts: list[bytes], texts: bytes) -> bool:
    start = texts.find(parts[0])
    while start >= 0:
        end, at = texts.find(b"\n", start), start
        for part in parts:
            at = texts.find(part, at, end if end >= 0 else len(texts))
            if at < 0:
                break
            at += len(part)
        else:
            return True
        start = texts.find(parts[0], start + 1)
    return False


SHORT_PART, LONG_PART = 8, 14
"""Characters of a part below which it may be there for another line's sake, and from which on it is not."""


def ask(patterns: Sequence[Asked], chosen: Iterable[str]) -> list[Told]:
    unfolded = {pattern: wordings(pattern.text) for pattern in patterns}
    parts = {
        text: [own for form in forms(text) if (own := parts_of(form))]
        for texts in unfolded.values()
        for text, _ in texts
    }
    wanted = {
        part
        for lists in parts.values()
        for own in lists
        for part in own
        if len(part) >= SHORT_PART or part == max(own, key=len)
    }
    by: dict[Asked, list[str]] = {pattern: [] for pattern in patterns}
    said: dict[Asked, set[str]] = {pattern: set() for pattern in patterns}
    for name in chosen:
        texts = lines_with(wanted, texts_of(name)) + b"\0" + errno_texts()
        for pattern, of_pattern in unfolded.items():
            choices = [taken for text, taken in of_pattern if any(says(each, texts) for each in parts[text])]
            if choices:
                by[pattern].append(name)
                said[pattern].update(*choices)
    return [
        Told(pattern, by[pattern], list(_unsaid(unfolded[pattern], said[pattern], bool(by[pattern]))))
        for pattern in patterns
    ]


def lines_with(parts: Iterable[bytes], file: Path) -> bytes:
    """A thousandth of a library's texts."""
    with NamedTemporaryFile() as asked_for:
        asked_for.write(b"\n".join(part for part in parts if b"\n" not in part))
        asked_for.flush()
        told = subprocess.run(
            ("grep", "-a", "-F", "-f", asked_for.name, file), stdout=-1, check=False, env={"LC_ALL": "C"}
        )
    return told.stdout


def _unsaid(texts: list[Wording], said: set[str], any_said: bool) -> Iterator[str]:
    """A wording of each choice that nobody makes; what differs in signs or numbers only is none."""
    if not any_said:
        yield texts[0][0]
        return
    known = {letters(text) for text, taken in texts if taken <= said}
    for choice in sorted({choice for _, taken in texts for choice in taken} - said):
        shortest = min((text for text, taken in texts if choice in taken), key=len)
        if letters(shortest) not in known:
            known.add(letters(shortest))
            yield shortest


def letters(text: str) -> str:
    return " ".join(re.findall("[a-z]+", text.lower()))


# ---------------------------------------------------------------- the page


def span(names: list[str], speaker: str, every: Sequence[str]) -> str:
    """ "2.18.1 to 2.32.3", with what is missing between."""
    own = [name for name in every if name.startswith(speaker)]
    held = [name for name in own if name in names]
    if not held:
        return ""
    first, last = own.index(held[0]), own.index(held[-1])
    text = " to ".join(dict.fromkeys((held[0], held[-1]))).replace(speaker, "")
    lacking = [name.removeprefix(speaker) for name in own[first : last + 1] if name not in held]
    return text + (f" but {', '.join(lacking)}" if lacking else "")


def shown(wording: str) -> str:
    return " ".join(re.sub(f"{VALUE}+", "…", wording).split()).replace("|", r"\|")


def row(told: Told, every: Sequence[str]) -> str:
    texts = [text for text, _ in wordings(told.asked.text)]
    own = next((text for text in texts if len(parts_of(text)) and text not in told.unsaid), texts[0])
    nccl, torch = (span(told.by, f"{speaker}-", every) for speaker in ("nccl", "torch"))
    return f"| {told.asked.id} | {told.asked.digest} | `{shown(own)}` | {nccl} | {torch} |"


def why(told: Told) -> str:
    of_reader = told.asked.id.startswith("knowledge.nccl.log")
    return COMPOSED.get(told.asked.id) or (
        "hardly a word: held by tests/test_nccl_log.py"
        if of_reader
        else OF_FORMAT
        if told.asked.id in OF_NCCL
        else NOT_READ
    )


def page(answers: Sequence[Told], every: Sequence[str]) -> str:
    nobody = [told for told in answers if not told.by]
    some = [(told, wording) for told in answers if told.by for wording in told.unsaid]
    rows = [row(told, every) for told in answers if told.by]
    return INTRODUCTION.format(
        patterns=len(answers),
        told=len(answers) - len(nobody),
        choices=len(some),
        nccl=", ".join(name.removeprefix("nccl-") for name in every if name.startswith("nccl")),
        torch=", ".join(name.removeprefix("torch-") for name in every if name.startswith("torch")),
        rows="\n".join(rows),
        nobody="\n".join(
            f"| {told.asked.id} | {told.asked.digest} | `{shown(told.unsaid[0])}` | {why(told)} |" for told in nobody
        ),
        some="\n".join(f"- {told.asked.id}: `{shown(wording)}`" for told, wording in some),
    )


INTRODUCTION = """# Which release of NCCL and torch says what a rule waits for

Made by `python -m tests.spoken_releases --write` (see there): every pattern of a symptom whose source is NCCL or
torch, and those of the readers of NCCL's log, its RAS report and torch's watchdog, is unfolded into all its wordings,
and each is looked for in the texts of the libraries as users get them. Columns: the symptom or reader, the pattern's
number (by which a test holds this page against the table), one of its wordings, and the releases that say one of them.
"…" is what varies.

NCCL: {nccl}. torch: {torch}.

{patterns} patterns, of which a release here says {told}.

| rule | pattern | wording | NCCL | torch |
|---|---|---|---|---|
{rows}

## Patterns that no release here says

| rule | pattern | wording | why |
|---|---|---|---|
{nobody}

## Choices within told patterns that no release here says ({choices})

{some}
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spoken_releases", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.words == ["fetch"]:
        for release in (*OLDER_NCCL, *wheels.NCCL_RELEASES):
            keep(f"nccl-{release}")
        for release in (*OLDER_TORCH, *wheels.TORCH_RELEASES):
            keep(f"torch-{release}")
        return 0
    every = releases()
    answers = ask([each for each in asked() if not given.words or any(word in each.id for word in given.words)], every)
    text = page(answers, every)
    if given.write:
        PAGE.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
