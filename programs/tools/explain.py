"""Draws the search, predictions and hidden states of a MuZero run's agent.

./run boonta explain runs/muzero-catch

The file can't be called inspect.py: beside a script that would hide the standard library's module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import matplotlib
import numpy as np
import tyro

from boonta.agents.base import Policy, Steps
from boonta.agents.muzero.hindsight import Hindsight, look_back
from boonta.agents.muzero.policy import Planner, make_policy
from boonta.agents.muzero.search import Planned
from boonta.envs.base import LAST, Env
from boonta.nodes.acting.local import Play, jit_policy
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.programs.reports import film
from boonta.programs.wiring.command_line.faults import command, require_at_least
from boonta.programs.wiring.run import BadInput, Which
from boonta.programs.wiring.trained import agent_and_env, params_of

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # The backend must be chosen first.

Places = dict[int, tuple[int, int]]  # The column (the depth) and the row of each node of a tree.

COLUMN, ROW = 2.7, 0.55  # The size in inches of a tree node with the branch that leads to it.


def explain(
    workdir: tyro.conf.Positional[pathlib.Path],
    out: pathlib.Path | None = None,
    which: Which = "newest",
    member: int | None = None,
    step: int | None = None,
    episodes: int = 10,
    max_steps: int = 1_000,
    max_nodes: int = 40,
    max_depth: int = 8,
    explore: bool = False,
    seed: int = 0,
) -> None:
    """Plays with a checkpoint's params and draws the predictions of the model and of the search.

    tree.svg shows the search in one position, episode.png the predicted and actual values and rewards along the first
    episode, and hidden.png a map of the hidden states of all episodes. After the first, episodes are played with noise,
    as actors play: otherwise some agents would play the same game again and again.

    Args:
      workdir: the run's folder.
      out: folder for the pictures; default: explain/ in the run's folder.
      which: the checkpoint: newest, best (by evaluations), or one by its number of updates.
      member: a member of a population, by its number; default: the one that was the best.
      step: the step of the first episode whose search is drawn; default: the middle one.
      episodes: number of episodes to play for the map.
      max_steps: env steps of all episodes together, after which the last episode is cut.
      max_nodes: number of tree nodes to draw, the most visited ones.
      max_depth: depth of the tree to draw.
      explore: play the first episode with noise, too.
      seed: seed of the environment and the policy.
    """
    require_at_least(1, episodes=episodes, max_steps=max_steps, max_nodes=max_nodes, max_depth=max_depth)
    agent, env = agent_and_env(workdir, which, member)
    if not isinstance(agent.eval_policy.step, Planner):
        raise BadInput(f"{workdir} holds a run of another agent; only MuZero's runs can be explained")
    planner: Any = (agent.policy if explore else agent.eval_policy).step
    params = params_of(agent, workdir, which, member)
    steps, frames = record(remembering(planner, whole), env, params, 1, max_steps, seed)
    length = len(steps.step_type)
    acted = length - int(steps.step_type[-1, 0] == LAST)
    step = acted // 2 if step is None else step
    if not 0 <= step < acted:
        raise BadInput(f"--step is {step}; the first episode has steps 0 to {acted - 1}")
    everything = steps._replace(extras=without_tree(steps.extras))
    if acted < length and episodes > 1 and length < max_steps:
        noisy = remembering(agent.policy.step, without_tree)
        others, _ = record(noisy, env, params, episodes - 1, max_steps - length, seed + 1)
        everything = jax.tree.map(lambda *leaves: np.concatenate(leaves), everything, others)
    hindsight = jax.device_get(
        jax.jit(functools.partial(look_back, model=planner.model, config=planner.config))(params.params, everything)
    )
    planned = jax.tree.map(lambda x: x[step, 0], steps.extras)
    folder = out or workdir / "explain"
    folder.mkdir(parents=True, exist_ok=True)
    draw_tree(planned, layout(planned.tree, max_nodes, max_depth), f"step {step}", frames[step], folder / "tree.svg")
    draw_episode(steps, hindsight, step, folder / "episode.png")
    draw_hidden(everything, hindsight, folder / "hidden.png")


def remembering(planner: Any, remember: Callable[[Planned], Planned]) -> Policy:
    """Returns the planner's policy with another part of each search as its extras."""
    return make_policy(dataclasses.replace(planner, remember=remember))


def whole(planned: Planned) -> Planned:
    """Returns a search's results without its hidden states, which take the most memory."""
    return planned._replace(tree=planned.tree.replace(embeddings=()))


def without_tree(planned: Planned) -> Planned:
    """Returns a search's results alone."""
    return planned._replace(tree=())


def record(
    policy: Policy, env: Env, params: Any, episodes: int, max_steps: int, seed: int
) -> tuple[Steps, list[np.ndarray]]:
    """Plays episodes.

    Returns:
      The steps, leaves [M, 1, ...] with M <= `max_steps` + 1 and `Planned` as extras, and a picture of each step.
    """
    rows: list[Steps] = []
    frames: list[np.ndarray] = []
    with contextlib.closing(env(1, seed)) as batch:
        play = Play(batch, jit_policy(policy), seed, Stopwatch())
        ended = 0
        while ended < episodes and len(rows) <= max_steps:
            frames.append(film.picture(film.frame_of(play)))
            timestep, action, planned = play.step(params)
            ended += int(timestep.step_type[0] == LAST)
            rows.append(Steps.of(timestep, action, planned, np.zeros(1, np.int32)))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows), frames


def draw_tree(planned: Planned, places: Places, title: str, frame: np.ndarray, out: pathlib.Path) -> None:
    """Draws the search of one position from left to right; the most visited child is in the row of its parent.

    Args:
      planned: the search, without a batch axis.
      places: the nodes to draw and their places.
      title: name of the position.
      frame: picture of the position.
      out: an .svg file, in which text stays text.
    """
    tree = planned.tree
    columns, rows = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
    width, height = COLUMN * (columns + 0.6), max(ROW * (rows + 2), 2.5)  # The picture is left of the root.
    most = max(
        1.6 * float(np.max(np.abs(tree.node_values[list(places)]))), 1e-6
    )  # 1.6 keeps colours behind text light.
    colour = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(-most, most), "RdYlGn")
    with pyplot.rc_context({"svg.fonttype": "none", "font.size": 8}):
        figure = pyplot.figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.6, columns), ylim=(height / ROW - 1.5, -1.5))
        axes.set_axis_off()
        for node, (x, y) in places.items():
            if node:
                draw_branch(axes, planned, node, places[int(tree.parents[node])], (x, y))
            text = f"visits {tree.node_visits[node]}\nvalue {signed(tree.node_values[node])}"
            box = {"boxstyle": "round", "facecolor": colour.to_rgba(tree.node_values[node]), "lw": 0.5}
            axes.text(
                x + 0.5, y, f"{text} ({signed(tree.raw_values[node])})", va="center", bbox=box, gid=f"node-{node}"
            )
        shown = f"{len(places)} of {np.sum(tree.node_visits > 0)} nodes"
        axes.text(-0.55, -1.1, f"{title}: action {planned.action} is taken (blue); {shown}", weight="bold")
        legend = "boxes: visits, value by the search (by the network alone); branches: action, prior p, reward r"
        axes.text(-0.55, -0.75, legend)
        image = figure.add_axes((0.15 / width, 0.15 / height, (COLUMN - 0.3) / width, (height - 0.85) / height))
        image.imshow(frame)
        image.set_anchor("NW")
        image.set_axis_off()
        figure.savefig(out)
        pyplot.close(figure)
    print(out)


def draw_branch(axes: Any, planned: Planned, node: int, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Draws the branch to a node, as thick as its share of visits, with its action, prior and reward."""
    tree = planned.tree
    parent, action = int(tree.parents[node]), int(tree.action_from_parent[node])
    taken = parent == 0 and action == planned.action
    width = 0.5 + 5 * tree.node_visits[node] / tree.node_visits[0]
    (x0, y0), (x1, y1) = start, end
    line = {"color": "C0" if taken else "0.6", "lw": width, "solid_joinstyle": "round", "zorder": 0}
    axes.plot([x0 + 0.52, x0 + 0.52, x1 + 0.5], [y0, y1, y1], **line)
    num_actions, dummy = tree.children_rewards.shape[-1], planned.policy.shape[-1]
    if action >= num_actions:  # A chance outcome; the search doesn't return their probabilities.
        label = f"chance {action - num_actions}"
    else:
        prior = jax.nn.softmax(tree.children_prior_logits[parent])[action]
        name = "over" if action == dummy else f"action {action}"
        label = f"{name}  p {prior:.2f}  r {signed(tree.children_rewards[parent, action])}"
    axes.text(x1 + 0.46, y1 - 0.08, label, ha="right", va="bottom", fontsize=6.5, gid=f"branch-{node}")


def layout(tree: Any, max_nodes: int, max_depth: int) -> Places:
    """Chooses the most visited nodes of a tree and their places; a first child is in the row of its parent.

    A node has at least as many visits as its children and precedes them, so the parent of a chosen node is chosen, too.
    """
    order = np.argsort(-tree.node_visits, kind="stable")[:max_nodes]
    children: dict[int, list[int]] = {int(node): [] for node in order if tree.node_visits[node] > 0}
    for node in children:
        if node:
            children[int(tree.parents[node])].append(node)
    places: Places = {}
    waiting, row = [(0, 0)], -1
    while waiting:  # Depth first.
        node, depth = waiting.pop()
        row += not (node and children[int(tree.parents[node])][0] == node)
        places[node] = (depth, row)
        if depth < max_depth:
            waiting += [(child, depth + 1) for child in reversed(children[node])]
    return places


def signed(value: float) -> str:
    """Formats a value with a sign and two decimals; 0 is never negative."""
    return f"{round(float(value), 2) + 0.0:+.2f}"


def draw_episode(steps: Steps, hindsight: Hindsight, step: int, out: pathlib.Path) -> None:
    """Draws the predicted and the actual values and rewards along an episode; its rows are the hindsight's first."""
    length = len(steps.step_type)
    figure, (values, rewards) = pyplot.subplots(2, 1, figsize=(10, 6), sharex=True, layout="constrained")
    rows, ahead = np.arange(length), hindsight.reward.shape[1]
    acted = rows[steps.step_type[:, 0] != LAST]  # LAST has no search.
    values.plot(rows, hindsight.returns[:length], "k", lw=2, label="actual return")
    values.plot(acted, steps.extras.value[acted, 0], "C0.-", label="by the search")
    values.plot(rows, hindsight.value[:length, 0], "C1.-", label="by the network")
    rewards.plot(rows[1:], steps.reward[1:, 0], "k", lw=2, drawstyle="steps-mid", label="actual reward")
    for k, colour, marker in sorted({(1, "C2", "+"), (ahead, "C3", "x")}):
        if k < length:
            label = f"predicted {k} step{'s' * (k > 1)} before"
            values.plot(rows[k:], hindsight.value[: length - k, k], colour + marker, label=label)
            rewards.plot(rows[k:], hindsight.reward[: length - k, k - 1], colour + marker, label=label)
    for axes, ylabel in ((values, "value"), (rewards, "reward")):
        axes.axvline(step, color="0.5", ls=":", label="tree.svg", zorder=0)
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    rewards.set_xlabel("step of the episode")
    figure.savefig(out, dpi=110)
    pyplot.close(figure)
    print(out)


def draw_hidden(steps: Steps, hindsight: Hindsight, out: pathlib.Path) -> None:
    """Draws a map of all hidden states: of observations, and as predicted by a model step from the previous one."""
    hidden, returns = np.asarray(hindsight.hidden), hindsight.returns
    inside = np.flatnonzero(steps.step_type[:-1, 0] != LAST)  # Rows whose next row is in the same episode.
    (here, predicted), shares = project(hidden[:, 0], hidden[inside, 1])
    figure, panels = pyplot.subplots(1, 2, figsize=(12, 5), sharex=True, sharey=True, layout="constrained")
    network = hindsight.value[:, 0], hindsight.value[inside, 1]
    kinds = {"actual return": (returns, returns[inside + 1]), "value by the network": network}
    everything = np.concatenate([returns, *network])
    colour = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(everything.min(), everything.max()), "viridis")
    for axes, (title, (of_here, of_predicted)) in zip(panels, kinds.items()):
        axes.plot(*np.stack([predicted, here[inside + 1]]).transpose(2, 0, 1), color="0.8", lw=0.7, zorder=0)
        common = {"cmap": colour.cmap, "norm": colour.norm}
        axes.scatter(*here.T, c=of_here, edgecolor="0.3", linewidth=0.4, s=30, label="of an observation", **common)
        axes.scatter(*predicted.T, c=of_predicted, marker="x", s=18, label="predicted a step before", **common)
        axes.set(
            title=title, xlabel=f"component 1, {shares[0]:.0%} of variance", ylabel=f"component 2, {shares[1]:.0%}"
        )
    panels[0].legend(fontsize=8)
    figure.colorbar(colour, ax=panels)
    figure.savefig(out, dpi=110)
    pyplot.close(figure)
    print(out)


def project(points: np.ndarray, *others: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Projects points on their first two principal components.

    Args:
      points: [M, D]; they determine the components.
      others: [..., D]; they are projected, too.

    Returns:
      All of them in two dimensions, and each component's share of the points' variance.
    """
    centre = points.mean(axis=0)
    _, sizes, directions = np.linalg.svd(points - centre, full_matrices=False)
    shares = sizes[:2] ** 2 / max(np.sum(sizes**2), 1e-12)
    return [(x - centre) @ directions[:2].T for x in (points, *others)], shares


main = functools.partial(command, explain, ValueError, OSError)
