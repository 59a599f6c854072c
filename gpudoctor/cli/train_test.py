"""`gpudoctor train-test`."""

import sys
from typing import Annotated

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    COMPUTED_IN,
    SHARED_BY,
    Backend,
    Exclude,
    FromFile,
    GpusPerNode,
    Hostfile,
    Hosts,
    Html,
    Interface,
    Json,
    MasterAddress,
    MasterPort,
    NoColor,
    Nodes,
    Python,
    RanksShareGpu,
    Redact,
    RemoteGpudoctor,
    TestTimeout,
    Wait,
    answer,
    check_html_of,
    option,
)


def train_test(
    nodes: Nodes = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    exclude: Exclude = None,
    gpus_per_node: GpusPerNode = None,
    strategy: Annotated[
        str | None,
        option("--strategy NAMES|all", SHARED_BY),
    ] = None,
    precision: Annotated[str, option("--precision fp32,bf16,fp16|all", COMPUTED_IN)] = defaults.PRECISIONS,
    steps: Annotated[int, option("--steps N", "Training steps a cell.", least=5, most=10_000)] = defaults.STEPS,
    backend: Backend = "auto",
    timeout: TestTimeout = defaults.STALL_SECONDS,
    interface: Interface = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    wait: Wait = defaults.JOIN_SECONDS,
    from_file: FromFile = None,
    json: Json = False,
    html: Html = None,
    redact: Redact = False,
    ranks_share_gpu: RanksShareGpu = False,
    remote_gpudoctor: RemoteGpudoctor = None,
    python: Python = None,
    no_color: NoColor = False,
) -> None:
    """Strategies: single, dp, ddp, no_sync, spawn, fsdp, split (these by default), lightning, lightning_spawn,
    accelerate, xla."""
    from gpudoctor.cli.files import saved_answer, write
    from gpudoctor.fleet.where import Where
    from gpudoctor.nccl.wish import Wish
    from gpudoctor.render.prose import console
    from gpudoctor.render.train import LiveTraining, show_training
    from gpudoctor.train import live
    from gpudoctor.train.report import TrainReport

    check_html_of(html, redact=redact)
    screen = console(no_color=no_color)
    if from_file is not None:
        report = saved_answer(from_file, TrainReport)
    else:
        test = Wish(
            backend=backend,
            ranks_per_node=gpus_per_node or 0,
            timeout=timeout,
            interface=interface or "",
            master_address=master_addr or "",
            master_port=master_port or 0,
            ranks_share_gpu=ranks_share_gpu,
        )
        wish = live.wished(strategy, precision, steps, test, python)
        shown = LiveTraining(screen, sys.stderr)
        try:
            report = live.train(wish, Where(nodes, hosts, hostfile, exclude, remote_gpudoctor, wait), shown)
        finally:
            shown.close()
    if html is not None:
        from gpudoctor.redact import Pseudonyms
        from gpudoctor.render.html.train import train_page

        shown_report = Pseudonyms(report).structure(report) if redact else report
        write(html, train_page(shown_report, saved=from_file is not None, hidden=redact), "--html")
    answer(report, show_training, json=json, no_color=no_color, saved=from_file is not None)
    raise typer.Exit(report.exit_status)
