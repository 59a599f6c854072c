"""Measurements as pictures (matplotlib, extra `report`): bus bandwidth over size, speed of precisions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpudoctor.amp.report import AmpReport
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.network.topology import ORDER
from gpudoctor.knowledge.wording import counted
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import TestResult
from gpudoctor.topology import TopologyAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
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
    if not rows and (bars := _bars(result)):
        _draw_bars(axes, bars)
    else:
        _draw_curves(axes, result, rows)
    backend = "gloo over CPU, not NCCL" if result.backend == "gloo" else result.backend.upper()
    world = f"world size {result.world_size}" if result.world_size else ""
    axes.set_title(", ".join(part for part in (counted(len(result.nodes), "node"), world, backend) if part))
    axes.grid(alpha=0.3)
    figure.savefig(path)


class Bar(NamedTuple):
    """A bandwidth that stands by itself: of a line of settings, or of a group of nodes."""

    name: str
    kind: str
    """The collective, or what the round was for."""
    bandwidth: float | None
    """None: it hung or died."""
    takes_part: bool = False
    """The culprit is among them."""


def _bars(result: TestResult) -> list[Bar]:
    """What --compare and --find-slow measured: one size, and many settings or groups."""
    bars: list[Bar] = []
    for line in result.compared:
        name = "\n".join(f"{variable}={value}" for variable, value in line.settings.items()) or "as it is"
        bars += [Bar(name, collective, speed) for collective, speed in line.bus_bandwidth.items()]
        if not line.bus_bandwidth:
            bars.append(Bar(name, line.outcome, None))
    if bars:
        return bars
    culprits = result.isolation.culprits if result.isolation else ()
    return [
        Bar(
            " - ".join(group), isolation_round.purpose, speed, any({*culprit.nodes} <= {*group} for culprit in culprits)
        )
        for isolation_round in (result.isolation.rounds if result.isolation else ())
        for group, speed in zip(isolation_round.groups, isolation_round.bus_bandwidth, strict=True)
    ]


def _draw_bars(axes: "Axes", bars: list[Bar]) -> None:
    """A bar each, hatched where the culprit takes part; what hung or died has its word in place of a bar."""
    for number, kind in enumerate(dict.fromkeys(bar.kind for bar in bars)):
        of_it = [(place, bar) for place, bar in enumerate(bars) if bar.kind == kind]
        axes.barh(
            [place for place, _ in of_it],
            [bar.bandwidth or 0.0 for _, bar in of_it],
            color=f"C{number}",
            hatch=["///" if bar.takes_part else "" for _, bar in of_it],
            label=kind,
        )
    for place, bar in enumerate(bars):
        text = "no answer" if bar.bandwidth is None else f"{bar.bandwidth:.3g}"
        axes.text(bar.bandwidth or 0.0, place, f" {text}", verticalalignment="center", fontsize=8)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("bus bandwidth (GB/s, 1e9 bytes)")
    axes.legend(title="hatched: with the culprit" if any(bar.takes_part for bar in bars) else None)


def _draw_curves(axes: "Axes", result: TestResult, rows: "Sequence[Row]") -> None:
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
    if rows:
        axes.legend()
    else:
        axes.text(0.5, 0.5, "nothing was measured", transform=axes.transAxes, horizontalalignment="center")


def draw_topology(answer: TopologyAnswer, path: str) -> None:
    """Write the picture of `gpudoctor topology`: what connects each two devices, near ones dark. Raises `OSError`."""
    labels = [device.label for device in (*answer.gpus, *answer.nics)]
    from matplotlib.patches import Rectangle

    size = max(4.0, 0.6 * len(labels) + 1.5)
    figure = _figure(figsize=(size, size), layout="constrained")
    axes = figure.add_subplot()
    for pair in answer.pairs:
        words = (f"NV{pair.nvlinks}" if pair.nvlinks else pair.path) or "?"
        far = ORDER.index(pair.path) if pair.path in ORDER else len(ORDER)
        shade = 0.15 + 0.85 * far / len(ORDER)
        for row, column in ((pair.a, pair.b), (pair.b, pair.a)):
            place = (labels.index(column), labels.index(row))
            axes.add_patch(Rectangle(place, 1, 1, facecolor=(shade, shade, 1.0), edgecolor="white"))
            axes.text(
                place[0] + 0.5,
                place[1] + 0.5,
                words,
                color="white" if shade < 0.5 else "black",
                fontsize=8,
                horizontalalignment="center",
                verticalalignment="center",
            )
    axes.set_xlim(0, len(labels))
    axes.set_ylim(len(labels), 0)
    middles = [number + 0.5 for number in range(len(labels))]
    axes.set_xticks(middles, labels, rotation=45)
    axes.set_yticks(middles, [f"{device.label}  {device.name}" for device in (*answer.gpus, *answer.nics)], fontsize=8)
    axes.set_aspect("equal")
    axes.set_title("What connects each two, in NCCL's path classes")
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
