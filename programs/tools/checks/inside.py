"""The questions that are asked in processes of their own, see `apart`; each function answers one.

python -m boonta.programs.tools.checks.inside jax
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from boonta.programs.tools.checks.apart import ANSWER
from boonta.programs.wiring.machine import network as networks

CALL_S = 30.0  # Deadline of one call of a replay server.


def jax() -> dict[str, Any]:
    """The versions of JAX, and its devices, each of which adds two numbers."""
    import jax
    import jaxlib

    devices = []
    for device in jax.local_devices():
        if int(jax.device_put(1, device) + 1) != 2:
            raise ValueError(f"{device} can't add")
        memory = (device.memory_stats() or {}).get("bytes_limit")
        devices.append({"kind": device.device_kind, "platform": device.platform, "bytes": memory})
    versions = {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}
    return {**versions, "backend": jax.default_backend(), "devices": devices}


def network() -> dict[str, Any]:
    """Which network a program's servers get."""
    return {"network": networks.isolate()}


def launchpad() -> dict[str, Any]:
    """Imports the module that turns a program into processes."""
    import boonta.programs.wiring.interpreters.launchpad  # noqa: F401

    return {}


def reverb() -> dict[str, Any]:
    """Starts a replay server in a network that a program would get, puts an item in, and takes it out again."""
    networks.isolate()
    import numpy as np

    from boonta.agents.base import Steps, Table
    from boonta.nodes.tables.reverb.server import Server, make_table

    table = Table("doctor", "queue", sequence_length=1, period=1, batch_size=1, size=1)
    server = Server([make_table(table, Steps(np.zeros(16, np.uint8), *[()] * 7))])
    client = server.client()
    client.server_info(CALL_S)
    written = np.arange(16, dtype=np.uint8)
    with client.trajectory_writer(1, get_signature_timeout_ms=int(1000 * CALL_S)) as writer:
        writer.append([written])
        writer.create_item(table.name, 1.0, [writer.history[0][:]])
    (sample,) = client.sample(table.name, 1)
    if (sample.columns[0] != written).any():
        raise ValueError(f"the server returned {sample.columns[0]}, and was given {written}")
    server.stop()
    return {}


def roms() -> dict[str, Any]:
    """The number of ALE's games that have their ROM."""
    from ale_py import roms

    found, known = 0, sorted(roms.get_all_rom_ids())
    for rom in known:
        try:
            found += roms.get_rom_path(rom) is not None
        except OSError:
            continue
    return {"found": found, "known": len(known)}


def drawing() -> dict[str, Any]:
    """Draws an environment of Gymnasium's without a screen, and makes a GIF of it."""
    import gymnasium
    import imageio.v3 as imageio

    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=0)
    frames: Any = [env.render()]
    imageio.imwrite(io.BytesIO(), frames, extension=".gif")
    return {"shape": list(frames[0].shape)}


def video() -> dict[str, Any]:
    """Makes an MP4 with FFmpeg."""
    import pathlib
    import tempfile

    import imageio.v3 as imageio
    import imageio_ffmpeg
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "video.mp4"
        imageio.imwrite(path, np.zeros((4, 64, 64, 3), np.uint8), fps=4)
        return {"version": imageio_ffmpeg.get_ffmpeg_version(), "bytes": path.stat().st_size}


QUESTIONS = {each.__name__: each for each in (jax, network, launchpad, reverb, roms, drawing, video)}


def main() -> None:
    """Prints the answer to the question that the first argument names."""
    try:
        answer = QUESTIONS[sys.argv[1]]()
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
