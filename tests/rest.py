"""Cases of the lab that run on wish: `python -m pytest --rest`, or by their name.

Each is a case of a kind of which others run always, and takes seconds of real processes. All that is here is what runs
always: a case that is added to one of these tests runs on wish until it is named.
"""

from collections.abc import Iterable, Sequence

import pytest

ALWAYS: dict[str, tuple[str, ...]] = {
    "test_amp_worker.py::test_a_fault_of_bf16_is_found_and_named": (
        "no-op",
        "one layer in fp32",
        "wrong gradient",
        "nan",
    ),
    "test_amp_worker.py::test_a_scaler_that_does_not_do_its_work_is_a_failure": ("never skips", "scales twice"),
    "test_cli_nccl_test.py::test_an_interrupted_test_says_what_it_measured_and_leaves_no_process": ("2",),
    "test_cli_train_test.py::test_an_interrupted_test_says_what_it_trained_and_leaves_no_process": ("15",),
    "test_env_oracle.py::test_nccl_does_what_env_says": (
        "RoCE alone",
        "eight rails",
        "rails and storage",
        "one interface",
        "Kubernetes'",
        "podman's",
    ),
    "test_fleet_ssh.py::test_nothing_is_left_on_any_host_when_the_head_ends": ("9-run", "2-wait", "15-run"),
    "test_hang_lab.py::test_a_hanging_job": (
        *("different_groups", "early_continue", "group_of_some", "holds_gil", "loader_deadlock", "order_of_metrics"),
        *("out_of_memory", "reads_fifo", "sleeps", "stops", "swallowed_exception", "uneven_batches"),
    ),
    "test_hang_lab.py::test_a_hanging_job_on_three_hosts": ("stops",),
    "test_hang_lab.py::test_a_job_as_users_write_them": ("guard_table", "saves_what_failed"),
    "test_hang_lab.py::test_a_slow_but_living_job": (
        *("breakpoint_left", "evaluate_on_rank0", "loader_deadlock", "sleeps", "slow_checkpoint"),
    ),
    "test_hang_lab.py::test_an_armed_job_shows_its_flight_recorder": ("different_shapes", "early_continue"),
    "test_hang_start_lab.py::test_its_healthy_twin_is_not_blamed": ("wrong-interface",),
    "test_hang_start_lab.py::test_the_cause_is_named_first": (
        *("a-node-is-not-started", "firewall", "master-address", "node-rank"),
    ),
    "test_launch_lab.py::test_slurm": ("train.sbatch",),
    "test_launch_lab.py::test_spawn": ("one",),
    "test_launch_lab.py::test_torchrun_c10d_on_three_hosts": ("head-is-127.0.1.1",),
    "test_launch_verify.py::test_what_is_wrong_on_one_host": ("a blocked port", "a clock"),
    "test_launch_verify.py::test_what_is_wrong_with_a_plan": ("changes1-address owner-a-10.0.0.",),
    "test_lint_runs.py::test_a_bad_start_ends_as_its_rule_says_and_a_good_one_trains": ("M02", "Q02", "V03"),
    "test_nccl_lab.py::test_a_slow_host_is_found": ("abc",),
    "test_nccl_lab.py::test_the_preflight_names": (  # the faults themselves: tests/test_preflight_lab.py
        *("another torch", "gpudoctor missing", "host down", "only ssh gets to b"),
    ),
    "test_nccl_lab.py::test_three_nodes_of_slurm": ("sbatch",),
    "test_nccl_lab_middle.py::test_a_signal_to_the_head_ends_everything": ("15",),
    "test_nccl_lab_middle.py::test_what_happens_in_the_middle_is_named": ("a rank is killed", "a rank is stopped"),
    "test_nccl_oracle.py::test_nccl_does_as_we_say": (
        *("file: comment", "files: homes", "hcas: one closed", "hcas: rails and storage", "interfaces: mixed"),
        *("interfaces: two", "paths: PCIe switches", "paths: flat in a VM", "hcas: with a RoCE port", "hcas: none"),
        *("interfaces: NCCL_COMM_ID", "gids: IPv6 only", "transports: two of one root", "errors: verbs"),
    ),
    "test_run.py::test_status_and_output_are_what_they_are_without_us": (
        *("0", "77", "TERM", "KILL", "INT", "PIPE", "much", "input", "terminals", "surroundings", "words"),
    ),
    "test_run_nodes_before.py::test_four_nodes_and_a_fault_of_one": ("none", "large packets of n4"),
    "test_run_together.py::test_a_doctor_that_is_killed_hurts_no_job_and_the_other_says_so": ("1",),
    "test_visible_devices.py::test_agrees_with_the_fake_driver": ("8xH100", "MIG", "mixed"),
}
"""The cases of a parametrized test that always run, by file and function."""


def on_wish(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those that are left out where nobody asks for them."""
    return [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and (test := f"{item.path.name}::{item.originalname}") in ALWAYS
        and item.callspec.id not in ALWAYS[test]
    ]


def is_named(words: Sequence[str], keyword: str) -> bool:
    """Whether somebody asks for single tests: all that this names are to run."""
    return bool(keyword) or any("::" in word for word in words)
