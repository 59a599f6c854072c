"""`gpudoctor topology`."""

from typing import Annotated

import typer

from gpudoctor.cli.options import FromFile, NoColor, Timeout


def topology(
    from_file: FromFile = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    timeout: Timeout = 10.0,
    no_color: NoColor = False,
) -> None:
    """GPUs and RDMA devices, and what connects each two, in NCCL's path classes."""
    from gpudoctor.errors import BadInput

    if from_file is None:
        from gpudoctor.cli.live import examine_machine

        machine = examine_machine(torch=False, timeout=timeout)
    else:
        from gpudoctor.cli.files import snapshot_from

        machine = snapshot_from(from_file)
    from gpudoctor.render.words import shown_json
    from gpudoctor.topology import to_json
    from gpudoctor.topology import topology as answer_of

    answer = answer_of(machine)
    if json:
        print(shown_json(to_json(answer)))
    if not answer.gpus and not answer.nics:
        reason = "; ".join(answer.notes) or "this machine has neither NVIDIA GPUs nor RDMA devices"
        raise BadInput(f"nothing to show: {reason}")
    if json:
        return
    from gpudoctor.render.prose import console
    from gpudoctor.render.topology import show_topology

    show_topology(answer, console(no_color=no_color))
