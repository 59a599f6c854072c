"""The plan for skypilot."""

from gpudoctor.launch.plan import CannotEmit, Emission, LaunchPlan


def emit(plan: LaunchPlan) -> Emission:
    """What to paste. Raises `CannotEmit`."""
    raise CannotEmit("not written yet")
