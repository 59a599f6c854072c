"""Measurements as pictures (matplotlib, extra `report`): bus bandwidth over size, speed of precisions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.amp.report import AmpReport
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.wording import counted
from gpudoctor.nccl.result import TestResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class NoPlot(BadInput):
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


def _figure(**shape: Any) -> "Figure":
    """An empty picture, by matplotlib's own settings."""
    import matplotlib
    from matplotlib.figure import Figure

    # It has read the matplotlibrc of the folder that the user stands in, by which a text can be set by LaTeX.
    matplotlib.rcdefaults()
    return Figure(**shape)


def draw(result: TestResult, path: str) -> None:
    """Write the picture of a bandwidth test. Raises `OSError`."""
    figure = _figure(figsize=(8, 5), layout="constrained")
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


def draw_factors(report: AmpReport, path: str) -> None:
    """Write the picture of `gpudoctor amp`: by how much each precision was faster than fp32. Raises `OSError`."""
    bars = [
        (f"{device.device} {precision.dtype}", speed)
        for device in report.devices
        for precision in device.precisions
        for speed in precision.speeds
        if speed.factor
    ]
    names = list(dict.fromkeys(name for name, _ in bars))
    kinds = list(dict.fromkeys(speed.what for _, speed in bars))
    figure = _figure(figsize=(max(6.0, 1.2 * len(names)), 5), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(kinds))
    for number, kind in enumerate(kinds):
        of_it = [(names.index(name) + (number - (len(kinds) - 1) / 2) * width, speed)
                 for name, speed in bars if speed.what == kind]  # fmt: skip
        axes.bar([place for place, _ in of_it], [speed.factor for _, speed in of_it], width, label=kind)
        expected = [(place, speed.expected_factor) for place, speed in of_it if speed.expected_factor]
        if expected:
            places, factors = zip(*expected, strict=True)
            axes.scatter(places, factors, marker="_", s=200, color="black", label=f"{kind}: of the published rates")
    axes.axhline(1, linestyle="--", linewidth=0.8, color="grey")
    axes.set_xlim(-0.7, max(1.0, len(names) - 0.3))  # a single bar is no wall
    axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 4 else 0)
    axes.set_ylabel("times as fast as fp32 without TF32")
    devices = list(dict.fromkeys(device.name or device.device for device in report.devices))
    axes.set_title(", ".join(devices[:3]) + (" ..." if len(devices) > 3 else ""))
    if bars:
        axes.legend()
    else:
        axes.text(0.5, 0.5, "nothing was timed", transform=axes.transAxes, horizontalalignment="center")
    figure.savefig(path)
