"""What a value may look like to be kept: a number, a known word, an interface, a host, GPUs, a path, a job's id.

What is kept is named here; whatever is none of it becomes `HIDDEN`, so that nobody has to guess how a secret looks.
"""

import re
from collections.abc import Callable
from typing import Literal

from gpudoctor.lazy import lazy_re

HIDDEN = "***"

Shape = Literal["plain", "interfaces", "hosts", "devices", "path", "paths", "id"]
"""plain: numbers, switches and known words, also several; interfaces: of the network or of RDMA, as NCCL lists them;
hosts: names, addresses, SLURM's lists, with ports; devices: GPUs by number or UUID; path and paths: files and folders;
id: what a job is called."""

WORDS = frozenset(
    """
    true false yes no on off y n t f none null nil auto all default void set unset enabled disabled enable disable
    version warn warning attn info trace abort error debug detail fatal verbose quiet silent
    init coll p2p shm net graph tuning env alloc call proxy nvls bootstrap reg profile ras
    ring tree collnet collnetdirect collnetchain nvlstree pat allreduce allgather reducescatter broadcast reduce
    ll ll128 simple ib roce socket sockets tcp udp gdr ofi ucx efa sharp aws libfabric fastrak gpudirecttcpx
    ibext ibext_v7 ibext_v8 ibext_v9 ibext_v10
    loc nvl pix pxb phb node sys pxn c2c p2c port af_inet af_inet6 inet inet6 ipv4 ipv6
    parallel group dynamic static c10d etcd v2 env spawn fork forkserver thread process
    lazy eager fastest_first pci_bus_id cpu gpu tpu cuda hip rocm xpu mps npu xla
    compute utility graphics video display compat32 ngx
    single map closest gres shard per_task map_gpu mask_gpu map_cpu mask_cpu block cyclic
    fp32 fp16 bf16 fp8 tf32 float float16 bfloat16 nccl gloo mpi ucc hccl is_host timeout read_timeout
    nan b k m g kb mb gb tb kib mib gib ns us ms s sec min h fastest
    pt setting iommu strict nopt passthrough force relaxed remove noats nodefault
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)
"""Words that a setting of training may hold, in small letters."""
NUMBER = lazy_re(r"0[xX][0-9A-Fa-f]{1,16}|[0-9]{1,20}(?:\.[0-9]{1,20}){0,3}(?:[KMGT]i?B?|[nmu]?s)?", re.ASCII)
MODEL = lazy_re(r"(?:gb|gh|a|b|h|l|p|t|v)[0-9]{1,4}s?", re.IGNORECASE)
COMMON_INTERFACE = lazy_re(
    r"(?:eth|eno|ens|enp|enP|enx|em|ib|ibp|ibs|bond|team|br|docker|veth|virbr|vlan|wlan|wlp|wwan|tun|tap|cali|cni|flannel"
    r"|hsn|cxi|mlx[45]_|rocep|roceP|bnxt_re|irdma|rdmap|efa_|hfi1_|qedr|siw|rxe)[0-9][0-9A-Za-z_.]{0,15}"
    r"|lo|eth|ens?|ib|bond|mlx[45]?|docker0?|mlx5_bond_[0-9]{1,2}",
    re.ASCII,
)
"""Names that the kernel, udev and drivers give, and their beginnings."""
BETWEEN = lazy_re(r"[\s,;:|=^+*()\[\]/&%-]+")
BEFORE_MORE = lazy_re(rf"[+-]?(?:{NUMBER.pattern})[\s#;]+", re.ASCII)
AROUND = lazy_re(r"([\s'\"]*)(.*?)([\s'\"]*)", re.DOTALL)
LONGEST_PLAIN = 256
ALIKE = 0.75
"""How near a word must be to a known one to count as that, misspelt: "Rign", "INOF". Our rule of thumb."""

INTERFACE = lazy_re(r"\s*[\^=]{0,2}(?:[A-Za-z][\w.-]{0,19}(?::[0-9]{0,5}){0,2})?\s*", re.ASCII)
"""Also what is no good list, signs alone or a colon without its port: NCCL takes it in its way, and that is judged."""
INTERFACE_BEGINS = lazy_re(r"\s*[\^=]{0,2}(?:[A-Za-z][\w.-]{0,19}:[0-9]{0,5})?", re.ASCII)
"""What counts of an entry whose port is none: whether it excludes, a name, the digits of its port."""
HOST = lazy_re(
    r"[A-Za-z0-9_](?:[\w.-]|\[[0-9,-]{1,200}\]){0,252}(?::[0-9]{1,5})?(?:/[0-9]{1,3})?"
    r"|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]{1,16})?\]?(?::[0-9]{1,5})?(?:/[0-9]{1,3})?",
    re.ASCII,
)
DEVICE = lazy_re(
    r"[\s'\"\[\](]*(?:[+-]?[0-9]{1,10}|(?:MIG-GPU-|MIG-|GPU-)?[0-9A-Fa-f-]{1,40}(?:/[0-9]{1,3}){0,2}|GPU-?|MIG-?"
    r"|[0-9]{1,4}(?:[.:;|/ -][0-9]{1,4}){1,63}|0x[0-9a-f]{1,8}|(?:cuda|gpu):?[0-9]{0,4}"
    r"|nodevfiles|none|all|void)?[\s'\"\])]*",
    re.ASCII | re.IGNORECASE,
)
DEVICE_BEGINS = lazy_re(r"\s*[+-]?[0-9]{1,4}(?![0-9])|MIG-GPU-|GPU-|MIG-", re.ASCII)
"""What of an entry counts, whatever follows."""
_PART = r"[\w./~+%@#,][\w./~+%@#,-]{0,4095}"
PATH = lazy_re(rf"{_PART}|(?=[^\n]{{3,1024}}\.[a-z]{{2,5}}$){_PART}(?: {_PART}){{1,4}}")
"""Blanks only in the name of a file that has an ending."""
ID = lazy_re(r"[\w.:+-]{1,128}", re.ASCII)


def is_plain(value: str) -> bool:
    """Whether it is made of numbers and known words only."""
    return len(value) <= LONGEST_PLAIN and all(map(_is_plain_word, BETWEEN.split(value)))


def _is_plain_word(word: str) -> bool:
    if not word or NUMBER.fullmatch(word) or word.casefold() in WORDS:
        return True
    return bool(MODEL.fullmatch(word) or COMMON_INTERFACE.fullmatch(word)) or _is_misspelt(word)


def _is_misspelt(word: str) -> bool:
    if not 4 <= len(word) <= 16 or not word.isascii() or not word.isalpha():
        return False
    import difflib

    near = difflib.get_close_matches(word.casefold(), WORDS, n=1, cutoff=ALIKE)
    return bool(near) and abs(len(near[0]) - len(word)) <= 1  # a letter too many, and not a word with a known one in it


def is_host(value: str) -> bool:
    return HOST.fullmatch(value) is not None


def is_path(value: str) -> bool:
    return PATH.fullmatch(value) is not None


def _in_parts(
    separators: str, is_known: Callable[[str], object], begins: re.Pattern[str] | None = None
) -> Callable[[str], str]:
    """Each part by itself; of one that is not known, what `begins` finds stays."""
    split = re.compile(rf"({separators})")

    def hidden(part: str) -> str:
        match = begins.match(part) if begins else None
        return f"{match[0]}{HIDDEN}" if match else HIDDEN

    def kept(value: str) -> str:
        parts = split.split(value)
        return "".join(
            part if number % 2 or not part or is_known(part) else hidden(part) for number, part in enumerate(parts)
        )

    return kept


def _plain(value: str) -> str:
    """A number is read whatever follows it: "22 # was 18"."""
    if not value or is_plain(value):
        return value
    number = BEFORE_MORE.match(value)
    return f"{number[0]}{HIDDEN}" if number else HIDDEN


def _whole(is_known: Callable[[str], object]) -> Callable[[str], str]:
    return lambda value: value if not value or is_known(value) else HIDDEN


_KEPT: dict[Shape, Callable[[str], str]] = {
    "plain": _plain,
    "interfaces": _in_parts(",", INTERFACE.fullmatch, INTERFACE_BEGINS),
    "hosts": _in_parts(r"[,;\s](?![^\[\]]*\])", is_host),
    "devices": _in_parts(",", DEVICE.fullmatch, DEVICE_BEGINS),
    "path": _whole(is_path),
    "paths": _in_parts("[:;]", is_path),
    "id": _whole(ID.fullmatch),
}


def kept(kind: Shape, value: str) -> str:
    """`value` with `HIDDEN` in the place of what does not look like its kind; quotes and spaces around it stay."""
    before, inner, after = AROUND.fullmatch(value).groups()  # type: ignore[union-attr]  # it fits everything
    return f"{before}{_KEPT[kind](inner)}{after}"
