"""`python -m tests.shown EXAMPLE`: a test's answer as it is shown when it is new; for the pages of docs."""

import sys

from gpudoctor.render.nccl_test import show_result, show_run
from gpudoctor.render.prose import console
from gpudoctor.render.train import show_training
from tests import nccl_examples, train_examples


def main(example: str) -> None:
    screen = console()
    if example in train_examples.EXAMPLES:
        show_training(train_examples.EXAMPLES[example](), screen)
        return
    answer = nccl_examples.EXAMPLES[example]()
    show_run(answer, screen)
    show_result(answer, screen)


if __name__ == "__main__":
    main(sys.argv[1])
