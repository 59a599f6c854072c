"""accelerate: a batch of the evaluation without any answer to score is left out, before its metrics are gathered."""

# mypy: ignore-errors
# The kind of https://github.com/huggingface/accelerate/issues/2785: gather_for_metrics is not called by all.
import sys
import time

import torch
from accelerate import Accelerator

IGNORED = -100


def questions(rank):
    labels = torch.randint(0, 4, (96, 3))
    if "--healthy" not in sys.argv:
        labels[40:48] = IGNORED
    return torch.utils.data.TensorDataset(torch.rand(96, 5), labels)


def scored(accelerator, head, loader):
    for number, (inputs, labels) in enumerate(loader):
        time.sleep(0.2)
        print(f"rank {accelerator.process_index} step {number}", flush=True)
        answered = labels != IGNORED
        if answered.sum() == 0:
            continue
        guesses = head(inputs).argmax(-1, keepdim=True).expand_as(labels)
        hits = ((guesses == labels) & answered).float().sum(-1)
        yield accelerator.gather_for_metrics(hits).mean().item()


def main():
    torch.manual_seed(3)
    accelerator = Accelerator(cpu=True)
    head = torch.nn.Linear(5, 4)
    loader = torch.utils.data.DataLoader(questions(accelerator.process_index), batch_size=8)
    head, loader = accelerator.prepare(head, loader)
    for _ in range(100):
        with torch.no_grad():
            accuracy = list(scored(accelerator, head, loader))
        accelerator.wait_for_everyone()
        print("mean", sum(accuracy) / len(accuracy), flush=True)


if __name__ == "__main__":
    main()
