"""The real server of the service's tests, for the client's."""

from tests.mmconv.service.conftest import start

__all__ = ["start"]
