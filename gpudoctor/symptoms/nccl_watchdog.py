"""Torch's watchdog of NCCL: time-outs and where each rank stood, in the wordings of torch 1.12 to 2.14.

All of them are consequences: a rank that waited speaks. NCCLX, XCCL, HCCL and CNCL have the same words.
"""

from gpudoctor.symptom import HINT, Symptom

PREFIX = (
    r"(?:(?:(?=\[PG (?:ID |GUID (?=0\b))?(?P<group>\d+))|)"
    r"\[(?:(?:PG (?:ID )?0\b[^\]\n]{0,160}? )?Rank (?P<rank>\d+)|PG [^\]\n]{0,160}? Rank (?P<member>\d+))\]\s{0,3})?"
)
"""[Rank 3], [PG 0 Rank 3], [PG ID 1 PG GUID 3(mesh_dp) Rank 3]. In a group other than the first, Rank is the place in
that group (`member`). The "[rank3]:" that torch 2.2 and later put before the line is the rank of the job.
"""
WORK = (
    r"Work\w{0,12}\((?:SeqNum=(?P<sequence>\d+), ?)?OpType=(?P<operation>\w+)"
    r"(?:, ?NumelIn=(?P<numel_in>\d+), ?NumelOut=(?P<numel_out>\d+))?(?:, ?TensorShape=\[(?P<size>[\d, ]{0,80})\])?"
    r"(?:, ?Timeout\(ms\)=(?P<timeout>\d+))?\)(?: ran for (?P<ran>\d+) milliseconds)?"
)
LAST = (
    r"last enqueued (?:\w{1,8} )?work: (?P<last_enqueued>-?\d+), "
    r"(?:last started (?:\w{1,8} )?work: -?\d+ \(\w{0,40}\), )?"
    r"last completed (?:\w{1,8} )?work: (?P<last_completed>-?\d+)"
)
SOURCE = "torch ProcessGroupNCCL.cpp"
E_LINE = "[rank5]:[E817 10:22:31.604418207 ProcessGroupNCCL.cpp:685] "

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "watchdog-timeout",
        pattern=PREFIX + r"(?:Watchdog )?[Cc]aught collective operation timeout: " + WORK,
        role="consequence",
        seen="{operation} did not end on rank {rank} within {ran} ms",
        versions="torch >= 1.8",
        source=SOURCE,
        sample=(
            E_LINE + "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4471, OpType=ALLREDUCE, "
            "NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000) ran for 600074 milliseconds before timing out.",
            "[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=91, "
            "OpType=BROADCAST, TensorShape=[128, 4], Timeout(ms)=1800000) ran for 1804112 milliseconds before timing "
            "out.",
            "[E ProcessGroupNCCL.cpp:566] [Rank 0] Watchdog caught collective operation timeout: "
            "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1801003 milliseconds before timing out.",
            "[rank0]:[E5 ProcessGroupXCCL.cpp:210] [PG ID 0 PG GUID 0(default_pg) Rank 0] Watchdog caught collective "
            "operation timeout: WorkXCCL(SeqNum=3, OpType=ALLGATHER, NumelIn=1, NumelOut=8, Timeout(ms)=60000) ran for "
            "60001 milliseconds before timing out.",
        ),
        counter="[Rank 5] NCCL watchdog thread started!",
    ),
    Symptom(
        "watchdog-position",
        pattern=PREFIX
        + r"[^\[\]\n]{0,90}?(?:Timeout at \w{1,8} work: |detected by watchdog at work(?: sequence id)?: )"
        + r"(?P<sequence>\d+)(?:,| PG status:) "
        + LAST,
        role="consequence",
        seen="a rank waited in collective {sequence}; it had launched {last_enqueued} and completed {last_completed}",
        versions="torch >= 2.3",
        source=SOURCE,
        sample=(
            E_LINE
            + "[PG ID 0 PG GUID 0(default_pg) Rank 5]  failure detected by watchdog at work sequence id: 4471 PG "
            "status: last enqueued work: 4475, last completed work: 4470",
            "[rank2]:[E918 08:11:02.1 ProcessGroupNCCL.cpp:1785] [PG ID 1 PG GUID 3 Rank 2] Exception (either an error "
            "or timeout) detected by watchdog at work: 77, last enqueued NCCL work: 77, last completed NCCL work: 76.",
            "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 12, last enqueued NCCL work: "
            "12, last completed NCCL work: 11.",
            "[rank2]:[E ProcessGroupNCCL.cpp:2390] [PG ID 0 PG GUID 0(default_pg) Rank 2]  failure detected by "
            "watchdog at work sequence id: 56 PG status: last enqueued work: 66, last started work: 57 "
            "(_ALLGATHER_BASE), last completed work: 55",
        ),
        counter="[Rank 5] last step was 4471, last enqueued work: unknown",
    ),
    Symptom(
        "watchdog-dump-signal",
        pattern=PREFIX + r"Received a (?:dump signal(?: due to a collective timeout)?|global dump signal) from\s{1,3}"
        r"(?:this local rank|rank (?P<other>\d+))"
        r"(?:[^\n]{0,120}Last enqueued \w{1,8} work: (?P<last_enqueued>-?\d+), last completed (?:\w{1,8} work)?: "
        r"(?P<last_completed>-?\d+))?",
        role="consequence",
        confidence=HINT,
        seen="rank {rank} was asked for its flight recorder after a time-out; it had launched {last_enqueued} "
        "collectives and completed {last_completed}",
        versions="torch >= 2.2",
        source=SOURCE + " (heartbeat monitor)",
        sample=(
            E_LINE + "[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from "
            " rank 2 and we will try our best to dump the debug info. Last enqueued NCCL work: 4471, last completed "
            "NCCL work: 4471.This is most likely caused by incorrect usages of collectives",
            "[rank0]:[E1 ProcessGroupNCCL.cpp:1484] [PG 0 Rank 0] Received a dump signal due to a collective timeout "
            "from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 8, last "
            "completed NCCL work: 7.",
            "[rank1]:[E8 ProcessGroupNCCL.cpp:1316] [PG 0 Rank 1] Received a global dump signal from rank 0, and will "
            "start to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 5.",
        ),
        counter="Received a dump signal from the pipe and we will dump the debug info.",
    ),
    Symptom(
        "watchdog-dump-observed",
        pattern=PREFIX + r"(?:Observed flight recorder dump signal from another rank|First PG on this rank )",
        role="consequence",
        confidence=HINT,
        seen="rank {rank} writes its flight recorder, because a rank timed out",
        versions="torch >= 2.4",
        source=SOURCE,
        sample=(
            E_LINE
            + "[PG ID 0 PG GUID 0(default_pg) Rank 5] Observed flight recorder dump signal from another rank via "
            "TCPStore.",
            E_LINE + "[PG ID 0 PG GUID 0(default_pg) Rank 1] First PG on this rank to signal dumping.",
        ),
        counter="[Rank 1] Flight recorder is off",
    ),
    Symptom(
        "watchdog-remote-error",
        pattern=PREFIX + r"remote error detected from rank: (?P<other>\d+)",
        role="consequence",
        confidence=HINT,
        seen="rank {rank} was told that rank {other} had failed, or that its time was up",
        versions="torch >= 2.13, with TORCH_NCCL_PROPAGATE_ERROR=1",
        source=SOURCE + " (checkAndSetRemoteError)",
        sample=E_LINE + "[PG ID 0 PG GUID 0(default_pg) Rank 5]  remote error detected from rank: 2",
        counter="[Rank 5] no remote error detected",
    ),
    Symptom(
        "watchdog-stuck",
        pattern=PREFIX + r"[^\[\]\n]{0,60}?watchdog got stuck for (?P<seconds>\d+) seconds",
        cause="gil-deadlock",
        role="consequence",
        confidence=HINT,
        seen="the watchdog of rank {rank} stood still for {seconds} s: a call of CUDA or NCCL hangs, a thread keeps "
        "the GIL, or the process was stopped",
        versions="torch >= 2.2",
        source=SOURCE + " (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC)",
        sample=E_LINE + "[PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
        "without making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., "
        "CudaEventDestroy) hang blocking the watchdog, and could be triggered by another thread holding the GIL inside "
        "a CUDA api",
        counter="[Rank 5] NCCL watchdog thread started!",
    ),
    Symptom(
        "watchdog-heartbeat",
        pattern=PREFIX + r"(?:\[[^\[\]\n]{1,60}\] )?(?:Heartbeat monitor timed out|Terminating the process after "
        r"attempting to dump debug info, due to ProcessGroupNCCL watchdog hang)",
        role="consequence",
        confidence=HINT,
        seen="torch ends rank {rank}, whose watchdog no longer answers",
        versions="torch >= 2.2",
        source=SOURCE,
        sample=E_LINE
        + "[PG ID 0 PG GUID 0(default_pg) Rank 5] Heartbeat monitor timed out! Process will be terminated "
        "after dumping debug info. workMetaList_.size()=1",
        counter="Heartbeat monitor started",
    ),
    Symptom(
        "gil-not-acquired",
        pattern=PREFIX + r"Could not acquire GIL within (?P<timeout>\d+) ms on exit",
        cause="gil-deadlock",
        seen="rank {rank} could not take Python's lock within {timeout} ms: another thread keeps it",
        versions="torch >= 2.3",
        source=SOURCE + " (GIL checker)",
        sample=E_LINE + "[PG 0 Rank 5] Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
        counter="[PG 0 Rank 5] Acquired GIL within 300 ms on exit",
    ),
    Symptom(
        "watchdog-takes-down",
        pattern=PREFIX
        + r"(?:Some \w{1,8} operations have failed or timed out\. Due to the|To avoid (?:data )?inconsistency, we are "
        r"taking the entire process down|(?:Process group|NCCL) watchdog thread terminated with exception)",
        role="consequence",
        confidence=HINT,
        seen="torch ends rank {rank} after a failed collective",
        source=SOURCE,
        sample=(
            E_LINE + "[Rank 5] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
            "kernels, subsequent GPU operations might run on corrupted/incomplete data.",
            E_LINE + "[Rank 5] To avoid data inconsistency, we are taking the entire process down.",
            E_LINE + "[PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: "
            "CUDA error: an unknown one",
        ),
        counter="[Rank 5] All operations have ended",
    ),
    Symptom(
        "communicator-aborted",
        pattern=r"communicator was aborted on rank (?P<rank>\d+)\.",
        role="consequence",
        confidence=HINT,
        seen="the communicator of rank {rank} was given up before",
        source="torch NCCLUtils",
        sample="torch.distributed.DistBackendError: NCCL communicator was aborted on rank 6.  Original reason for "
        "failure was: a time-out",
        counter="NCCL communicator was created on rank 6.",
    ),
    Symptom(
        "unique-id-not-received",
        pattern=r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retr(?:ie|ei)ving ncclUniqueId from "
        r"\[(?P<other>\d+)\] via c10d key-value store by key '(?P<key>[^'\n]{0,80})', but store->get\('[^'\n]{0,80}'\) "
        r"got error: (?P<error>[^\n]{0,120})",
        role="consequence",
        seen="rank {rank} waited in vain for rank {other} to begin its first collective ({error})",
        versions="torch >= 1.12",
        source=SOURCE + " (broadcastUniqueNCCLID)",
        sample="torch.distributed.DistBackendError: [6] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
        counter="[6] is setting up NCCL communicator",
    ),
    Symptom(
        "desync-never-joined",
        pattern=(
            r"ranks \[(?P<ranks>[\d, ]{1,400})\] are the lagging ranks",
            r"the lagging/dead/mismatched ranks",
        ),
        role="consequence",
        seen="torch's desync report names the ranks that came last or not at all",
        versions="torch >= 1.12, with TORCH_NCCL_DESYNC_DEBUG=1",
        source="torch TraceUtils.h",
        sample=(
            "\t - To our best knowledge, ranks [3, 7] are the lagging ranks that caused this timeout. They never "
            "joined any collectives",
            "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        ),
        counter="ranks [3, 7] are on node 1",
    ),
    Symptom(
        "desync-position",
        pattern=(
            r"\[(?P<ranks>[\d, ]{1,400})\] joined but didn't finish collective #(?P<sequence>\d+)",
            r"\[(?P<ranks>[\d, ]{1,400})\] finished collective #(?P<last_completed>\d+), but didn't join collective "
            r"#(?P<sequence>\d+)",
        ),
        role="consequence",
        seen="torch's desync report: ranks {ranks} and collective {sequence}",
        versions="torch >= 1.12, with TORCH_NCCL_DESYNC_DEBUG=1",
        source="torch TraceUtils.h",
        sample=(
            "\t   - [2, 3] joined but didn't finish collective #18 (count from 1)",
            "\t   - [0] finished collective #17, but didn't join collective #18 (count from 1)",
        ),
        counter="rank 0 finished collective 17",
    ),
    Symptom(
        "nccl-group-started",
        pattern=(
            PREFIX + r"NCCL watchdog thread started",
            PREFIX + r"ProcessGroupNCCL initiali[sz](?:ation options|ed with)",
        ),
        role="context",
        seen="rank {rank} has a process group of NCCL",
        source=SOURCE,
        sample=(
            "I0411 17:20:09.118244 70412 ProcessGroupNCCL.cpp:821] [Rank 7] NCCL watchdog thread started!",
            "[rank7]:[I1 ProcessGroupNCCL.cpp:905] [PG ID 0 PG GUID 0 Rank 7] ProcessGroupNCCL initialization options: "
            "size: 8, global rank: 7, TIMEOUT(ms): 600000",
        ),
        counter="[Rank 7] NCCL watchdog thread ended",
    ),
    Symptom(
        "group-not-destroyed",
        needle="destroy_process_group() was not called before program exit",
        cause="teardown-deadlock",
        role="context",
        seen="a process ended without destroy_process_group(), which most scripts do and which seldom matters",
        versions="torch >= 2.4",
        source=SOURCE,
        sample="[rank0]:[W819 11:40:09.31 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not "
        "called before program exit, which can leak resources.",
        counter="destroy_process_group() was called",
    ),
    Symptom(
        "destroy-waits",
        pattern=PREFIX + r"(?:Starting to destroy process group, flushing operations|Launching ProcessGroupNCCL abort)",
        role="context",
        seen="rank {rank} has begun to destroy its process group",
        versions="torch >= 2.4",
        source=SOURCE,
        sample=(
            "[rank1]:[I1 ProcessGroupNCCL.cpp:1289] [PG ID 0 PG GUID 0 Rank 1] Starting to destroy process group, "
            "flushing operations.",
            "I0527 15:22:16.720973 58627 ProcessGroupNCCL.cpp:1166] [PG 0 (default_pg) Rank 3] Launching "
            "ProcessGroupNCCL abort asynchrounously.",
        ),
        counter="[Rank 1] flushing operations of the file system",
    ),
)
