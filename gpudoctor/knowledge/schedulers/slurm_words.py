"""What SLURM's own words mean for who reads them: slurm_strerror's texts of a refusal, and why a job waits.

The texts are those of libslurm 22.05 (slurm_errno.c), the reasons job_reason_string's and squeue(1)'s JOB REASON CODES.
Names of limits are put together: who has it (QOS, Assoc), of what kind it is (Grp, Max, Min), what is counted, and of
whom (PerJob, PerUser, PerNode, PerAccount).
"""

import re
from typing import NamedTuple

from gpudoctor.lazy import lazy_re

OF_REFUSALS: tuple[tuple[str, str], ...] = (
    (
        r"More processors requested|(?:Task|Node|CPU) count spec|Job size spec|Requested more tasks|Task distribution "
        r"|Only one task|more threads per core|Unable to (?:layout tasks|satisfy cpu bind)",
        "counts",
    ),
    (
        r"Requested nodes? (?:are busy|not avail)|not available now|currently not available|not start immed|"
        r"Immediate execution|maintenance reservation|Required (?:node|partition|ports?)|in DOWN state|Job is (?:pend"
        r"|in held)|Waiting for burst|PrologSlurmctld|System submissions|Step limit|Switch resources|Step creation",
        "busy",
    ),
    (r"MPI plugin", "mpi-plugin"),
    (r"find an address", "address"),
    (r"[Tt]ime limit specification required", "time"),
    (r"Invalid or unknown association", "account"),
    (r"breached requested QOS", "quota"),
    (r"generic resource \(gres\)", "devices"),
    (r"Unable to resolve (?:user|group) ID|Missing UNIX (?:user|group)", "credential"),
    (r"dependency", "dependency-wrong"),
    (r"reservation", "reservation"),
    (r"(?:feature|constraint)", "constraint"),
    (r"Requested nodes not in this|Invalid node name|No partition specified|Multiple partition", "partition"),
    (r"license|wckey|TRES|array spec|--nice|--batch|time specified|too long|mcs_label|Burst Buffer|X11", "option"),
    (r"Invalid job id|Job (?:has already|is not|step not|not)|already compl|Job is no longer|Job is current", "over"),
    (
        r"credential|authentication|Munge|User not found|Group ID not|Invalid (?:user|group) id|AuthType|CredType",
        "credential",
    ),
    (
        r"Slurmd could not|Job prolog|Job epilog|Pipe error|Kill task|Session manager|Slurmd shared|Container runtime",
        "daemon",
    ),
    (r"Incompatible versions", "versions"),
    (
        r"Unable to create job record|internal error|standby|try again|I/O error writing|connect to database|"
        r"message|I/O stream|Plugin init|interconnect|job credential",
        "controller",
    ),
)
"""What is refused, and the variant of the cause `scheduler-refused` that tells what to do."""


def of_refusal(reason: str) -> str:
    """The variant for the text behind "Batch job submission failed: " and its like."""
    return next((variant for words, variant in OF_REFUSALS if re.search(rf"(?i){words}", reason)), "other")


class PendingReason(NamedTuple):
    says: str
    """What it means, and what to do about it."""
    for_good: bool
    """It does not start unless something is changed."""


WAITS, NEVER = False, True
OF_LIMIT = lazy_re(
    r"^(?P<whose>QOS|Assoc|Association)?(?P<kind>Grp|Max|Min)(?P<counted>[A-Za-z]+?)"
    r"(?P<of>PerJob|PerUser|PerNode|PerAccount)?(?:Limit|NotSatisfied|PerLimit)?$"
)
COUNTED = (
    *(("CPURunMin", "CPU minutes of running jobs"), ("RunMinutes", "minutes of running jobs"), ("Minutes", "minutes")),
    *(("GRES", "GPUs"), ("Cpu", "CPUs"), ("CPU", "CPUs"), ("Mem", "memory"), ("SubmitJob", "submitted jobs")),
    *(("Jobs", "jobs"), ("Node", "nodes"), ("Wall", "time"), ("Energy", "energy"), ("License", "licenses")),
    *(("BB", "burst buffer"), ("Billing", "billing units"), ("Unknown", "resources")),
)
OF_REASONS: tuple[tuple[str, PendingReason], ...] = (
    (r"Priority$", PendingReason("others are before it in the queue: it starts in its turn", WAITS)),
    (r"Resources$", PendingReason("it is next, and what it asks for is in use: it starts when that is free", WAITS)),
    (
        r"(?:ReqNodeNotAvail|NodeDown|Nodes? ?required|Nodes_required|UnavailableNodes)",
        PendingReason(
            "nodes that it needs are down, drained or reserved: leave them out (--exclude, --nodelist), or wait", WAITS
        ),
    ),
    (
        r"Partition(?:Node|Time)Limit|PartitionConfig|BadConstraints",
        PendingReason(
            "it asks for what no node of its partition may give (nodes, time, features): change the request", NEVER
        ),
    ),
    (
        r"Partition(?:Down|Inactive)",
        PendingReason("its partition takes or starts no jobs now: ask for another (-p)", WAITS),
    ),
    (r"DependencyNeverSatisfied", PendingReason("the job that it waits for has failed: submit it anew", NEVER)),
    (r"Dependency", PendingReason("it waits for another job (--dependency)", WAITS)),
    (
        r"(?:Job)?HoldMaxRequeue|JobHoldMaxRequeue",
        PendingReason("it was put back into the queue too often and is held: find why, then scontrol release", NEVER),
    ),
    (
        r"JobHeld(?:User|Admin)",
        PendingReason("it is held: scontrol release (by an administrator, where one holds it)", NEVER),
    ),
    (
        r"(?:QOS|Account)NotAllowed|Invalid(?:Account|QOS)",
        PendingReason("its account or QOS may not be used there", NEVER),
    ),
    (r"QOSUsageThreshold|AccountingPolicy", PendingReason("its account has used up what its QOS allows", WAITS)),
    (
        r"JobArrayTaskLimit",
        PendingReason("its array runs as many tasks at once as it may (the number behind %)", WAITS),
    ),
    (
        r"BeginTime|SchedDefer|DeadLine",
        PendingReason("it was told not to start before a time, or to end by one", WAITS),
    ),
    (
        r"Licenses|Reservation|BurstBuffer|Power|Cleaning|Prolog|FedJobLock",
        PendingReason("something that it needs first is not ready", WAITS),
    ),
    (
        r"(?:QOS|Association|Assoc)(?:Job|Resource|Time)Limit",
        PendingReason("its QOS or account has as much running as it may, or it asks for more than that", WAITS),
    ),
)


def of_reason(reason: str) -> PendingReason | None:
    """What a pending job's reason means; None where it is none that is known."""
    first = re.split(r"[ ,(]", reason.strip(), maxsplit=1)[0]
    known = next((meant for words, meant in OF_REASONS if re.match(words, first)), None)
    limit = OF_LIMIT.match(first)
    if known is not None or limit is None:
        return known
    whose = {"QOS": "its QOS", "": "its account"}.get(limit["whose"] or "", "its account")
    counted = next((name for word, name in COUNTED if word in limit["counted"]), "resources")
    if limit["kind"] == "Min":
        return PendingReason(f"it asks for fewer {counted} than {whose} wants: ask for more, or another QOS", NEVER)
    if limit["of"] in ("PerJob", "PerNode") or limit["counted"] == "WallDuration":
        return PendingReason(
            f"it asks for more {counted} than {whose} allows one job: ask for less, or another QOS", NEVER
        )
    of = "of this user " if limit["of"] == "PerUser" else ""
    return PendingReason(
        f"jobs {of}have all the {counted} that {whose} allows at once: it starts when others end", WAITS
    )
