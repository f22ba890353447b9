"""How often the learner publishes params, and actors fetch them: three settings that most programs have."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Pace:
    """Settings of the learner, which publishes params, and of the actors, which fetch them; see the nodes for more.

    Attributes:
      updates_per_step: updates in one call; default: 1, for SAC and TD3 without images 8.
      publish_every: updates between publications; default: 1 with a queue, else 10.
      refresh_every: env steps between fetches; default: 4 or more, as sequences start.
    """

    updates_per_step: int | None = None
    publish_every: int | None = None
    refresh_every: int | None = None

    @property
    def learner(self) -> dict[str, Any]:
        """The settings of a `Learner`."""
        return {"updates_per_step": self.updates_per_step, "publish_every": self.publish_every}

    @property
    def actor(self) -> dict[str, Any]:
        """The settings of an `Actor`."""
        return {"refresh_every": self.refresh_every}
