"""Precisions on a terminal: a table a device, why not the others, what is wrong, and which one to use how."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudoctor.amp.report import AmpAdvice, AmpDevice, AmpReport, Precision, Speed
from gpudoctor.knowledge.precision.apex import translations
from gpudoctor.knowledge.wording import counted, figure
from gpudoctor.render.prose import show, show_table
from gpudoctor.render.terminal import show_problem
from gpudoctor.render.words import safe

OUTCOMES = {"wrong-result": "wrong", "not applicable": "-"}
SUPPORTS = {"hardware, slow": "slow"}
COLORS = {"passed": "green", "wrong-result": "bold red", "failed": "bold red", "timeout": "bold red"}
NOTHING = "-"
LEGEND = (
    "output, gradient: the larger relative error of a small convolutional net and a transformer block under autocast "
    "against fp32, and its limit; scaler: GradScaler with a forced overflow; factor: a product of large matrices "
    "against fp32 without TF32, and what the published rates give; memory: the peak of a training step against "
    "fp32's; -: nothing to measure, or not measured"
)


def show_amp(report: AmpReport, screen: Console) -> None:
    """The whole answer; the verdict is its last line."""
    if report.why_devices:
        show(report.why_devices[:1].upper() + report.why_devices[1:] + ".", screen, style="bold yellow")
    for number, device in enumerate(report.devices):
        if number or report.why_devices:
            screen.print()
        _show_device(device, screen)
    if any(device.precisions for device in report.devices):
        screen.print()
        show(LEGEND, screen, style="dim")
    for problem in report.problems:
        screen.print()
        show_problem(problem, "", screen)
    if report.advice is not None:
        _show_advice(report.advice, screen)
    screen.print()
    show(closing_words(report), screen, style="bold")


def _show_device(device: AmpDevice, screen: Console) -> None:
    show(title(device), screen, style="bold")
    if device.error:
        show(f"not tested: {device.error}", screen, indent=2)
    if not device.precisions:
        return
    show_table(_table(device.precisions), screen, gives_way="")
    for line in (*_why(device.precisions), *_speeds(device), *_switches(device)):
        show(line, screen, indent=2)


def title(device: AmpDevice) -> str:
    """ "cuda:0: NVIDIA H100 80GB HBM3, compute capability 9.0, torch 2.13.0+cu130"."""
    parts = [
        device.name,
        "compute capability {}.{}".format(*device.capability) if device.capability else "",
        f"torch {device.torch}" if device.torch else "",
    ]
    known = ", ".join(part for part in parts if part)
    return f"{device.device}: {known}" if known else device.device


def _table(precisions: Sequence[Precision]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("dtype", "support", "result"):
        table.add_column(name, no_wrap=True)
    for name in ("output", "gradient", "scaler", "factor", "memory"):
        table.add_column(name, no_wrap=True, justify="right")
    for precision in precisions:
        table.add_row(
            precision.dtype,
            SUPPORTS.get(precision.support, precision.support),
            Text(OUTCOMES.get(precision.outcome, precision.outcome), style=COLORS.get(precision.outcome, "")),
            _worst([(net.output_error, net.limit_output) for net in precision.compared]),
            _worst([(net.gradient_error, net.limit_gradient) for net in precision.compared]),
            precision.scaler.outcome if precision.scaler and precision.scaler.outcome != "not needed" else NOTHING,
            _factor(_product(precision)),
            _memory(precision),
        )
    return table


def _worst(errors: Sequence[tuple[float | None, float]]) -> str:
    """ "6.2e-4/5e-3"; NaN is the worst of all."""
    errors_told = [(error, limit) for error, limit in errors if error is not None]
    if not errors_told:
        return NOTHING
    error, limit = max(errors_told, key=lambda pair: (pair[0] != pair[0], pair[0]))
    return f"{_short(error, 1)}/{_short(limit, 0)}" if limit else _short(error, 1)


def _short(number: float, digits: int) -> str:
    """ "6.2e-4": no leading zero in the exponent."""
    mantissa, _, exponent = f"{number:.{digits}e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _product(precision: Precision) -> Speed | None:
    return next((speed for speed in precision.speeds if speed.what == "matmul"), None)


def _factor(speed: Speed | None) -> str:
    if speed is None or not speed.factor:
        return NOTHING
    return f"{speed.factor:.1f}" + (f"/{speed.expected_factor:.1f}" if speed.expected_factor else "")


def _memory(precision: Precision) -> str:
    if not precision.memory_bytes or not precision.memory_fp32_bytes:
        return NOTHING
    return f"{100 * (precision.memory_bytes / precision.memory_fp32_bytes - 1):+.0f} %"


def _why(precisions: Sequence[Precision]) -> Iterator[str]:
    """What is not plainly there and passed, with the reason."""
    for precision in precisions:
        parts = []
        if precision.support != "hardware" or precision.outcome == "not applicable":
            parts.append(": ".join(filter(None, (_support_words(precision), precision.why))))
        # What failed stands among the problems; what was left out is said nowhere else.
        if precision.outcome == "passed" and precision.error:
            parts.append(precision.error)
        if precision.compiled and precision.compiled != "passed" and not precision.compiled.startswith("failed"):
            parts.append(f"torch.compile {precision.compiled}")
        if parts:
            yield f"{precision.dtype}: {'; '.join(parts)}"


def _support_words(precision: Precision) -> str:
    return {"none": "not at all", "build": "not by this torch build", "unknown": "support unknown"}.get(
        precision.support, precision.support
    )


def _speeds(device: AmpDevice) -> Iterator[str]:
    """Everything that was timed, where it is more than the table's factor."""
    for precision in device.precisions:
        parts = [_speed_words(speed) for speed in precision.speeds]
        if precision.compiled == "passed":
            parts.append("torch.compile with autocast passed")
        if parts:
            yield f"{precision.dtype} against fp32: {', '.join(parts)}"


def _speed_words(speed: Speed) -> str:
    if speed.error:
        return f"{speed.what} {speed.error}"
    rate = f" ({speed.teraflops:.3g} TFLOP/s)" if speed.teraflops else ""
    size = f" {speed.size}" if speed.what == "matmul" and speed.size else ""
    return f"{speed.what}{size} {figure(speed.factor)} times as fast{rate}"


def _switches(device: AmpDevice) -> Iterator[str]:
    """How TF32 is set, where there is TF32."""
    if device.switches and any(
        precision.dtype == "tf32" and precision.support == "hardware" for precision in device.precisions
    ):
        switches = (f"{name.removeprefix('torch.').removeprefix('backends.')} {value}"
                for name, value in device.switches.items())  # fmt: skip
        yield f"TF32 as it is set, under torch.backends: {', '.join(switches)}"


def _show_advice(advice: AmpAdvice, screen: Console) -> None:
    screen.print()
    show(f"Use {advice.precision}: {advice.why}", screen, style="bold green")
    widest = max(map(len, advice.spelled), default=0)
    for framework, lines in advice.spelled.items():
        for number, line in enumerate(lines.splitlines()):
            name = framework if number == 0 else ""
            _line(f"  {safe(name):<{widest}}  ", line, screen)


def _line(head: str, text: str, screen: Console) -> None:
    """Code to copy: only the terminal itself wraps it."""
    screen.print(Text.assemble(head, (safe(text), "green")), soft_wrap=True)


def show_old(report: AmpReport, screen: Console) -> None:
    """The answer, and what old tutorials say, in the words of today."""
    show_amp(report, screen)
    screen.print()
    show("What old tutorials write, and what it is today:", screen, style="bold")
    for old, today, _ in translations(report.versions):
        show(f"{old} -> {today}", screen, indent=2)


def closing_words(report: AmpReport) -> str:
    """The last line: what works where, and how long it took."""
    seconds = f"{report.seconds:.1f} s"
    tested = [device for device in report.devices if not device.error]
    if not tested:
        return f"No device could be tested, {seconds}"
    errors = sum(problem.severity == "error" for problem in report.problems)
    warnings = sum(problem.severity == "warning" for problem in report.problems)
    counts = [counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    verdict = ", ".join(counts) or "what these devices have works"
    without = len(report.devices) - len(tested)
    untested = f"; {counted(without, 'device')} not tested" if without else ""
    return f"{counted(len(tested), 'device')} tested{untested}: {verdict}; {seconds}"
