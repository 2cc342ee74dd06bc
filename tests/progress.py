"""Progress of a long test, printed from time to time."""

from dataclasses import dataclass


@dataclass
class Progress:
    """`each`: how many examples there are between two words."""

    what: str
    each: int
    done: int = 0

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.done % self.each == 0:
            print(f"{self.done} {self.what}", flush=True)
