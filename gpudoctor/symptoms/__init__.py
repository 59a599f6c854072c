"""What logs of failed and hanging jobs look like, as data: one speaker a module, one entry a kind of line.

An entry is a `Symptom`; its samples and counter-examples are its test. Lines that tell of one cause only may stand in
the cause's own file. Of entries that fit one line, the one that stands first in `TABLE` says most about it.
"""

from gpudoctor.causes import CAUSES
from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import (
    c10d_store,
    ddp,
    elastic,
    endings,
    frameworks,
    gloo,
    gpu,
    kernel,
    mpi,
    nccl_connecting,
    nccl_machine,
    nccl_more,
    nccl_rdma,
    nccl_watchdog,
    python,
    slurm,
    threads,
    told,
)

SPEAKERS = (
    kernel,
    gpu,
    slurm,
    mpi,
    ddp,
    gloo,
    c10d_store,
    elastic,
    nccl_watchdog,
    nccl_more,
    nccl_machine,
    nccl_connecting,
    nccl_rdma,
    frameworks,
    python,
    endings,
    threads,
    told,
)
TABLE: tuple[Symptom, ...] = (
    *(symptom for cause in CAUSES.values() for symptom in cause.symptoms),
    *(symptom for speaker in SPEAKERS for symptom in speaker.SYMPTOMS),
)
