"""A compressed segment, as far as a log can tell."""


class Inflated:
    """A body that has to be made; notes what was asked for."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self.parts: list[tuple[int, int]] = []
        self.checked: list[tuple[int, int]] = []

    @property
    def size(self) -> int:
        return len(self.plain)

    def part(self, position: int, length: int) -> memoryview:
        self.parts.append((position, length))
        return memoryview(self.plain)[position : position + length]

    def check(self, position: int, length: int) -> None:
        self.checked.append((position, length))

    def close(self) -> None: ...
