"""Where the batches of a workspace are accepted: the landing folder of its home, or a bucket."""

from dataclasses import dataclass
from pathlib import Path

from moirae.config import Settings
from moirae.runtime.storage.landing import Landing
from moirae.runtime.storage.landing_folder import LandingFolder


@dataclass(frozen=True)
class Landings:
    """The landing folders of all streams. `url`: in object storage; None: in the home."""

    home: Path
    url: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Landings":
        """As the workspace file says."""
        return cls(Path(settings.home), settings.landing)

    def refresh(self) -> None:
        """See all batches that are there now, not only those of the last listing of objects."""
        if self.url is not None:
            from moirae.runtime.storage.landing_objects import open_landing_bucket

            open_landing_bucket(self.url).forget_listing()

    def open(self, stream: str) -> Landing:
        """The batches of a stream. Makes no request yet."""
        if self.url is None:
            return LandingFolder(self.home, stream)
        # Loaded here: the libraries of object storage are slow to load.
        from moirae.runtime.storage.landing_objects import LandingObjects, open_landing_bucket

        return LandingObjects(open_landing_bucket(self.url), stream)
