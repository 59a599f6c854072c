"""`gpudoctor topology`."""

from gpudoctor import defaults
from gpudoctor.cli.options import FromFile, Json, NoColor, Timeout, answer, machine_from
from gpudoctor.errors import BadInput


def topology(
    from_file: FromFile = None,
    json: Json = False,
    timeout: Timeout = defaults.READ_SECONDS,
    no_color: NoColor = False,
) -> None:
    machine = machine_from(from_file, torch=False, timeout=timeout)
    from gpudoctor.render.topology import show_topology
    from gpudoctor.topology import to_json
    from gpudoctor.topology import topology as seen_in

    seen = seen_in(machine)
    is_empty = not seen.gpus and not seen.nics
    if json or not is_empty:
        answer(seen, to_json if json else None, show_topology, no_color=no_color)
    if is_empty:
        reason = "; ".join(seen.notes) or "this machine has neither NVIDIA GPUs nor RDMA devices"
        raise BadInput(f"nothing to show: {reason}")
