"""`python -m tests.corpus.tutorials [-v] [ID...]`: how many lines of tutorials are answered as they were labelled.

With -v what is wrong of tune is shown; keep is only counted. With ids these cases of tune are shown with their answers.
"""

import sys

from tests.corpus.tutorials import tutorial_cases
from tests.corpus.tutorials.score import answer


def main(words: list[str]) -> None:
    wanted = [word for word in words if not word.startswith("-")]
    cases = [each for each in tutorial_cases() if not wanted or (each.id in wanted and each.half == "tune")]
    answers = [answer(case) for case in cases]
    for half in ("keep", "tune"):
        these = [each for each in answers if each.case.half == half]
        right = sum(not each.wrong for each in these)
        accused = sum(each.accuses for each in these)
        print(f"{half}: {right} of {len(these)} as labelled, healthy ones accused {accused}")
        groups = sorted({each.case.group for each in these})
        for group in groups:
            of = [each for each in these if each.case.group == group]
            print(f"  {group:16} {sum(not each.wrong for each in of):3} of {len(of):3}")
        for each in these if half == "tune" and ("-v" in words or wanted) else ():
            if each.wrong:
                print(f"  {each.case.id}: {'; '.join(each.wrong)}")
            if wanted:
                print(each.said)


if __name__ == "__main__":
    main(sys.argv[1:])
