"""accelerate: prompts are split between the processes, and each answer is gathered as it comes."""

# mypy: ignore-errors
# The kind of accelerate threads on split_between_processes (a number of prompts that the processes do not divide).
import sys
import time

import torch
from accelerate import PartialState
from accelerate.utils import gather_object

DIVIDES = "--healthy" in sys.argv


class Writer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    @torch.no_grad()
    def answer(self, prompt: str) -> str:
        time.sleep(0.25)
        return f"{prompt} {self.layer(torch.rand(4)).argmax().item()}"


def rounds():
    """A round of review: what has come in since the last one."""
    for number in range(400):
        yield number, [f"prompt {number}.{n}" for n in range(4 if number < 3 or DIVIDES else 5)]


def main() -> None:
    state = PartialState(cpu=True)
    writer = Writer().eval()
    for number, prompts in rounds():
        texts = []
        with state.split_between_processes(prompts) as mine:
            for prompt in mine:
                texts += gather_object([writer.answer(prompt)])
        state.wait_for_everyone()
        print(f"rank {state.process_index} step {number}", flush=True)
        if state.is_main_process:
            with open("answers.txt", "a") as file:
                file.writelines(f"{text}\n" for text in texts)


if __name__ == "__main__":
    main()
