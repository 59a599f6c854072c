"""Channels, thread blocks or buffers of NCCL are pinned to numbers.

Why it matters: NCCL tunes them for the topology that it finds, and each release anew. Numbers from another machine cost
bandwidth or memory, and where ranks have different ones the job hangs.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where
from gpudoctor.knowledge.wording import listed

PINS = (
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS",
    "NCCL_MAX_NRINGS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NTHREADS",
    "NCCL_LL128_NTHREADS",
    "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_P2P_NET_CHUNKSIZE",
)


@check("nccl-channels-pinned", title="NCCL tunes its channels and buffers by itself")
def nccl_channels_pinned(machine: Snapshot) -> Problems:
    settings = effective(machine)
    pins = [settings[name] for name in PINS if name in settings and settings[name].value]
    if pins:
        yield Problem(
            severity="info",
            summary=f"{listed(f'{pin.name}={pin.value[:20]}{where(pin)}' for pin in pins)} in place of NCCL's tuning",
            meaning="Right if somebody measured it here with this NCCL; every rank must have the same values.",
            fix=Fix("Compare all_reduce with and without, and take out what does not help.", take_out(*pins)),
            evidence=evidence(machine, *pins),
        )
