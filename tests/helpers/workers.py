"""Workers and a monitor that a supervisor sees, without processes."""

from __future__ import annotations


class Worker:
    """One that lives for some polls and then died of `death`; started again, it ends well at once."""

    def __init__(self, name: str, polls: int = 0, death: str = ""):
        self.name, self.together = name, ""
        self.pid = 1
        self.killed = self.stopped = False
        self._left = polls
        self._death = death

    def alive(self) -> bool:
        self._left -= 1
        return not self.killed and self._left >= 0

    def death(self) -> str:
        return self._death if self._left <= 0 else ""

    def last_words(self) -> str:
        return "ImportError: no" if self._death.startswith("exited") else ""

    def is_stopped(self) -> bool:
        return self.stopped

    def terminate(self) -> None: ...

    def kill(self) -> None:
        self.killed = True

    def start_again(self) -> None:
        self.pid += 1
        self._death = ""


class Monitor:
    """Answers every `status` alike."""

    def __init__(self, reason: str = "", failure: str = "", failures=None, hung=None, saving=(), **activities: str):
        nodes = {
            name: {
                "activity": activity,
                "gone": activity == "gone",
                "activity_s": 0,
                "report_age_s": 0,
                "rss_mb": 0,
                "process": "host/1",
                "started": activity not in ("starting", "restoring"),
                "saves": not name.startswith("actor"),
                "failure": (failures or {}).get(name, ""),
                "hung": (hung or {}).get(name, ""),
                "warnings": [],
            }
            for name, activity in activities.items()
        }
        self._status = {"totals": {}, "row": {}, "nodes": nodes, "reason": reason, "failure": failure}
        self._status["saving"] = list(saving)
        self._status["done"] = reason.startswith("updates")
        self.expected: list[str] = []

    def expect(self, names: list[str]) -> None:
        self.expected = names

    def status(self) -> dict:
        return self._status

    def stop_program(self, reason: str) -> None: ...

    def fail_program(self, failure: str) -> None: ...

    def report_end(self, name: str, failure: str) -> None: ...
