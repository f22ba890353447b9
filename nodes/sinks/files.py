"""The sinks that the monitor writes itself, in the run's folder: JSON lines, which tools read, and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import platform
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boonta.nodes import metrics
from boonta.nodes.sinks.base import TENSORBOARD, VIDEOS, Sink, TrackedRun, split


class Files:
    """Appends rows to `metrics.jsonl` and, if `log` names it, to TensorBoard's events; both survive a full disk.

    Args:
      log: the names of sinks that `--log` gives; all but TensorBoard's are ignored.
      warn: called with a message if rows wait for room on the disk.
    """

    def __init__(self, log: Sequence[str], warn: Callable[[str], None]):
        self._sinks: list[Sink] = [JsonLines(warn), *([TensorBoard(warn)] if TENSORBOARD in log else [])]

    def begin(self, run: TrackedRun) -> None:
        for sink in self._sinks:
            sink.begin(run)

    def write(self, row: Mapping[str, float]) -> None:
        for sink in self._sinks:
            sink.write(row)

    def close(self) -> None:
        """Closes all files; raises OSError if rows can't be written and are lost."""
        with contextlib.ExitStack() as closing:
            for sink in reversed(self._sinks):
                closing.callback(sink.close)


class JsonLines:
    """Appends rows to `metrics.jsonl`; values that aren't finite are null."""

    def __init__(self, warn: Callable[[str], None]):
        self._warn = warn

    def begin(self, run: TrackedRun) -> None:
        self._rows = metrics.Rows(run.folder / metrics.FILE, self._warn)

    def write(self, row: Mapping[str, float]) -> None:
        self._rows.write(row)

    def close(self) -> None:
        self._rows.close()


class TensorBoard:
    """Appends scalars and histograms, by env steps or else updates, to a file of events in `tensorboard/`; also videos.

    Values that aren't finite are left out.
    """

    def __init__(self, warn: Callable[[str], None]):
        self._warn = warn

    def begin(self, run: TrackedRun) -> None:
        # Few processes write events, so others need not load this package. Its own writer isn't used: on
        # a full disk that writer's thread ends, and `close` waits for it for ever.
        from tensorboardX import record_writer, summary
        from tensorboardX.proto import event_pb2, summary_pb2

        self._checksum, self._event, self._summary = record_writer.masked_crc32c, event_pb2.Event, summary_pb2.Summary
        self._scalar, self._histogram = summary.scalar, summary.histogram_raw
        file = f"events.out.tfevents.{time.time():.6f}.{platform.node()}.{os.getpid()}"
        self._file = metrics.Appended(run.folder / "tensorboard" / file, self._warn)
        self._file.append(self._record(self._event(wall_time=time.time(), file_version="brain.Event:2")))
        if run.config:
            self._append([summary.text("config", f"```json\n{json.dumps(run.config, indent=2)}\n```")], 0)

    def write(self, row: Mapping[str, float]) -> None:
        scalars, histograms = split({name: value for name, value in row.items() if math.isfinite(value)})
        summaries = [self._scalar(*each) for each in scalars.items()]
        summaries += [self._bars(*each) for each in histograms.items()]
        self._append(summaries, metrics.step_of(row)[1])

    def video(self, path: pathlib.Path, step: int) -> None:
        """Appends a GIF, which TensorBoard shows as it shows pictures: moving."""
        content = path.read_bytes()
        width, height = struct.unpack("<HH", content[6:10])  # See the GIF format's "logical screen descriptor".
        image = self._summary.Image(width=width, height=height, colorspace=3, encoded_image_string=content)
        self._append([self._summary(value=[self._summary.Value(tag=VIDEOS, image=image)])], step)

    def close(self) -> None:
        self._file.close()

    def _bars(self, name: str, bins: Mapping[float, float]) -> Any:
        """A histogram as TensorBoard has it: its least and largest number, their number, sums, ends and shares."""
        return self._histogram(name, 0.0, max(bins), 1.0, 0.0, 0.0, list(bins), list(bins.values()))

    def _append(self, summaries: Sequence[Any], step: int) -> None:
        now = time.time()
        events = [self._event(wall_time=now, step=step, summary=each) for each in summaries]
        self._file.append(b"".join(map(self._record, events)))

    def _record(self, event: Any) -> bytes:
        """An event in TensorFlow's record format: its length and its bytes, each followed by a checksum."""
        content = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        return b"".join(
            (length, struct.pack("<I", self._checksum(length)), content, struct.pack("<I", self._checksum(content)))
        )
