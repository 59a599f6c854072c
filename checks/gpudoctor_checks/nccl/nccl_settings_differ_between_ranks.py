"""The ranks of a running job were started with different settings of NCCL, PyTorch's use of it, or gloo.

Why it matters: NCCL does not compare the ranks' settings. Each rank chooses algorithm, protocol, channels, buffers and
transport from its own; ranks that chose differently wait for one another for ever in the first collective, with no
message. Files, ports, logging, NCCL_HOSTID and the NICs (NCCL_IB_HCA, interface names) may differ between ranks. Only
ranks on this machine are compared, as they were started: what a script sets in os.environ afterwards is not seen.
"""

from collections.abc import Sequence

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.rank_settings import RankDifference, differences, jobs, name_of
from gpudoctor.knowledge.nccl.settings import version_if_known
from gpudoctor.snapshot import RankSettings, read

MOST_SHOWN = 3


@check("nccl-settings-differ-between-ranks", title="All ranks of a job have the same NCCL settings")
def nccl_settings_differ_between_ranks(machine: Snapshot) -> Problems:
    ranks = machine.network.rank_settings
    version = version_if_known(machine)
    for job in jobs(ranks.value):
        differing = differences(job, version)
        for hangs in (True, False):
            same_kind = [each for each in differing if each.hangs is hangs]
            if same_kind:
                yield _problem(job, same_kind, ranks.source)


def _problem(job: tuple[RankSettings, ...], differing_settings: Sequence[RankDifference], source: str) -> Problem:
    hangs = differing_settings[0].hangs
    more = (
        f"; {len(differing_settings) - MOST_SHOWN} more variables differ"
        if len(differing_settings) > MOST_SHOWN
        else ""
    )
    pids = {rank.rank: rank.pid for rank in job}
    return Problem(
        severity="error" if hangs else "warning",
        summary=f"In {name_of(job)}, {'; '.join(one.described() for one in differing_settings[:MOST_SHOWN])}{more}",
        meaning="Each rank chooses from its own settings, and nobody compares them: ranks that chose differently "
        "hang in a collective, without a message."
        if hangs
        else "The ranks behave differently on the network or when a collective times out: some wait or go on where "
        "others end.",
        evidence=tuple(
            read(
                f"{source}, pid {pids[ranks[0]]} (rank {ranks[0]})",
                "not set" if value is None else {one.name: value},
            )
            for one in differing_settings[:MOST_SHOWN]
            for value, ranks in list(one.ranks.items())[:MOST_SHOWN]
        ),
        fix=Fix(
            "Stop the job, set them for all ranks alike where they are launched (below: what most ranks have, else "
            "what the lowest rank has), and start it again.",
            commands=tuple(
                command("unset {:variable}", one.name)
                if one.usual is None
                else command("export {:variable}={:value}", one.name, one.usual)
                for one in differing_settings
            ),
        ),
    )
