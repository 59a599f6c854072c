"""A `Survey` on a terminal: who could not be examined, what differs, what is wrong with whom."""

from msgspec.structs import replace
from rich.console import Console

from gpudoctor.culprits import OneTrouble, culprits
from gpudoctor.fleet.names import briefly, folded
from gpudoctor.fleet.survey import NodesProblem, Survey
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.render.prose import COLORS, show, show_page
from gpudoctor.render.terminal import ALL, BRIEF, show_briefly, show_fix, show_problem

OWN_LINES = 6
"""Nodes whose own words are shown where they differ; --json has all."""
BLIND_LINES = 6
BRIEF_BLIND_LINES = 3
LACKING = 3
WAYS = {"ssh": " through ssh", "srun": " through srun", "join": "", "local": ""}


def show_survey(survey: Survey, screen: Console, verbosity: int = BRIEF) -> None:
    """Nodes that nothing is known of, what differs, a line a culprit with the nodes that have it, the verdict last."""
    gathered = culprits(
        [(problem.check, problem) for problem in survey.problems],
        lambda nodes_problem: nodes_problem.problem,
        places_of,
    )

    def draw() -> None:
        way = WAYS.get(survey.reached_by, "")
        show(f"{counted(len(survey.examined), 'node')} examined{way} in {survey.seconds:.1f} s", screen, style="bold")
        if verbosity == BRIEF and (survey.unexamined or gathered):
            screen.print()
        for lost in survey.unexamined:
            if verbosity == BRIEF:
                show_briefly(OneTrouble(lost.id, lost, lost.problem.severity), lost.problem, screen)
            else:
                screen.print()
                show_problem(lost.problem, lost.id, screen)
        for trouble in gathered:
            if verbosity == BRIEF:
                _show_briefly(trouble, len(survey.examined), screen)
            else:
                screen.print()
                _show_problem(trouble.leads, len(survey.examined), screen)
                for id, other in trouble.others:
                    show(
                        f"From the same: {who_of(other, len(survey.examined))}: {what_of(other)}  [{id}]",
                        screen,
                        indent=2,
                    )
        if survey.differences:
            screen.print()
            show("Differs from most nodes:", screen, style="bold yellow")
            for difference in survey.differences:
                show(difference.words, screen, indent=2)
        _show_blind(survey, screen, verbosity)

    show_page(screen, draw, lambda: show(verdict(survey), screen, style=_style(survey)))


def places_of(problem: NodesProblem) -> set[object]:
    """Each GPU of each node. Where the nodes have it each in its own way, on which of their GPUs is not known."""
    gpus = problem.problem.gpus or (None,)
    return {problem.nodes} if problem.summaries else {(node, gpu) for node in problem.nodes for gpu in gpus}


def who_of(problem: NodesProblem, nodes: int) -> str:
    """Which nodes have it, of so many."""
    return f"all {nodes} nodes" if nodes > 1 and len(problem.nodes) == nodes else folded(problem.nodes)


def what_of(problem: NodesProblem) -> str:
    """The summary; where each node has its own, the first one's."""
    return f"on {problem.nodes[0]} {problem.problem.summary}" if problem.summaries else problem.problem.summary


def _show_briefly(gathered: OneTrouble[NodesProblem], nodes: int, screen: Console) -> None:
    problem = gathered.leads
    of_one = f"on {problem.nodes[0]}, " if problem.problem.fix.commands else ""
    show_briefly(
        gathered,
        replace(problem.problem, summary=what_of(problem)),
        screen,
        who=f"{who_of(problem, nodes)}: ",
        where=of_one,
    )


def _show_problem(nodes_problem: NodesProblem, nodes: int, screen: Console) -> None:
    problem = nodes_problem.problem
    who = who_of(nodes_problem, nodes)
    if not nodes_problem.summaries:
        show(
            f"{problem.severity} {who}: {problem.summary}  [{nodes_problem.check}]",
            screen,
            style="bold",
            head=COLORS[problem.severity],
        )
    else:
        show(
            f"{problem.severity} {who}, each in its own way:  [{nodes_problem.check}]",
            screen,
            style="bold",
            head=COLORS[problem.severity],
        )
        for node, summary in list(nodes_problem.summaries.items())[:OWN_LINES]:
            show(f"{node}: {summary}", screen, indent=2, style="bold")
        if len(nodes_problem.summaries) > OWN_LINES:
            show(f"and {len(nodes_problem.summaries) - OWN_LINES} more nodes (--json lists them)", screen, indent=2)
    show(problem.meaning, screen, indent=2)
    first = (
        f" (on {nodes_problem.nodes[0]}; its values)"
        if len(nodes_problem.nodes) > 1
        else f" (on {nodes_problem.nodes[0]})"
    )
    show_fix(problem.fix, screen, f"Fix{first if problem.fix.commands else ''}")


def _show_blind(survey: Survey, screen: Console, verbosity: int) -> None:
    if not survey.blind:
        return
    screen.print()
    show("Could not look:", screen, style="bold magenta")
    shown = survey.blind[: (BRIEF_BLIND_LINES, BLIND_LINES, len(survey.blind))[min(verbosity, ALL)]]
    for group in shown:
        show(f"{folded(group.nodes)}: {group.value}", screen, indent=2, style="dim")
    if len(survey.blind) > len(shown):
        show(f"and {counted(len(survey.blind) - len(shown), 'more reason')} (-vv lists them)", screen, indent=2)


def verdict(survey: Survey) -> str:
    """The verdict in words, with its numbers."""
    every = len(survey.nodes)
    lost = [node for unexamined in survey.unexamined for node in unexamined.nodes]
    if not survey.examined:
        who = f"none of {every} nodes could" if every > 1 else f"{folded(lost)} could not"
        return f"Not ready to train: {who} be examined"
    faulty = {node for problem in survey.problems if problem.problem.severity == "error" for node in problem.nodes}
    warned = {
        node for problem in survey.problems if problem.problem.severity == "warning" for node in problem.nodes
    } - faulty
    parts = [
        f"errors on {briefly(_ordered(survey, faulty))}" if faulty else "",
        f"{briefly(_ordered(survey, set(lost)))} not examined" if lost else "",
        f"warnings on {briefly(_ordered(survey, warned))}" if warned else "",
        f"{counted(len(survey.differences), 'difference')} between nodes" if survey.differences else "",
        "checks that could not look" if survey.blind else "",
    ]
    said = ", ".join(part for part in parts if part)
    if faulty or lost:
        return f"Not ready to train: {said}"
    if survey.lacking:
        lacking = "; ".join(f"{folded(group.nodes)}: {group.value}" for group in survey.lacking[:LACKING])
        more = len(survey.lacking) - LACKING
        return f"Cannot tell: {lacking}" + (f"; and {more} more (--json lists them)" if more > 0 else "")
    if survey.selected or survey.left_out:
        of = listed(survey.selected) or "all checks"
        left = f"; {listed(survey.left_out)} was not asked" if survey.left_out and not survey.selected else ""
        return f"{counted(every, 'node')}, {of}: " + (f"no error, {said}" if said else "nothing wrong") + left
    return f"{counted(every, 'node')} ready to train" + (f", with {said}" if said else "")


def _ordered(survey: Survey, some: set[str]) -> list[str]:
    return [node for node in survey.nodes if node in some]


def _style(survey: Survey) -> str:
    status = survey.status(strict=True)
    if survey.verdict == "cannot tell":
        return "bold magenta"
    return "bold green" if status == 0 else "bold yellow" if survey.exit_status == 0 else "bold red"
