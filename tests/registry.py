"""A schema registry in this process, with the part of Confluent's API that is read."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Schemas by number, and by subject and version. `status`: of all answers, 0: as usual."""

    def __init__(self) -> None:
        self.url = ""
        self.documents: dict[str, Any] = {}
        self.requests: list[str] = []
        self.status = 0

    def add(self, number: int, kind: str, schema: str, **references: str) -> None:
        """Register a schema; `references`: a name of each subject that it imports."""
        imported = [
            {"name": name.replace("_", "."), "subject": subject, "version": 1}
            for subject, name in references.items()
        ]
        document = {"schema": schema, "schemaType": kind, "references": imported}
        self.documents[f"/schemas/ids/{number}"] = document

    def add_subject(self, subject: str, schema: str) -> None:
        """Register a schema that others import."""
        self.documents[f"/subjects/{subject}/versions/1"] = {"schema": schema}


@contextmanager
def serving_registry() -> Iterator[Registry]:
    """A registry that answers on loopback."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            document = registry.documents.get(self.path)
            status = registry.status or (404 if document is None else 200)
            content = json.dumps(document or {"error_code": 40403}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
