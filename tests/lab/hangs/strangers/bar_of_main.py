"""A progress bar that is disabled on all ranks but the first, and whose count decides (transformers issue 31532)."""

import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def evaluate(accelerator: Accelerator, model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    losses = []
    with torch.no_grad():
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features), target)
            losses.append(accelerator.gather_for_metrics(loss.repeat(4)))
    model.train()
    return torch.cat(losses).mean().item()


def main() -> None:
    accelerator = Accelerator(cpu=True)
    data = TensorDataset(torch.randn(480, 8), torch.randn(480, 1))
    model, loader, held_out = nn.Linear(8, 1), DataLoader(data, batch_size=4), DataLoader(data, batch_size=16)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader, held_out = accelerator.prepare(model, optimizer, loader, held_out)
    progress_bar = tqdm(total=200, disable=not accelerator.is_main_process)
    for step, (features, target) in enumerate(loader):
        time.sleep(0.2)
        loss = nn.functional.mse_loss(model(features), target)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        progress_bar.update(1)
        print(f"rank {accelerator.process_index} step {step}", flush=True)
        if progress_bar.n and progress_bar.n % 5 == 0:
            accelerator.print("loss", evaluate(accelerator, model, held_out))


if __name__ == "__main__":
    main()
