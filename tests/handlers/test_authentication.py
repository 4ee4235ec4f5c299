from borzoi.handlers.authentication import Authentication
from borzoi.security.passwords import hash_password
from borzoi.security.throttle import Throttle, ThrottleSettings


async def test_passwords_are_checked_off_the_loop_and_failures_are_counted_by_address() -> None:
    throttle = Throttle(ThrottleSettings(free_failures=1, first_wait=1_000_000))
    now = 0
    authentication = Authentication(throttle, lambda: now)
    hashed = hash_password("secret")
    assert await authentication.verify(hashed, "secret", address="127.0.0.1:1")
    assert not await authentication.verify(None, "secret", address="127.0.0.1:1")
    assert not await authentication.verify(hashed, "guess", address="127.0.0.1:2")
    assert throttle.wait("127.0.0.1:3", now=now) > 0
    now = 10_000_000
    assert await authentication.verify(hashed, "secret", address="127.0.0.1:4")
    assert throttle.wait("127.0.0.1:5", now=now) == 0
    assert await authentication.verify(
        await authentication.hash("other"), "other", address="127.0.0.1:6"
    )
    authentication.close()
