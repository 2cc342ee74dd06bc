"""`python -m benchmarks.worlds FOLDER [--seeds 20]`: judge `learned` in worlds of known truth.

The outcomes of each seed are stored in FOLDER, so that a run that was stopped goes on.
"""

import argparse
import pickle
from pathlib import Path

from benchmarks.worlds.evaluation import evaluate_world
from benchmarks.worlds.generator import World, draw_world
from benchmarks.worlds.judgement import SeedOutcomes, WorldFigures, judge_world

WORLDS = (
    World("10 single", 10, burst=1),
    World("100 single", 100, burst=1),
    World("bursts", 1_000),
    World("shift", 1_000, shift=True),
    World("late cause", 1_000, late=True),
    World("wrong tags of episodes", 1_000, wrong_share=0.1),
    World("wrong tags of alerts", 1_000, wrong_share=0.1, wrong_events=True),
    World("rare causes", 500, burst=4, rare=True, wrong_share=0.1),
    World("all together", 1_000, shift=True, late=True, wrong_share=0.1),
    World("1,000 single", 1_000, burst=1),
    World("10,000 in bursts", 10_000),
    World("10,000, shift", 10_000, shift=True, late=True, wrong_share=0.1),
    World("10,000 single", 10_000, burst=1),
)
_COLUMNS = (
    "world | seeds | alerts | episodes | P@1 | P@10 | log loss | Brier | calibration error, "
    "perfect | withheld | not passed"
)


def main() -> None:
    """Evaluate all worlds, seed by seed, and print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.worlds")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--worlds", default="", help="names, separated by semicolons; default: all")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    names = arguments.worlds.split(";") if arguments.worlds else [world.name for world in WORLDS]
    print(_COLUMNS)
    for world in WORLDS:
        if world.name in names:
            seeds = [_load(arguments.folder, world, seed) for seed in range(arguments.seeds)]
            print(_format(world, len(seeds), judge_world(seeds)), flush=True)


def _load(folder: Path, world: World, seed: int) -> SeedOutcomes:
    """The outcomes of a seed, from the folder or evaluated now."""
    path = folder / f"{world.name} {seed}.pickle"
    if path.exists():
        stored: SeedOutcomes = pickle.loads(path.read_bytes())
        return stored
    drawn = draw_world(world, seed)
    outcomes = SeedOutcomes(evaluate_world(drawn), drawn.shifted_from)
    path.write_bytes(pickle.dumps(outcomes))
    return outcomes


def _format(world: World, seeds: int, figures: WorldFigures | None) -> str:
    if figures is None:
        return f"{world.name} | {seeds} | 0"
    cells = [world.name, str(seeds), f"{figures.queries:,}", f"{figures.episodes:,}"]
    for metric in ("p1", "p10", "loss", "brier"):
        difference = figures.differences.get(metric)
        cell = "–"
        if difference is not None:
            cell = f"{difference.value:+.3f} ± {difference.half_width:.3f}"
        cells.append(cell)
    cells.append(f"{figures.calibration_error:.3f}, {figures.perfect_calibration_error:.3f}")
    cells.append(f"{figures.withheld_share:.0%}")
    cells.append(", ".join(figures.failures) or "–")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
