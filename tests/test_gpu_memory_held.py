"""Who holds a GPU's memory is told in words: a reader decides by them what to kill."""

from gpudoctor.check import Problem
from gpudoctor.diagnose import ask
from gpudoctor.snapshot import GpuProcess, Snapshot, StuckProcess, read
from gpudoctor.testing.machines import GIB, MIB, but, nvml, unread
from gpudoctor_checks.gpu.gpu_memory_held import gpu_memory_held
from tests.gpu_machines import one, process


def said(machine: Snapshot) -> Problem:
    (problem,) = ask(gpu_memory_held, machine).problems
    return problem


def held(*processes: GpuProcess, used: int = 40) -> Snapshot:
    return one(memory_used_bytes=nvml(used * GIB), processes=nvml(processes))


def test_a_visible_process_is_named_and_can_be_ended() -> None:
    problem = said(held(process(4711, 40 * GIB)))
    assert problem.summary.endswith("(pid 4711 user ann python train.py 40.0 GiB)")
    assert "`kill 4711`" in problem.fix.text
    assert problem.meaning.endswith("perhaps only after a while.")


def test_a_pid_of_the_host_is_never_offered_for_killing_inside_a_container() -> None:
    problem = said(held(process(4711, 40 * GIB, hidden=True)))
    assert problem.summary.endswith("(pid 4711 40.0 GiB)")
    assert "kill" not in problem.fix.text and "on the host" in problem.fix.text
    assert "not visible from here" in problem.meaning


def test_the_largest_come_first_and_the_rest_is_counted() -> None:
    problem = said(held(*(process(pid, pid * GIB) for pid in (1, 2, 5, 3)), used=11))
    assert [problem.summary.index(f"pid {pid} ") for pid in (5, 3, 2)] == sorted(
        problem.summary.index(f"pid {pid} ") for pid in (5, 3, 2)
    )
    assert problem.summary.endswith("; and 1 more)")


def test_memory_is_not_called_unaccounted_when_a_process_does_not_tell_its_own() -> None:
    problem = said(held(process(7, None)))
    assert problem.summary.endswith("(pid 7 user ann python train.py)")


def test_what_no_visible_process_holds_is_blamed_on_the_likeliest() -> None:
    machine = held()
    assert "hangs in the driver" in said(machine).meaning
    assert "outside this container" in said(but(machine, "host.private_pid_namespace", True)).meaning
    stuck = read("/proc", (StuckProcess(812, "python", "Z"),))
    assert "812 (python, state Z)" in said(but(machine, "host.stuck_processes", stuck)).meaning
    assert said(but(machine, "host.stuck_processes", stuck)).evidence[-1] == stuck


def test_an_unreadable_list_of_processes_is_said_and_not_taken_for_an_empty_one() -> None:
    machine = one(memory_used_bytes=nvml(40 * GIB), processes=unread("nvml", "permission denied"))
    assert "could not be read: permission denied" in said(machine).meaning


def test_memory_below_the_limit_is_nobodys_business() -> None:
    """Not even when a process claims more than is in use, as it can while it ends."""
    machine = one(memory_used_bytes=nvml(1900 * MIB), processes=nvml((process(7, 3 * GIB),)))
    assert ask(gpu_memory_held, machine).outcome == "ok"


def test_what_the_doctor_itself_holds_does_not_count() -> None:
    machine = held(process(7, 3 * GIB), process(8, 37 * GIB, own=True))
    assert "3.0 of 79.6 GiB" in said(machine).summary
