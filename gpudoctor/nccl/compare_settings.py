"""`--compare`: which settings to run under, in which order, and which of them wins.

`NAME=V1,V2;NAME2=...`: every combination of the values. An empty value leaves the variable as it is, so `NAME=,1`
compares 1 with no change. A backslash keeps a comma or semicolon in a value: `NCCL_IB_HCA=mlx5_0\\,mlx5_1,mlx5_2`.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product

from msgspec import Struct

from gpudoctor.errors import BadInput
from gpudoctor.fleet.messages import may_set
from gpudoctor.knowledge.wording import listed
from gpudoctor.nccl.result import Compared

MOST_COMBINATIONS = 16
"""Each runs twice: more would take an hour, and chance would choose the winner."""
LONGEST_VALUE = 1000
"""Characters; no setting of NCCL is as long."""

EXAMPLE = "NCCL_ALGO=Ring,Tree"


def parse_compare(text: str) -> tuple[dict[str, str], ...]:
    """The combinations of settings, in the order of their writing. Raises ValueError with one line for the user."""
    values: dict[str, list[str]] = {}
    for part in _split(text, ";"):
        if not part.strip():
            continue
        name, equals, written = part.partition("=")
        name = name.strip()
        if not equals:
            raise BadInput(f"--compare takes NAME=VALUE,VALUE like {EXAMPLE}, and {part!r} has no '='")
        if not may_set(name):
            raise BadInput(
                f"--compare cannot set {name!r}: it sets NCCL_*, TORCH_NCCL_*, GLOO_* and the like, not other variables"
            )
        if name in values:
            raise BadInput(f"--compare names {name} twice; write its values after one '=', as in {EXAMPLE}")
        values[name] = [_plain(name, value) for value in _split(written, ",")]
        if len(set(values[name])) < len(values[name]):
            raise BadInput(f"--compare gives {name} the same value twice: {written!r}")
    count = 1
    for name in values:
        count *= len(values[name])
    if count < 2:
        raise BadInput(f"--compare needs at least two values to compare, as in {EXAMPLE}")
    if count > MOST_COMBINATIONS:
        raise BadInput(
            f"--compare asks for {count} combinations, and at most {MOST_COMBINATIONS} are run; name fewer values"
        )
    return tuple(
        {name: value for name, value in zip(values, chosen, strict=True) if value}
        for chosen in product(*values.values())
    )


def order_of_runs(combinations: int) -> tuple[int, ...]:
    """Each combination twice, A B ... B A: a machine that warms up or is used by others favours none of them."""
    return (*range(combinations), *reversed(range(combinations)))


class Comparison(Struct, frozen=True, kw_only=True):
    """What the runs say of one collective."""

    collective: str
    winners: tuple[int, ...] = ()
    """Indices of the combinations that no other beats by more than noise; all of those that ran: no difference."""
    percent: float = 0.0
    """By how much the best of them beats the best of the others, percent; 0 when there are no others."""
    noise: float = 0.0
    """The largest difference between two runs of one combination, GB/s."""
    text: str = ""


def settings_of(
    combinations: Sequence[Mapping[str, str]], runs: Sequence[tuple[int, Compared]]
) -> tuple[Compared, ...]:
    """One line a combination that ran: the mean of its runs, and the worst of their outcomes."""
    found = []
    for index, settings in enumerate(combinations):
        mine = [run for number, run in runs if number == index]
        if not mine:
            continue
        outcome = next((run.outcome for run in mine if run.outcome != "complete"), "complete")
        names = [name for name in mine[0].bus_bandwidth if all(name in run.bus_bandwidth for run in mine)]
        means = {name: sum(run.bus_bandwidth[name] for run in mine) / len(mine) for name in names}
        found.append(Compared(dict(settings), means, outcome))
    return tuple(found)


def verdicts(combinations: Sequence[Mapping[str, str]], runs: Sequence[tuple[int, Compared]]) -> tuple[Comparison, ...]:
    """Which combination wins each collective. `runs`: the combination's index and what a run of it reached."""
    failed = {index for index, run in runs if run.outcome != "complete"}
    collectives = dict.fromkeys(name for _, run in runs for name in run.bus_bandwidth)
    verdicts_so_far = []
    for collective in collectives:
        reached: dict[int, list[float]] = {}
        for index, run in runs:
            if index not in failed and collective in run.bus_bandwidth:
                reached.setdefault(index, []).append(run.bus_bandwidth[collective])
        verdicts_so_far.append(_verdict(combinations, collective, reached))
    return tuple(verdicts_so_far)


def verdict(combinations: Sequence[Mapping[str, str]], runs: Sequence[tuple[int, Compared]]) -> str:
    """The verdicts of all collectives, and which settings did not get through, as sentences."""
    sentences = [comparison.text for comparison in verdicts(combinations, runs)]
    for index, settings in enumerate(combinations):
        outcomes = [run.outcome for number, run in runs if number == index]
        bad = [outcome for outcome in outcomes if outcome != "complete"]
        if bad:
            sentences.append(
                f"{words(settings)}: {len(bad)} of {len(outcomes)} runs did not end as they should ({bad[0]})."
            )
    return " ".join(sentences) or "Nothing was measured."


def words(settings: Mapping[str, str]) -> str:
    """ "NCCL_ALGO=Ring NCCL_PROTO=LL", "as it is"."""
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "as it is"


def _verdict(
    combinations: Sequence[Mapping[str, str]], collective: str, reached: Mapping[int, Sequence[float]]
) -> Comparison:
    means = {index: sum(values) / len(values) for index, values in reached.items()}
    ranked = sorted(means, key=lambda index: (-means[index], index))
    if not ranked:
        return Comparison(collective=collective, text=f"{collective}: no setting got through all of its runs.")
    if len(ranked) == 1:
        text = f"{collective}: only {words(combinations[ranked[0]])} got through, {means[ranked[0]]:.2f} GB/s."
        return Comparison(collective=collective, winners=(ranked[0],), text=text)
    if any(len(values) < 2 for values in reached.values()):
        text = f"{collective}: not every setting ran twice, so noise is unknown and nothing is said to win."
        return Comparison(collective=collective, winners=tuple(ranked), text=text)
    noise = max(max(values) - min(values) for values in reached.values())
    winners = [index for index in ranked if means[ranked[0]] - means[index] <= noise]
    others = ranked[len(winners) :]
    seen = f"runs of the same setting differ by up to {noise:.2f} GB/s"
    if not others:
        text = (
            f"{collective}: no difference that can be told from noise: {means[ranked[-1]]:.2f} to "
            f"{means[ranked[0]]:.2f} GB/s, and {seen}."
        )
        return Comparison(collective=collective, winners=tuple(ranked), noise=noise, text=text)
    best, next_best = means[ranked[0]], means[others[0]]
    percent = 100 * (best / next_best - 1) if next_best > 0 else 0.0
    alike = (
        f" ({listed(words(combinations[index]) for index in winners[1:])} alike within noise)" if winners[1:] else ""
    )
    text = (
        f"{collective}: {words(combinations[ranked[0]])} wins with {best:.2f} GB/s{alike}, {percent:.1f}% more than "
        f"{words(combinations[others[0]])} with {next_best:.2f} GB/s; {seen}."
    )
    return Comparison(collective=collective, winners=tuple(winners), percent=percent, noise=noise, text=text)


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that have no backslash before them; backslashes are kept."""
    pattern = re.compile(rf"(?:\\.|[^\\{separator}])*", re.DOTALL)
    parts, position = [], 0
    while match := pattern.match(text, position):
        end = match.end()
        parts.append(text[position:end])
        if end >= len(text):
            break
        if text[end] != separator:
            raise BadInput(f"--compare ends with a backslash, which must stand before a character: {text!r}")
        position = end + 1
    return parts


def _plain(name: str, value: str) -> str:
    """A value without its backslashes."""
    plain = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL).strip()
    if not plain.isprintable() or len(plain) > LONGEST_VALUE:
        raise BadInput(
            f"--compare: {plain[:40]!r} cannot be a value of {name}: at most {LONGEST_VALUE} printable characters"
        )
    return plain
