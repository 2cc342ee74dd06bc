"""HEAD for each route that answers GET: the same status and headers, without a body (RFC 9110)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def answer_head_requests(app: ASGIApp) -> ASGIApp:
    """The application, which gets a HEAD request as GET. Its response ends with the headers.

    A route that streams, such as an export, sees a client that has disconnected.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return
        has_answer = False

        async def send_headers(message: Message) -> None:
            nonlocal has_answer
            if has_answer:
                return
            await send(message)
            if message["type"] == "http.response.start":
                has_answer = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def receive_disconnect() -> Message:
            return {"type": "http.disconnect"} if has_answer else await receive()

        await app({**scope, "method": "GET"}, receive_disconnect, send_headers)

    return serve
