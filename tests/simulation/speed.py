"""How many worlds a second of machine time there are, small ones and all: `python -m simulation.speed`.

    cd tests && python -m simulation.speed 1000        # the seeds below 1,000

Other work on the machine slows it down, though waiting is not counted.
"""

from __future__ import annotations

import sys
import time

from simulation.dials import SMALL_STEPS, steps_of
from simulation.world import hurried, numbers, run_seed, run_seeds

# So many have small ones among them.
COUNT_MIN = 10


def main(told: list[str]) -> None:
    count, *rest = numbers(told or ["1000"])
    if rest or count < COUNT_MIN:
        raise SystemExit(f"how many worlds? One number, {COUNT_MIN} or more")
    run_seeds(range(1, 4))  # what is made once is made before
    small, small_s = 0, 0.0
    with hurried():
        began = time.process_time()
        for seed in range(count):
            before = time.process_time()
            run_seed(seed)
            if steps_of(seed) == SMALL_STEPS:
                small, small_s = small + 1, small_s + time.process_time() - before
        all_s = time.process_time() - began
    print(f"{count / all_s:.0f} worlds a second, {small / small_s:.0f} of small ones")


if __name__ == "__main__":
    main(sys.argv[1:])
