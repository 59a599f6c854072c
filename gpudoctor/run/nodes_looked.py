"""A child that looks at all nodes of a job before its start, as `nccl-test` does before its first collective."""

import signal
import sys

import msgspec

from gpudoctor import active
from gpudoctor.errors import Error
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.where import Where, met_fleet
from gpudoctor.nccl.preflight import PreflightWish, preflight
from gpudoctor.read.lifeline import end_with_the_doctor
from gpudoctor.run.nodes_before import NodesTask
from gpudoctor.run.preflight import BeforeTold, in_few_lines


def main(arguments: list[str]) -> None:
    """The child: a task as JSON in, what was found as JSON out."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the doctor takes its signals one by one; a child of it need not
    end_with_the_doctor()
    sys.stdout.buffer.write(msgspec.json.encode(looked(msgspec.json.decode(arguments[0], type=NodesTask))))


def looked(task: NodesTask) -> BeforeTold:
    """Examine all and try the ways between them. The ranks' own port is knocked at, and never held: another node's
    ranks may look for the first one there already."""
    wish = PreflightWish(
        master_address=task.address, master_port=task.port, port_is_held=bool(task.port), python=task.python
    )
    try:
        with active.ending(), met_fleet(Where(meet=task.meet)) as fleet:
            reach(fleet, timeout=fleet.patience)
            if len(fleet.present) < 2:
                return BeforeTold()
            seen = preflight(fleet, wish)
            everybody = {node.name for node in fleet.nodes}
            fleet.dismiss()
    except Error:
        return BeforeTold()
    return in_few_lines(
        [
            f"error {finding.problem.summary}  [{finding.id}]; {finding.problem.fix.text}"
            for finding in seen.findings
            if finding.problem.severity == "error"
            and not (finding.id == "torch-missing" and everybody <= {*finding.nodes})  # it is no job of torch's
        ]
    )
