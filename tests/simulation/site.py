"""The broker of a simulated world, with its disk in memory: cheap to start, for it is killed often."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from stage.stage import Stage

from milepost.broker.settings.settings import Settings
from milepost.testing.bucket import MemoryBucket
from milepost.testing.catalog import CatalogImage, MemoryCatalog
from milepost.testing.clock import ManualClock
from milepost.testing.files import MemoryFiles
from milepost.testing.peer import Loopback
from simulation.loop import VirtualLoop


class Site(Stage):
    def _loop(self) -> VirtualLoop:
        return VirtualLoop(self.clock)

    def _catalog(self, image: Any, *, traced: bool) -> MemoryCatalog:
        return MemoryCatalog(image=image)

    def _settings(self, changed: dict[str, Any]) -> Settings:
        return _settings_of(tuple(sorted(changed.items())))

    def client(self, **options: Any) -> Loopback:
        """Its handshake is done at the next turn, as is what it says before."""
        return cast("Loopback", self.loop.do(lambda: Loopback(self.broker, **options)))

    def check(self) -> None:
        """Not behind every turn: `check_all` says when."""

    def check_all(self) -> None:
        """Each cursor's invariants, and that its numbers add up."""
        super().check()

    @classmethod
    def fresh(
        cls,
        clock: ManualClock,
        files: MemoryFiles | None,
        *,
        on_bucket: bool = False,
        **options: Any,
    ) -> Site:
        """A broker whose directory was made before; `files` is an empty disk of another kind."""
        if on_bucket and files is None:
            return cls(bucket=MemoryBucket(), clock=clock, **options)
        contents, folders, catalog = _fresh_disk()
        if files is None:
            files = MemoryFiles(contents, folders)
            return cls(files=files, catalog_image=catalog, clock=clock, **options)
        return cls(files=files, clock=clock, **options)


_settings_of = cache(lambda changed: Stage._settings(cast("Stage", None), dict(changed)))


@cache
def _fresh_disk() -> tuple[dict[str, bytes], list[str], CatalogImage]:
    """The directory of a broker that was started once and has served no client."""
    with Site(clock=ManualClock()) as site:
        image = cast("MemoryCatalog", site.store.catalog).image()
        return site.files.contents(), site.files.folders(), image
