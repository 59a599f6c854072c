"""--compare: what is written becomes settings, runs alternate, and noise is not taken for a winner."""

import re
from math import prod

import pytest
from hypothesis import example, given, strategies as st

from gpudoctor.fleet.messages import may_set
from gpudoctor.nccl.compare_settings import (
    MOST_COMBINATIONS,
    order_of_runs,
    parse_compare,
    settings_of,
    verdict,
    verdicts,
)
from gpudoctor.nccl.result import Compared

NAMES = st.sampled_from(["NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "GLOO_SOCKET_IFNAME", "TORCH_NCCL_BLOCKING_WAIT"])
VALUES = st.text(alphabet="ab0,;=\\^: \"'é", max_size=8).map(str.strip)


def written(values: dict[str, list[str]]) -> str:
    escaped = {name: [re.sub(r"([\\,;])", r"\\\1", value) for value in every] for name, every in values.items()}
    return ";".join(f"{name}={','.join(every)}" for name, every in escaped.items())


@given(
    st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=4, unique=True), min_size=1, max_size=3).filter(
        lambda values: 2 <= prod(map(len, values.values())) <= MOST_COMBINATIONS
    )
)
@example({"NCCL_IB_HCA": ["mlx5_0,mlx5_1", "=mlx5_2"], "NCCL_ALGO": ["", "Ring"]})
def test_what_is_written_is_what_is_run(values: dict[str, list[str]]) -> None:
    combinations = parse_compare(written(values))
    assert len(combinations) == prod(map(len, values.values()))
    for name, every in values.items():
        assert {combination.get(name, "") for combination in combinations} == set(every)
        assert all(combination.get(name) != "" for combination in combinations)
    assert len({tuple(sorted(combination.items())) for combination in combinations}) == len(combinations)


@given(st.one_of(st.text(max_size=60), st.text(alphabet="NCCL_A=12,;\\ \0\n", max_size=40)))
def test_any_text_gives_settings_that_may_be_set_or_one_line(text: str) -> None:
    try:
        combinations = parse_compare(text)
    except ValueError as problem:
        assert str(problem).startswith("--compare")
        assert len(str(problem).splitlines()) == 1
        return
    assert 2 <= len(combinations) <= MOST_COMBINATIONS
    for combination in combinations:
        assert all(may_set(name) and value.isprintable() and value for name, value in combination.items())


def test_an_empty_value_leaves_the_variable_as_it_is() -> None:
    assert parse_compare("NCCL_NVLS_ENABLE=,0") == ({}, {"NCCL_NVLS_ENABLE": "0"})


def test_spaces_and_a_last_semicolon_do_not_matter() -> None:
    assert parse_compare(" NCCL_ALGO = Ring , Tree ; ") == ({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"})


def test_the_first_equals_sign_ends_the_name() -> None:
    assert parse_compare("NCCL_IB_HCA==mlx5_1,^mlx5_1")[0] == {"NCCL_IB_HCA": "=mlx5_1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least two values"),
        ("NCCL_ALGO=Ring", "at least two values"),
        ("NCCL_ALGO", "has no '='"),
        ("LD_PRELOAD=a,b", "cannot set 'LD_PRELOAD'"),
        ("PATH=a,b", "cannot set 'PATH'"),
        ("=a,b", "cannot set ''"),
        ("NCCL_ALGO=Ring,Tree;NCCL_ALGO=Tree", "twice"),
        ("NCCL_ALGO=Ring, Ring", "same value twice"),
        ("NCCL_ALGO=Ring,Tree\\", "backslash"),
        ("NCCL_ALGO=Ring,Tr\nee", "at most 1000 printable characters"),
        ("NCCL_ALGO=Ring,a\0", "at most 1000 printable characters"),
        ("NCCL_ALGO=Ring," + "x" * 1001, "at most 1000 printable characters"),
        ("NCCL_A=1,2,3,4,5;NCCL_B=1,2,3,4", "20 combinations, and at most 16"),
    ],
)
def test_bad_input_gets_one_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_compare(text)


def test_sixteen_combinations_are_run_and_a_huge_product_costs_nothing() -> None:
    assert len(parse_compare("NCCL_A=1,2,3,4;NCCL_B=1,2,3,4")) == 16
    many = ";".join(f"NCCL_{letter}={','.join(map(str, range(50)))}" for letter in "ABCDEFGHIJ")
    with pytest.raises(ValueError, match="at most 16"):
        parse_compare(many)


@given(st.integers(2, 16))
def test_each_runs_twice_and_drift_favours_none(combinations: int) -> None:
    order = order_of_runs(combinations)
    places: dict[int, list[int]] = {}
    for place, index in enumerate(order):
        places.setdefault(index, []).append(place)
    assert sorted(places) == list(range(combinations))
    assert {sum(mine) for mine in places.values()} == {2 * combinations - 1}
    assert all(len(mine) == 2 for mine in places.values())


def test_two_settings_run_in_the_order_abba() -> None:
    assert order_of_runs(2) == (0, 1, 1, 0)


# ---------------------------------------------------------------- the verdict

ALGO = parse_compare("NCCL_ALGO=Ring,Tree,")


def runs(*reached: tuple[int, float], outcome: str = "complete") -> list[tuple[int, Compared]]:
    return [(index, Compared(ALGO[index], {"all_reduce": value}, outcome)) for index, value in reached]


def test_a_difference_beyond_noise_wins() -> None:
    measured = runs((0, 10.0), (1, 20.0), (1, 21.0), (0, 10.2))
    assert verdict(ALGO, measured) == (
        "all_reduce: NCCL_ALGO=Tree wins with 20.50 GB/s, 103.0% more than NCCL_ALGO=Ring with 10.10 GB/s; "
        "runs of the same setting differ by up to 1.00 GB/s."
    )
    (found,) = verdicts(ALGO, measured)
    assert found.winners == (1,)
    lines = settings_of(ALGO, measured)
    assert [line.settings for line in lines] == [*ALGO[:2]]
    assert [line.bus_bandwidth["all_reduce"] for line in lines] == pytest.approx([10.1, 20.5])


def test_a_difference_within_noise_is_none() -> None:
    measured = runs((0, 10.0), (1, 10.5), (1, 10.1), (0, 10.4))
    (found,) = verdicts(ALGO, measured)
    assert set(found.winners) == {0, 1}
    assert "no difference that can be told from noise: 10.20 to 10.30 GB/s" in found.text
    assert "up to 0.40 GB/s" in found.text


def test_several_may_win_together() -> None:
    (found,) = verdicts(ALGO, runs((0, 5.0), (1, 10.0), (2, 10.2), (2, 10.0), (1, 10.1), (0, 5.1)))
    assert set(found.winners) == {1, 2}
    assert "as it is wins with 10.10 GB/s (NCCL_ALGO=Tree alike within noise)" in found.text


def test_a_setting_that_hangs_does_not_win() -> None:
    measured = [*runs((0, 10.0), (1, 20.0), (0, 10.1)), *runs((1, 20.0), outcome="stalled")]
    text = verdict(ALGO, measured)
    assert "only NCCL_ALGO=Ring got through, 10.05 GB/s" in text
    assert "NCCL_ALGO=Tree: 1 of 2 runs did not end as they should (stalled)." in text
    assert [line.outcome for line in settings_of(ALGO, measured)] == ["complete", "stalled"]


def test_without_a_second_run_nothing_wins() -> None:
    (found,) = verdicts(ALGO, runs((0, 10.0), (1, 20.0), (1, 20.0)))
    assert "noise is unknown" in found.text


def test_nothing_measured_is_said() -> None:
    assert verdict(ALGO, []) == "Nothing was measured."
    assert (
        verdicts(ALGO, runs((0, 1.0), outcome="died"))[0].text == "all_reduce: no setting got through all of its runs."
    )
    assert settings_of(ALGO, []) == ()


REACHED = st.lists(st.tuples(st.floats(0.001, 1000), st.floats(0.001, 1000)), min_size=2, max_size=3)


@given(REACHED)
def test_whoever_wins_beats_every_loser_by_more_than_noise(reached: list[tuple[float, float]]) -> None:
    measured = runs(*((index, value) for index, values in enumerate(reached) for value in values))
    (found,) = verdicts(ALGO, measured)
    means = [sum(values) / 2 for values in reached]
    noise = max(abs(one - other) for one, other in reached)
    assert found.noise == pytest.approx(noise)
    assert means[found.winners[0]] == max(means)
    losers = set(range(len(reached))) - set(found.winners)
    assert all(max(means) - means[index] > noise for index in losers)
    assert (found.percent > 0) == bool(losers)
