"""Policies from scratch in MuJoCo, ten seeds of each task and model: interaction until it is learnt, and processor time.

    python benchmarks/robots_policy.py                      # all that is missing, seed by seed, then the table; an hour or two
    python benchmarks/robots_policy.py --task juggle --seeds 3
    python benchmarks/robots_policy.py --table              # the table of what is finished
    python benchmarks/robots_policy.py --constant           # how far the best constant action gets; seconds
    python benchmarks/robots_policy.py --dynamics           # how well both models predict the systems, from ten trials with random actions; a minute

Each finished seed is a file and a picture in build/policy, so that a run goes on where it was stopped. Tasks and models are those of examples/policy_search.py. The loop ends when two
trials in a row of the swing-up were solved, or four of the juggling, or after 20 s and 35 s of interaction.
A seed counts as learnt if the policy then solves at least 8 of 10 other trials, with starts and sensor noise that it has not seen.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples"))

from policy_search import MODELS, TASKS, Simulator, Task, dynamics_of, first_policy, learn, picture, recordings  # noqa: E402

OTHERS = 10
NEEDED = 8


def measure(task: str, model: str, seed: int, drawn: Path) -> dict[str, object]:
    """One seed: learns until so many trials in a row are solved as the task says, or the trials are used up. drawn: a file for a picture of another trial with the last policy."""
    begin, wall, described = time.process_time(), time.perf_counter(), TASKS[task]
    policy, costs, outcomes = first_policy(described, seed), [], []
    for attempt, solved in learn(described, model, policy, seed):
        costs.append(round(attempt.cost, 3))
        outcomes.append(solved)
    others = Simulator(described, 10_000 + seed)
    share = others.solved(policy, OTHERS)
    picture(described, others.run(lambda state: policy.act(state)[0])[0], str(drawn))
    return {
        "task": task,
        "model": model,
        "seed": seed,
        "outcomes": outcomes,
        "others": round(OTHERS * share),
        "interaction": (described.random_trials + len(costs)) * described.steps * described.dt,
        "costs": costs,
        "processor_seconds": time.process_time() - begin,
        "wall_seconds": time.perf_counter() - wall,
    }


def predicted(tasks: Sequence[str], models: Sequence[str], seeds: Sequence[int]) -> str:
    """In Markdown, for each task and model: errors after 1 and 5 steps beside those of a system at rest, and NLPP, medians over seeds."""
    lines = [
        "| task | model | RMSE after 1 step | after 5 steps | NLPP after 1 step | after 5 steps |",
        "|---|---|---|---|---|---|",
    ]
    for task in tasks:
        for model in models:
            found = [_scored(TASKS[task], model, seed) for seed in seeds]
            rmse, nlpp = (np.median(part, 0) for part in zip(*found, strict=True))
            lines.append(f"| {task} | {model} | {rmse[0]:.3f} | {rmse[4]:.3f} | {nlpp[0]:.2f} | {nlpp[4]:.2f} |")
    return "\n".join(lines)


def constant(tasks: Sequence[str]) -> str:
    """The best of 21 constant actions for each task, and how many of 100 trials it solves: what a policy that looks at nothing can do."""
    lines = []
    for name in tasks:
        simulator, actions = Simulator(TASKS[name], 10_000), np.linspace(*TASKS[name].limits, 21)
        solved = [sum(TASKS[name].solved(simulator.run(lambda state, u=u: u)[0]) for _ in range(100)) for u in actions]
        lines.append(f"{name}: the best constant action, {actions[int(np.argmax(solved))]:g}, solves {max(solved)} of 100 trials")
    return "\n".join(lines)


def _scored(task: Task, model: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Relative RMSE and NLPP after 1 to 5 steps of random trials, learnt from ten others."""
    simulator = Simulator(task, seed)
    train, test = (recordings(task, [simulator.random_trial() for _ in range(count)]) for count in (10, 20))
    scores = dynamics_of(task, model).fit(train).score(test, 5, particles=50)
    return scores.relative_rmse, scores.nlpp.mean(-1)


def table(results: Sequence[dict]) -> str:
    """In Markdown, a line for each task and model: interaction of the seeds that learnt it, times of all."""
    lines = [
        "| task | model | seeds | learnt | other trials solved, mean | median interaction, s | median wall time, s | median processor time, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        for model in MODELS:
            mine = [r for r in results if (r["task"], r["model"]) == (task, model)]
            if mine:
                good = [r for r in mine if r["others"] >= NEEDED]
                until = f"{np.median([r['interaction'] for r in good]):.1f}" if good else "-"
                wall, processor = (np.median([r[of] for r in mine]) for of in ("wall_seconds", "processor_seconds"))
                others = np.mean([r["others"] for r in mine])
                lines.append(
                    f"| {task} | {model} | {len(mine)} | {len(good)} | {others:.1f} of {OTHERS} | {until} | {wall:.0f} | {processor:.0f} |"
                )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "policy")
    parser.add_argument("--table", action="store_true", help="only the table of what is finished")
    parser.add_argument("--dynamics", action="store_true", help="only how well both models predict the systems")
    parser.add_argument("--constant", action="store_true", help="only how far constant actions get")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seeds = range(given.first, given.first + given.seeds)
    if given.dynamics or given.constant:
        text = predicted(given.task, given.model, seeds) if given.dynamics else constant(given.task)
        print(text)
        return text
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [(t, m, s) for s in seeds for t in given.task for m in given.model]
    for task, model, seed in [] if given.table else wanted:
        path = given.out / f"{task}-{model}-{seed}.json"
        if not path.exists():
            found = measure(task, model, seed, path.with_suffix(".png"))
            path.write_text(json.dumps(found, indent=1))
            print(found, flush=True)
    text = table([json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))])
    print(text)
    return text


if __name__ == "__main__":
    main()
