"""`gpudoctor nccl-test`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpudoctor import defaults
from gpudoctor.cli.options import (
    OF_NUMBERS,
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
    Plot,
    Python,
    RanksShareGpu,
    Redact,
    RemoteGpudoctor,
    TestTimeout,
    Verbose,
    Wait,
    answer,
    check_html_of,
    check_plot_of,
    exclusive,
    option,
)
from gpudoctor.errors import BadInput

TOKEN = "GPUDOCTOR_TOKEN"
"""The join token comes by environment: every user of a machine can read the others' command lines."""


def nccl_test(
    nodes: Nodes = None,
    hosts: Hosts = None,
    hostfile: Hostfile = None,
    exclude: Exclude = None,
    gpus_per_node: GpusPerNode = None,
    collective: Annotated[
        str,
        option(
            "--collective NAMES", "Of all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv; or all."
        ),
    ] = defaults.COLLECTIVE,
    min_bytes: Annotated[str, option("--min-bytes SIZE", "Smallest size.")] = str(defaults.SMALLEST_SIZE),
    max_bytes: Annotated[str | None, option("--max-bytes SIZE", "Largest size: 8G; on gloo 64M.")] = None,
    factor: Annotated[int, option("--factor F", "From size to size.", least=2)] = defaults.SIZE_FACTOR,
    dtype: Annotated[Literal["float32", "float16", "bfloat16"], option("--dtype", OF_NUMBERS)] = "float32",
    warmup: Annotated[int | None, option("--warmup N", "Untimed operations a size: 5.", least=0)] = None,
    iters: Annotated[int | None, option("--iters N", "Timed operations a size: 20.", least=1)] = None,
    compare_data: Annotated[
        bool, option("--compare-data/--no-compare-data", "Compare every element of the result.")
    ] = True,
    check: Annotated[bool, typer.Option("--check/--no-check", hidden=True)] = True,
    backend: Backend = "auto",
    timeout: TestTimeout = defaults.STALL_SECONDS,
    interface: Interface = None,
    master_addr: MasterAddress = None,
    master_port: MasterPort = None,
    compare: Annotated[
        str | None, option("--compare NAME=V1,V2", "The same test under each setting; ; between names.")
    ] = None,
    find_slow: Annotated[bool, option("--find-slow", "Which node, link or NIC is the slow one.")] = False,
    join: Annotated[str | None, option("--join HEAD:PORT", "Take part in the test of that head.")] = None,
    wait: Wait = defaults.JOIN_SECONDS,
    emit: Annotated[
        Literal["slurm", "kubernetes"] | None,
        option("--emit", "Print a batch script or manifest that runs this test."),
    ] = None,
    from_file: FromFile = None,
    json: Json = False,
    csv: Annotated[bool, option("--csv", "The rows as CSV.")] = False,
    plot: Plot = None,
    html: Html = None,
    redact: Redact = False,
    keep_logs: Annotated[str | None, option("--keep-logs DIR", "Keep NCCL's log of every rank there.")] = None,
    ranks_share_gpu: RanksShareGpu = False,
    remote_gpudoctor: RemoteGpudoctor = None,
    python: Python = None,
    verbose: Verbose = 0,
    no_color: NoColor = False,
) -> None:
    from gpudoctor.cli.files import saved_answer, write
    from gpudoctor.fleet.where import Where, is_symmetric
    from gpudoctor.nccl import live, symmetric
    from gpudoctor.nccl.compare_settings import parse_compare
    from gpudoctor.nccl.publish import to_csv
    from gpudoctor.nccl.result import TestResult
    from gpudoctor.nccl.wish import Wish
    from gpudoctor.render.nccl_test import Live, show_result, show_run
    from gpudoctor.render.plot import draw
    from gpudoctor.render.prose import console

    exclusive(json=json, csv=csv)
    if emit is not None and (join is not None or from_file is not None):
        raise BadInput("--emit excludes --join and --from")
    if join is not None:
        raise typer.Exit(live.take_part(join, os.environ.get(TOKEN, "")))
    smallest, largest = live.sizes(min_bytes, max_bytes)
    wish = live.completed(
        Wish(
            collectives=live.collectives(collective),
            minimum_bytes=smallest,
            maximum_bytes=largest,
            factor=factor,
            dtype=dtype,
            warmup=warmup,
            iterations=iters,
            check=check and compare_data,  # --no-check is its former spelling
            backend=backend,
            ranks_per_node=gpus_per_node or 0,
            timeout=timeout,
            interface=interface or "",
            master_address=master_addr or "",
            master_port=master_port or 0,
            ranks_share_gpu=ranks_share_gpu,
        ),
        python,
    )
    if emit is not None and from_file is None:
        print(live.emitted(emit, nodes, gpus_per_node, sys.argv[1:]), end="")
        return
    check_plot_of(plot)
    check_html_of(html, redact=redact)
    if keep_logs is not None and not (Path(keep_logs).is_dir() and os.access(keep_logs, os.W_OK)):
        raise BadInput(f"--keep-logs {keep_logs}: not a folder that can be written to")
    screen = console(no_color=no_color)
    where = Where(nodes, hosts, hostfile, exclude, remote_gpudoctor, wait)
    status: int | None = None
    if from_file is not None:
        result = saved_answer(from_file, TestResult)
        if not (json or csv):
            show_run(result, screen)
    else:
        combinations = parse_compare(compare) if compare is not None else ()
        shown = Live(screen, sys.stderr, rows=not (json or csv))
        try:
            if is_symmetric(os.environ, where):
                if combinations or find_slow:
                    raise BadInput(
                        "--compare and --find-slow start ranks again and again, which a job that started them cannot "
                        "do: run gpudoctor nccl-test in the allocation's shell, without srun or torchrun"
                    )
                part = symmetric.run_symmetric(wish, shown)
                if part is None:  # another rank speaks for all
                    return
                result, status = part, symmetric.exit_status(part)
            else:
                result = live.bandwidth(wish, where, shown, combinations=combinations, find_slow=find_slow)
        finally:
            shown.close()
    if csv:
        print(to_csv(result), end="", flush=True)
    else:
        answer(
            result,
            lambda result, screen: show_result(result, screen, verbose),
            json=json,
            no_color=no_color,
            status=status,
            saved=from_file is not None,
        )
    if plot is not None:
        draw(result, plot)
    if html is not None:
        from gpudoctor.redact import Pseudonyms
        from gpudoctor.render.html.nccl_test import nccl_test_page

        ended = result.exit_status if status is None else status
        shown_result = Pseudonyms(result).structure(result) if redact else result
        page = nccl_test_page(shown_result, status=ended, saved=from_file is not None, hidden=redact)
        write(html, page, "--html")
    if keep_logs is not None:
        live.keep_logs(result, keep_logs)
    raise typer.Exit(result.exit_status if status is None else status)
