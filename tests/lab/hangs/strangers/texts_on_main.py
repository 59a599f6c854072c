"""What all have generated is gathered where it is printed (accelerate issue 2733)."""

import time

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed


def answer(prompt: str) -> str:
    time.sleep(0.1)
    return prompt[::-1]


def main() -> None:
    set_seed(3)
    distributed_state = Accelerator(cpu=True)
    prompts = [f"question {number}" for number in range(12)]
    for round_ in range(100):
        with distributed_state.split_between_processes(prompts) as mine:
            answers = [answer(prompt) for prompt in mine]
        print(f"rank {distributed_state.process_index} step {round_}", flush=True)
        scores = distributed_state.reduce(torch.tensor([float(len(answers))]))
        if distributed_state.is_main_process and round_ == 3:
            texts = gather_object(answers)
            print(scores.item(), texts[0], flush=True)


if __name__ == "__main__":
    main()
