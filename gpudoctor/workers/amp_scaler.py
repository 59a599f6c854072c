"""GradScaler at work: a normal step, a step with an overflow, a normal step again.

The first normal step's gradients are held against fp32's, so that a scaler that scales and does not unscale is found.
"""

import copy
from typing import Any, Dict, List  # noqa: F401 - in comments

import amp_nets

LEARNING_RATE = 0.01


def exercise(examination: Any, reference: Any, dtype: str, low: Any) -> None:
    """Says {"scaler": ...}, its parts as they are known."""
    torch, device = examination.torch, examination.device
    made = make(torch, device.type)
    if made is None:
        examination.tell(dtype, scaler={"absent": f"torch {torch.__version__} has no GradScaler for {device.type}"})
        return
    if not made.is_enabled():
        examination.tell(dtype, scaler={"enabled": False})
        return
    net, inputs, target = reference.cases["transformer"]
    net, inputs, target = copy.deepcopy(net).to(device), inputs.to(device), target.to(device)
    # Plain SGD moves a parameter exactly where its gradient is not zero.
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)

    def backward() -> None:
        optimizer.zero_grad()
        with amp_nets.autocast(torch, device, low):
            # A thousandth of the loss, so that its gradients times 65536 fit into fp16.
            loss = torch.nn.functional.mse_loss(net(inputs).float(), target) / 1024
        made.scale(loss).backward()

    said = {"enabled": True, "scale_before": float(made.get_scale())}  # type: Dict[str, Any]
    backward()
    made.unscale_(optimizer)
    expected = reference.steps["transformer"].gradients
    names = [name for name, _ in net.named_parameters()]
    gradients = torch.cat([parameter.grad.detach().cpu().double().flatten() * 1024 for parameter in net.parameters()])
    said["gradient_error"] = amp_nets.number(
        amp_nets.relative(gradients, torch.cat([expected[name].flatten() for name in names]))
    )
    before = weights(net)
    made.step(optimizer)
    made.update()
    said["moved"] = changed(torch, before, weights(net))
    said["scale_after_normal"] = float(made.get_scale())
    backward()
    next(net.parameters()).grad.view(-1)[0] = float("inf")
    before = weights(net)
    made.step(optimizer)
    made.update()
    said["skipped"] = not changed(torch, before, weights(net))
    said["scale_after"] = float(made.get_scale())
    examination.tell(dtype, scaler=dict(said))
    if said["skipped"]:  # else the parameters hold infinities, and nothing that follows means anything
        backward()
        before = weights(net)
        made.step(optimizer)
        made.update()
        after = weights(net)
        said["recovered"] = changed(torch, before, after) and all(bool(tensor.isfinite().all()) for tensor in after)
        other = make(torch, device.type)
        other.load_state_dict(made.state_dict())
        said["scale_reloaded"] = float(other.get_scale())
        examination.tell(dtype, scaler=said)


def make(torch: Any, device_type: str) -> Any:
    """A GradScaler of this torch with its defaults; None where it has none for the device (before 2.3, a CPU)."""
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is not None:
        return scaler(device_type)
    return torch.cuda.amp.GradScaler() if device_type == "cuda" else None


def weights(net: Any) -> List[Any]:
    return [parameter.detach().clone() for parameter in net.parameters()]


def changed(torch: Any, before: List[Any], after: List[Any]) -> bool:
    return not all(torch.equal(one, other) for one, other in zip(before, after))
