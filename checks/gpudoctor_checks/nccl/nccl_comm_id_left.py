"""NCCL_COMM_ID is set where torch starts the job.

Why it matters: it is for programs without a launcher. Under torch it pins every communicator to one address and port,
NCCL_SOCKET_IFNAME is passed over, and the second communicator of a job finds the port taken.
"""

from contextlib import suppress

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.interfaces import COMMUNICATOR, IFNAME, nccl_choice
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where
from gpudoctor.snapshot import NotRead


@check("nccl-comm-id-left", title="NCCL_COMM_ID is not set beside torch")
def nccl_comm_id_left(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_COMM_ID")
    if setting is None or machine.training.torch_files.missing_kind == "absent":
        return
    choice = None
    with suppress(NotRead):
        choice = nccl_choice(machine)
    fails = choice is not None and choice.is_blocked
    summary = f"NCCL_COMM_ID={setting.value}{where(setting)}; torch tells its ranks the address by itself"
    # bootstrap.cc, bootstrapGetUniqueId, 2.27.5
    meaning = "Every communicator uses this one address; jobs with several of them fail or hang at the start."
    if choice is not None and fails:
        summary = f"NCCL_COMM_ID={setting.value}{where(setting)}, and {_short(choice.rule)}"
        meaning = (
            "NCCL ends every job with an error at its start: No usable listening interface found, or Invalid "
            "NCCL_COMM_ID. torch tells its ranks the address by itself."
        )
    elif choice is not None and choice.by_communicator[0]:
        meaning += f" NCCL connects the ranks over {choice.first} ({choice.first_rule}), whatever {IFNAME} says."
    yield Problem(
        severity="error" if fails else "warning",
        summary=summary,
        meaning=meaning,
        fix=Fix("Take it out.", commands=take_out(setting)),
        evidence=evidence(machine, setting),
    )


def _short(rule: str) -> str:
    """The rule without the value, which stands before it."""
    return "it gives no address" if rule.startswith(COMMUNICATOR) else rule.partition(f" of {COMMUNICATOR}")[0]
