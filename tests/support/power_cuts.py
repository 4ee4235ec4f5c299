"""Media that lose their power at a chosen moment."""

from pathlib import Path


class Crash(BaseException):
    """The power is gone."""


class PowerCut:
    """For a medium: crash before a chosen change of a directory, or where `step` is called."""

    steps_left = 10**9

    def step(self) -> None:
        if self.steps_left == 0:
            raise Crash
        self.steps_left -= 1

    def rename(self, source: Path, target: Path) -> None:
        self.step()
        super().rename(source, target)  # type: ignore[misc]

    def unlink(self, path: Path) -> None:
        self.step()
        super().unlink(path)  # type: ignore[misc]

    def fsync_directory(self, directory: Path) -> None:
        self.step()
        super().fsync_directory(directory)  # type: ignore[misc]
