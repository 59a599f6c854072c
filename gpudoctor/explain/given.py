"""An answer with the numbers that its lines have in the texts as they were given, before they were put straight."""

from collections.abc import Mapping

from msgspec import structs

from gpudoctor.explain.report import Explanation, Line
from gpudoctor.explain.straight import Straight
from gpudoctor.lazy import lazy_re

NUMBER = lazy_re(r"\bline (\d+)")


def as_given(answer: Explanation, straight: Mapping[str, Straight]) -> Explanation:
    """With the numbers that lines have in the texts as they were given."""
    if not straight:
        return answer

    def given(lines: tuple[Line, ...]) -> tuple[Line, ...]:
        return tuple(
            structs.replace(line, line=straight[line.file].given(line.line)) if line.file in straight else line
            for line in lines
        )

    words = answer.course_words
    if len(answer.files) == 1:
        only = straight[answer.files[0]]
        words = NUMBER.sub(lambda found: f"line {only.given(int(found[1]))}", words)
    return structs.replace(
        answer,
        causes=tuple(structs.replace(cause, evidence=given(cause.evidence)) for cause in answer.causes),
        consequences=given(answer.consequences),
        trouble=given(answer.trouble),
        story=given(answer.story),
        course_words=words,
    )
