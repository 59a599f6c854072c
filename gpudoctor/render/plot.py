"""Bus bandwidth over size as a picture (matplotlib, extra `report`)."""

from pathlib import Path

from gpudoctor.knowledge.wording import counted
from gpudoctor.nccl.result import TestResult


class NoPlot(Exception):
    """The picture cannot be drawn; the message is one line for the user."""


def check_plot(path: str) -> None:
    """Say before the test what would fail after it. Raises `NoPlot`."""
    if Path(path).suffix not in (".svg", ".png"):
        raise NoPlot(f"--plot {path}: the name must end in .svg or .png")
    if not Path(path).absolute().parent.is_dir():
        raise NoPlot(f"--plot {path}: there is no folder {Path(path).absolute().parent}")
    try:
        import matplotlib  # noqa: F401 - is it there?
    except ImportError:
        raise NoPlot("--plot needs matplotlib: python -m pip install 'gpudoctor[report]'") from None


def draw(result: TestResult, path: str) -> None:
    """Write the picture. Raises `OSError`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    rows = result.run.rows if result.run else ()
    for collective in dict.fromkeys(row.collective for row in rows):
        of_it = [row for row in rows if row.collective == collective]
        axes.plot(
            [row.size_bytes for row in of_it],
            [row.bus_bandwidth for row in of_it],
            marker="o",
            markersize=3,
            label=collective,
        )
    for grade in result.grades:
        if grade.expected is not None:
            axes.axhline(grade.expected, linestyle="--", linewidth=0.8, label=f"{grade.collective}: reached elsewhere")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size (bytes)")
    axes.set_ylabel("bus bandwidth (GB/s, 1e9 bytes)")
    backend = "gloo over CPU, not NCCL" if result.backend == "gloo" else result.backend.upper()
    world = f"world size {result.world_size}" if result.world_size else ""
    axes.set_title(", ".join(part for part in (counted(len(result.nodes), "node"), world, backend) if part))
    axes.grid(alpha=0.3)
    if rows:
        axes.legend()
    figure.savefig(path)
