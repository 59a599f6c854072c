"""What real failures on a real GPU print, and what `explain` says: `python -m tests.gpu.failures FOLDER [NAME...]`.

The classes and words were written down before any of them was run. Each program of programs.py is run as it is; its
output, and the kernel's messages that came meanwhile, are kept in FOLDER. `--judge`: from what is kept, without a GPU.
`--run`: under `gpudoctor run`, whose lines are printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).with_name("programs.py")
PATIENCE = 100


class Failure(NamedTuple):
    """A program, and what must be said of its output."""

    name: str
    classes: tuple[str, ...]
    says: str = ""
    """A regular expression, in any of what `explain --json` says, whatever the case."""
    ranks: int = 0
    """Started by torchrun; 0: by python."""
    culprit: int | None = None
    alone: bool = False
    """It fills the GPU: nothing beside it."""
    environment: tuple[tuple[str, str], ...] = ()


FAILURES = (
    Failure("word_unknown", ("assertion",), "index|CUDA_LAUNCH_BLOCKING"),
    Failure("label_unknown", ("assertion",), "label|class|target|CUDA_LAUNCH_BLOCKING"),
    Failure("memory_asked", ("gpu-memory",), "300"),
    Failure("memory_of_another", ("gpu-memory",), "other process|another process|process \\d+", alone=True),
    Failure("memory_of_fraction", ("gpu-memory",), "fraction|limit|allowed"),
    Failure("memory_for_cublas", ("gpu-memory",), alone=True),
    Failure("memory_for_cudnn", ("gpu-memory",), alone=True),
    Failure("address_illegal", ("illegal-access",), "CUDA_LAUNCH_BLOCKING|compute-sanitizer"),
    Failure("address_odd", ("illegal-access",), "misaligned"),
    Failure("trap", ("illegal-access", "assertion"), "launch failure"),
    Failure("threads_too_many", ("argument", "exception", "other"), "configuration|threads|argument|invalid"),
    Failure("image_of_others", ("dependency-mismatch",), "sm_|compute capability|TORCH_CUDA_ARCH_LIST|kernel image"),
    Failure("ordinal", ("device-ordinal",), "ordinal|device"),
    Failure("ordinal_of_local_rank", ("device-ordinal",), "nproc", ranks=2, culprit=1),
    Failure("none_visible", ("no-device",), "CUDA_VISIBLE_DEVICES", environment=(("CUDA_VISIBLE_DEVICES", ""),)),
    Failure("forked", ("config", "argument", "exception", "other"), "spawn"),
    Failure("devices_mixed", ("argument",), "\\.to\\(|\\.cuda\\(|device"),
    Failure("captured_wait", ("argument", "exception", "other", "assertion"), "captur"),
    Failure("anomaly", ("nan",), "sqrt|nan"),
    Failure("compiler_missing", ("file-missing", "dependency-mismatch", "import", "config"), "compiler|gcc|CC"),
    Failure("cpu_on_nccl", ("config", "argument", "shape", "exception"), "gloo|\\.cuda\\(|\\.to\\(", ranks=2),
    Failure("gpu_twice", ("device-ordinal", "config", "launcher"), "same GPU|twice|LOCAL_RANK|duplicate", ranks=2),
    Failure("rank_killed", ("dead-rank", "host-memory", "signal"), "SIGKILL|signal 9|-9", ranks=2, culprit=1),
    Failure("rank_asleep", ("slow-rank", "nccl-timeout"), "", ranks=2, culprit=1),
    Failure("shapes_differ", ("divergence",), "4096|268435456", ranks=2),
    Failure("barrier_against_gradient", ("divergence",), "barrier", ranks=2),
    Failure("rank_out_of_memory", ("gpu-memory",), "", ranks=2, culprit=1, alone=True),
    # A second lot, written before any was run (2026-11-28).
    Failure("checkpoint_of_another", ("device-ordinal", "checkpoint"), "map_location"),
    Failure("allocator_option", ("config",), "max_split_size"),
    Failure("cublas_undetermined", ("config", "exception", "argument"), "CUBLAS_WORKSPACE_CONFIG"),
    Failure("pooling_undetermined", ("config", "exception", "argument"), "warn_only|determinis"),
    Failure(
        "attention_in_fp32", ("argument", "exception", "dependency-mismatch"), "half|float16|bfloat16|dtype|backend"
    ),
    Failure("gradients_in_fp16", ("argument", "config", "exception"), "autocast|fp32|float32|half"),
    Failure("unscaled_twice", ("argument", "exception"), "update\\("),
    Failure("products_of_fp8", ("shape", "argument"), "16"),
    Failure("graph_in_whole", ("exception", "argument"), "fullgraph|graph break|capture_scalar"),
    Failure("output_overwritten", ("exception", "argument", "assertion"), "mark_step_begin|clone"),
    Failure("memory_in_pieces", ("gpu-memory",), "expandable_segments|fragment|max_split"),
    Failure("loss_is_nan", ("nan",), "nan|inf|learning rate"),
    Failure("assertion_of_one", ("assertion",), "index|CUDA_LAUNCH_BLOCKING", ranks=2, culprit=1),
    Failure("address_of_one", ("illegal-access",), "CUDA_LAUNCH_BLOCKING|compute-sanitizer", ranks=2, culprit=1),
    Failure("fewer_batches", ("divergence", "slow-rank", "nccl-timeout"), "", ranks=2, culprit=1),
    Failure("type_of_nobody", ("argument",), "int16|Short|dtype|type", ranks=2),
    Failure("transposed", ("argument",), "contiguous", ranks=2),
    Failure("gathered_into_less", ("shape", "argument"), "size|world", ranks=2),
    Failure("interface_of_another", ("nccl-setting",), "ib7", ranks=2, environment=(("NCCL_SOCKET_IFNAME", "ib7"),)),
    Failure("network_of_another", ("nccl-setting", "rdma"), "NCCL_NET", ranks=2, environment=(("NCCL_NET", "IB"),)),
    Failure("group_not_begun", ("exception", "argument", "config", "launcher"), "init_process_group"),
    Failure("parameter_without_gradient", ("exception", "argument", "config"), "find_unused_parameters", ranks=2),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.failures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--run", action="store_true")
    chosen = parser.parse_args()
    wanted = [failure for failure in FAILURES if not chosen.names or failure.name in chosen.names]
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not chosen.judge:
        with ThreadPoolExecutor(6) as pool:
            list(
                pool.map(
                    lambda failure: run(failure, chosen.folder, chosen.run), [each for each in wanted if not each.alone]
                )
            )
        for failure in wanted:
            if failure.alone:
                run(failure, chosen.folder, chosen.run)
    good = [judge(failure, chosen.folder) for failure in wanted]
    print(f"{sum(good)} of {len(good)} right")
    return int(not all(good))


def run(failure: Failure, folder: Path, attended: bool) -> None:
    program = [str(PROGRAMS), failure.name]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={failure.ranks}"]
    command = [sys.executable, *(torchrun if failure.ranks else []), *program]
    if attended:
        report = ["--report", str(folder / f"{failure.name}.report"), "--preflight", "none", "--stall", "8"]
        command = [sys.executable, "-m", "gpudoctor", "run", *report, "--", *command]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | dict(failure.environment)
    begin = time.monotonic()
    with (folder / f"{failure.name}.log").open("wb") as log:
        try:
            status = subprocess.run(command, stdout=log, stderr=log, env=environment, timeout=PATIENCE).returncode
        except subprocess.TimeoutExpired:
            status = 124
    if attended:
        ours = [line for line in (folder / f"{failure.name}.log").read_text().splitlines() if "gpudoctor:" in line]
        print(*ours[:14], sep="\n")
    print(f"{failure.name}: exit status {status} after {time.monotonic() - begin:.1f} s", flush=True)


def judge(failure: Failure, folder: Path) -> bool:
    command = [sys.executable, "-m", "gpudoctor", "explain", "--json", str(folder / f"{failure.name}.log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (folder / f"{failure.name}.json").write_text(done.stdout)
    if not done.stdout.startswith("{"):
        print(f"NO ANSWER {failure.name}: {done.returncode} {done.stderr[-300:]}")
        return False
    answer = json.loads(done.stdout)
    first = answer["causes"][0] if answer["causes"] else {}
    faults = []
    if first.get("class") not in failure.classes:
        faults.append(f"class {first.get('class')}, not {'/'.join(failure.classes)}")
    if failure.says and not re.search(failure.says, json.dumps(first), re.IGNORECASE):
        faults.append(f"does not say {failure.says}")
    if failure.culprit is not None and failure.culprit not in first.get("ranks", []):
        faults.append(f"ranks {first.get('ranks')}, not {failure.culprit}")
    told = f"{first.get('cause') or first.get('id')} {first.get('confidence')}: {first.get('summary', '')[:150]}"
    print(f"{'WRONG' if faults else 'ok   '} {failure.name}: {told}{' | ' if faults else ''}{'; '.join(faults)}")
    return not faults


if __name__ == "__main__":
    sys.exit(main())
