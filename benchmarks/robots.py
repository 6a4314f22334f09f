"""The bars of models on robots, each printed beside what was measured.

    python benchmarks/robots.py                 # every section
    python benchmarks/robots.py c               # some of them
    python benchmarks/robots.py c --realtime    # Linux, as root: undisturbed by other processes while it measures

c: one point of a model in plain C, N = 400, one thread: a single model and the default stack, in double and float, with and without -march=native; beside it the NumPy predictor and
Eigen doing the same products on the same data. Needs gcc (clang is measured too if it is there) and Eigen's headers (Debian: libeigen3-dev).
dynamics: real tosses of a cube predicted over 20 steps, the default against a plain GP; a rollout by moment matching.
page: one point of the default stack in JavaScript, as a model's page computes it. Needs Chromium.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import robots_c
import robots_dynamics
import robots_page

SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "c": robots_c.show,
    "dynamics": robots_dynamics.show,
    "page": robots_page.show,
}
"""What can be measured, by name: a function that prints its tables and bars. A new section is its file and its line here."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=[], metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--rows", type=int, default=400, help="training rows N")
    parser.add_argument("--turns", type=int, default=200, help="c: measurements of each contestant")
    parser.add_argument("--no-stack", action="store_true", help="c: without fitting the default stack")
    parser.add_argument("--tosses", type=int, default=40, help="dynamics: tosses to learn from")
    parser.add_argument("--realtime", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # optimisers that were stopped on purpose
    for section in given.sections or SECTIONS:
        if section not in SECTIONS:
            parser.error(f"unknown section {section}; there are {', '.join(SECTIONS)}")
        print(f"## {section}\n")
        SECTIONS[section](given)


if __name__ == "__main__":
    main()
