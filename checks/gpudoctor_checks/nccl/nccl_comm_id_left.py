"""NCCL_COMM_ID is set where torch starts the job.

Why it matters: it is for programs without a launcher. Under torch it pins every communicator to one address and port,
NCCL_SOCKET_IFNAME is passed over, and the second communicator of a job finds the port taken.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where


@check("nccl-comm-id-left", title="NCCL_COMM_ID is not set beside torch")
def nccl_comm_id_left(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_COMM_ID")
    if setting is None or not setting.value or machine.training.torch_files.missing_kind == "absent":
        return
    yield Problem(
        severity="warning",
        summary=f"NCCL_COMM_ID={setting.value}{where(setting)}; torch tells its ranks the address by itself",
        # bootstrap.cc, bootstrapGetUniqueId, 2.27.5
        meaning="Every communicator uses this one address; jobs with several of them fail or hang at the start.",
        fix=Fix("Take it out.", commands=take_out(setting)),
        evidence=evidence(machine, setting),
    )
