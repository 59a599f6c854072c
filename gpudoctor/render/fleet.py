"""A `Survey` on a terminal: who could not be examined, what differs, what is wrong with whom."""

from rich.console import Console

from gpudoctor.fleet.compare import NOT_SET, Difference
from gpudoctor.fleet.names import folded, have
from gpudoctor.fleet.survey import NodesProblem, Survey
from gpudoctor.knowledge.wording import counted
from gpudoctor.render.prose import show, show_command
from gpudoctor.render.terminal import COLORS, show_problem

OWN_LINES = 6
"""Nodes whose own words are shown where they differ; --json has all."""
OTHER_VALUES = 6
BLIND_LINES = 6
WAYS = {"ssh": " through ssh", "srun": " through srun", "join": "", "local": ""}


def show_survey(survey: Survey, screen: Console) -> None:
    """Everything, the verdict last: it is what stays on the screen."""
    way = WAYS.get(survey.reached_by, "")
    show(f"{counted(len(survey.examined), 'node')} examined{way} in {survey.seconds:.1f} s", screen)
    for lost in survey.unexamined:
        screen.print()
        show_problem(lost.problem, lost.id, screen)
    if survey.differences:
        screen.print()
        show("Differs from most nodes:", screen, style="bold yellow")
        for difference in survey.differences:
            show(difference_line(difference), screen, indent=2)
    for found in survey.problems:
        screen.print()
        _show_problem(found, len(survey.examined), screen)
    _show_blind(survey, screen)
    screen.print()
    show(verdict(survey), screen, style=_style(survey))


def difference_line(difference: Difference) -> str:
    """ "driver: n03 has 550.54, n05 could not tell (nvml: no permission); 14 nodes have 580.95"."""
    rare = [_has(have(group.nodes), folded(group.nodes), group.value) for group in difference.others[:OTHER_VALUES]]
    if len(difference.others) > OTHER_VALUES:
        more = difference.others[OTHER_VALUES:]
        rare.append(f"{counted(sum(len(group.nodes) for group in more), 'node')} more have {len(more)} other values")
    rare += [f"{folded(group.nodes)} could not tell ({group.value})" for group in difference.unread[:OTHER_VALUES]]
    count = counted(difference.count, "node")
    usual = _has(f"{count} {'has' if difference.count == 1 else 'have'}", count, difference.majority)
    return f"{difference.fact}: {', '.join(rare)}; {usual}"


def _has(who_has: str, who: str, value: str) -> str:
    return f"not set on {who}" if value == NOT_SET else f"{who_has} {value}"


def _show_problem(found: NodesProblem, nodes: int, screen: Console) -> None:
    problem = found.problem
    everywhere = nodes > 1 and len(found.nodes) == nodes
    who = f"all {nodes} nodes" if everywhere else folded(found.nodes)
    if not found.summaries:
        show(
            f"{problem.severity} {who}: {problem.summary}  [{found.check}]",
            screen,
            style="bold",
            head=COLORS[problem.severity],
        )
    else:
        show(f"{problem.severity} {who}:  [{found.check}]", screen, style="bold", head=COLORS[problem.severity])
        for node, summary in list(found.summaries.items())[:OWN_LINES]:
            show(f"{node}: {summary}", screen, indent=2, style="bold")
        if len(found.summaries) > OWN_LINES:
            show(f"and {len(found.summaries) - OWN_LINES} more nodes (--json lists them)", screen, indent=2)
    show(problem.meaning, screen, indent=2)
    first = f" (on {found.nodes[0]}; its values)" if len(found.nodes) > 1 else f" (on {found.nodes[0]})"
    show(f"Fix{first if problem.fix.commands else ''}: {problem.fix.text}", screen, indent=2)
    for command in problem.fix.commands:
        show_command(command, screen)


def _show_blind(survey: Survey, screen: Console) -> None:
    if not survey.blind:
        return
    screen.print()
    show("Could not look:", screen, style="bold magenta")
    for group in survey.blind[:BLIND_LINES]:
        show(f"{folded(group.nodes)}: {group.value}", screen, indent=2, style="dim")
    if len(survey.blind) > BLIND_LINES:
        show(f"and {counted(len(survey.blind) - BLIND_LINES, 'more reason')} (--json lists them)", screen, indent=2)


def verdict(survey: Survey) -> str:
    """The verdict in words, with its numbers."""
    every = len(survey.nodes)
    lost = [node for each in survey.unexamined for node in each.nodes]
    if not survey.examined:
        return f"Unknown: {f'none of {every} nodes could' if every > 1 else f'{folded(lost)} could not'} be examined"
    faulty = {node for each in survey.problems if each.problem.severity == "error" for node in each.nodes}
    warned = {node for each in survey.problems if each.problem.severity == "warning" for node in each.nodes} - faulty
    parts = [
        f"errors on {folded(_ordered(survey, faulty))}" if faulty else "",
        f"{folded(_ordered(survey, set(lost)))} not examined" if lost else "",
        f"warnings on {folded(_ordered(survey, warned))}" if warned else "",
        f"{counted(len(survey.differences), 'difference')} between nodes" if survey.differences else "",
        "checks that could not look" if survey.blind else "",
    ]
    said = ", ".join(part for part in parts if part)
    if faulty or lost:
        return f"Not ready to train: {said}"
    return f"{counted(every, 'node')} ready to train" + (f", with {said}" if said else "")


def _ordered(survey: Survey, some: set[str]) -> list[str]:
    return [node for node in survey.nodes if node in some]


def _style(survey: Survey) -> str:
    status = survey.exit_status(strict=True)
    return "bold green" if status == 0 else "bold yellow" if survey.exit_status() == 0 else "bold red"
