"""What JAX has taken from its cache of compiled programs in this process, which the run's folder has."""

from __future__ import annotations

import jax

SAVED = "/jax/compilation_cache/compile_time_saved_sec"  # JAX's event for a program found in the cache.
_saved_s: list[float] = []


def _note(event: str, duration_secs: float, **kwargs: str | int) -> None:
    del kwargs
    if event == SAVED:
        _saved_s.append(max(0.0, duration_secs))  # JAX subtracts the time of reading.


jax.monitoring.register_event_duration_secs_listener(_note)


def reused() -> dict[str, float]:
    """Metrics of the programs that were not compiled: their number, and the time that was saved."""
    return {"reused": float(len(_saved_s)), "reused_s": sum(_saved_s)}
