"""nccl/plan.py: sizes, collectives, the backend and the ranks of a node."""

import itertools

import pytest
from hypothesis import example, given, strategies as st

from gpudoctor.fleet.messages import Measurement
from gpudoctor.nccl.plan import (
    COLLECTIVES,
    LARGEST_BYTES,
    SMALLEST_BYTES,
    choose_backend,
    measurements,
    parse_size,
    ranks_for,
    sizes,
)
from gpudoctor.snapshot import Snapshot, absent, missing
from gpudoctor.testing.machines import but, h100_node, unread

GIB = 1 << 30

NO_GPU = but(h100_node(), "nvidia.gpus", absent("nvml", "no NVIDIA driver here"))
NO_GPU = but(NO_GPU, "cuda.visible", absent("libcuda", "no NVIDIA driver here"))
NO_GPU = but(NO_GPU, "host.hostname", "n02")


def brief(machine: Snapshot) -> Snapshot:
    """As the preflight sees a machine: torch's files, no import, no libcuda."""
    machine = but(machine, "training.torch", missing("torch", "not imported", "not-asked"))
    return but(machine, "cuda.visible", missing("libcuda", "not asked", "not-asked"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("8G", 8 * GIB),
        ("64k", 65536),
        ("1.5G", 3 * GIB // 2),
        (" 32 MiB ", 32 << 20),
        ("2MB", 2 << 20),
        ("1T", 1 << 40),
        ("128B", 128),
    ],
)
def test_sizes_are_read_as_nccl_tests_reads_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "-8", "8X", "8e6", "0", "2T", "1_000", "٣", "0x10", "1.G", "nan", "8\n8", "9" * 30]
)
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_size(text)
    assert "\n" not in str(refused.value)
    assert str(refused.value)


@given(st.text(max_size=60))
@example("1.999999999T")
def test_any_text_is_a_size_within_bounds_or_refused(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert SMALLEST_BYTES <= size <= LARGEST_BYTES


def test_sizes_grow_by_the_factor_and_stay_below_the_largest() -> None:
    assert sizes(8, 64, 2) == (8, 16, 32, 64)
    assert sizes(8, 100, 3) == (8, 24, 72)
    assert sizes(32, 32, 2) == (32,)
    assert len(sizes(8, 8 * GIB, 2)) == 31


@given(st.integers(-5, LARGEST_BYTES * 2), st.integers(-5, LARGEST_BYTES * 2), st.integers(-2, 100))
def test_sizes_are_bounded_whatever_is_asked(minimum: int, maximum: int, factor: int) -> None:
    try:
        found = sizes(minimum, maximum, factor)
    except ValueError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert found[0] == minimum
    assert found[-1] <= maximum < found[-1] * factor
    assert all(after == before * factor for before, after in itertools.pairwise(found))


@pytest.mark.parametrize(("minimum", "maximum", "factor"), [(64, 8, 2), (8, 64, 1), (0, 64, 2), (8, 1 << 41, 2)])
def test_impossible_ranges_are_refused(minimum: int, maximum: int, factor: int) -> None:
    with pytest.raises(ValueError):
        sizes(minimum, maximum, factor)


def test_measurements_go_collective_by_collective() -> None:
    assert measurements(["all_gather", "all_reduce", "all_gather"], (8, 16)) == (
        Measurement("all_gather", 8),
        Measurement("all_gather", 16),
        Measurement("all_reduce", 8),
        Measurement("all_reduce", 16),
    )
    with pytest.raises(ValueError, match=r"'gather'.*all_reduce.*send_recv"):
        measurements(["gather"], (8,))


# ---------------------------------------------------------------- ranks


@pytest.mark.parametrize("machine", [h100_node(4), brief(h100_node(4))], ids=["full", "brief"])
def test_every_gpu_of_the_job_gets_a_rank(machine: Snapshot) -> None:
    assert ranks_for(machine, "nccl") == 4
    assert ranks_for(machine, "nccl", 2) == 2
    assert ranks_for(machine, "nccl", settings={"CUDA_VISIBLE_DEVICES": "1,3"}) == 2
    with pytest.raises(ValueError, match=r"8 ranks a node are wanted; a program on .* sees 4 GPUs"):
        ranks_for(machine, "nccl", 8)


def test_the_node_s_own_cuda_visible_devices_counts() -> None:
    machine = but(brief(h100_node(4)), "environment", {"CUDA_VISIBLE_DEVICES": "0"})
    assert ranks_for(machine, "nccl") == 1
    hidden = but(machine, "environment", {"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES='' leaves no GPU"):
        ranks_for(hidden, "nccl")


def test_gloo_needs_no_gpu() -> None:
    assert ranks_for(NO_GPU, "gloo") == 1
    assert ranks_for(NO_GPU, "gloo", nodes=1) == 2
    assert ranks_for(NO_GPU, "gloo", 5) == 5


def test_nccl_without_a_gpu_is_refused_and_unknown_is_said() -> None:
    with pytest.raises(ValueError, match="n02: no NVIDIA GPU"):
        ranks_for(NO_GPU, "nccl")
    unknown = but(brief(h100_node()), "nvidia.gpus", unread("nvml", "driver hangs"))
    with pytest.raises(ValueError, match=r"driver hangs.*--gpus-per-node"):
        ranks_for(unknown, "nccl")
    assert ranks_for(unknown, "nccl", 8) == 8
    with pytest.raises(ValueError):
        ranks_for(h100_node(), "nccl", -1)


# ---------------------------------------------------------------- backend


def test_nccl_where_all_nodes_have_it() -> None:
    for machine in (h100_node(), brief(h100_node())):
        assert choose_backend([machine, machine])[:2] == ("nccl", "cuda")


def test_gloo_with_the_node_that_lacks_something_and_what() -> None:
    backend, device, why = choose_backend([brief(h100_node()), brief(NO_GPU)])
    assert (backend, device, why) == ("gloo", "cpu", "n02: no NVIDIA GPU")
    cpu_torch = brief(h100_node())
    files = cpu_torch.training.torch_files.value
    cpu_torch = but(cpu_torch, "training.torch_files.cuda", None)
    assert choose_backend([cpu_torch])[2].endswith(f"torch {files.version} is built for the CPU only")
    without = but(brief(h100_node()), "training.torch_files", absent("torch", "not installed"))
    assert choose_backend([without])[2].endswith("its Python has no torch")
    unread_torch = but(brief(h100_node()), "training.torch_files", unread("torch", "timed out"))
    assert choose_backend([unread_torch])[2].endswith("its torch could not be read (timed out)")


def test_what_was_asked_for_is_taken_unless_it_cannot_be() -> None:
    assert choose_backend([h100_node()], "gloo")[:2] == ("gloo", "cpu")
    with pytest.raises(ValueError, match=r"--backend nccl cannot run \(n02: no NVIDIA GPU\)"):
        choose_backend([h100_node(), NO_GPU], "nccl")
    unknown = but(brief(h100_node()), "nvidia.gpus", unread("nvml", "driver hangs"))
    backend, _, why = choose_backend([unknown], "nccl")
    assert backend == "nccl" and "driver hangs" in why


def test_the_settings_of_the_launch_hide_gpus_too() -> None:
    backend, _, why = choose_backend([h100_node()], settings={"CUDA_VISIBLE_DEVICES": "-1"})
    assert backend == "gloo" and "CUDA_VISIBLE_DEVICES='-1' leaves no GPU" in why


def test_the_rank_program_knows_every_collective_of_the_plan() -> None:
    import ast
    from pathlib import Path

    source = (Path(__file__).parent.parent / "gpudoctor" / "workers" / "collective_kinds.py").read_text()
    table = next(
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "KINDS"
    )
    assert isinstance(table, ast.Dict)
    assert tuple(ast.literal_eval(key) for key in table.keys if key) == COLLECTIVES
