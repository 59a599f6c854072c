"""What logs of failed and hanging jobs look like, as data: one family a module, one entry a kind of line.

An entry is a `Symptom`; its samples and counter-examples are its test. Of entries that fit one line, the one that
stands first in `TABLE` says most about it.
"""

from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import (
    c10d_store,
    ddp,
    elastic,
    frameworks,
    gloo,
    gpu,
    kernel,
    mpi,
    nccl_more,
    nccl_table,
    nccl_watchdog,
    python,
    slurm,
    threads,
    told,
)

FAMILIES = (
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
    nccl_table,
    frameworks,
    python,
    threads,
    told,
)
TABLE: tuple[Symptom, ...] = tuple(symptom for family in FAMILIES for symptom in family.SYMPTOMS)
