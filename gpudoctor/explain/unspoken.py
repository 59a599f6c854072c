"""What an answer says of ranks, NCCL, torch and CUDA, where the log names none of them: a cause is told in the words of
the jobs that have it most, and those are untrue of a compiler, a container's runtime or a simulation.

Asked only of logs that were kept whole; of a longer one nobody knows what its middle named.
"""

import re
from collections.abc import Sequence

from msgspec import structs

from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.lazy import lazy_re

RANKS = lazy_re(
    r"(?i)\brank|(?:local|global|world)_?(?:rank|size)|torchrun|mpi(?:run|exec)|\bsrun\b|\borte|\bprte|elastic|[nr]ccl|"
    r"gloo|\bnproc|deepspeed|horovod|distributed|\bddp\b|fsdp|accelerate|processgroup|c10d|lightning|megatron|nemo\b|colossal"
)
"""What starts ranks, or speaks of them."""
OF_LOADERS = lazy_re(r"\bDataLoader")
TOOLS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (lazy_re(r"\bNCCL"), lazy_re(r"(?i)[nr]ccl|processgroup")),
    (lazy_re(r"\bgloo\b"), lazy_re(r"(?i)gloo")),
    (lazy_re(r"\btorch"), lazy_re(r"(?i)torch|\.py\b|python|site-packages")),
    (lazy_re(r"\bCUDA"), lazy_re(r"(?i)cuda|nvidia|nvrm|nvml|nvcc|gpu")),
    (OF_LOADERS, lazy_re(r"(?i)data_?loader|num_workers|torch")),
)
"""How our texts name a tool, and what shows that it ran. Python's own lines may be of a program that uses torch."""
ONE = lazy_re(r"\b(?P<which>[Aa]|[Tt]he|[Tt]his|[Tt]hat|[Ee]ach|[Ee]very) rank\b")
MANY = lazy_re(r"(?<=\b[Tt]he )ranks\b|(?<=\ball )ranks\b")
OF_ONE_RANK = lazy_re(r"[;,] where only one rank\b[^;.]{0,200}(?=\.)")
OF_OTHERS = lazy_re(r"\b(?:the )?other(?:s|s'| nodes| ranks)\b|\beach other\b")
"""What a cause does to the ranks that wait for one."""
SENTENCE = lazy_re(r"(?<=\.) (?=[A-Z])")


def without_unspoken(answer: Explanation, lines: Sequence[str]) -> Explanation:
    """`lines`: all of the logs."""
    log = "\n".join(lines)
    ranks = bool(answer.ranks) or RANKS.search(log) is not None
    absent = tuple(ours for ours, theirs in TOOLS if not theirs.search(log))
    if ranks and not absent:
        return answer

    def named(text: str) -> str:
        if OF_LOADERS in absent:
            text = text.replace("DataLoader workers", "worker processes")
        return text if ranks else ONE.sub(r"\g<which> process", OF_ONE_RANK.sub("", MANY.sub("processes", text)))

    def true(text: str) -> str:
        said = (part for part in SENTENCE.split(text) if not _is_of(part, absent))
        return named(" ".join(part for part in said if ranks or not OF_OTHERS.search(part)))

    def mended(cause: LogCause) -> LogCause:
        return structs.replace(
            cause,
            summary=named(cause.summary),
            meaning=true(cause.meaning),
            fix=structs.replace(cause.fix, text=named(cause.fix.text)),  # it may well name what is to be taken instead
            confirm=true(cause.confirm),
        )

    return structs.replace(
        answer,
        causes=tuple(map(mended, answer.causes)),
        unknown=answer.unknown and named(answer.unknown),
        advice=named(answer.advice),
    )


def _is_of(sentence: str, absent: Sequence[re.Pattern[str]]) -> bool:
    """It names tools, and none of those that it names ran."""
    ours = [name for name, _ in TOOLS if name.search(sentence)]
    return bool(ours) and all(name in absent for name in ours)


__all__ = ["OF_OTHERS", "SENTENCE", "without_unspoken"]
