"""Reports to tempomat-proxy which process serves a request, so the proxy can charge the request
for the CPU time of that process. Set cost.socket in tempomat.yaml. This module is for WSGI servers
whose workers serve one request at a time, such as gunicorn's sync workers:

    from tempomat_worker import Worker
    application = Worker(application)

If the proxy or its socket is missing, it does nothing. For Python 3.6 and later.
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
            pass  # the socket's buffer is full, or no program listens: the report is lost

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
    """The body of an answer. The server closes the body when the request is finished."""

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
