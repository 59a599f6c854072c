"""`gpudoctor topology`."""

from gpudoctor import defaults
from gpudoctor.cli.options import (
    FromFile,
    Json,
    NoColor,
    Plot,
    Timeout,
    answer,
    check_plot_of,
    machine_from,
    of_machine,
)
from gpudoctor.errors import CannotTell


def topology(
    from_file: FromFile = None,
    json: Json = False,
    timeout: Timeout = defaults.READ_SECONDS,
    plot: Plot = None,
    no_color: NoColor = False,
) -> None:
    check_plot_of(plot)
    from gpudoctor.render.topology import show_topology
    from gpudoctor.topology import TopologyAnswer, topology as seen_in

    machine = machine_from(from_file, TopologyAnswer, torch=False, timeout=timeout)
    seen = machine if isinstance(machine, TopologyAnswer) else of_machine(seen_in(machine), machine)
    if json or not seen.exit_status:
        answer(seen, show_topology, json=json, no_color=no_color)
    if plot is not None and not seen.exit_status:
        from gpudoctor.render.plot import draw_topology

        draw_topology(seen, plot)
    if seen.exit_status:
        reason = "; ".join(seen.notes) or "this machine has neither NVIDIA GPUs nor RDMA devices"
        raise CannotTell(f"nothing to show: {reason}")
