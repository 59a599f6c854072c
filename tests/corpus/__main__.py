"""`python -m tests.corpus [-v] [ID...]`: how many logs that nobody had seen `explain` answers rightly, tune and keep.
`python -m tests.corpus starts [-v] [by] [only=GROUP] [ID...]`: the same for `lint`, of starts; with `by`, where bad
ones are found.
`python -m tests.corpus cut [-v]`: what is said of the logs spoilt, as without their decisive lines.
`python -m tests.corpus train`: the table by whose words classes are told where nothing else tells one, made anew.
`python -m tests.corpus families [-v]`, `messages [-v]`: the messages of families.txt, of messages.txt, by shape.

With -v each tune case that is wrong is shown, with what is wrong; keep is only counted (a rule that is written for a
case of keep would be a crib). With ids these tune cases are shown with their answers. `only=fresh` asks the files
alone whose names begin so: the fresh logs were labelled when the tables already stood.
"""

import sys

from tests.corpus import families
from tests.corpus.cases import cases
from tests.corpus.cut import cut, table as table_of_cuts
from tests.corpus.score import Scored, agreed, first_choices, majority, score


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["starts"]:
        _starts(arguments[1:])
        return
    if arguments == ["train"]:
        from tests.corpus import train

        train.FILE.write_text(train.table(), encoding="utf-8", newline="\n")
        return
    if arguments[:1] in (["families"], ["messages"]):
        answers = list(families.said(families.DRAWN if arguments[0] == "messages" else families.FILE))
        print(*families.table(answers), sep="\n")
        for answer in answers if "-v" in arguments else ():
            if answer.message.half == "tune" and not answer.right:
                print(
                    f"{answer.shape}, {answer.message.speaker}: {answer.class_ or 'nothing'}: {answer.message.text!r}"
                )
        return
    if arguments[:1] == ["cut"]:
        only = tuple(each.removeprefix("only=") for each in arguments if each.startswith("only="))
        cuts = list(cut(case for case in cases() if not only or case.kind.startswith(only)))
        print(*table_of_cuts(cuts), sep="\n")
        for one in cuts if "-v" in arguments else ():
            if one.case.half == "tune" and one.rest and one.outcome.startswith("another, likely"):
                print(f"{one.case.id}, {one.way}: {one.whole.cause}, and now {one.rest.cause} ({one.rest.summary})")
        return
    kinds = tuple(each.removeprefix("only=") for each in arguments if each.startswith("only="))
    wanted = [each for each in arguments if not each.startswith(("-", "only="))]
    asked = [case for case in cases() if not kinds or case.kind.startswith(kinds)]
    scored = [score(case) for case in asked if not wanted or (case.id in wanted and case.half == "tune")]
    if wanted:
        for each in scored:
            print(f"== {each.case.id}: {each.wrong or 'right'}\n{each.answer}")
        return
    for half in ("tune", "keep"):
        _table(half, [each for each in scored if each.case.half == half])
    if "-v" in arguments:
        for each in scored:
            if each.wrong and each.case.half == "tune":
                print(f"{each.case.id}: {each.wrong}")
            if each.wrong_and_sure and each.case.half == "tune":
                print(f"{each.case.id}: wrong and sure")
            if each.case.fix and not each.fixes and each.case.half == "tune":
                print(f"{each.case.id}: another fix: wanted {each.case.fix}")
            named = each.case.verdict == "cause" and not each.right_class
            if named and each.case.half == "tune":
                print(f"{each.case.id}: class {each.class_ or 'none'} and not {each.case.class_}")


def _starts(arguments: list[str]) -> None:
    from tests.corpus.starts import score as of_starts, starts

    wanted = [each for each in arguments if not each.startswith(("-", "only=")) and each != "by"]
    groups = tuple(each.removeprefix("only=") for each in arguments if each.startswith("only="))
    every = (each for each in starts() if not groups or each.group.startswith(groups))
    asked = [each for each in every if not wanted or (each.id in wanted and each.half == "tune")]
    scored = [of_starts.score(each) for each in asked]
    for half in ("tune", "keep") if not wanted else ():
        these = [each for each in scored if each.start.half == half]
        print(f"{half}:", *(of_starts.by(these) if "by" in arguments else of_starts.table(these)), sep="\n")
    for each in scored:
        if each.start.half == "tune" and (wanted or ("-v" in arguments and each.wrong)):
            print(f"{each.start.id}: {each.wrong or 'right'}")
            if wanted:
                print(of_starts.given(each.start).text, each.start.cause, each.report, sep="\n")


def _table(half: str, scored: list[Scored]) -> None:
    print(f"{half}:")
    for kind in sorted({each.case.kind for each in scored}):
        these = [each for each in scored if each.case.kind == kind]
        print(f"  {kind:16} {sum(not each.wrong for each in these):3} of {len(these)}")
    for decidable in ("text", "family"):
        these = [each for each in scored if each.case.decidable == decidable and each.case.verdict == "cause"]
        right = sum(each.right_class for each in these)
        near = sum(each.near_class for each in these)
        share = f"{right / max(1, len(these)):.0%}; nearest: {near}"
        print(f"  right class where {decidable} decides: {right} of {len(these)} ({share})")
        _by_two_readers([each for each in these if each.case.second])
        _by_three_readers(these)
    labelled = [each for each in scored if each.case.blame]
    blamed = sum(each.blame == each.case.blame for each in labelled)
    restarted = sum(each.restart == each.case.restart for each in labelled)
    print(f"  right blame: {blamed} of {len(labelled)}; right restart: {restarted} of {len(labelled)}")
    advised = [each for each in scored if each.case.fix]
    print(f"  the fix tells what solved it: {sum(each.fixes for each in advised)} of {len(advised)}")
    sure = sum(each.wrong_and_sure for each in scored)
    print(f"  wrong, and called likely or surer: {sure} of {len(scored)}")
    failed = [each for each in scored if each.case.verdict != "healthy"]
    print(f"  {'right':16} {sum(not each.wrong for each in scored):3} of {len(scored)}")
    print(f"  failed, but called healthy: {sum(each.status == 0 for each in failed)} of {len(failed)}")
    healthy = [each for each in scored if each.case.verdict == "healthy"]
    print(f"  healthy, but accused: {sum(each.status == 1 for each in healthy)} of {len(healthy)}")


def _by_two_readers(these: list[Scored]) -> None:
    if not these:
        return
    both = [each for each in these if agreed(each.case)]
    within = sum(agreed(each.case, None) for each in these)
    print(
        f"  two readers: the same class in {_share(len(both), these)}; the first's is one of the second's in {within}"
    )
    either = sum(each.right_class or each.right_by_second for each in these)
    second = sum(each.right_by_second for each in these)
    print(f"  right class where both agree: {_share(sum(each.right_class for each in both), both)}")
    print(f"  right class by either reader: {_share(either, these)}; by the second alone: {_share(second, these)}")


def _by_three_readers(these: list[Scored]) -> None:
    """Of tune the third has read only where the first two part, or the second has not read: no share of all of it."""
    if not any(each.case.third for each in these):
        return
    read = [first_choices(each.case) for each in these if each.case.second and each.case.third]
    alike = sum(bool(one & two & three) for one, two, three in read)
    parted = sum(not (one & two or one & three or two & three) for one, two, three in read)
    pairs = ", ".join(str(sum(bool(all_of[a] & all_of[b]) for all_of in read)) for a, b in ((0, 1), (0, 2), (1, 2)))
    print(
        f"  three readers of {len(read)}: all choose the same class in {alike}, no two in {parted}; "
        f"first and second, first and third, second and third in {pairs}"
    )
    told = [each for each in these if majority(each.case)]
    right = sum(each.class_ in majority(each.case) for each in told)
    print(
        f"  right class by the majority of readers: {_share(right, told)}; "
        f"without a majority: {len(these) - len(told)} of {len(these)}"
    )


def _share(count: int, these: list[Scored]) -> str:
    return f"{count} of {len(these)}" + (f" ({count / len(these):.0%})" if these else "")


if __name__ == "__main__":
    main(sys.argv[1:])
