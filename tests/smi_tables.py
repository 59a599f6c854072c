"""Tables of plain `nvidia-smi` in the forms of its drivers, with what a case changes in one GPU's rows."""

from collections.abc import Mapping, Sequence

A = {
    "persistence": "On",
    "display": "Off",
    "ecc": "0",
    "fan": "N/A",
    "temp": "33C",
    "perf": "P0",
    "draw": "71W",
    "cap": "700W",
    "used": "4MiB",
    "total": "81559MiB",
    "busy": "0%",
    "compute": "Default",
    "mig": "Disabled",
}
"""An idle H100."""
GEFORCE = A | {"ecc": "N/A", "fan": "0%", "perf": "P8", "draw": "14W", "cap": "350W", "total": "24576MiB", "mig": "N/A"}
T4 = A | {"temp": "41C", "perf": "P8", "draw": "10W", "cap": "70W", "total": "15360MiB", "mig": "N/A"}
BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
NOTHING = "No running processes found"
SILENT = dict.fromkeys(("name", "ecc", "fan", "temp", "perf", "draw", "cap", "busy", "mig"), "ERR!")


def table(
    changes: Mapping[int, Mapping[str, str]] | None = None,
    *,
    count: int = 8,
    name: str = "NVIDIA H100 80GB HBM3",
    values: Mapping[str, str] = A,
    driver: str = "580.82.07",
    cuda: str = "13.0",
    processes: Sequence[tuple[int, int, str, str, str]] = (),
    mig: Sequence[tuple[int, int, int, int, str]] | None = None,
    title: str = "",
    first: int = 0,
) -> str:
    """The table of that driver's form. `processes`: GPU, pid, type, name, memory; `mig`: GPU, GI, CI, device..."""
    branch = int(driver.partition(".")[0])
    left, middle, right = (41, 24, 22) if branch >= 545 else (31, 22, 22)
    ruler = f"+{'-' * left}+{'-' * middle}+{'-' * right}+"
    width = left + middle + right + 2
    wide = f"+{'-' * width}+"
    names = ("KMD Version", "CUDA UMD Version") if branch >= 600 else ("Driver Version", "CUDA Version")
    newest = f"{names[1]}: {cuda}" if branch >= 410 else ""
    head = title or f"NVIDIA-SMI {driver:<20} {names[0]}: {driver:<14} {newest}"
    lines = ["Mon Mar  2 10:11:12 2026       ", wide, f"| {head:<{width - 1}}|"]
    lines += [f"|{'-' * left}+{'-' * middle}+{'-' * right}+"]
    column = "Driver-Model" if values["persistence"] == "WDDM" else "Persistence-M"
    lines += [_three(f" GPU  Name {column:>{left - 12}}", " Bus-Id   Disp.A", " Volatile Uncorr. ECC", left, middle)]
    lines += [_three(" Fan  Temp  Perf  Pwr:Usage/Cap", "  Memory-Usage", " GPU-Util  Compute M. ", left, middle)]
    if branch >= 450:
        lines += [_three("", "", f"{'MIG M.':>20}", left, middle)]
    lines += [f"|{'=' * left}+{'=' * middle}+{'=' * right}|"]
    for index in range(first, first + count):
        row = {"name": name, **values, **(changes or {}).get(index, {})}
        bus = row.get("bus", f"00000000:{BUSES[index % 8]}:00.0" if branch >= 384 else f"0000:{BUSES[index % 8]}:00.0")
        space = left - 9
        shown = row["name"] if len(row["name"]) <= space - 4 else row["name"][: space - 8] + "..."
        lines += [
            _three(
                f"{index:>4}  {shown:<{space - 4}} {row['persistence']:>4}",
                f" {bus} {row['display']}",
                f"{row['ecc']:>21}",
                left,
                middle,
            ),
            _three(
                f"{row['fan']:>4}  {row['temp']:>4}  {row['perf']:>3}  {row['draw']:>6} / {row['cap']:>5}",
                f" {row['used']:>9} / {row['total']:>9}",
                f"{row['busy']:>8} {row['compute']:>12}",
                left,
                middle,
            ),
        ]
        if branch >= 450:
            lines += [_three("", "", f"{row['mig']:>21}", left, middle)]
        lines += [ruler]
    if mig is not None:
        lines += ["", wide, f"| {'MIG devices:':<{width - 1}}|", "+------+------+------+------+"]
        lines += ["| GPU  GI  CI  MIG |  Memory-Usage | Vol| Shared |", "|======+======+=====+=====|"]
        for gpu, instance, compute, device, memory in mig:
            lines += [
                f"|  {gpu}  {instance:>3}   {compute}   {device}  | {memory} | 60      0 |  3   0    3    0    3 |"
            ]
            lines += ["|                  |     0MiB / 24739MiB    |           |                       |", wide]
        if not mig:
            lines += [f"| {'No MIG devices found':<{width - 1}}|", wide]
    lines += ["", wide, f"| {'Processes:':<{width - 1}}|", f"|{' GPU  GI  CI  PID  Type  Process name':<{width}}|"]
    lines += [f"|{'=' * width}|"]
    for gpu, pid, kind, command, memory in processes:
        instances = "   N/A  N/A" if branch >= 450 else ""
        lines += [f"| {f'{gpu:>4}{instances} {pid:>9} {kind:>6}   {command} {memory:>12}':<{width - 1}}|"]
    if not processes:
        lines += [f"|  {NOTHING:<{width - 2}}|"]
    return "\n".join([*lines, wide, ""])


def _three(one: str, two: str, three: str, left: int, middle: int) -> str:
    return f"|{one:<{left}}|{two:<{middle}}|{three:<22}|"
