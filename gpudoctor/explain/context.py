"""What the engine itself reads from lines that are no fault: the size of the world, who is in it, what is exchanged."""

from gpudoctor.explain.symptom import Symptom

CONTEXT: tuple[Symptom, ...] = (
    Symptom(
        "engine-member",
        needle="MEMBER:",
        pattern=r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: (?P<member>\d{1,6})/(?P<world_size>\d{1,6})",
        cause="",
        role="context",
        seen="rank {rank} starts as member {member} of {world_size}",
        source="Lightning, fabric/utilities/distributed.py, _init_dist_connection (and 1.x)",
        sample="Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/6",
        counter="All 6 members of the club",
    ),
    Symptom(
        "engine-communicator",
        needle=" nranks ",
        pattern=r"\brank (?P<rank>\d{1,6}) nranks (?P<world_size>\d{1,6})\b",
        cause="",
        role="context",
        seen="NCCL joins rank {rank} of {world_size}",
        source="NCCL init.cc",
        sample="n7:812:901 [2] NCCL INFO ncclCommInitRank comm 0x5581 rank 2 nranks 6 cudaDev 2 busId 4b000",
        counter="the nranks of a communicator",
    ),
    Symptom(
        "engine-tensor-size",
        needle="torch.Size(",
        pattern=r"[Rr]ank[ :=#]{0,3}(?P<rank>\d{1,6})\b.{0,200}?torch\.Size\(\[(?P<size>[\d, ]{0,100})\]\)",
        cause="",
        role="context",
        seen="rank {rank} has a tensor of {size}",
        source="what people print",
        sample="rank 1: all_gather input torch.Size([32, 7])",
        counter="weight torch.Size([32, 7])",
    ),
    Symptom(
        "engine-watchdog-started",
        needle="ProcessGroupNCCL initiali",
        pattern=r"\[(?:PG [^\]]{0,200})?[Rr]ank (?P<rank>\d{1,6})\] ProcessGroupNCCL initiali[sz]ed",
        cause="",
        role="context",
        seen="rank {rank} has made its process group",
        source="torch, ProcessGroupNCCL.cpp",
        sample="I0714 09:00:01.000001 77 ProcessGroupNCCL.cpp:780] [Rank 1] ProcessGroupNCCL initialized with options:",
        counter="ProcessGroupNCCL initialization failed",
    ),
)
