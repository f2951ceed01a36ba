"""What a request to a server can end with, where it does not end well."""

from __future__ import annotations

from mmconv.core.errors import MmconvError


class ServiceError(MmconvError):
    """The server refused or failed, or could not be reached.

    `status` is HTTP's, None where no answer came, or where a job failed that was waited for.
    `param` is the field of the request to blame, `code` a word for programs, `request_id` what the
    server's log calls the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        param: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.request_id = request_id
