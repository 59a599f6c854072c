"""Shell texts, parsed by tree-sitter-bash and followed as far as they are static: text -> invocations.

`parse` gives the tree, `follow` walks it with `variables`, `expand` makes of a word what the program gets, `wrappers`
know what srun, ssh, env or `bash -c` start. `source` says for each character where it stands in the user's text.
"""

from msgspec import Struct, structs

from gpudoctor.lint.model import Invocation, LintFacts, SbatchOption, TextSection


class Shell(Struct, frozen=True, kw_only=True):
    """What the shell parts of a text do."""

    invocations: tuple[Invocation, ...] = ()
    """In the order in which they would run; wrappers (srun, env, bash -c) before what they start, which has them in
    `within`. A `for` over known words comes once for each value. Commands inside `$(...)` are not among them."""
    every_sbatch: tuple[SbatchOption, ...] = ()
    files: tuple[TextSection, ...] = ()
    """Files that the text writes itself: `cat > hostfile <<EOF`."""
    notes: tuple[str, ...] = ()
    has_unread_source: bool = False
    """A file is sourced that is not here: it may set anything."""


def invocations(text: str, sections: tuple[TextSection, ...], facts: LintFacts, batch: bool) -> Shell:
    """Every command of the sections that are not files; never raises.

    `batch`: the text is what sbatch runs, on the first node only. Spans are offsets into `text`. What a section for
    every node sets holds in the sections after it.
    """
    from gpudoctor.lint.shell.context import Context
    from gpudoctor.lint.shell.follow import Follower
    from gpudoctor.lint.shell.platform import told_by_header
    from gpudoctor.lint.shell.sbatch import lines_of
    from gpudoctor.lint.shell.source import ShellSource
    from gpudoctor.lint.shell.variables import Variables

    follower = Follower(text)
    for section in sections:
        if section.kind == "file":
            follower.files[section.name.rsplit("/", 1)[-1]] = ShellSource.of_text(
                section.text, follower.lines, section.start
            )
    every = Variables(facts)
    own: dict[tuple[str, int | None], Variables] = {}
    for index, section in enumerate(sections):
        if section.kind == "file":
            continue
        source = ShellSource.of_text(section.text, follower.lines, section.start)
        if section.kind == "every":
            variables = every
        else:
            variables = own.setdefault(
                (section.kind, section.node if section.kind == "node" else section.job), every.copy()
            )
        header = lines_of(source)
        variables.platform = told_by_header(header, facts)
        before = len(follower.heredocs)
        follower.text(source, variables, Context(section=index, where="batch" if batch else "node"))
        written = follower.heredocs[before:]
        follower.every_sbatch += [
            option for option in header if not any(start <= option.span.start < end for start, end in written)
        ]
    return Shell(
        invocations=tuple(follower.invocations),
        every_sbatch=tuple(follower.every_sbatch),
        files=tuple(
            structs.replace(each, is_part=True) if each.name in follower.added_to else each for each in follower.written
        ),
        notes=tuple(follower.notes),
        has_unread_source=follower.has_unread_source,
    )
