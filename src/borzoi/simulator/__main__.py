"""`python -m borzoi.simulator`: the same as `borzoi simulate`."""

from borzoi.simulator.command import simulate

if __name__ == "__main__":
    simulate()
