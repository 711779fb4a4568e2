"""The stage that the tests of the edge stand on."""

from stage.fixtures import make_stage, stage

__all__ = ["make_stage", "stage"]
