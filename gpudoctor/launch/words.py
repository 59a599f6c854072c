"""Words for lines that users paste into a shell, and the comments above them.

What is emitted is read back by sh, bash, dash and zsh as exactly the planned words. A line break or a null character
cannot stand in a line to paste and is refused.
"""

from collections.abc import Iterable

from gpudoctor.command import MOST_CHARACTERS, MOST_WORDS, Command, command, joined
from gpudoctor.emit.comments import comment as comment_lines
from gpudoctor.errors import BadInput
from gpudoctor.launch.plan import EnvVariable, LaunchPlan, NodePlan, PasteBlock


class Unquotable(BadInput):
    """A word that no line to paste can hold; the message is one line for the user."""


def check(words: Iterable[str]) -> None:
    """Raise `Unquotable` for the first word that cannot be pasted or passed on."""
    for written in words:
        shown = ascii(written if len(written) <= 60 else written[:60] + "...")
        if "\0" in written:
            raise Unquotable(f"the word {shown} holds a null character, which no argument of a program can")
        if "\n" in written or "\r" in written:
            raise Unquotable(
                f"the word {shown} holds a line break, so that it is no line to paste; put the value into a file that "
                "the script reads"
            )
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in written):
            raise Unquotable(f"the word {shown} holds bytes that are no UTF-8, which a terminal does not paste back")
        if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in written):
            raise Unquotable(f"the word {shown} holds a control character, which a terminal acts on when it is pasted")
        if len(written) > MOST_CHARACTERS:
            raise Unquotable(f"the word {shown} has {len(written)} characters; a line to paste holds {MOST_CHARACTERS}")
        if not written.isprintable():
            raise Unquotable(f"the word {shown} holds a letter that does not show as itself in a terminal")


def word(value: str) -> Command:
    """`value` as one word. Raises `Unquotable`."""
    return line((value,))


def line(words: Iterable[str]) -> Command:
    """A command as one line. Raises `Unquotable`."""
    every = tuple(words)
    check(every)
    said = command("{:arguments}", every)
    if every and not said:
        raise Unquotable(f"a line of {len(every)} words; {MOST_WORDS} can be pasted")
    return said


def prefixed(variables: Iterable[EnvVariable], words: Iterable[str]) -> Command:
    """`A=1 B=2 command ...`: variables for this command only, so that the shell is as before. Raises `Unquotable`."""
    given = tuple(variables)
    check(variable.value for variable in given)
    return joined(
        *(command("{:variable}={:value}", variable.name, variable.value) for variable in given), line(words), by=" "
    )


def comment(text: str) -> str:
    """A text as comment lines (shell, YAML, Python)."""
    return "\n".join(comment_lines(text))


def reasons(variables: Iterable[EnvVariable]) -> list[str]:
    """A comment for each variable that has a reason."""
    return [comment(f"{variable.name}: {variable.reason}") for variable in variables if variable.reason]


def reasons_for(plan: LaunchPlan, node: NodePlan, *first: EnvVariable) -> list[str]:
    """The reasons of a node's variables; those that all nodes share are told once, at the head, with `first`."""
    guessed = [
        comment(f"{name}: as on the nodes that were looked at; this one was not, and may call its devices otherwise.")
        for name in node.guessed
    ]
    return [*reasons((*first, *of_node(plan, node)) if node.rank == 0 else node.environment), *guessed]


def without_leftovers(plan: LaunchPlan, words: list[str], given: Iterable[EnvVariable] = ()) -> list[str]:
    """The command, freed of what an earlier job left in this shell; what stands before it (`given`) has another value
    already, which `env -u` would take out again."""
    replaced = {variable.name for variable in given}
    taken_out = [part for name in plan.leftovers if name not in replaced for part in ("-u", name)]
    return ["env", *taken_out, *words] if taken_out else words


def of_node(plan: LaunchPlan, node: NodePlan) -> tuple[EnvVariable, ...]:
    """The environment of one node: its own values win over those of all."""
    own = {variable.name for variable in node.environment}
    return (*(variable for variable in plan.environment if variable.name not in own), *node.environment)


def title(plan: LaunchPlan, node: NodePlan) -> str:
    """Where a block belongs: "on n01 (node rank 0 of 3)"."""
    if len(plan.nodes) == 1:
        return f"on {node.name}"
    where = f"on {node.name}" if node.known else f"on {node.name}, a node of your choice"
    return f"{where} (node rank {node.rank} of {len(plan.nodes)})"


def rendezvous(plan: LaunchPlan, *more: EnvVariable) -> tuple[EnvVariable, ...]:
    """MASTER_ADDR and MASTER_PORT with their reasons, and what goes with them."""

    def why(name: str) -> str:
        return f"{plan.why[name]}." if plan.why.get(name) else ""

    return (
        EnvVariable("MASTER_ADDR", plan.master_address, why("master_address")),
        EnvVariable("MASTER_PORT", str(plan.master_port), why("master_port")),
        *more,
    )


def head_reasons(plan: LaunchPlan) -> list[str]:
    """Why these processes, this address and this port."""
    labels = {"processes": "Processes", "master_address": "Address", "master_port": "Port"}
    return [comment(f"{label}: {plan.why[name]}.") for name, label in labels.items() if plan.why.get(name)]


def node_block(
    plan: LaunchPlan, node: NodePlan, command: list[str], comments: Iterable[str] = (), *first: EnvVariable
) -> PasteBlock:
    """The command of one node under its comments; `first`: variables besides the plan's own."""
    variables = (*first, *of_node(plan, node))
    text = prefixed(variables, without_leftovers(plan, command, variables))
    return PasteBlock(title(plan, node), "\n".join([*comments, *reasons_for(plan, node, *first), text]), node.rank)
