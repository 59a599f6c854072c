"""What `gpudoctor env --debug` sets: logs and PyTorch's flight recorder, by PyTorch's version.

Sources: NCCL's user guide (env.rst); PyTorch's ProcessGroupNCCL.hpp and its wheels: the flight recorder exists since
2.2 and records by itself (2000 entries) since 2.11, where its file also got another name and place.
"""

from collections.abc import Iterator

from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.snapshot import Snapshot

RECORDER_SINCE = (2, 2)
RECORDS_BY_ITSELF_SINCE = (2, 11)
SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,GRAPH"


def torch_version(machine: Snapshot) -> tuple[int, ...] | None:
    """torch's version as far as anything tells it; None when nothing does."""
    facts, files = machine.training.torch.value_or(None), machine.training.torch_files.value_or(None)
    return parsed(facts.version if facts else files.version if files else "") or None


def debugging(machine: Snapshot) -> Iterator[Suggestion]:
    """Everything for looking into a failure or hang."""
    yield from _logs(machine)
    version = torch_version(machine)
    if version is None or version >= RECORDER_SINCE:
        yield from _recorder(machine, version)
    yield _distributed_debug(version)


def _folder(machine: Snapshot) -> str:
    return machine.environment.value_or({}).get("TMPDIR", "").rstrip("/") or "/tmp"


def _logs(machine: Snapshot) -> Iterator[Suggestion]:
    file = f"{_folder(machine)}/nccl.%h.%p.log"
    yield _suggestion(
        "NCCL_DEBUG",
        "INFO",
        "NCCL then logs its version, every setting it read, the network it chose and why connections fail. Take it "
        "out again in production: the logs are long.",
        "every NCCL version",
        'each rank writes a line with "NCCL version"',
    )
    yield _suggestion(
        "NCCL_DEBUG_SUBSYS",
        SUBSYSTEMS,
        "Start-up, settings, network and topology, without a line for every collective.",
        "NCCL 2.3.4 and later (words that a release does not know are passed over)",
        '"NCCL_... set by environment" and "NET/" lines appear',
    )
    yield _suggestion(
        "NCCL_DEBUG_FILE",
        file,
        "One file for each process, named after host (%h) and process (%p), so that ranks do not write into one "
        "another's lines. NCCL does not expand ~, and the folder must exist on every node.",
        "NCCL 2.2.12 and later",
        f"ls {file.replace('%h', '*').replace('%p', '*')}",
    )


def _recorder(machine: Snapshot, version: tuple[int, ...] | None) -> Iterator[Suggestion]:
    folder = _folder(machine)
    if version is not None and version >= RECORDS_BY_ITSELF_SINCE:
        file = f"{folder}/torch_trace_rank_"
        yield _suggestion(
            "TORCH_FR_DUMP_TEMP_FILE",
            file,
            "The flight recorder of this PyTorch records by itself and writes a file for each rank when a collective "
            "times out, by default below ~/.cache, where two jobs of one user overwrite each other's.",
            "PyTorch 2.11 and later",
            f"after a timeout: ls {file}*",
        )
        return
    known = "" if version is not None else " (its version here is unknown)"
    yield _suggestion(
        "TORCH_NCCL_TRACE_BUFFER_SIZE",
        "2000",
        f"PyTorch's flight recorder keeps the last collectives of each rank; it is off by default before 2.11{known}.",
        "PyTorch 2.2 and later",
        "after a timeout the file of TORCH_NCCL_DEBUG_INFO_TEMP_FILE holds its entries",
    )
    yield _suggestion(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "1",
        "Writes what was recorded when a collective times out; without a buffer it writes nothing.",
        "PyTorch 2.2 and later",
        'the log says "dump" when the watchdog ends the job',
    )
    file = f"{folder}/nccl_trace_rank_"
    yield _suggestion(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        file,
        "Where each rank writes its record; the rank is appended. A container loses it when it ends: take a mounted "
        "folder there.",
        "PyTorch 2.2 and later (2.11 calls it TORCH_FR_DUMP_TEMP_FILE)",
        f"after a timeout: ls {file}*",
    )


def _distributed_debug(version: tuple[int, ...] | None) -> Suggestion:
    if version is not None and version < RECORDER_SINCE:
        return _suggestion(
            "TORCH_DISTRIBUTED_DEBUG",
            "DETAIL",
            "This PyTorch has no flight recorder; DETAIL compares every collective across ranks and names the rank "
            "that differs. It is slow, and some wrappers make it complain wrongly: for one run only.",
            "PyTorch 1.9 and later",
            "a mismatch raises an error that names both collectives",
        )
    return _suggestion(
        "TORCH_DISTRIBUTED_DEBUG",
        "INFO",
        "DistributedDataParallel then names the parameters that got no gradient, a frequent reason for a hang. DETAIL "
        "also compares every collective across ranks, and is slow; the flight recorder finds most of that.",
        "PyTorch 1.9 and later",
        "the error of an unused parameter names it",
    )


def _suggestion(name: str, value: str, reason: str, holds_for: str, verify: str) -> Suggestion:
    return Suggestion(name, value, reason, holds_for, verify, "debugging")
