"""NVLinks of a GPU had to recover from errors.

Why it matters: replays and recoveries stall the traffic of NCCL's collectives on this link, and a link that keeps
recovering goes down in the end, which kills the job (Xid 74).
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_labels import label
from gpudoctor.knowledge.wording import counted, ranges

TOLERATED = 0  # DCGM's health check warns from the first replay or recovery on


@gpu_check("nvlink-errors", title="NVLinks carry no errors", short="NVLink errors", follows=("nvlink-inactive",))
def nvlink_errors(gpu: Gpu, machine: Snapshot) -> Problems:
    # CRC errors are shown and not judged: links correct single ones all the time (DCGM's limit is 100 a second, and one
    # look at a counter has no seconds); those that matter show up as replays.
    bad = [
        link
        for link in gpu.nvlinks.value
        if (link.replay_errors or 0) > TOLERATED or (link.recovery_errors or 0) > TOLERATED
    ]
    if bad:
        replays, recoveries, crc = (
            sum(counts)
            for counts in (
                [link.replay_errors or 0 for link in bad],
                [link.recovery_errors or 0 for link in bad],
                [link.crc_errors or 0 for link in bad],
            )
        )
        named = ranges(link.link for link in bad)
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} counts {counted(replays, 'replay')} and {recoveries} recoveries on NVLink {named} "
            f"since the driver was loaded ({crc} CRC errors); none are expected",
            meaning="Collectives over this link stall, and a link that fails for good kills the job.",
            evidence=(gpu.nvlinks,),
            fix=Fix(
                "Reset the counters, run a load and look again.",
                (
                    command("sudo nvidia-smi nvlink -i {:number} -re", gpu.index),
                    command("nvidia-smi nvlink -i {:number} -e", gpu.index),
                ),
                otherwise=(
                    Fix(
                        *by_hand(
                            machine, "Reseat the GPU or its bridge.", first="Counts that grow are a matter of hardware."
                        )
                    ),
                ),
            ),
        )
