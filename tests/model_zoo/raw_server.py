"""A server of raw bytes, and a session with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from model_zoo.openai_api.client import Session
from model_zoo.openai_api.endpoint import Endpoint

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nyes."


class Server:
    """Reads whole requests and answers each by `talk`; counts connections, keeps requests."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.rpartition(b"Content-Length: ")[2])
            self.requests.append(head + await reader.readexactly(length))
            await self.talk(reader, writer)
            await writer.drain()


@asynccontextmanager
async def running(
    talk: Talk, most: int = 64, **fields: object
) -> AsyncIterator[tuple[Session, Server]]:
    server = Server(talk)
    async with listening(server.serve, most, **fields) as session:
        yield session, server


@asynccontextmanager
async def listening(serve: Talk, most: int = 64, **fields: object) -> AsyncIterator[Session]:
    """A session of `most` connections to a server that handles each by `serve`.

    It is closed at the end.
    """
    handling: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    endpoint = Endpoint(url=f"http://127.0.0.1:{port}/v1", model="m", **fields)  # type: ignore[arg-type]  # are the endpoint's own
    session = Session(endpoint, 5.0, most)
    try:
        yield session
    finally:
        await session.aclose()
        server.close()
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling)


def echoing(server: Callable[[], Server]) -> Talk:
    """Answers after a moment with the body that was sent."""

    async def echo(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = server().requests[-1].partition(b"\r\n\r\n")[2]
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    return echo


def sending(answer: bytes, *, closing: bool = False) -> Talk:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if closing:
            writer.close()

    return send
