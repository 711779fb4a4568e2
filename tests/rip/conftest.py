"""The proposal is tested on a broker without a socket, a disk or a clock of its own."""

from stage.fixtures import make_stage, stage

__all__ = ["make_stage", "stage"]
