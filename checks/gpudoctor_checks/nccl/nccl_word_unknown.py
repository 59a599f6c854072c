"""A setting holds a word that NCCL does not know.

Why it matters: NCCL takes its default without a word. NCCL_DEBUG=DEBUG logs nothing at all, and NCCL_NET_GDR_LEVEL=phb
(in small letters) leaves the level as it was.
"""

import re
from typing import NamedTuple

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to, take_out
from gpudoctor.knowledge.nccl.settings import Setting, effective, evidence, version_if_known, where

PATHS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
SUBSYSTEMS = (
    "INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC ALLOC_HOST CALL PROXY NVLS BOOTSTRAP REG PROFILE RAS DESTROY ALL"
)


class Words(NamedTuple):
    """What a variable may hold. Source: debug.cc, graph/paths.cc, misc/socket.cc, net_ib of NCCL 2.21 to 2.30.7;
    of 2.32 what ncclParamDumpAll() of its library lists."""

    known: tuple[str, ...]
    consequence: str
    any_case: bool = False
    numbers: bool = False
    is_list: bool = False
    since_2_32: tuple[str, ...] = ()


KNOWN = {
    "NCCL_DEBUG": Words(
        ("VERSION", "WARN", "INFO", "ABORT", "TRACE"), "NCCL logs nothing", any_case=True, since_2_32=("ATTN", "ALL")
    ),
    "NCCL_DEBUG_SUBSYS": Words(tuple(SUBSYSTEMS.split()), "NCCL passes the word over", any_case=True, is_list=True),
    "NCCL_NET_GDR_LEVEL": Words(PATHS, "NCCL keeps its default level", numbers=True),
    "NCCL_P2P_LEVEL": Words(PATHS, "NCCL keeps its default level", numbers=True),
    "NCCL_SOCKET_FAMILY": Words(("AF_INET", "AF_INET6"), "NCCL takes interfaces of both families"),
    "NCCL_IB_ADDR_FAMILY": Words(("AF_INET", "AF_INET6"), "NCCL looks for an IPv4 GID"),
}


@check("nccl-word-unknown", title="NCCL knows the words that its settings hold")
def nccl_word_unknown(machine: Snapshot) -> Problems:
    settings = effective(machine)
    version = version_if_known(machine)
    for name, words in KNOWN.items():
        if words.since_2_32 and (version is None or version >= (2, 32)):
            words = words._replace(known=words.known + words.since_2_32)
        setting = settings.get(name)
        for word in unknown(setting, words) if setting else ():
            assert setting is not None
            right = next((each for each in words.known if each == word.upper()), "")
            fixed = re.sub(re.escape(word), right, setting.value, count=1)
            yield Problem(
                severity="warning",
                summary=f"{name} holds {word[:40]!r}{where(setting)}; NCCL knows {', '.join(words.known)}",
                meaning=f"Nobody is told, and {words.consequence}.",
                fix=Fix(
                    f"Write {right} in capitals." if right else "Write one of the known words, or take it out.",
                    commands=set_to(setting, fixed) if right else take_out(setting),
                ),
                evidence=evidence(machine, setting),
            )


def unknown(setting: Setting, words: Words) -> list[str]:
    """The words of a setting that NCCL does not know."""
    value = setting.value.removeprefix("^") if words.is_list else setting.value
    parts = value.split(",") if words.is_list else [value]
    return [part for part in parts if part and not _is_known(part, words)]


def _is_known(word: str, words: Words) -> bool:
    if words.numbers and word[0].isdigit():
        return True
    return (word.upper() if words.any_case else word) in words.known
