"""A bus in a process of its own: answers PutEvents after a given time and accepts everything.

    python -m bench.bus     prints its port

A request's path says how long it waits: an endpoint of http://127.0.0.1:PORT/8 answers after 8 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["running_bus"]


@contextlib.contextmanager
def running_bus() -> Iterator[str]:
    """Run a bus for the length of a `with` block; gives its URL, without the path."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.bus"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the bus has no pipes")
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


async def _serve() -> None:
    server = await asyncio.start_server(_answer_all, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 -- for the process that started this one
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until that one is gone


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")
            path = lines[0].split()[1]
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            request = json.loads(await reader.readexactly(int(headers["content-length"])))
            await asyncio.sleep(float(path.strip("/") or 0) / 1000)
            body = json.dumps(_answer(headers["x-amz-target"], request)).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.1\r\ncontent-length: "
                + str(len(body)).encode()
                + b"\r\n\r\n"
                + body
            )
            await writer.drain()
    writer.close()


def _answer(target: str, request: dict[str, Any]) -> dict[str, Any]:
    if target.endswith("describeeventbus"):
        return {"Name": request["Name"], "Arn": f"arn:aws:events:us-east-1:000000000000:event-bus/{request['Name']}"}
    return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}] * len(request["Entries"])}


if __name__ == "__main__":
    asyncio.run(_serve())
