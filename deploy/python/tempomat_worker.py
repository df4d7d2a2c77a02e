"""Tells tempomat-proxy which process serves a request, so that the CPU time that the kernel
counts for it is that request's: cost.socket of tempomat.yaml. For WSGI servers whose workers
serve one request at a time, as gunicorn's sync workers do:

    from tempomat_worker import Worker
    application = Worker(application)

Without the proxy, or its socket, it does nothing. Python 3.6 and later.
"""

import socket


class Worker:
    def __init__(self, application, path="/run/tempomat/worker.sock"):
        self.application = application
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    def tell(self, what, number):
        try:
            self.socket.sendto((what + number).encode("ascii"), self.path)
        except (OSError, UnicodeError):
            pass  # no room, or no program listens: it is not told

    def __call__(self, environ, start_response):
        number = environ.get("HTTP_TEMPOMAT_REQUEST")
        if not number:
            return self.application(environ, start_response)
        self.tell("+", number)
        try:
            return Body(self, number, self.application(environ, start_response))
        except BaseException:
            self.tell("-", number)
            raise


class Body:
    """An answer's body; when it is closed the request is served."""

    def __init__(self, worker, number, body):
        self.worker, self.number, self.body = worker, number, body

    def __iter__(self):
        return iter(self.body)

    def close(self):
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            self.worker.tell("-", self.number)
