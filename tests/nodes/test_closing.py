"""What a node's `start` has opened is saved and freed at its end, however far it came."""

from __future__ import annotations

import pytest

from boonta.nodes.base import Node


class Opens(Node):
    """Opens three parts, then steps once; a part's name that begins with "bad" can't be closed."""

    def __init__(self, *parts: str, fails_after: int = 3):
        super().__init__("node")
        self._parts, self._fails_after = parts, fails_after
        self.closed_parts: list[str] = []

    def start(self) -> None:
        for i, part in enumerate(self._parts):
            if i == self._fails_after:
                raise ValueError(f"{part} can't be opened")
            self.on_close(lambda part=part: self._close(part))

    def step(self) -> None:
        self.stop()

    def _close(self, part: str) -> None:
        self.closed_parts.append(part)
        if part.startswith("bad"):
            raise OSError(f"{part} can't be closed")


def test_what_was_opened_last_is_closed_first_and_once():
    node = Opens("a", "b", "c")
    node.run()
    node.close()
    assert node.closed_parts == ["c", "b", "a"]


def test_a_failing_start_closes_what_it_had_opened():
    node = Opens("a", "b", "c", fails_after=2)
    with pytest.raises(ValueError, match="c can't be opened"):
        node.run()
    assert node.closed_parts == ["b", "a"]


def test_the_others_are_closed_where_one_fails_whose_error_is_raised():
    node = Opens("a", "bad", "c")
    with pytest.raises(OSError, match="bad can't be closed"):
        node.run()
    assert node.closed_parts == ["c", "bad", "a"]
