import asyncio

from borzoi.handlers.authentication import HASHES_AT_ONCE, WAITING_MAX, Authentication
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


async def test_guessing_in_parallel_is_no_faster() -> None:
    throttle = Throttle(ThrottleSettings(free_failures=0, first_wait=3_600_000_000))
    authentication = Authentication(throttle, lambda: 0)
    guesses = [
        asyncio.create_task(authentication.verify(None, "guess", address=f"10.0.0.1:{port}"))
        for port in range(10)
    ]
    # Those who ask later are served in turn, so by then every guess that would be checked has been.
    for port in range(3):
        assert not await authentication.verify(None, "guess", address=f"10.0.1.{port}:1")
    assert 1 <= sum(guess.done() for guess in guesses) <= HASHES_AT_ONCE
    for guess in guesses:
        guess.cancel()
    await asyncio.wait(guesses)
    authentication.close()


async def test_only_so_many_of_an_address_wait_for_its_mistakes() -> None:
    throttle = Throttle(ThrottleSettings(free_failures=0, first_wait=3_600_000_000))
    authentication = Authentication(throttle, lambda: 0)
    throttle.failed("10.0.0.1:1", now=0)
    waiting = [
        asyncio.create_task(authentication.verify(None, "guess", address=f"10.0.0.1:{port}"))
        for port in range(WAITING_MAX)
    ]
    await asyncio.sleep(0)
    hashed = hash_password("secret")
    assert not await authentication.verify(hashed, "secret", address="10.0.0.1:9999")
    assert await authentication.verify(hashed, "secret", address="10.0.0.2:1")
    assert not any(one.done() for one in waiting)
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    another = asyncio.create_task(authentication.verify(None, "guess", address="10.0.0.1:2"))
    await asyncio.sleep(0)
    assert not another.done()
    for one in (*waiting, another):
        one.cancel()
    await asyncio.wait({*waiting, another})
    assert not authentication._waiting
    authentication.close()


async def test_who_hangs_up_before_the_answer_has_guessed_all_the_same() -> None:
    throttle = Throttle(ThrottleSettings(free_failures=0))
    authentication = Authentication(throttle, lambda: 0)
    guess = asyncio.create_task(authentication.verify(None, "guess", address="10.0.0.1:1"))
    await asyncio.sleep(0)
    guess.cancel()
    await asyncio.wait({guess})
    assert throttle.wait("10.0.0.1:2", now=0) > 0
    authentication.close()
