"""Of what kind an error line is: by the part of NCCL that speaks, a remedy's words, a daemon of the node, an errno, the
shape (line_rows.py), and a message's words, in this order."""

import re

from gpudoctor.cause import Judged
from gpudoctor.explain.classes import REFUSES, judged_message
from gpudoctor.explain.errnos import judged_words
from gpudoctor.explain.kinds import ARGUMENT, CONFIG, DIED, GPU_MEMORY, ON_NODE, SHARED_MEMORY, own
from gpudoctor.explain.line_rows import judged_shape
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_of_line

OF_NODE = lazy_re(
    r"\bslurm(?:step)?d(?:-[\w.-]{1,80})?: (?:error|fatal): (?!pyxis)[^\n]{0,200}?"
    r"(?:/sys/fs/cgroup|/var/(?:spool|run|lib)/|\bcgroup|\bSELinux|\bplugins?\b|\bslurmstepd\b)"
)
"""What a daemon of SLURM says of its own node: its cgroups, its files, its plugins."""
OF_COMMAND = lazy_re(r"(?:^|\s)(?:sbatch|salloc|scontrol|sacctmgr|qsub|qalter|bsub|kubectl): (?:error|fatal): \S")
"""What only hands a job in, or asks about it, refuses what it was told."""
OF_NCCL = lazy_re(r"\bNCCL WARN (?P<told>[^\n]{1,600})")
NCCL_ROWS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
    for text, judged in (
        (r"\bFailed to CUDA \w{0,4}(?:[mc]alloc|alloc)", GPU_MEMORY),
        (r"\bNET/(?:IB|OFI|Plugin)\b|\b(?:net_ib|gin_host|ibvwrap|mlx5dvwrap)\b|\bGIN\b|\bibv_\w",
         own("rdma", "fabric", "not decided")),
        (r"\bmismatch with rank\b|\bdiffers? (?:from|on) rank\b", own("divergence")),
        (r"(?i)\b(?:shm|shared memory)\b", SHARED_MEMORY),
        (r"\bInvalid NCCL_\w{2,60}|\bNCCL_\w{2,60}\b[^\n]{0,60}\b(?:[Ii]nvalid|[Uu]nknown|not found)|"
         r"\bUnrecognized element token\b|\bXML\b", own("nccl-setting", "environment")),
        (r"\bncclComm\w{2,30}: |\b[Ii]nvalid config\b|\bInvalid (?:argument|root|datatype|op|usage)\b", ARGUMENT),
        (r"\bncclProxy\w{2,60} call to\b[^\n]{0,80}\bfailed\b|\brespSize\b|"
         r"\bConnection closed by (?:remote )?peer", DIED),
    )
)  # fmt: skip
"""By the part of NCCL that speaks, or what it names: src/{transport,graph,misc,include,proxy,bootstrap}."""


ASSERTED = lazy_re(r"(?i:\bassertion) (?:failed: |[`'][^\n]{1,300}' failed)|\bCheck failed: |\bassert(?:ion)? failed\b")
"""assert(3), glog's CHECK, and the like in TensorRT-LLM, XLA, Triton and Arrow: what is wanted stands behind it."""


METALS = lazy_re(r"^\S{1,300}:\d{1,6}: failed assertion [`'\"]")
"""Apple's form, as Metal and its libraries have it: the check stands before what it says."""


def judged_line(text: str) -> Judged | None:
    """Of what kind it is, as far as its words tell."""
    if of_nccl := OF_NCCL.search(text):
        told = next((judged for words, judged in NCCL_ROWS if words.search(text[:1000])), None)
        return told or judged_words(of_nccl["told"]) or judged_message(of_nccl["told"])
    if (remedied := remedy_of_line(text)) and remedied[0].judged:
        return remedied[0].judged
    if OF_NODE.search(text):
        return ON_NODE
    if METALS.search(text):
        return own("assertion", restart="not decided")
    judged = judged_words(text) or judged_shape(text) or judged_message(text) or judged_shape(text, guesses=True)
    if judged is None and ASSERTED.search(text):
        return own("assertion", restart="not decided")
    return judged or (CONFIG if REFUSES.search(text) or OF_COMMAND.search(text) else None)
