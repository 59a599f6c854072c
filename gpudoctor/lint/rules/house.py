"""A rule made up to see what a new one takes: H99."""

from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule


@rule(
    "H99",
    title="a port of the house's database is not the rendezvous'",
    source="made up",
    bad=("torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr node1 --master-port 5432 train.py\n",),
    good=("torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr node1 --master-port 29500 train.py\n",),
)
def master_port_of_the_database(job: LintJob) -> Iterator[LintFinding]:
    """PostgreSQL listens on 5432."""
    for launch in job.launches:
        option = launch.option("master-port")
        if option is not None and launch.text("master-port") == "5432":
            yield LintFinding(
                span=option.span,
                summary="the port of the rendezvous is 5432, PostgreSQL's",
                happens="Address already in use, where a database runs on that node.",
                fix="Take another port, such as 29500.",
            )
