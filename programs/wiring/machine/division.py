"""Divides the GPUs of one machine among its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boonta.programs.wiring.machine.accelerators import VISIBLE
from boonta.programs.wiring.run import BadInput

FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"  # The variable by which JAX takes that share of a GPU's memory.
USUAL = 0.75  # The share that JAX takes without it.
ROUNDING = 1e-6  # Shares such as 0.1 don't add up to exactly 1.


def divide(asks: Mapping[str, float | None], gpus: Sequence[str], where: str) -> dict[str, dict[str, str]]:
    """The environment variables by which each node on a machine sees its GPUs, by the node's name.

    Whole GPUs are dealt first. Shares are packed onto the others, the largest first, each onto the first GPU that has
    room. Nodes that ask for nothing see all GPUs with room, and take at most three quarters of what is free on each.

    Args:
      asks: by name, in program order, a number of GPUs above 0, a share of one below 1, or None.
      gpus: the machine's GPUs, as `CUDA_VISIBLE_DEVICES` names them.
      where: a description of the machine, such as "this machine".

    Raises:
      BadInput: they don't fit, or nothing is left for one that asks for nothing.
    """
    room = dict.fromkeys(gpus, 1.0)
    numbers = {name: number for name, number in asks.items() if number is not None}
    found = {}
    for name, number in sorted(numbers.items(), key=lambda item: -item[1]):
        share = min(number, 1.0)
        taken = [gpu for gpu, free in room.items() if free > share - ROUNDING][: max(1, int(number))]
        if len(taken) < number:
            raise BadInput(
                f"{name} asks for {_gpus(number)}, for which {where} has no room: its nodes ask for "
                f"{sum(numbers.values()):g} together, and it has {_gpus(len(gpus))}"
            )
        for gpu in taken:
            room[gpu] -= share
        found[name] = {VISIBLE: ",".join(taken)}
    return found | _shared([name for name in asks if name not in numbers], room, where)


def _shared(names: Sequence[str], room: Mapping[str, float], where: str) -> dict[str, dict[str, str]]:
    """The variables of the nodes that ask for nothing, given the room that is left on each GPU."""
    left = {gpu: free for gpu, free in room.items() if free > ROUNDING}
    if names and not left:
        raise BadInput(
            f"{where} has {_gpus(len(room))}, of which nothing is left for {names[0]}: give its group some by --gpus, "
            "too, or 0 to keep it on the CPU"
        )
    variables = {VISIBLE: ",".join(left)}
    if (least := min(left.values(), default=1.0)) < 1:
        variables[FRACTION] = f"{USUAL * least:.3g}"
    return {name: dict(variables) for name in names}


def _gpus(number: float) -> str:
    """Words for a number of GPUs."""
    return f"{number:g} of a GPU" if 0 < number < 1 else f"{number:g} GPU{'s' if number != 1 else ''}"
