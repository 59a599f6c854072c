"""What logs of failed and hanging jobs look like, as data: one speaker a module, one entry a kind of line.

An entry is a `Symptom`; its samples and counter-examples are its test. Lines that tell of one cause only may stand in
the cause's own file. Of entries that fit one line, the one that stands first in `TABLE` says most about it.
"""

import importlib

from gpudoctor.causes import CAUSES
from gpudoctor.symptom import Symptom

SPEAKERS = (
    *(
        "kernel",
        "gpu",
        "gpu_drivers",
        "schedulers",
        "slurm",
        "mpi",
        "ddp",
        "gloo",
        "c10d_store",
        "elastic",
        "nccl_watchdog",
        "nccl_more",
    ),
    *(
        "nccl_machine",
        "nccl_connecting",
        "nccl_rdma",
        "nccl_calls",
        "fabrics",
        "frameworks",
        "python",
        "endings",
        "shell",
    ),
    *("kubernetes", "containers", "mpi_more", "watchers", "threads", "cuda", "told"),
)
"""The modules here, in the order of their entries in `TABLE`."""
TABLE: tuple[Symptom, ...] = (
    *(symptom for cause in CAUSES.values() for symptom in cause.symptoms),
    *(symptom for name in SPEAKERS for symptom in importlib.import_module(f"{__name__}.{name}").SYMPTOMS),
)
