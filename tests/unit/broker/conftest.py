"""The stage that the broker's tests stand on."""

from stage.fixtures import make_stage, stage

__all__ = ["make_stage", "stage"]
