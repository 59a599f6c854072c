"""Rules of values that a launcher takes from a list, or in a form of its own: V07."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.misspelt import nearest
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_TORCHRUN: dict[str, tuple[tuple[str, ...], str]] = {
    "start-method": (("spawn", "fork", "forkserver"), ""),
    "rdzv-backend": (("static", "c10d", "etcd", "etcd-v2"), ""),
    "tee": ((), r"[0-3]|(?:\d+:[0-3],)*\d+:[0-3]"),
    "redirects": ((), r"[0-3]|(?:\d+:[0-3],)*\d+:[0-3]"),
    "max-restarts": ((), r"\d+"),
    "monitor-interval": ((), r"\d+(?:\.\d*)?|\.\d+"),
    "rdzv-conf": ((), r"\s*|[^=,\s]+=[^,]*(?:,\s*[^=,\s]+=[^,]*)*,?"),
    "nproc-per-node": ((), r"(?!0+$).*"),
    "nnodes": ((), r"(?!0+(?::|$)).*"),
    "numa-binding": (("node", "socket", "exclusive", "core-complex"), ""),
}
_ACCELERATE: dict[str, tuple[tuple[str, ...], str]] = {
    "mixed-precision": (("no", "fp16", "bf16", "fp8"), ""),
    "dynamo-mode": (("default", "reduce-overhead", "max-autotune"), ""),
    "deepspeed-multinode-launcher": (("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm"), ""),
    "fsdp-version": (("1", "2"), ""),
    "zero-stage": (("0", "1", "2", "3"), ""),
    "fsdp-sharding-strategy": (
        ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "1", "2", "3", "4", "5"),
        "",
    ),
    "fsdp-auto-wrap-policy": (("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"), ""),
    "fsdp-state-dict-type": (("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"), ""),
    "main-process-port": ((), r"\d+"),
    "dynamo-backend": (
        (
            *("no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs", "ofi"),
            *("fx2trt", "onnxrt", "tensorrt", "aot_torchxla_trace_once", "torhchxla_trace_once", "tvm", "ipex"),
        ),
        "",
    ),
    "fp8-backend": (("ao", "te", "msamp"), ""),
    "fp8-format": (("HYBRID", "E4M3", "E5M2"), ""),
    "fp8-amax-compute-algo": (("max", "most_recent"), ""),
    "fp8-opt-level": (("O1", "O2"), ""),
    **dict.fromkeys(
        (
            *("num-cpu-threads-per-process", "max-restarts", "gradient-accumulation-steps", "fsdp-min-num-params"),
            *("megatron-lm-tp-degree", "megatron-lm-pp-degree", "megatron-lm-num-micro-batches", "fp8-margin"),
            *("parallelism-config-dp-replicate-size", "parallelism-config-dp-shard-size", "fp8-interval"),
            *("parallelism-config-tp-size", "parallelism-config-cp-size", "parallelism-config-sp-size"),
        ),
        ((), r"-?\d+"),
    ),
    **dict.fromkeys(
        ("monitor-interval", "gradient-clipping", "megatron-lm-gradient-clipping"),
        ((), r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]-?\d+)?|none|None"),
    ),
}
_MPI_OBJECTS = "slot|hwthread|core|l1cache|l2cache|l3cache|numa|socket|package|board|node"
_MAPPED = (
    r"span|oversubscribe|nooversubscribe|nolocal|ordered|pe=\d+|inherit|noinherit|hwtcpus|corecpus|q?file=.*|"
    r"interleave.*|ndev.*|shared.*|display\w*|donotlaunch|report|overload-allowed|no-overload"
)
"""What stands behind a policy of --map-by, by Open MPI 4.1's and PRRTE's own readers."""
_MPI: dict[str, tuple[tuple[str, ...], str]] = {
    "bind-to": (
        (),
        r"(?:none|hwthread|core|l1cache|l2cache|l3cache|socket|package|numa|board|user|rr|map|cpu-list|default)"
        r"(?:[:,].*)?",
    ),
    "map-by": (
        (),
        rf"(?:{_MPI_OBJECTS}|seq|ppr:\d+:(?:{_MPI_OBJECTS}))?(?:[:,](?:{_MAPPED}))*|(?:seq|dist|rankfile|pe-list)\b.*",
    ),
    "rank-by": ((), rf"(?:{_MPI_OBJECTS}|fill|span)(?:[:,].*)?"),
}
TAKEN: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "torchrun": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN,
    "ft_launcher": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "deepspeed": {
        "launcher": (("pdsh", "openmpi", "mvapich", "slurm", "mpich", "impi"), ""),
        "autotuning": (("tune", "run"), ""),
        "log-level": (("debug", "info", "warning", "error", "critical"), ""),
    },
    "mpirun": _MPI,
    "fabric": {
        "precision": (
            (
                *("transformer-engine", "transformer-engine-float16", "16-true", "16-mixed", "bf16-true", "bf16-mixed"),
                *("32-true", "64-true", "64", "32", "16", "bf16"),
            ),
            "",
        ),
        # lightning 2.6, StrategyRegistry without what needs a notebook, a fork, XLA or an offload
        "strategy": (
            (
                *(
                    "dp",
                    "ddp",
                    "ddp_find_unused_parameters_true",
                    "ddp_find_unused_parameters_false",
                    "fsdp",
                    "deepspeed",
                ),
                *("deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3", "single_device"),
            ),
            "",
        ),
        "accelerator": (("cpu", "gpu", "cuda", "mps", "tpu", "auto"), ""),
    },
    "torchx": {"j": ((), r"(?:(?:\d+:)?\d+x)?\d+")},
}
"""Launcher -> option -> the words that it takes, or a pattern. Case counts for none of mpirun's."""
_OPEN = ("rdzv-backend",)
"""Others can be registered by a package: only what is nearly a known one, or a backend of something else, is told."""
_BACKENDS = ("nccl", "gloo", "mpi", "tcp", "env", "tcp://", "torch", "etcdv2", "etcd_v2", "c10")
_ONE = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=7 --rdzv-backend={} --rdzv-endpoint=n0:29400 train.py\n"


@rule(
    "V07",
    title="Values of a launcher's options are among those that it takes",
    source="measured with torch 2.13, accelerate 1.15 and Open MPI 4.1.4: invalid choice, is not registered, is not"
    " recognized; deepspeed/launcher/constants.py",
    bad=(
        _ONE.format("nccl"),
        "torchrun --standalone --nproc-per-node=4 --start-method=thread train.py\n",
        "torchrun --standalone --nproc-per-node=4 --tee=stdout train.py\n",
        "accelerate launch --multi_gpu --num_processes 4 --mixed_precision float16 train.py\n",
        "accelerate launch --multi_gpu --num_processes 4 --dynamo_backend inductr train.py\n",
        "mpirun -np 8 -H n0:4,n1:4 --map-by ppr:4:node:PE8 -x PATH -x MASTER_ADDR=n0 python train.py\n",
        "mpirun -np 8 -H n0:4,n1:4 --bind-to cores -x PATH -x MASTER_ADDR=n0 python train.py\n",
    ),
    good=(
        _ONE.format("c10d"),
        "torchrun --standalone --nproc-per-node=4 --start-method=fork --tee 0:3,1:1 train.py\n",
        "accelerate launch --multi_gpu --num_processes 4 --mixed_precision bf16 train.py\n",
        "mpirun -np 8 -H n0:4,n1:4 --map-by ppr:4:node:PE=8 --bind-to core -x MASTER_ADDR=n0 python train.py\n",
    ),
)
def value_not_taken(job: LintJob) -> Iterator[LintFinding]:
    """A launcher compares some values with a list, and ends where one is not in it."""
    for launch in (launch for lint_launch in job.launches for launch in (lint_launch, *lint_launch.around)):
        table = TAKEN.get(launch.launcher, {})
        for option in launch.every_option:
            if option.name not in table or not option.known or option.value is None or option.value.text is None:
                continue
            words, form = table[option.name]
            value = option.value.text.strip()
            plain = value.lower() if launch.launcher in ("mpirun", "deepspeed") else value
            if not value or plain in words or (form and re.fullmatch(form, plain, re.ASCII)):
                continue
            if words and value.lower() in words and launch.launcher == "accelerate":
                continue  # accelerate lowers some of them itself
            near = nearest(plain, words)
            if option.name in _OPEN and not near and plain not in _BACKENDS:
                continue
            wanted = ", ".join(words) if words else f"the form {_FORMS.get(option.name, form)}"
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} is {value[:60]!r}; it takes {wanted}",
                happens=f"{launch.entry or launch.launcher} ends at once: the value is not among those that it knows.",
                fix=f"Write {option.written} {near}." if near else f"Take one of {wanted}.",
            )


_FORMS = {
    "j": "NODESxRANKS, as 2x8",
    "tee": "0, 1, 2, 3, or RANK:0-3 with commas between",
    "redirects": "0, 1, 2, 3, or RANK:0-3 with commas between",
    "max-restarts": "of a whole number",
    "monitor-interval": "of a number of seconds",
    "main-process-port": "of a port's number",
    "bind-to": "none, hwthread, core, socket, numa, board and caches",
    "map-by": "slot, core, socket, node, or ppr:N:OBJECT, with modifiers such as :PE=8 behind",
    **dict.fromkeys(("num-cpu-threads-per-process", "gradient-accumulation-steps", "fp8-margin"), "of a whole number"),
    "rank-by": "slot, core, socket, node",
    "rdzv-conf": "key=value,key=value",
    "nproc-per-node": "of a number from 1 on, gpu, cpu or auto",
    "nnodes": "of a number from 1 on, or MIN:MAX",
}
